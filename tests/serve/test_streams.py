"""Translations that are shown while they are decoded: server-sent events and websockets."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from made_up_service import MANY_LINES, Gate, client, made_up_server, wait_for_nothing
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from bytenmt.serve.limits import Limits

SSE = {"accept": "text/event-stream"}


def events(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["en", "de"])
def test_parts_make_the_text(target: str) -> None:
    """Every text's parts are its translation, what stands between the lines included; over two models too."""
    texts = [" 하나 둘 셋 넷\n\n다섯 ", "", "여섯\r\n"]
    sent = {"q": texts, "source": "ko", "target": target, "details": True}
    with client() as asked:
        answer = asked.post("/translate", json=sent, headers=SSE)
        whole = asked.post("/translate", json=sent).json()
    assert answer.headers["content-type"].startswith("text/event-stream")
    *parts, (last, data) = events(answer.text)
    assert (last, data) == ("done", whole) and {name for name, _ in parts} == {"part"}
    assert len(parts) > 8
    for number, text in enumerate(whole["translatedText"]):
        assert "".join(part["text"] for _, part in parts if part["index"] == number) == text
    assert [len(lines) for lines in whole["details"]] == [2, 0, 1]
    assert [[line["verdict"] for line in lines] for lines in whole["details"]] == [
        ["sure", "check"],
        [],
        ["check"],
    ]
    for line in (line for lines in whole["details"] for line in lines):
        is_flagged = line["verdict"] == "check"
        assert line["flags"] == ["unsure"] * is_flagged
        assert line["reasons"] == ["the model is unsure"] * is_flagged
        # Over two models the first one's doubts count too.
        assert is_flagged == (line["bits_per_byte"] > (0.15 if target == "de" else 0.2))


def test_tags_come_in_parts_too() -> None:
    sent = {"q": "<p>a &lt; b</p> c", "source": "en", "target": "de", "format": "html"}
    with client() as asked:
        *parts, (_, data) = events(asked.post("/translate", json=sent, headers=SSE).text)
    assert "".join(part["text"] for _, part in parts) == data["translatedText"] == "<p>A &lt; B0</p> C0"


def test_a_refused_stream_is_no_stream() -> None:
    with client(keys=["k"]) as asked:
        assert asked.post("/translate", json={"q": "a", "target": "de"}, headers=SSE).status_code == 403
    with client() as asked:
        answer = asked.post("/translate", json={"q": "a", "source": "auto", "target": "ko"}, headers=SSE)
        assert events(answer.text) == [("error", {"error": "no model translates into ko: see /languages"})]


def until_done(socket: Any) -> list[dict[str, Any]]:
    found = []
    while not found or not {"done", "error"} & found[-1].keys():
        found.append(json.loads(socket.receive_text()))
    return found


def test_a_line_in_parts_out() -> None:
    with client() as asked, asked.websocket_connect("/ws?source=ko&target=en") as socket:
        socket.send_text("하나 둘 셋")
        socket.send_text(json.dumps({"id": 7, "q": "ein Hund", "source": "de", "alternatives": 1}))
        *parts, done = until_done(socket)
        assert done == {"done": True, "translatedText": "하나 둘 셋0"}
        assert "".join(part["part"] for part in parts) == "하나 둘 셋0" and len(parts) > 2
        *parts, done = until_done(socket)
        assert done["id"] == 7 and done["alternatives"] == ["EIN HUND1"]
        assert all(part["id"] == 7 for part in parts)
        for wrong in ('{"q": ', '{"q": 3}', json.dumps({"q": "a", "target": "xx"})):
            socket.send_text(wrong)
            assert list(until_done(socket)[-1]) == ["error"]
        socket.send_bytes("둘".encode())
        assert until_done(socket)[-1]["translatedText"] == "둘0"


def test_one_direction_need_not_be_named() -> None:
    """The websocket accepts lines and answers lines, as clients of marian-server expect."""
    with client("ko-en") as asked:
        with asked.websocket_connect("/translate") as socket:
            socket.send_text("하나\n둘")
            socket.send_text("")
            assert [socket.receive_text(), socket.receive_text()] == ["하나0\n둘0", ""]
        with asked.websocket_connect("/ws") as socket:
            socket.send_text("하나")
            assert until_done(socket)[-1]["translatedText"] == "하나0"


def test_a_socket_needs_a_key_too_and_is_limited() -> None:
    with client("ko-en", keys=["secret"], limits=Limits(characters=5)) as asked:
        with asked.websocket_connect("/ws") as socket:
            socket.send_text("하나")
            assert "key" in until_done(socket)[-1]["error"]
            with pytest.raises(WebSocketDisconnect):
                socket.receive_text()
        with asked.websocket_connect("/ws?api_key=secret") as socket:
            socket.send_text("하나")
            assert until_done(socket)[-1]["translatedText"] == "하나0"
            socket.send_text("하나 둘 셋")
            assert "at most 5" in until_done(socket)[-1]["error"]


def test_who_has_gone_is_not_decoded_for() -> None:
    """A socket that closes takes its lines along, those that are decoded too."""
    gate = Gate(open=False)
    server, _ = made_up_server("ko-en", gate=gate)
    with TestClient(server.app()) as asked:
        with asked.websocket_connect("/ws") as socket:
            socket.send_text(MANY_LINES)
            socket.send_text("z")
            assert gate.began.wait(10)
        wait_for_nothing(server.service)
        gate.open.set()
        assert asked.post("/translate", json={"q": "하나", "target": "en"}).status_code == 200
    assert b"z" not in gate.lines() and len(gate.lines()) < 15
    (worker,) = server.service.workers.values()
    assert not worker._jobs and worker.n_running == 0
    assert server.service.n_requests == server.service.n_lines == 0


def test_details_come_with_the_last_answer() -> None:
    with client("ko-en") as asked, asked.websocket_connect("/ws") as socket:
        socket.send_text(json.dumps({"q": "하나\n둘", "details": True}))
        *parts, done = until_done(socket)
        sent = {"q": "하나\n둘", "source": "ko", "target": "en", "details": True}
        assert done["details"] == asked.post("/translate", json=sent).json()["details"]
        assert len(done["details"]) == 2 and not any("details" in part for part in parts)


def test_bytes_that_are_no_text_are_refused_in_their_turn() -> None:
    with client("ko-en") as asked, asked.websocket_connect("/ws") as socket:
        for data in ("하나".encode(), b"\xff\xfe", "둘".encode()):
            socket.send_bytes(data)
        answers = [until_done(socket)[-1] for _ in range(3)]
    assert [one.get("translatedText") for one in answers] == ["하나0", None, "둘0"]
    assert answers[1] == {"error": "Invalid request: the message is not UTF-8"}


@pytest.mark.parametrize("path", ["/ws", "/translate"])
def test_websockets_are_limited_logged_and_closed_when_idle(path: str) -> None:
    server, logged = made_up_server("ko-en", limits=Limits(sockets=1, idle_seconds=0.2))
    with TestClient(server.app()) as asked:
        with server.service.admit_socket("another"), asked.websocket_connect(path) as socket:
            if path == "/ws":
                assert "too many websockets are open" in json.loads(socket.receive_text())["error"]
            with pytest.raises(WebSocketDisconnect) as closed:
                socket.receive_text()
            assert closed.value.code == 1013
        with asked.websocket_connect(path) as socket:
            with pytest.raises(WebSocketDisconnect) as closed:
                socket.receive_text()
            assert closed.value.reason == "no message for 0.2 s"
        metrics = asked.get("/metrics").text
    assert server.service.n_sockets == 0
    lines = [one for one in map(json.loads, logged) if one.get("method") == "WEBSOCKET"]
    assert [(one["path"], one["status"], one["messages"]) for one in lines] == [(path, 101, 0)] * 2
    assert f'requests_total{{path="{path[1:]}",status="101"}} 2.0' in metrics


@pytest.mark.parametrize("path", ["/ws", "/simultaneous"])
def test_a_client_that_waits_for_its_answer_is_not_idle(path: str) -> None:
    """Its time begins with the answer, however long that takes."""
    gate = Gate(open=False)
    server, _ = made_up_server("ko-en", gate=gate, limits=Limits(idle_seconds=0.2))
    with TestClient(server.app()) as asked, asked.websocket_connect(path) as socket:
        socket.send_text(json.dumps({"q": "하나", "state": "finished"}))
        assert gate.began.wait(10)
        time.sleep(0.5)
        gate.open.set()
        answer = until_done(socket)[-1] if path == "/ws" else json.loads(socket.receive_text())
        assert "하나0" in answer.values()
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_text()
        assert closed.value.reason == "no message for 0.2 s"
