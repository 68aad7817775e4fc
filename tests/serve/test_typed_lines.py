"""Lines that are translated while they are typed, over a websocket: protocol, limits, hostile clients."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import torch
from invariants import BOUNDED, build
from made_up_engine import ShoutingEngine
from made_up_service import SECONDS, Gate, made_up_server, wait_for_nothing
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from bytenmt.decoding.interface import Options
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.settings import Settings
from bytenmt.decoding.translator import Translator
from bytenmt.serve.http.server import listening, run
from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import Limits
from bytenmt.serve.service import Service
from bytenmt.serve.worker import Worker

SOCKET = "/simultaneous?source=ko&target=en&wait=8"
SENTENCE = "eins zwei drei vier sechs"


def shouting(*pairs: str, languages: Sequence[str] = (), **more: Any) -> tuple[TestClient, Service, Gate]:
    gate = Gate(kind=ShoutingEngine, languages=languages)
    server, _ = made_up_server(*(pairs or ("ko-en",)), gate=gate, **more)
    return TestClient(server.app()), server.service, gate


class Typist:
    """A client of the socket that checks each answer against those before it."""

    def __init__(self, socket: Any) -> None:
        self.socket, self.committed, self.tail, self.n_new = socket, "", "", 0

    def send(self, text: str, **fields: Any) -> dict[str, Any]:
        self.socket.send_text(json.dumps({"q": text, **fields}))
        answer: dict[str, Any] = json.loads(self.socket.receive_text())
        assert "error" not in answer, answer
        self.n_new += answer["new_segment"]
        self.committed = (
            answer["committed"] if answer["new_segment"] else self.committed + answer["committed"]
        )
        self.tail = answer["tail"]
        return answer

    @property
    def shown(self) -> str:
        return self.committed + self.tail


def test_text_appears_while_it_is_typed_and_committed_text_stays() -> None:
    """Every letter shows the translation so far, and what is committed is only appended to."""
    client, _, _ = shouting()
    with client, client.websocket_connect(SOCKET) as socket:
        typist, lengths = Typist(socket), []
        for n in range(1, len(SENTENCE) + 1):
            typist.send(SENTENCE[:n], id=1)
            assert typist.shown == SENTENCE[:n].rstrip().upper() + "?"
            lengths.append(len(typist.committed))
        # Checkpoints are at the spaces that are 8 bytes or more after the one before: at 9 and 19. What the
        # second one agrees on is known with the byte after it.
        assert lengths[:20] == [0] * 19 + [9] and set(lengths[20:]) == {9}
        assert typist.n_new == 1, "only the first answer begins a segment"
        typist.send(SENTENCE, id=1, state="finished")
        assert (typist.committed, typist.tail) == (SENTENCE.upper() + "?", "")


def test_committed_text_is_forced() -> None:
    """Source that would change the whole translation changes none of what is committed."""
    client, _, _ = shouting()
    with client, client.websocket_connect(SOCKET) as socket:
        typist = Typist(socket)
        for text in ("eins zwei ", SENTENCE, f"{SENTENCE} aber"):
            typist.send(text)
        assert (typist.committed, typist.tail, typist.n_new) == ("EINS ZWEI", "!", 1)
        typist.send(f"{SENTENCE} aber", state="finished")
        assert (typist.committed, typist.n_new) == ("EINS ZWEI!", 1)


def test_the_word_that_is_typed_waits_for_its_end() -> None:
    """The tail is then that of the words before it, which are translated once; a long word does not wait."""
    client, _, gate = shouting()
    with client, client.websocket_connect(SOCKET) as socket:
        typist = Typist(socket)
        for text, shown in (("a", ""), ("ab", ""), ("ab ", "AB?"), ("ab c", "AB?"), ("ab cd", "AB?")):
            typist.send(text, state="typing")
            assert typist.shown == shown
        assert gate.lines() == [b"ab"]
        typist.send("ab cd", state="paused")
        assert typist.shown == "AB CD?"
        typist.send("ab " + "d" * 33, state="typing")
        assert typist.shown == "AB " + "D" * 33 + "?"


def test_edits() -> None:
    """Source that no committed text depends on can be changed; a change before it replaces the text, once."""
    client, _, _ = shouting()
    with client, client.websocket_connect(SOCKET) as socket:
        typist = Typist(socket)
        for text in ("eins zwei ", SENTENCE):
            typist.send(text, id=1)
        assert typist.committed == "EINS ZWEI"
        typist.send("eins zwei drei vier acht", id=1)
        assert typist.n_new == 1 and typist.shown == "EINS ZWEI DREI VIER ACHT?"
        answer = typist.send("null zwei drei vier acht", id=1)
        assert answer == {
            "id": 1, "committed": "", "tail": "NULL ZWEI DREI VIER ACHT?", "new_segment": True,
        }  # fmt: skip
        typist.send("", id=1)
        assert typist.shown == ""
        typist.send("neu", id=1)
        assert typist.shown == "NEU?"


def test_composition_of_hangul() -> None:
    """An input method replaces the last syllable with every key; the text is that of the last state."""
    client, _, _ = shouting()
    with client, client.websocket_connect(SOCKET) as socket:
        typist = Typist(socket)
        states = ["ㅎ", "하", "한", "하나", "하나 ", "하나 ㄷ", "하나 두", "하나 둘", "하나 둘 셋 "]
        for text in states:
            typist.send(text, id=1)
            assert typist.shown == text.rstrip() + "?"
        typist.send("하나 둘 셋 넷 다", id=1)
        assert typist.committed == "하나 둘" and typist.n_new == 1


def test_sentences_that_have_ended_are_translated_by_themselves() -> None:
    """The sentence that is typed goes on after them."""
    client, _, gate = shouting("de-en", languages=("de",))
    with client, client.websocket_connect("/simultaneous?wait=8") as socket:
        typist = Typist(socket)
        for text in ("Es regnet.", "Es regnet. ", "Es regnet. D", "Es regnet. Das ist"):
            typist.send(text, id=1)
        assert (typist.committed, typist.tail) == ("ES REGNET.? ", "DAS IST?")
        typist.send("Er regnet. Das ist", id=1)
        assert (typist.committed, typist.tail, typist.n_new) == ("ER REGNET.? ", "DAS IST?", 2)
        answer = typist.send("  Es regnet. Oh.", id=2, details=True, state="finished")
        assert typist.committed == "  ES REGNET.? OH.?"
        told = [(one["source"], one["text"], one["verdict"]) for one in answer["details"]]
        assert told == [("Es regnet.", "ES REGNET.?", "sure"), ("Oh.", "OH.?", "check")]
        assert gate.lines()[-2:] == [b"Es regnet.", b"Oh."], "a request for each, not for each word"


def test_models_with_bounded_look_ahead() -> None:
    """They commit by wait-k, as a session does that is fed the whole line, and the tail shows the rest."""
    model = build(BOUNDED["convs2s-bounded"], scale=0.1).float()
    translator = Translator(
        lambda capacity: TorchEngine([model], Options(), capacity, torch.device("cpu")),
        settings=Settings.from_dict({"max_len_a": 1, "max_len_b": 4}),
        least_wait=model.config.least_wait,
    )
    server, _ = made_up_server("ko-en")
    server.service.workers = {Direction("ko", "en"): Worker(lambda kind: translator)}
    with TestClient(server.app()) as client, client.websocket_connect(SOCKET) as socket:
        typist, lengths = Typist(socket), []
        for n in range(1, len(SENTENCE) + 1):
            typist.send(SENTENCE[:n])
            lengths.append(len(typist.committed))
        session = translator.open(8)
        assert typist.committed == session.feed(SENTENCE).committed and typist.tail
        assert sorted(lengths) == lengths and lengths[6] == 0 < lengths[-1] and typist.n_new == 1
        shown = typist.shown
        typist.send(SENTENCE, state="finished")
        assert typist.committed == shown == session.segment.committed.decode() + session.finish().committed


def test_a_new_name_or_other_parameters_begin_a_line() -> None:
    client, _, _ = shouting("ko-en", "en-de")
    with client, client.websocket_connect(SOCKET) as socket:
        typist = Typist(socket)
        other: dict[str, Any] = {"source": "en", "target": "de"}
        for fields in ({"id": 1}, {"id": 2}, {"id": 2, "wait": 9}, {"id": 2, "wait": 9, **other}):
            answer = typist.send("abc", **fields)
            assert answer["new_segment"] and answer["id"] == fields["id"] and typist.shown == "ABC?"


def test_the_language_is_detected_while_nothing_depends_on_it() -> None:
    client, _, _ = shouting("ko-en", "en-de", "de-en")
    with client, client.websocket_connect("/simultaneous?target=en&source=auto&wait=8") as socket:
        typist, german = Typist(socket), "der Hund und die Katze"
        for text in ("der Hund und ", german):
            assert typist.send(text)["detectedLanguage"]["language"] == "de"
        assert typist.committed == "DER HUND"
        typist.send(f"{german} the cat on the mat and the dog and the cat")
        assert typist.n_new == 1 and typist.shown.endswith("THE CAT?")
        assert typist.send("the cat and the dog")["new_segment"]
        assert (typist.committed, typist.tail) == ("", "the cat and the dog"), "copied: it is English"
        assert typist.send(german)["detectedLanguage"]["language"] == "de"
        assert typist.shown == "DER HUND UND DIE KATZE?"


@pytest.mark.parametrize("text", ["see https://x.org/a?b=c now and then again", "%s of %s files are open"])
def test_constraints_hold(text: str) -> None:
    """Kept spans and terms are those of other requests."""
    client, _, gate = shouting("en-de")
    with client, client.websocket_connect("/simultaneous?wait=8") as socket:
        Typist(socket).send(text, id=1, glossary={"again": "wieder", "files": "Dateien"}, state="finished")
    (items,) = [
        {item.text for item in request.constraint.items} for batch in gate.admitted for request in batch
    ]
    assert items >= ({b"https://x.org/a?b=c", b"wieder"} if "https" in text else {b"%s", b"Dateien"})


REFUSED = [
    ({"q": "a\nb"}, "expected one line"),
    ({"q": "a", "format": "html"}, "expected one line"),
    ({"q": "a", "alternatives": 1}, "expected one line"),
    ({"q": "a", "wait": "x"}, "wait must be a whole number"),
    ({"q": "a", "target": "xx"}, "xx is not supported"),
    ({"q": "a", "source": "ko", "target": "de"}, "ko-de has no model of its own: send the text"),
    ({"q": "a" * 300}, "at most 200"),
    ({"q": "a", "state": "x"}, "state must be one of typing, paused, finished"),
    ({"q": 5}, "q must be a string"),
    ({}, "missing q"),
    ({"q": "a", "id": []}, "id must be"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_refused(fields: dict[str, Any], message: str) -> None:
    """With one line, after which the socket goes on."""
    client, service, _ = shouting("ko-en", "en-de", limits=Limits(characters=200))
    with client, client.websocket_connect(SOCKET) as socket:
        socket.send_text(json.dumps(fields))
        answer = json.loads(socket.receive_text())
        assert message in answer["error"] and "\n" not in answer["error"]
        assert Typist(socket).send("abc")["tail"] == "ABC?"
    wait_for_nothing(service)


def test_a_key_is_needed() -> None:
    client, _, _ = shouting(keys=["secret"])
    with client, client.websocket_connect(SOCKET) as socket:
        assert Typist(socket).send("a", api_key="secret")["tail"] == "A?"
        socket.send_text('{"q": "a"}')
        assert "key" in json.loads(socket.receive_text())["error"]
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()


def refused_socket(client: TestClient) -> str:
    """Return why a socket is closed at once."""
    with client.websocket_connect(SOCKET) as socket:
        socket.send_text('{"q": "a"}')
        error: str = json.loads(socket.receive_text())["error"]
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_text()
    assert closed.value.code == 1013
    return error


def test_sockets_are_limited_and_counted() -> None:
    """One address has its share; who leaves gives its place back."""
    client, service, _ = shouting(limits=Limits(sockets=4, queue=4, queue_per_client=2))
    with client:
        with client.websocket_connect(SOCKET), client.websocket_connect(SOCKET) as socket:
            Typist(socket).send("a")
            assert "bytenmt_simultaneous_sockets 2.0" in client.get("/metrics").text
            assert "too many websockets of this client are open" in refused_socket(client)
        with client.websocket_connect(SOCKET):
            others = [service.admit_socket(address) for address in ("1.1.1.1", "1.1.1.1", "2.2.2.2")]
            assert "too many websockets are open" in refused_socket(client)
        for one in others:
            one.release()
        with client.websocket_connect(SOCKET) as socket:
            assert Typist(socket).send("b")["tail"] == "B?"
    assert service.n_sockets == 0 and not service._sockets_of


def test_an_idle_socket_is_closed() -> None:
    client, service, _ = shouting(limits=Limits(idle_seconds=0.2))
    with client, client.websocket_connect(SOCKET) as socket:
        Typist(socket).send("a")
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_text()
        assert closed.value.reason == "no message for 0.2 s"
    assert service.n_sockets == service.n_requests == service.n_lines == 0


def test_work_is_measured() -> None:
    client, service, _ = shouting()
    with client, client.websocket_connect(SOCKET) as socket:
        typist = Typist(socket)
        for text in ("abc", "abcd", "ab", "abcd"):
            typist.send(text)
    text = service.metrics.text()
    assert 'bytenmt_characters_total{direction="ko-en"} 6.0' in text
    assert "bytenmt_request_seconds_count 4.0" in text
    assert float(re.findall(r'source_bytes_total\{direction="ko-en"\} (\S+)', text)[0]) == 3 + 4 + 2 + 4


def test_who_leaves_is_not_decoded_for() -> None:
    """A thread that waits for the worker ends, and the worker drops the sentence."""
    client, service, gate = shouting()
    gate.open.clear()
    with client:
        with client.websocket_connect(SOCKET) as socket:
            socket.send_text(json.dumps({"q": SENTENCE}))
            assert gate.began.wait(SECONDS)
        wait_for_nothing(service)
        gate.open.set()
        with client.websocket_connect(SOCKET) as socket:
            Typist(socket).send("z")
    (worker,) = service.workers.values()
    assert not worker._jobs and not any(lane.jobs for lane in worker._lanes.values())
    assert gate.lines() == [b"eins zwei drei vier", b"z"] and service.n_lines == 0
    service.session_threads.shutdown()  # no thread still waits


def test_a_text_is_skipped_where_a_newer_one_waits() -> None:
    """Someone who types faster than the server translates is not behind; finished lines are never skipped."""
    client, _, gate = shouting()
    gate.open.clear()
    with client, client.websocket_connect(SOCKET) as socket:
        for fields in ({"q": "a"}, {"q": "ab"}, {"q": "abc", "state": "finished"}, {"q": "x"}, {"q": "xy"}):
            socket.send_text(json.dumps(fields))
        assert gate.began.wait(SECONDS)
        gate.open.set()
        answers = [json.loads(socket.receive_text()) for _ in range(5)]
    assert [(one["committed"], one["tail"]) for one in answers[2:]] == [("ABC?", ""), ("", ""), ("", "XY?")]
    assert answers[1] == {"committed": "", "tail": answers[0]["tail"], "new_segment": False}
    assert gate.lines()[-2:] == [b"abc", b"xy"] and b"ab" not in gate.lines()


def test_a_deadline_ends_the_line_and_not_the_socket() -> None:
    client, service, gate = shouting(limits=Limits(compute_seconds=0.3))
    gate.open.clear()
    with client, client.websocket_connect(SOCKET) as socket:
        socket.send_text(json.dumps({"q": "abc"}))
        assert "not translated within 0.3 s" in json.loads(socket.receive_text())["error"]
        gate.open.set()
        assert Typist(socket).send("abc")["tail"] == "ABC?"
    wait_for_nothing(service)


@pytest.fixture
def served() -> Iterator[tuple[Service, str]]:
    """A server in a thread, and its address."""
    listener = listening("127.0.0.1", 0)
    listener.listen()
    server, _ = made_up_server("ko-en", gate=Gate(kind=ShoutingEngine), limits=Limits(sockets=64))
    threading.Thread(target=run, args=(server, listener, 5.0), daemon=True).start()
    yield server.service, f"127.0.0.1:{listener.getsockname()[1]}"


def translate(address: str, text: str) -> str:
    """Return the answer to an ordinary request."""
    fields = {"q": text, "source": "ko", "target": "en"}
    with urlopen(f"http://{address}/translate", urlencode(fields).encode(), timeout=SECONDS) as answer:
        return str(json.load(answer)["translatedText"])


def test_idle_sockets_and_pastes_starve_nobody(served: tuple[Service, str]) -> None:
    """One address gets its share of the sockets; from each it pastes more than is allowed, and unpunctuated
    text as long as is allowed. Meanwhile ordinary requests are answered, and all is free when it leaves."""
    service, address = served
    url = f"ws://{address}{SOCKET}"
    with ExitStack() as stack:
        sockets = [stack.enter_context(connect(url)) for _ in range(40)]
        assert all("too many" in json.loads(socket.recv(SECONDS))["error"] for socket in sockets[16:])
        assert service.n_sockets == 16
        for socket in sockets[:16]:
            for text in ("x" * 1_000_000, "wort " * 3999):
                socket.send(json.dumps({"q": text}))
        until = time.monotonic() + SECONDS
        while not service.n_requests:
            assert time.monotonic() < until, "no paste is being translated: nothing can be shown"
        for number in range(20):
            assert translate(address, f"z{number}") == f"Z{number}?"
        errors = [json.loads(socket.recv(SECONDS))["error"] for socket in sockets[:16]]
        assert all("at most 20,000" in error for error in errors)
    wait_for_nothing(service)
    until = time.monotonic() + SECONDS
    while service.n_sockets or service.n_lines:
        assert time.monotonic() < until, "a socket that was closed is counted"
        time.sleep(0.01)
    (worker,) = service.workers.values()
    assert translate(address, "z") == "Z?" and not worker._jobs


def test_a_message_that_is_too_long_ends_its_socket(served: tuple[Service, str]) -> None:
    with connect(f"ws://{served[1]}{SOCKET}") as socket:
        with pytest.raises(ConnectionClosed) as closed:
            socket.send("x" * 2_000_001)
            socket.recv(SECONDS)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
