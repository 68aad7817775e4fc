"""Attack the commands and a server on loopback: nothing may hang, fail in silence, or be let in.

    python tools/verify/attacks.py data/models/en-de

Prints a line for each kind of attack, with how many of its cases were withstood, and the cases that
were not; fails if there is one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from bytenmt.errors import SettingError
from bytenmt.translation.kept_spans import PATTERN_SECONDS, KeepSpec
from tools.served import ServerProcess, run_server

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0  # until a case is given up
FIRST_SECONDS = 5.0  # until the first byte of an answer
SILENT_SECONDS = 1.0  # without another byte, until an answer is taken as whole
N_LINES = 40  # of a file that commands translate
KEY = b"secret"
WITH_KEY = b"Authorization: Bearer " + KEY
FORM = b"q=Hello.&source=en&target=de"
# What a server may do with a malformed request: refuse it, or close the connection (0).
REFUSED = frozenset((0, 400, 403, 404, 405, 408, 411, 413, 414, 415, 417, 426, 431, 501))
FEW_DESCRIPTORS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from bytenmt.cli.main import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""
N_IDLE = 200  # connections to a server with 128 descriptors
MAX_LOG_LINES = 60
Outcome = tuple[str, bool]  # a case, and whether it was withstood


def start(*arguments: object, **variables: str) -> subprocess.Popen[bytes]:
    """Start a command of bytenmt."""
    command = [sys.executable, "-m", "bytenmt", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def end(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Return the exit status and the messages of a process; -1 if it does not end."""
    try:
        _, messages = process.communicate(timeout=3 * SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return -1, ""
    return process.returncode, messages.decode()


def wait_for(path: Path) -> None:
    """Wait until a file exists."""
    until = time.monotonic() + SECONDS
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)


def attack_outputs(model: Path, folder: Path) -> Iterator[Outcome]:
    """Yield outcomes of two commands with one output, and of one that is killed and resumed."""
    source = folder / "in.txt"
    source.write_text("".join(f"The house number {n} is old.\n" for n in range(N_LINES)))
    whole = folder / "whole.txt"
    status, _ = end(start("translate", model, "-i", source, "-o", whole))
    yield "a translation", status == 0
    for options in (["--beam-size", "2"], ["--keep", "none"], []):
        output = folder / f"out{len(options)}{''.join(options)}.txt"
        first = start("translate", model, "-i", source, "-o", output)
        wait_for(output.with_name(f".{output.name}.part"))
        status, messages = end(start("translate", model, "-i", source, "-o", output, *options))
        is_refused = status > 0 and len(messages.splitlines()) == 1
        is_whole = end(first)[0] == 0 and output.read_bytes() == whole.read_bytes()
        # Where the first one had ended before, the second did the same once more.
        is_later = status == 0 and not options
        yield f"two with one output {options}", is_whole and (is_refused or is_later)
    killed = folder / "killed.txt"
    process = start("translate", model, "-i", source, "-o", killed)
    wait_for(killed.with_name(f".{killed.name}.part"))
    process.send_signal(signal.SIGKILL)
    end(process)
    yield "nothing appears of a killed one", not killed.exists()
    status, messages = end(
        start("translate", model, "-i", source, "-o", killed, "--resume", "--beam-size", "2")
    )
    yield "resumed with other options", status > 0 or killed.read_bytes() != whole.read_bytes()
    killed.unlink(missing_ok=True)
    status, _ = end(start("translate", model, "-i", source, "-o", killed))
    yield "translated anew", status == 0 and killed.read_bytes() == whole.read_bytes()


def attack_homes(model: Path, folder: Path) -> Iterator[Outcome]:
    """Yield outcomes of commands without a home, one that cannot be written, and full disks."""
    source = folder / "one.txt"
    source.write_text("Hello.\n")
    for home in ("", "/nonexistent", "/proc", "/dev/null"):
        for cache in ("", "/proc/none"):
            process = start("translate", model, "-i", source, HOME=home, XDG_CACHE_HOME=cache)
            status, messages = end(process)
            yield f"HOME {home!r}, cache {cache!r}", status == 0 and "Traceback" not in messages
    status, messages = end(start("translate", model, "-i", source, "-o", "/dev/full"))
    yield "a full disk", status > 0 and len(messages.splitlines()) == 1


def attack_patterns() -> Iterator[Outcome]:
    """Yield outcomes of patterns that take for ever on a line."""
    bodies = (
        "(a+)+b",
        "(a|aa)+b",
        "(a*)*b",
        "(.*)*x",
        r"(\w+\s?)+$1",
        "(a|a)*b",
        "(.+)+!",
        "((a+)+)+b",
    )
    for pattern in bodies:
        began = time.process_time()
        with suppress(SettingError):
            KeepSpec.from_settings(keep_pattern=pattern).split_text("a" * 400 + "c")
        yield pattern, time.process_time() - began < 2 * PATTERN_SECONDS


def exchange(address: tuple[str, int], data: bytes) -> tuple[list[int], bool]:
    """Send bytes; return the status of each answer, read to its end, and whether all was closed.

    An answer may come in pieces: its body is read by its Content-Length or chunks.
    """
    statuses = list[int]()
    with socket.create_connection(address, SECONDS) as asked:
        asked.settimeout(FIRST_SECONDS)
        received = b""
        is_closed = False
        try:
            asked.sendall(data)
            while True:
                piece = asked.recv(1 << 16)
                if not piece:
                    is_closed = True
                    break
                received += piece
                asked.settimeout(SILENT_SECONDS)
        except TimeoutError:
            pass
        except OSError:
            is_closed = True
    while received.startswith(b"HTTP/1."):
        head, _, rest = received.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        statuses.append(status)
        fields = dict(
            line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line
        )
        if status < 200:
            received = rest
        elif b"content-length" in fields:
            received = rest[int(fields[b"content-length"]) :]
        else:
            received = rest.partition(b"0\r\n\r\n")[2]
    return statuses, is_closed


def request(headers: Sequence[bytes], body: bytes = b"", line: bytes = b"POST /translate") -> bytes:
    """Return a request with a Host and these headers."""
    head = [line + b" HTTP/1.1", b"Host: 127.0.0.1", *headers]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def attack_lengths(server: ServerProcess) -> Iterator[Outcome]:
    """Yield outcomes of false lengths: no more than one answer, and no success."""
    length = len(FORM)
    chunked = b"Transfer-Encoding: chunked"
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (length, FORM)
    smuggled = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    values = [b"-1", b"+5", b"0x1c", b"1e3", b" ", b"", b"28,27", b"28, 29", b"28;", b"\xb2\xb8"]
    values += [b"9" * n for n in (8, 12, 19, 20, 40, 400)]
    values += [b"28 28", b"2 8", b"28\x00", b"\t-28", b"2.8", b"1_0", b"NaN", b"\xef\xbb\xbf28"]
    cases = {f"Content-Length {value!r}": [b"Content-Length: " + value] for value in values}
    for codings in (
        b"chunked",
        b"Chunked",
        b" chunked",
        b"chunked, chunked",
        b"identity",
        b"xchunked",
    ):
        both = [b"Content-Length: %d" % length, b"Transfer-Encoding: " + codings]
        cases[f"both, {codings!r}"] = both
        cases[f"both in the other order, {codings!r}"] = both[::-1]
    cases["two lengths"] = [b"Content-Length: 3", b"Content-Length: %d" % length]
    cases["a space before the colon"] = [b"Content-Length : %d" % length]
    cases["a folded line"] = [b"X: a\r\n Content-Length: 3", b"Content-Length: 9999999999"]
    for name, headers in cases.items():
        for body in (FORM + smuggled, chunks + smuggled):
            statuses, is_closed = exchange(server.address, request([WITH_KEY, *headers], body))
            is_one = len(statuses) <= 1 and is_closed
            # What is no length at all may be one answer after another, each of them refused.
            is_refused = all(status in REFUSED for status in statuses)
            yield f"{name}: {statuses}", is_refused and (is_one or 200 not in statuses)
    for size in (
        b"-1",
        b"0x5",
        b"G",
        b"",
        b"fffffffffffffffff",
        b"5;" + b"x" * 70_000,
        b" 5",
        b"5 ",
    ):
        body = size + b"\r\nhello\r\n0\r\n\r\n"
        statuses, _ = exchange(server.address, request([WITH_KEY, chunked], body))
        yield f"chunk {size[:20]!r}: {statuses}", all(status in REFUSED for status in statuses)


def attack_headers(server: ServerProcess) -> Iterator[Outcome]:
    """Yield outcomes of headers and lines that are malformed or far too long."""
    lines = [
        b"GET",
        b"GET /health\x00",
        b"G\xc3\x8bT /health",
        b"get /health",
        b"POST *",
        b"\x16\x03\x01",
    ]
    lines += [b"GET /" + b"a" * n for n in (10_000, 100_000)]
    lines += [b"GET http://other.example/health", b"CONNECT a:1", b"TRACE /", b"PRI *"]
    for line in lines:
        statuses, _ = exchange(server.address, request([], b"", line))
        yield f"{line[:30]!r}: {statuses}", not any(200 <= status < 300 for status in statuses)
    for header in (b"X: " + b"a" * 200_000, b"X" * 70_000 + b": a", b": a", b"X\x00: a", b"X Y: a"):
        statuses, _ = exchange(server.address, request([WITH_KEY, header]))
        yield f"{header[:20]!r}: {statuses}", all(status in REFUSED for status in statuses)
    many = [b"X%d: a" % k for k in range(5_000)]
    statuses, _ = exchange(server.address, request(many))
    yield f"5,000 headers: {statuses}", all(status in REFUSED for status in statuses)
    for host in (
        b"evil.example",
        b"127.0.0.1.evil.example",
        b"localhost.evil.example",
        b"a@127.0.0.1",
    ):
        data = b"GET /languages HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
        statuses, _ = exchange(server.address, data)
        yield f"Host {host!r}: {statuses}", statuses == [400]


def attack_bodies(server: ServerProcess) -> Iterator[Outcome]:
    """Yield outcomes of bodies that are malformed, of which each is refused in one line."""
    bodies = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 20_000,
        b'{"q":1}',
        b'{"q":"a"}',
        b"\xff\xfe",
        b"q",
        b"q=%ff",
    ]
    bodies += [
        b'{"q":"a","source":"en","target":' + value + b"}"
        for value in (b"1", b"null", b'"xx"', b'"../.."')
    ]
    bodies += [b'{"q":"' + b"a" * 30_000 + b'","source":"en","target":"de"}']
    bodies += [
        b'{"q":"\\ud800","source":"en","target":"de"}',
        b'{"q":["a",1],"source":"en","target":"de"}',
    ]
    types = (
        b"application/json",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data",
        b"a/b",
    )
    for body, kind in itertools.product(bodies, types):
        headers = [b"Content-Length: %d" % len(body), b"Content-Type: " + kind]
        headers += [WITH_KEY, b"Connection: close"]
        statuses, is_closed = exchange(server.address, request(headers, body))
        yield f"{body[:20]!r} {kind!r}: {statuses}", is_closed and {*statuses} <= REFUSED


def attack_keys(server: ServerProcess) -> Iterator[Outcome]:
    """Yield outcomes of the first key of a file with a BOM, and of keys that are wrong."""
    names = (b"Authorization", b"authorization", b"AUTHORIZATION")
    for name, scheme in itertools.product(names, (b"Bearer", b"bearer", b"BEARER", b"bEaReR")):
        for value, expected in (
            (KEY, 200),
            (b"\xef\xbb\xbf" + KEY, 403),
            (KEY + b"x", 403),
            (b"", 403),
        ):
            headers = [name + b": " + scheme + b" " + value, b"Connection: close"]
            headers += [b"Content-Length: %d" % len(FORM)]
            headers += [b"Content-Type: application/x-www-form-urlencoded"]
            statuses, _ = exchange(server.address, request(headers, FORM))
            yield f"{name!r} {scheme!r} {value!r}: {statuses}", statuses == [expected]


def attack_descriptors(model: Path, folder: Path) -> Iterator[Outcome]:
    """Yield outcomes of more idle connections than a server has descriptors for."""
    with (
        run_server(folder, f"en-de={model}", program=FEW_DESCRIPTORS) as server,
        ExitStack() as idle,
    ):
        for _ in range(N_IDLE):
            idle.enter_context(socket.create_connection(server.address, SECONDS))
        answer = server.post("translate", q="Hello.", source="en", target="de")
        yield "an answer beside idle connections", bool(answer["translatedText"])
        n_lines = len(server.log_lines())
        yield f"{n_lines} lines of log", n_lines < MAX_LOG_LINES
        yield "SIGTERM", server.terminate() == 0


def report(kind: str, outcomes: Iterator[Outcome]) -> int:
    """Print how many cases of a kind were withstood, and the others; return how many were not."""
    cases = list(outcomes)
    failed = [case for case, is_withstood in cases if not is_withstood]
    print(f"{kind}: {len(cases) - len(failed)} of {len(cases)} withstood", flush=True)
    for case in failed:
        print(f"    {case}")
    return len(failed)


def main() -> None:
    """Run all attacks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", metavar="MODEL", type=Path, help="from English into German")
    model = parser.parse_args().model.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = folder / "keys"
        keys.write_bytes(b"\xef\xbb\xbf" + KEY + b"\n")
        with run_server(folder, f"en-de={model}", "--api-keys", keys) as server:
            n_failed = report("false lengths", attack_lengths(server))
            n_failed += report("malformed headers", attack_headers(server))
            n_failed += report("malformed bodies", attack_bodies(server))
            n_failed += report("keys", attack_keys(server))
            health = json.loads(server.get("health"))["status"] == "ok"
            has_traceback = any("Traceback" in line for line in server.log_lines())
            after = [("/health", health), ("no traceback in the log", not has_traceback)]
            after.append(("SIGTERM", server.terminate() == 0))
            n_failed += report("the server after all this", iter(after))
        n_failed += report("patterns without end", attack_patterns())
        n_failed += report("descriptors used up", attack_descriptors(model, folder))
        n_failed += report("homes and disks", attack_homes(model, folder))
        n_failed += report("outputs of two, and of the killed", attack_outputs(model, folder))
    sys.exit(n_failed > 0)


if __name__ == "__main__":
    main()
