"""The command as a process: it needs no PyTorch, ends when it has answered, and has no patience for ever."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import click
import pytest
from click.testing import CliRunner
from made_up_engine import make_run
from made_up_service import made_up_server

from bytenmt.cli.console import Command
from bytenmt.cli.main import main
from bytenmt.errors import BytenmtError
from bytenmt.serve.http.server import MAX_HEAD_BYTES, listening
from bytenmt.serve.http.server import run as serve_at
from tools.served import SECONDS, ServerProcess, run_server
from tools.verify import uploads
from tools.verify.hostile import AT_ONCE, LIMITS, send_hostile_requests

pytestmark = pytest.mark.slow

# The command, and whether PyTorch was imported, when it has ended.
WATCHED = """
import sys
from bytenmt.cli.main import main
try:
    main(["serve", *sys.argv[1:]])
finally:
    print("modules", "torch" in sys.modules, file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("served") / "run", "convs2s")


def answers_of(server: ServerProcess, n: int) -> tuple[list[threading.Thread], list[Any]]:
    """Threads that ask, and what they are answered."""
    found: list[Any] = []

    def ask(number: int) -> None:
        try:
            texts = [f"{number}.{line} 하나 둘 셋 넷 다섯" for line in range(4)]
            found.append(server.post("translate", q=texts, source="ko", target="de")["translatedText"])
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    return threads, found


def test_no_part_of_an_answer_waits_until_another_one_is_confirmed() -> None:
    async def accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            made = writer.get_extra_info("socket")
            found.set_result(made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = listening("127.0.0.1", 0)
        async with await asyncio.start_server(connected, sock=listener):
            with socket.create_connection(listener.getsockname()):
                return await found

    assert asyncio.run(accepted())


def test_it_ends_when_it_has_answered_and_needs_no_pytorch(run: Path, tmp_path: Path) -> None:
    """Nothing that was accepted is lost: HTTP or a stream."""
    arguments = (
        "-m",
        f"ko-en={run}",
        "-m",
        f"en-de={run}",
        "--max-len-b",
        "150",
        "--patience",
        "120",
        "--log-format",
        "json",
    )
    with run_server(tmp_path, *arguments, program=WATCHED) as server:
        assert re.match(r"http://127\.0\.0\.1:\d+/$", server.url)
        assert [one["code"] for one in json.loads(server.get("languages"))] == ["ko", "en", "de"]
        threads, found = answers_of(server, 12)
        until = threading.Event()
        while not server_is_busy(server, 12):
            assert not until.wait(0.01) and not found, "too quick to be asked in the middle"
        code = server.terminate()
        for thread in threads:
            thread.join(SECONDS)
    assert code == 0 and server.log_lines()[-1] == "modules False"
    assert len(found) == 12
    assert all(isinstance(texts, list) and len(texts) == 4 for texts in found), found
    events = [json.loads(text)["event"] for text in server.log_lines() if text.startswith("{")]
    assert events[0] == "serving" and "ending" in events and events[-1] == "ended"


def server_is_busy(server: ServerProcess, n: int) -> bool:
    """Return whether so many requests are in flight."""
    found = re.search(r"requests_in_flight (\d+)", server.get("metrics"))
    return found is not None and int(found[1]) >= n


def raw(server: ServerProcess, data: bytes, wait: float = SECONDS) -> bytes:
    """Send bytes and return the response, until the server closes or the response is complete."""
    with socket.create_connection(server.address, timeout=wait) as asked:
        asked.sendall(data)
        found = b""
        while part := asked.recv(1 << 16):
            found += part
        return found


def test_slow_and_broken_clients_are_left(run: Path, tmp_path: Path) -> None:
    """A head or a body that does not come, and one that never ends."""
    with run_server(tmp_path, "-m", f"ko-en={run}", "--patience", "1", "--max-body", "1000") as server:
        assert raw(server, b"") == b"" and raw(server, b"POST /translate HTT") == b""
        head = b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n"
        assert raw(server, head + b"q=").startswith(b"HTTP/1.1 408 ")
        assert raw(server, b"GET / HTTP/1.1\r\nx: ".ljust(MAX_HEAD_BYTES + 1, b"a")).startswith(
            b"HTTP/1.1 400 "
        )
        assert raw(server, b"\x16\x03\x01\x02\x00\x01").startswith(b"HTTP/1.1 400 ")
        chunked = b"POST /translate HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        assert raw(server, chunked + b"7d0\r\n" + b"a" * 2000 + b"\r\n0\r\n\r\n").startswith(b"HTTP/1.1 413 ")
        assert json.loads(server.get("health")) == {"status": "ok"}
        assert server.terminate() == 0
    assert not any("Traceback" in line for line in server.log_lines())


def test_it_reads_models_and_keys_again_under_load(tmp_path: Path) -> None:
    """At SIGHUP: every request of eight clients is answered, at last by the new model, and with the new
    key."""
    run, keys = make_run(tmp_path / "run", "convs2s"), tmp_path / "keys"
    keys.write_text("old\nboth\n")
    arguments = ("-m", f"ko-en={run}", "--api-keys", keys, "--max-len-b", "20", "--log-format", "json")
    with run_server(tmp_path, *arguments) as server:
        asked = {"q": "하나 둘", "source": "ko", "target": "en", "api_key": "both"}
        before = server.post("translate", **asked)
        found: list[Any] = []
        enough = threading.Event()

        def load() -> None:
            while not enough.is_set():
                try:
                    found.append(server.post("translate", **asked))
                except Exception as error:
                    found.append(error)

        threads = [threading.Thread(target=load) for _ in range(8)]
        for thread in threads:
            thread.start()
        shutil.rmtree(run)
        make_run(run, "convs2s", seed=7)
        keys.write_text("new\nboth\n")
        for n in (1, 2):
            server.process.send_signal(signal.SIGHUP)
            wait_for_event(server, "reloaded", n)
        n_before = len(found)
        until = time.monotonic() + SECONDS
        while len(found) < n_before + 16 and time.monotonic() < until:
            time.sleep(0.01)
        enough.set()
        for thread in threads:
            thread.join(SECONDS)
        after = server.post("translate", **asked)
        assert server.post("translate", **asked | {"api_key": "new"}) == after
        with pytest.raises(HTTPError, match="403"):
            server.post("translate", **asked | {"api_key": "old"})
        assert server.terminate() == 0
    assert before != after and found[-1] == after
    assert all(one in (before, after) for one in found), found


def wait_for_event(server: ServerProcess, event: str, n: int) -> None:
    """Until the log has an event n times."""
    until = time.monotonic() + SECONDS
    while sum(f'"event": "{event}"' in line for line in server.log_lines()) < n:
        assert time.monotonic() < until, server.log_lines()
        time.sleep(0.05)


def test_every_option_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment variables have the effect of options, and options take precedence."""
    command = main.get_command(None, "serve")  # type: ignore[arg-type]
    assert isinstance(command, Command)
    values: dict[str, str] = {}
    arguments: list[str] = []
    for option in command.params:
        name = max(option.opts, key=len)
        least = getattr(option.type, "min", None)
        value = "a" if least is None else str(max(1, least))
        if isinstance(option.type, click.Choice):
            value = str(option.type.choices[-1])
        if isinstance(option, click.Option) and option.is_flag:
            value = "false" if option.secondary_opts else "true"
            arguments.append([*option.secondary_opts, name][0])
        else:
            value = "a b" if option.multiple else value
            value = "json string" if name == "--plugin" else value  # modules, which are imported
            arguments += [part for one in value.split() for part in (name, one)]
        values["BYTENMT_SERVE_" + name[2:].replace("-", "_").upper()] = value
    with command.make_context("serve", arguments) as context:
        expected = dict(context.params)
    for variable, value in values.items():
        monkeypatch.setenv(variable, value)
    with command.make_context("serve", []) as context:
        assert context.params == expected and None not in expected.values()
    with command.make_context("serve", ["--port", "2"]) as context:
        assert context.params["port"] == 2


def test_an_empty_variable_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable of --keep means none; those of other options count as missing."""
    command = main.get_command(None, "serve")  # type: ignore[arg-type]
    assert isinstance(command, Command)
    for variable in ("KEEP", "MAX_QUEUE"):
        monkeypatch.setenv(f"BYTENMT_SERVE_{variable}", "")
    with command.make_context("serve", ["-m", "en-de=x"]) as context:
        assert (context.params["keep"], context.params["max_queue"]) == ("", 256)
    with command.make_context("serve", ["-m", "en-de=x", "--keep", "urls"]) as context:
        assert context.params["keep"] == "urls"


def test_of_two_servers_that_begin_at_once_one_is_told() -> None:
    """Both have bound the address before one of them listens."""
    server, _ = made_up_server("ko-en")
    with listening("127.0.0.1", 0) as one, listening("127.0.0.1", one.getsockname()[1]) as other:
        one.listen()
        with pytest.raises(BytenmtError, match=r"cannot listen on 127\.0\.0\.1, port \d+: Address already"):
            serve_at(server, other)


def refused(*arguments: str | Path) -> str:
    done = CliRunner().invoke(main, ["serve", *map(str, arguments)])
    assert done.exit_code in (1, 2) and "Traceback" not in done.output
    return done.output


def test_what_cannot_be_served_is_one_line(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "keys"
    empty.write_text("# none\n\n")
    pair = f"ko-en={run}"
    assert "not a language pair" in refused("-m", f"korean={run}")
    assert "expected en-de=RUN" in refused("-m", run)
    assert "contains no API key" in refused("-m", pair, "--api-keys", empty)
    assert "cannot be created" in refused("-m", pair, "--suggestions", empty / "none")
    assert "--keep dogs: expected some of placeholders" in refused("-m", pair, "--keep", "dogs")
    assert "add -m en-de=RUN" in refused("-m", pair, "--glossary", f"en-de={empty}")
    assert "--glossary terms: expected en-de=FILE" in refused("-m", pair, "--glossary", "terms")
    assert "cannot be read" in refused("-m", pair, "--glossary", f"ko-en={tmp_path / 'none'}")
    assert "--allowed-origin example.org: expected" in refused("-m", pair, "--allowed-origin", "example.org")
    assert "--trusted-proxy proxy" in refused("-m", pair, "--trusted-proxy", "proxy")
    assert "--length-penalty" in refused("-m", pair, "--length-penalty", "2")
    assert "none" in refused("-m", f"ko-en={tmp_path / 'none'}", "--port", "0")
    text = make_run(tmp_path / "text", settings=("model.source=false",))
    assert "is a language model" in refused("-m", f"ko-en={text}", "--port", "0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot listen on 127.0.0.1" in refused("-m", pair, "--port", str(taken.getsockname()[1]))
    assert "Missing option" in refused()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'bytenmt[serve]'" in refused("-m", pair)


def test_suggestions_can_be_trained_on(run: Path, tmp_path: Path) -> None:
    """The file that the server writes can be read as training text."""
    from bytenmt.data.corpus import PairFiles, ParallelCorpus

    folder = tmp_path / "suggestions"
    folder.mkdir()
    with run_server(tmp_path, "-m", f"ko-en={run}", "--suggestions", folder) as server:
        for number in range(3):
            server.post("suggest", q=f"하나\t{number}", s=f'"one" {number}\n', source="ko", target="en")
        server.terminate()
    file = folder / "ko-en.tsv"
    pairs = ParallelCorpus.open_all([PairFiles(tsv=file)])
    found = [(pairs.source(k), pairs.target(k)) for k in range(len(pairs))]
    assert found == [(f"하나 {k}".encode(), f'"one" {k}'.encode()) for k in range(3)]


def test_what_nobody_should_send(run: Path, tmp_path: Path) -> None:
    """A few of the requests of tools/verify/hostile.py, of every kind."""
    with run_server(tmp_path, "-m", f"ko-en={run}", *LIMITS) as server:
        counts, wrongs = send_hostile_requests(server, 10 * AT_ONCE, seed=1)
        assert server.terminate() == 0
    assert wrongs == [] and len({kind for kind, _ in counts}) > 15


def test_hostile_uploads_hold_up_nobody(run: Path, tmp_path: Path) -> None:
    """For a few seconds; tools/verify/uploads.py does the same for a minute and compares the times."""
    with run_server(tmp_path, "-m", f"en-de={run}", "--max-len-b", "20", "--no-log-requests") as server:
        told, wrongs, _ = uploads.compare(server, "en-de", 4.0, n_clients=4, n_attackers=8)
        assert not wrongs, (wrongs, told)
        assert server.terminate() == 0
