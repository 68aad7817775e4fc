"""The server over real connections, and the command as a process: it ends when it has answered."""

import json
import re
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from command_line import invoke
from made_up_engine import make_run
from made_up_service import SECONDS, Gate, made_up_app, serving, wait_until

from bytenmt.checkpoints.facts import Facts
from bytenmt.cli.main import main
from bytenmt.data.pair_files import PairFiles
from bytenmt.serve import connection
from bytenmt.serve import server as server_module
from bytenmt.serve.work_queue import Limits
from tools.served import ServerProcess, run_server

# More than an engine takes at once.
LINES = "\n".join(f"{number:03}{'y' * 997}" for number in range(80))
POST = b"POST /translate HTTP/1.1\r\nhost: localhost\r\n"
PATIENT = Limits(characters=5_000_000, seconds=SECONDS)


def request(text: str = "a", accept: str = "*/*", more: str = "") -> bytes:
    body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
    head = POST + f"accept: {accept}\r\n{more}content-length: {len(body)}\r\n\r\n".encode()
    return head + body


def answer_to(address: tuple[str, int], *parts: bytes) -> bytes:
    """Return what comes until the server closes the connection."""
    with socket.create_connection(address, SECONDS) as asked:
        for part in parts:
            asked.sendall(part)
        return b"".join(iter(lambda: asked.recv(1 << 16), b""))


@pytest.mark.parametrize("is_split", [False, True])
def test_fields_after_the_body_are_no_headers(is_split: bool) -> None:
    """Neither the client's address nor a key is taken from there, even if all comes at once."""
    app = made_up_app("en-de", keys=["secret"])
    head = POST + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"1b\r\nq=hello&source=en&target=de\r\n0\r\n"
    end = b"authorization: Bearer secret\r\nx-forwarded-for: 6.6.6.6\r\n\r\n"
    with serving(app) as (_, address):
        found = answer_to(address, *([head, body, end] if is_split else [head + body + end]))
    assert found.startswith(b"HTTP/1.1 403 ") and b"an API key is required" in found


@pytest.mark.parametrize("is_split", [False, True])
def test_a_malformed_chunk_is_refused_once(
    is_split: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer of the request that had begun is dropped, and nothing fails."""
    app = made_up_app("en-de")
    head = POST + b"transfer-encoding: chunked\r\n\r\n"
    body = b"zz\r\nhello\r\n"
    with serving(app) as (_, address):
        found = answer_to(address, *([head, body] if is_split else [head + body]))
    assert found.startswith(b"HTTP/1.1 400 ") and found.count(b"HTTP/1.1") == 1
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_who_leaves_is_not_decoded_for(accept: str) -> None:
    gate = Gate(is_open=False)
    app = made_up_app("en-de", gate=gate, limits=PATIENT)
    with serving(app) as (server, address):
        with socket.create_connection(address, SECONDS) as asked:
            asked.sendall(request(LINES, accept))
            assert gate.began.wait(SECONDS)
        wait_until(lambda: not server.server_state.tasks, "a request is in flight without a client")
        gate.open.set()
        assert b" 200 OK" in answer_to(address, request(more="connection: close\r\n"))
        assert app.service.queue.n_requests == 0
        assert len(gate.lines()) < 80, "lines that nobody waits for"


@pytest.mark.parametrize("is_forced", [False, True])
def test_it_ends_when_it_has_answered(is_forced: bool, caplog: pytest.LogCaptureFixture) -> None:
    """At a second signal it ends at once, and says so to those who wait."""
    caplog.set_level("INFO", "bytenmt.serve")
    gate = Gate(is_open=False)
    app = made_up_app("en-de", gate=gate)
    with ThreadPoolExecutor() as clients, serving(app) as (server, address):
        asked = [request("a", accept) for accept in ("*/*", "text/event-stream")]
        coming = [clients.submit(answer_to, address, one) for one in asked]
        wait_until(lambda: len(server.server_state.tasks) == 2)
        server.handle_exit(signal.SIGTERM, None)
        wait_until(lambda: app.service.is_draining)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, SECONDS)
        (partial(server.handle_exit, signal.SIGTERM, None) if is_forced else gate.open.set)()
        answers = [one.result(SECONDS) for one in coming]
    gate.open.set()
    assert [b" 503 " in one for one in answers] == [is_forced, False]
    expected = b'{"error":"the server is shutting down"}' if is_forced else b"A0"
    assert all(expected in one for one in answers)
    assert (b"event: error" in answers[1]) == is_forced and "Exception" not in caplog.text
    assert sum("POST /translate" in line for line in caplog.messages) == 2
    assert " 499 " not in caplog.text
    assert [b"connection: close" in one for one in answers if b"event: " not in one] == [True]


# ---- malformed requests and connections without any


CHUNKED = b"content-length: 3\r\ntransfer-encoding: chunked\r\n"
HEADS = [(CHUNKED, b"400"), (b"content-length: 99999999999\r\n", b"413")]


@pytest.mark.parametrize(("head", "status"), HEADS)
def test_a_body_that_is_not_read_ends_the_connection(head: bytes, status: bytes) -> None:
    """It is refused by its headers, before any of it has come."""
    app = made_up_app("en-de")
    with serving(app) as (_, address):
        found = answer_to(address, POST + head + b"\r\n")  # the server closes, no timeout does
    assert found.startswith(b"HTTP/1.1 %b " % status) and b"connection: close" in found.lower()


def test_malformed_requests_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """With the client's address, and without advice to install something for websockets."""
    caplog.set_level("INFO")
    app = made_up_app("en-de")
    upgrade = "connection: upgrade, close\r\nupgrade: websocket\r\n"
    with serving(app) as (_, address):
        assert b" 400 " in answer_to(address, b"\x16\x03\x01 hello\r\n\r\n")
        assert b" 200 OK" in answer_to(address, request(more=upgrade))
    assert "127.0.0.1 - (invalid) 400" in caplog.messages
    assert "websocket" not in caplog.text.lower() and "Invalid HTTP" not in caplog.text
    labels = {"path": "(invalid)", "status": "400"}
    registry = app.service.metrics.registry
    assert registry.get_sample_value("bytenmt_requests_total", labels) == 1


def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time, however slowly a request's headers come; or for others, the oldest first."""
    monkeypatch.setattr(server_module, "raise_connection_limit", lambda: 3)
    with ExitStack() as stack:
        server, address = stack.enter_context(serving(made_up_app("en-de")))
        idle = [stack.enter_context(socket.create_connection(address, SECONDS)) for _ in range(3)]
        wait_until(lambda: len(server.server_state.connections) == 3)
        idle[0].sendall(b"POST /trans")
        assert b" 200 OK" in answer_to(address, request(more="connection: close\r\n"))
        assert idle[0].recv(9) == b""
        idle[1].sendall(request(more="connection: close\r\n"))
        assert b"200 OK" in idle[1].recv(99)
        monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.3)
        with socket.create_connection(address, SECONDS) as slow:
            slow.sendall(b"GET /health HT")
            assert slow.recv(9) == b""


@pytest.mark.slow
def test_descriptors_that_are_used_up(run: Path, tmp_path: Path) -> None:
    """Eighty idle connections at a limit of 64: others are answered, and the log stays short."""
    program = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
    program += "from bytenmt.cli.main import main; main(['serve', *sys.argv[1:]])"
    arguments = ("-m", f"ko-en={run}", "--max-len-b", "9")
    with ExitStack() as stack:
        server = stack.enter_context(run_server(tmp_path, *arguments, program=program))
        for _ in range(80):
            stack.enter_context(socket.create_connection(server.address, SECONDS))
        for _ in range(3):
            assert server.post("translate", q="하나", source="ko", target="en")
        lines = server.log_lines()
    assert len([line for line in lines if "no file descriptor is left" in line]) <= 1
    assert len(lines) < 12 and "Traceback" not in "\n".join(lines)


# ---- the command


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("served") / "run", "convs2s")


# The command, and whether PyTorch was imported, when it has ended.
WATCHED = """
import sys
from bytenmt.cli.main import main
try:
    main(["serve", *sys.argv[1:]])
finally:
    print("modules", "torch" in sys.modules, file=sys.stderr, flush=True)
"""


@pytest.mark.slow
def test_the_command_ends_when_it_has_answered_without_pytorch(run: Path, tmp_path: Path) -> None:
    # A byte order mark is not part of the first key.
    (tmp_path / "keys").write_text("secret\n# none\n\nother\n", encoding="utf-8-sig")
    arguments = ("-m", f"ko-en={run}", "--api-keys", tmp_path / "keys", "--max-len-b", "400")
    with run_server(tmp_path, *arguments, program=WATCHED) as server:
        assert [one["code"] for one in json.loads(server.get("languages"))] == ["ko", "en"]
        fields = {"source": "ko", "target": "en", "api_key": "secret"}
        page = server.post("translate", q="<p>하나</p>", format="html", **fields)
        assert page["translatedText"].startswith("<p>")  # by a child of the command
        asked = {"q": [f"{line} 하나 둘 셋 넷 다섯" for line in range(120)], **fields}
        with ThreadPoolExecutor(12) as clients:
            coming = [clients.submit(server.post, "translate", **asked) for _ in range(12)]
            wait_until(lambda: in_flight(server) == 12, "too quick to be asked in the middle")
            assert not any(one.done() for one in coming) and server.terminate() == 0
            assert all(len(one.result(SECONDS)["translatedText"]) == 120 for one in coming)
    *_, ended, modules = server.log_lines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} bytenmt: shut down", ended)
    assert modules == "modules False"


def in_flight(server: ServerProcess) -> int:
    found = re.search(r"requests_in_flight (\d+)", server.get("metrics?api_key=secret"))
    return int(found[1]) if found else 0


def test_every_option_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment variables have the effect of options, which win; an unknown one is an error."""
    command = main.every()["serve"]
    values = "MAX_QUEUE=7", "MODELS=en-de=a de-en=b", "BEAM=3", "REVERSE=true", "KEEP=urls"
    for name, _, value in (one.partition("=") for one in values):
        monkeypatch.setenv(f"BYTENMT_SERVE_{name}", value)
    with command.make_context("serve", ["--keep", ""]) as context:
        found = context.params
    assert (found["max_queue"], found["models"], found["beam"]) == (7, ("en-de=a", "de-en=b"), 3)
    assert found["reverse"] is True and found["keep"] == ""
    monkeypatch.setenv("BYTENMT_SERVE_API_KEY", "secret")
    result = invoke("serve")
    assert result.exit_code == 2 and "serve has no variable BYTENMT_SERVE_API_KEY" in result.stderr


def test_what_is_not_served(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("bytenmt.serve.server.run", lambda *_: pytest.fail("it serves"))
    empty = tmp_path / "keys"
    pair = f"ko-en={run}"
    empty.write_text("# none\n\n")
    text = make_run(tmp_path / "text", settings=("model.source=false",))
    corpus = PairFiles(src=Path("train.ko"), tgt=Path("train.en.gz"))
    named = make_run(tmp_path / "named", facts=Facts(corpora=(corpus,)))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        rows: list[tuple[tuple[object, ...], str]] = [
            (("-m", f"korean={run}"), "not a language pair"),
            ((run,), f"MODEL {run}: expected a pair and a path"),
            (("-m", f"ko-en{run}="), "expected a pair and a path"),
            (("-m", pair, "--api-keys", empty), "contains no API key"),
            (("-m", pair, "--suggestions", empty / "none"), "Not a directory"),
            (("-m", f"en-ko={named}"), "this model translates ko-en, as the names of its training"),
            (("-m", pair, "--keep", "dogs"), "dogs"),
            (("-m", pair, "--glossary", "terms"), "--glossary terms: expected"),
            (("-m", pair, "--glossary", f"ko-en={tmp_path / 'none'}"), "cannot be read"),
            (("-m", pair, "--timeout", "0"), "--timeout"),
            (("-m", pair, "--allowed-origin", "a.org"), "--allowed-origin a.org: expected * or"),
            (("-m", pair, "--allowed-origin", "https://a.org/"), "https://a.org/: expected"),
            (("-m", pair, "--allowed-host", "https://a.org"), "https://a.org: expected a name"),
            (("-m", pair, "--trusted-proxy", "a"), "--trusted-proxy: 'a' does not appear to be"),
            (("-m", f"ko-en={tmp_path / 'none'}"), "none"),
            (("-m", f"ko-en={text}"), "is a language model"),
            (("-m", f"ko-en={text}", "--reverse", "--beam-size", "2"), "--reverse has no effect"),
            (("-m", pair, "--port", taken.getsockname()[1]), "cannot listen on 127.0.0.1"),
            ((), "No model given"),
        ]
        for arguments, reason in rows:
            port = () if "--port" in arguments else ("--port", "0")
            done = invoke("serve", *arguments, *port)
            assert done.exit_code in (1, 2) and reason in done.output, done.output
            assert "Traceback" not in done.output
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "bytenmt.serve.server")
    assert "bytenmt[serve]" in invoke("serve", "-m", pair).output


def test_a_trusted_proxy_tells_the_address_of_the_client(caplog: pytest.LogCaptureFixture) -> None:
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    caplog.set_level("INFO", "bytenmt.serve")
    told = "x-forwarded-for: 6.6.6.6, 1.2.3.4\r\nconnection: close\r\n"
    with serving(made_up_app("en-de")) as (server, address):
        answer_to(address, request(more=told))
        # Nobody believes a client.
        assert caplog.messages[-1].startswith("127.0.0.1 POST /translate 200")
        server.config.loaded_app = ProxyHeadersMiddleware(server.config.loaded_app, ["127.0.0.1"])
        answer_to(address, request(more=told))
        # The last address that is not a proxy's.
        assert caplog.messages[-1].startswith("1.2.3.4 POST /translate 200")
