"""Measure a server under load and under attack, on loopback.

    python tools/verify/server.py data/models/en-de --pair en-de [--checkout DIR]

Prints, for 32 connections, the answers, also for each second of the server's CPU time (which tells
more on a busy machine), the errors, and the 50th and 95th percentile of the response times:

    load      alone, for --seconds; the other phases take a third of that
    uploads   beside 64 clients, each with its own address, that upload files which are slow to read
    unread    beside 200 event streams of long texts whose clients never read

Then it uploads documents that are hostile by their structure, and sends SIGTERM beside 32 clients
and counts the requests that were accepted and not answered. Fails where an honest request fails, a
hostile document is neither translated nor refused, /health takes over a second, or an answer is
lost. --checkout: run the program of another checkout.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import math
import random
import socket
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.extras import tool_parser
from tools.served import ServerProcess, run_server

N_CLIENTS = 32
N_UPLOADING = 64
N_UNREAD = 200
PATIENCE_SECONDS = 60.0  # timeout of an honest request, in seconds
HEALTH_SECONDS = 1.0
LINES = ["Where is the next station?", "My brother has a new car.", "It is late."]
LINES.append("We will meet again tomorrow.")
# By suffix: a beginning and a piece to repeat, which may make a reader slow or hungry.
HTML = ("<pre>", "<a ", "<a b='", "<!--", "<b>", "<", "&", "<![CDATA[", " ", "\r")
HOSTILE = [
    *(("html", "", unit) for unit in HTML),
    *(("md", "a", unit) for unit in ("\t", "[", "![", "[^", "*", "_a", "`", "> ", "](")),
    *(("srt", "1\n00:00:00,000 --> 00:00:01,000\n", unit) for unit in ("\u2028", "<i>", "{")),
    *(("tmx", '<tmx version="1.4"><body>', unit) for unit in ("<tu>", "<!--", "<tu ", "&")),
    *(("xlf", '<xliff version="1.2">', unit) for unit in ("<group>", "<!--", "<file ", "&")),
    *(("po", 'msgid "a"\nmsgstr ""\n', unit) for unit in ('"\n', "#", '"a"\n', "\\")),
    *(("json", "", unit) for unit in ("[", '{"a":', "1", '"')),
    *(("txt", "a", unit) for unit in ("\r", "\n", "\x85", "a ")),
]


def packed(name: str, data: bytes) -> bytes:
    """Return a ZIP archive of one member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return file.getvalue()


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
BOMB = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "ha">{ENTITIES}]>'
WORD = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
PARAGRAPH = "<w:p><w:r><w:t>&e11;</w:t></w:r></w:p></w:document>"
ALIASES = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 12))
POWERS = (
    f'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural={"n*" * 900}n;\\n"\n\n'
    'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n'
)
SEGMENT = "<tmx><body><tu><tuv><seg>%s</seg></tuv></tu></body></tmx>"
OUTSIDE = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
# Name and bytes of files that are hostile by their structure.
DOCUMENTS: list[tuple[str, bytes]] = [
    ("entities.xlf", f'{BOMB}<xliff version="1.2"><file><body>&e11;'.encode()),
    ("entities.tmx", f"{BOMB}{SEGMENT % '&e11;'}".encode()),
    ("entities.xml", f'{BOMB}<resources><string name="a">&e11;</string></resources>'.encode()),
    ("outside.tmx", f"{OUTSIDE}{SEGMENT % '&e;'}".encode()),
    ("outside.html", f"{OUTSIDE}<p>&e;</p>".encode()),
    ("deep.html", b"<div>" * 300_000 + b"a"),
    ("deep.json", b"[" * 300_000 + b'"a"' + b"]" * 300_000),
    ("deep.xlf", b"<xliff>" * 100_000),
    ("deep.yaml", b"[" * 100_000),
    ("deep.md", b"> " * 100_000 + b"a"),
    ("deep.strings", b'"a" = {' * 100_000),
    ("aliases.yaml", ALIASES.encode()),
    ("entities.docx", packed("word/document.xml", f"{BOMB}{WORD}{PARAGRAPH}".encode())),
    ("outside.docx", packed("../../../tmp/word/document.xml", WORD.encode())),
    ("../../../../tmp/outside.txt", b"a"),
    ("powers.po", POWERS.encode()),
    ("long.srt", b"1\n00:00:00,000 --> 00:00:01,000\n" + b"<" * 1_500_000),
    ("quotes.csv", b'"' * 100_000),
]


class Client:
    """A connection that is kept open. number: its loopback address."""

    def __init__(self, server: ServerProcess, number: int = 0) -> None:
        self._server = server.address
        self._own = (f"127.0.{1 + number // 250}.{1 + number % 250}", 0)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.has_sent = False  # whether an answer is owed

    async def send(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, bytes]:
        """Return status and body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._server, local_addr=self._own)
        reader, writer = self._streams
        fields = {"host": "localhost", "content-length": str(len(body)), **headers}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        self.has_sent = True
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = next(one for one in answer.split(b"\r\n") if one.startswith(b"content-length:"))
        found = await reader.readexactly(int(length.split(b":")[1]))
        self.has_sent = False
        if b"connection: close" in answer:
            self.close()
        return int(answer.split()[1]), found

    async def upload(self, body: bytes) -> tuple[int, bytes]:
        """Upload the multipart body of a document."""
        kind = "multipart/form-data; boundary=b"
        return await self.send("POST", "/translate_file", body, content_type=kind)

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


class Figures:
    """Response times and statuses of honest clients' answers, and response times of /health."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.health: list[float] = []
        self.cpu_seconds = 0.0  # of the server

    def percentile(self, share: float) -> float:
        """Return the milliseconds within which this share of the requests was answered."""
        ordered = sorted(self.seconds) or [float("inf")]
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def show(self, name: str) -> str:
        """Return a line of the table."""
        errors = sum(self.statuses.values()) - self.statuses[200]
        times = f"p50 {self.percentile(0.5):.0f} ms, p95 {self.percentile(0.95):.0f} ms"
        health = f", /health at most {1000 * max(self.health, default=0):.0f} ms"
        rate = f"{self.statuses[200] / max(self.cpu_seconds, 0.01):.0f} a CPU second"
        return f"{name:8} {self.statuses[200]:6,} answers, {rate}, {errors} errors, {times}{health}"


async def translate_lines(
    client: Client, pair: str, figures: Figures, until: float, pause: float
) -> None:
    """Translate lines until a time of time.monotonic(), with random pauses of this mean."""
    source, target = pair.split("-")
    chance = random.Random(id(client))
    for line in itertools.cycle(LINES):
        if time.monotonic() > until:
            break
        body = json.dumps({"q": line, "source": source, "target": target}).encode()
        began = time.monotonic()
        try:
            asking = client.send("POST", "/translate", body, content_type="application/json")
            status, _ = await asyncio.wait_for(asking, PATIENCE_SECONDS)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            status = 0
            client.close()
        figures.seconds.append(time.monotonic() - began)
        figures.statuses[status] += 1
        await asyncio.sleep(chance.expovariate(1 / pause) if pause else 0)


async def ask_health(server: ServerProcess, figures: Figures, until: float) -> None:
    """Ask for /health twice a second."""
    client = Client(server, 900)
    while time.monotonic() < until:
        began = time.monotonic()
        await client.send("GET", "/health")
        figures.health.append(time.monotonic() - began)
        await asyncio.sleep(0.5)
    client.close()


def hostile_forms(seed: int, pair: str) -> Iterator[bytes]:
    """Yield multipart bodies with hostile files without end, small or as large as is allowed."""
    chance = random.Random(seed)
    while True:
        suffix, begin, unit = chance.choice(HOSTILE)
        text = begin + unit * (chance.choice((60_000, 1_900_000)) // len(unit.encode()))
        yield form(pair, f"a.{suffix}", text.encode()[:1_998_000])


def form(pair: str, name: str, data: bytes) -> bytes:
    """Return a multipart body with a file."""
    part = '--b\r\ncontent-disposition: form-data; name="{}"{}\r\n\r\n'
    fields = zip(("source", "target"), pair.split("-"), strict=True)
    head = "".join(part.format(field, "") + value + "\r\n" for field, value in fields)
    return (head + part.format("file", f'; filename="{name}"')).encode() + data + b"\r\n--b--\r\n"


async def upload_documents(server: ServerProcess, pair: str) -> list[str]:
    """Upload hostile documents, one after the other; return what went wrong."""
    wrong = []
    client = Client(server)
    figures = Figures()
    health = asyncio.ensure_future(ask_health(server, figures, math.inf))
    zeros = ("zeros.docx", packed("word/document.xml", b" " * 1_500_000_000))
    for name, data in [*DOCUMENTS, zeros]:
        began = time.monotonic()
        status, answer = await client.upload(form(pair, name, data))
        print(f"{name}: {status} in {time.monotonic() - began:.1f} s: {answer.decode()[:90]}")
        wrong += [f"{name}: {status}"] * (status not in (200, 400, 413))
        if status == 200:
            path = json.loads(answer)["translatedFileUrl"].partition("/localhost")[2]
            _, answer = await client.send("GET", path)
            wrong += [f"{name} has another file in it"] * (b"root:" in answer)
    health.cancel()
    print(f"/health beside hostile documents: at most {1000 * max(figures.health):.0f} ms")
    wrong += ["/health took too long beside documents"] * (max(figures.health) > HEALTH_SECONDS)
    return wrong


async def upload(
    client: Client, forms: Iterator[bytes], statuses: Counter[int], until: float
) -> None:
    """Upload one hostile file after another."""
    while time.monotonic() < until:
        status = 0
        with suppress(OSError, asyncio.IncompleteReadError):
            status, _ = await client.upload(next(forms))
        statuses[status] += 1
        if status in (0, 429):
            client.close()
            await asyncio.sleep(0.5)


async def never_read(server: ServerProcess, pair: str, number: int, until: float) -> None:
    """Ask for an event stream of a long text, with a small receive buffer, and read nothing."""
    source, target = pair.split("-")
    body = json.dumps({"q": "\n".join(LINES * 40), "source": source, "target": target}).encode()
    head = "POST /translate HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n"
    head += f"content-length: {len(body)}\r\n\r\n"
    loop = asyncio.get_running_loop()
    while time.monotonic() < until:
        with socket.socket() as client, suppress(OSError):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            client.bind((f"127.0.2.{1 + number % 250}", 0))
            await loop.sock_connect(client, server.address)
            await loop.sock_sendall(client, head.encode() + body)
            await asyncio.sleep(max(0.0, until - time.monotonic()))


async def phase(
    server: ServerProcess, pair: str, seconds: float, pause: float, *attackers: Awaitable[None]
) -> Figures:
    """Return the figures of honest clients beside attackers."""
    figures = Figures()
    until = time.monotonic() + seconds
    before = server.cpu_seconds()
    clients = [Client(server, number) for number in range(N_CLIENTS)]
    honest = [translate_lines(client, pair, figures, until, pause) for client in clients]
    beside = (*attackers, ask_health(server, figures, until))
    others = [asyncio.ensure_future(one) for one in beside]
    await asyncio.gather(*honest)
    figures.cpu_seconds = server.cpu_seconds() - before
    for one in others:
        one.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for client in clients:
        client.close()
    return figures


async def stop_gracefully(server: ServerProcess, pair: str) -> tuple[int, int, int]:
    """Send SIGTERM beside clients; return exit code, answers after it, and answers lost."""
    figures = Figures()
    clients = [Client(server, number) for number in range(N_CLIENTS)]
    until = time.monotonic() + 30
    asking = [translate_lines(client, pair, figures, until, 0) for client in clients]
    tasks = [asyncio.ensure_future(one) for one in asking]
    await asyncio.sleep(2)
    n_before = figures.statuses[200]
    code = await asyncio.to_thread(server.terminate)
    await asyncio.sleep(1)
    n_answered = figures.statuses[200] - n_before
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return code, n_answered, sum(client.has_sent for client in clients)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=0.0, help="mean seconds between two lines")
    parser.add_argument("--checkout", type=Path)
    options = parser.parse_args(argv)
    pair = options.pair
    seconds = options.seconds
    model = ("-m", f"{pair}={options.run.resolve()}")
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server(Path(folder), *model, checkout=options.checkout) as server,
    ):
        memory = server.resident_bytes()
        statuses = Counter[int]()
        until = time.monotonic() + seconds
        phases = {"load": asyncio.run(phase(server, pair, seconds, options.pause))}
        until = time.monotonic() + seconds / 3
        uploading = (
            upload(Client(server, 100 + n), hostile_forms(n, pair), statuses, until)
            for n in range(N_UPLOADING)
        )
        phases["uploads"] = asyncio.run(phase(server, pair, seconds / 3, options.pause, *uploading))
        until = time.monotonic() + seconds / 3
        unread = (never_read(server, pair, n, until) for n in range(N_UNREAD))
        phases["unread"] = asyncio.run(phase(server, pair, seconds / 3, options.pause, *unread))
        for name, figures in phases.items():
            print(figures.show(name))
            wrong += [f"{name}: {dict(figures.statuses)}"] * (set(figures.statuses) != {200})
            wrong += [f"{name}: /health took too long"] * (max(figures.health) > HEALTH_SECONDS)
        memories = f"memory {memory >> 20}, then {server.resident_bytes() >> 20} MiB"
        print(f"uploads were answered {dict(statuses)}; {memories}")
        wrong += asyncio.run(upload_documents(server, pair))
        code, n_answered, n_lost = asyncio.run(stop_gracefully(server, pair))
        print(f"SIGTERM: exit code {code}, {n_answered} answers after it, {n_lost} lost")
        wrong += ["an answer was lost"] * bool(n_lost or code)
    for line in wrong:
        print(f"WRONG: {line}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
