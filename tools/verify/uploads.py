"""Measure the response times of honest clients while attackers upload hostile documents.

    python tools/verify/uploads.py data/models/en-de --pair en-de --seconds 60

In a first phase only honest clients translate sentences over connections of their own. In the second phase
attackers also upload files that make document readers slow, one after another: half of them small, half as
large as the server accepts. All clients have loopback addresses of their own. Fails where an honest request
is refused, where the server fails, or where the 95th percentile of the honest response times is more than
three times its value without the attack.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

from tools.served import ServerProcess, run_server

SMALL, LARGE = 60_000, 1_900_000  # bytes of a file; a server takes 2 MB
MOST_RATIO = 3.0
THINKING = 0.25  # mean seconds between an honest client's requests
PATIENCE = 120.0  # timeout of a request in seconds
SENTENCES = ["Where is the next station?", "My brother has a new car.", "We will meet again tomorrow."]
# By suffix: a beginning, a piece to repeat, and an end. Each made a reader's time grow quadratically with the
# length, or might do so.
HOSTILE: dict[str, list[tuple[str, str, str]]] = {
    "html": [
        ("", unit, "")
        for unit in (
            *("<pre>", "<a ", "<code>", "<svg>", "<a b='", "<https://", "<!--", "<i translate=no>"),
            *("<b>", "</b>", "<", "&", "&#", "<![CDATA[", "<?", "<p>a", "<script>", "\r", " "),
        )
    ],
    "md": [
        ("a", unit, "")
        for unit in ("\t", "[", "![", "[^", "\\[", "<![CDATA[", " ", "\r", "*", "_a", "`", "> ", "<a ", "](")
    ],
    "srt": [("1\n00:00:00,000 --> 00:00:01,000\n", unit, "") for unit in ("\u2028", "<i>", "\r", " ", "{")],
    "vtt": [("WEBVTT\n\n00:00.000 --> 00:01.000\n", unit, "") for unit in (" ", "<c>", "\r", "&")],
    "tmx": [('<tmx version="1.4"><body>', unit, "") for unit in (" ", "<tu>", "<!--", "<tu ", "&")],
    "xlf": [('<xliff version="1.2">', unit, "") for unit in (" ", "<group>", "<!--", "<file ", "&")],
    "po": [('msgid "a"\nmsgstr ""\n', unit, "") for unit in ('"\n', "#", "\r", '"a"\n', "\\")],
    "json": [("", unit, "") for unit in ("[", '{"a":', "1", '"', " ", '"\\')],
    "properties": [("a=", unit, "") for unit in ("\\\n", "\r", " ", "\\u00")],
    "csv": [("a,b\n", unit, "") for unit in ('"', ",", "\n", '""', "\r")],
    "txt": [("a", unit, "") for unit in ("\r", "\n", " ", "\t", "a ", "\x85")],
}


@dataclass
class Figures:
    """Measurements of the clients of one phase.

    seconds: of each answer. statuses: number of answers by HTTP status; 0 for a lost connection.
    """

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    def percentile(self, share: float) -> float:
        """Return a percentile of the response times in seconds; infinite without an answer."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")


def hostile_files(chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of hostile files without end."""
    while True:
        suffix = chance.choice([*HOSTILE])
        begin, unit, end = chance.choice(HOSTILE[suffix])
        size = chance.choice((SMALL, LARGE))
        text = begin + unit * (size // len(unit.encode())) + end
        yield f"a.{suffix}", text.encode()[:size]


def upload_form(name: str, data: bytes, source: str, target: str) -> tuple[bytes, dict[str, str]]:
    """Return the body of a form with a file, and its headers."""
    fields = {"source": source, "target": target}
    if name.endswith(".csv"):
        fields["column"] = "1"
    parts = [
        f'--limit\r\ncontent-disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    head = f'--limit\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = b"".join([*parts, head.encode(), data, b"\r\n--limit--\r\n"])
    return body, {"content-type": "multipart/form-data; boundary=limit"}


class Client(threading.Thread):
    """A connection that sends one request after another until `stopped` is set.

    number: determines the client's loopback address and random seed.
    """

    def __init__(self, address: tuple[str, int], pair: str, number: int, figures: Figures) -> None:
        super().__init__(daemon=True)
        self._address, self._figures = address, figures
        self._source, self._target = pair.split("-")
        self._own = f"127.0.{1 + number // 250}.{1 + number % 250}"
        self._chance = random.Random(number)
        self.stopped, self.has_sent = threading.Event(), threading.Event()

    def run(self) -> None:
        connection = None
        while not self.stopped.is_set():
            if connection is None:
                connection = http.client.HTTPConnection(
                    *self._address, timeout=PATIENCE, source_address=(self._own, 0)
                )
            path, body, headers = self.request()
            began, status = time.monotonic(), 0
            try:
                connection.request("POST", path, body, headers)
                self.has_sent.set()
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):
                pass
            if not self.stopped.is_set():  # later answers belong to no phase
                self._figures.seconds.append(time.monotonic() - began)
                self._figures.statuses[status] += 1
            if status == 0 or status >= 400:
                connection.close()
                connection = None
            self.pause()
        if connection is not None:
            connection.close()

    def request(self) -> tuple[str, bytes, dict[str, str]]:
        """Return path, body and headers of the next request."""
        raise NotImplementedError

    def pause(self) -> None:
        """Wait between two requests."""


class HonestClient(Client):
    """A client that sends sentences, sometimes as HTML."""

    def request(self) -> tuple[str, bytes, dict[str, str]]:
        sentence = self._chance.choice(SENTENCES)
        fields = {"q": sentence, "source": self._source, "target": self._target}
        if self._chance.random() < 0.1:
            fields |= {"q": f"<p>{sentence}</p>", "format": "html"}
        return "/translate", json.dumps(fields).encode(), {"content-type": "application/json"}

    def pause(self) -> None:
        self.stopped.wait(self._chance.uniform(0, 2 * THINKING))


class Attacker(Client):
    """A client that uploads hostile files and sometimes sends hostile pages."""

    def __init__(self, address: tuple[str, int], pair: str, number: int, figures: Figures) -> None:
        super().__init__(address, pair, number, figures)
        self._files = hostile_files(self._chance)

    def request(self) -> tuple[str, bytes, dict[str, str]]:
        name, data = next(self._files)
        if name.endswith("html") and self._chance.random() < 0.3:
            fields = {"q": data[:19_000].decode(), "format": "html"}
            fields |= {"source": self._source, "target": self._target}
            return "/translate", json.dumps(fields).encode(), {"content-type": "application/json"}
        body, headers = upload_form(name, data, self._source, self._target)
        return "/translate_file", body, headers


@contextmanager
def run_clients(clients: Sequence[Client]) -> Iterator[None]:
    """Run clients inside a `with` block."""
    for client in clients:
        client.start()
    try:
        yield
    finally:
        for client in clients:
            client.stopped.set()
        for client in clients:
            client.join(PATIENCE)


@contextmanager
def run_attackers(server: ServerProcess, pair: str, n_attackers: int) -> Iterator[Figures]:
    """Run attackers inside a `with` block; their statuses are in the figures afterwards.

    They run in a process of their own, so that they do not share an interpreter with the measured clients.
    """
    figures = Figures()
    host, port = server.address
    program = [sys.executable, __file__, "--pair", pair, "--attackers", str(n_attackers)]
    child = subprocess.Popen(
        ["nice", *program, "--attack", f"{host}:{port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        child.stdout.readline()  # the attack has begun
        yield figures
        report, _ = child.communicate(b"end", timeout=PATIENCE)
        figures.statuses.update({int(status): n for status, n in json.loads(report).items()})
    finally:
        child.kill()
        child.wait()


def run_attack_process(address: tuple[str, int], pair: str, n_attackers: int) -> None:
    """Run the attackers until standard input ends, then print their statuses as JSON."""
    figures = Figures()
    attackers = [Attacker(address, pair, 1000 + number, figures) for number in range(n_attackers)]
    for attacker in attackers:
        attacker.start()
    attackers[0].has_sent.wait(PATIENCE)
    print("begun", flush=True)
    sys.stdin.buffer.read()
    print(json.dumps(figures.statuses), flush=True)
    os._exit(0)  # some threads still wait for an answer


class Health(threading.Thread):
    """Requests /health again and again; `longest` is the longest response time in seconds."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self._address, self.longest = address, 0.0
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.2):
            began = time.monotonic()
            connection = http.client.HTTPConnection(*self._address, timeout=PATIENCE)
            try:
                connection.request("GET", "/health")
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                self.longest = float("inf")
            self.longest = max(self.longest, time.monotonic() - began)
            connection.close()


def compare(
    server: ServerProcess, pair: str, seconds: float, n_clients: int, n_attackers: int
) -> tuple[list[str], list[str], float]:
    """Run both phases; return report lines, failures, and the ratio of the 95th percentiles."""
    report, failures, at_95 = [], [], []
    numbers = count()
    for is_attacked in (False, True):
        figures, hostile = Figures(), Figures()
        clients = [HonestClient(server.address, pair, next(numbers), figures) for _ in range(n_clients)]
        health = Health(server.address)
        with ExitStack() as stack:
            if is_attacked:
                hostile = stack.enter_context(run_attackers(server, pair, n_attackers))
            health.start()
            stack.enter_context(run_clients(clients))
            time.sleep(seconds)
            until = time.monotonic() + PATIENCE  # a busy machine may need longer for a first answer
            while len(figures.seconds) < n_clients and time.monotonic() < until:
                time.sleep(0.1)
            health.stopped.set()
        at_95.append(figures.percentile(0.95))
        phase = f"with {n_attackers} attackers" if is_attacked else "without attackers"
        report.append(
            f"{phase}: {len(figures.seconds):,} answers to {n_clients} clients, median"
            f" {figures.percentile(0.5):.3f} s, 95th percentile {at_95[-1]:.3f} s, /health at most"
            f" {health.longest:.3f} s"
        )
        if is_attacked:
            report.append(f"uploads by status: {dict(sorted(hostile.statuses.items()))}")
        refused = {status: n for status, n in figures.statuses.items() if status != 200}
        if refused or not figures.seconds:
            failures.append(f"{phase}: honest requests by status {dict(figures.statuses)}")
        if any(status >= 500 for status in hostile.statuses):
            failures.append("the server has failed at a file")
    ratio = at_95[1] / at_95[0]
    report.append(f"95th percentile: {ratio:.2f} times that without an attack")
    failures += [line for line in server.log_lines() if "Traceback" in line or "error: failed" in line]
    return report, failures, ratio


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each phase")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--attackers", type=int, default=64)
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack:
        host, port = options.attack.rsplit(":", 1)
        run_attack_process((host, int(port)), options.pair, options.attackers)
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server(Path(folder), "-m", f"{options.pair}={options.run}", "--no-log-requests") as server,
    ):
        server.post("translate", q=SENTENCES, source=options.pair[:2], target=options.pair[3:])
        before = server.resident_bytes()
        report, failures, ratio = compare(
            server, options.pair, options.seconds, options.clients, options.attackers
        )
        report.append(f"memory: {before / 1e6:.0f} MB before, {server.resident_bytes() / 1e6:.0f} MB after")
        if server.terminate():
            failures.append("the server has not ended well")
    if not ratio <= MOST_RATIO:
        failures.append(f"honest requests take {ratio:.2f} times as long: at most {MOST_RATIO:g} times")
    print(*report, *(f"wrong: {line}" for line in failures), sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
