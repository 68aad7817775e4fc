"""Measure a server under load: response times and throughput, relative to `translate` in bulk.

    python tools/bench/serve.py RUN [--src data/test.ko] [--connections 64] [--seconds 60]

The server with its engine is pinned to core 0, on one thread, and the clients to the other cores, so that
they do not compete; the bulk translation also runs on core 0. A line is a request. Prints p50 and p95 of the
response times, requests and text bytes (of sources and translations) per second, the number of answers other
than 200, and the server's memory, for one client alone and for many. The ratio to the bulk is the share of
the speed that remains under HTTP. Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.bench.records import Record, format_table, write_json
from tools.served import ServerProcess, run_server

BULK = """
import sys, time
from bytenmt.decoding.translator import Translator
translator = Translator.load(sys.argv[1], engine="numba", threads=1, precision=sys.argv[2])
lines = [line for line in open(sys.argv[3], encoding="utf-8").read().split("\\n") if line.strip()]
translator.translate(lines[:8])
n_bytes, began = 0, time.perf_counter()
while time.perf_counter() - began < float(sys.argv[4]):
    texts = translator.translate(lines)
    n_bytes += sum(len(line.encode()) for line in lines + texts)
print(n_bytes / (time.perf_counter() - began))
"""


class Load(NamedTuple):
    """Measurements of the clients.

    seconds: of each request; n_bytes: of sources and translations; wrong: number of answers other than 200;
    total_seconds: seconds of the whole measurement.
    """

    seconds: list[float]
    n_bytes: int
    wrong: int
    total_seconds: float

    def percentile(self, share: float) -> float:
        """Return the milliseconds within which this share of the requests was answered."""
        return 1000 * sorted(self.seconds)[min(int(share * len(self.seconds)), len(self.seconds) - 1)]


def load(
    server: ServerProcess, lines: Sequence[str], pair: tuple[str, str], n_clients: int, seconds: float
) -> Load:
    """Run n_clients clients, each of which sends one line after another."""
    return asyncio.run(_load(server.address, lines, pair, n_clients, seconds))


async def _load(
    address: tuple[str, int], lines: Sequence[str], pair: tuple[str, str], n_clients: int, seconds: float
) -> Load:
    began = time.perf_counter()
    clients = (_client(address, [*lines[n:], *lines[:n]], pair, began + seconds) for n in range(n_clients))
    each = await asyncio.gather(*clients)
    lasted = time.perf_counter() - began
    return Load(
        [s for one in each for s in one.seconds],
        sum(one.n_bytes for one in each),
        sum(one.wrong for one in each),
        lasted,
    )


async def _client(
    address: tuple[str, int], lines: Sequence[str], pair: tuple[str, str], until: float
) -> Load:
    """Send requests over one connection, kept open, until a time of time.perf_counter()."""
    reader, writer = await asyncio.open_connection(*address)
    found: list[float] = []
    n_bytes = wrong = 0
    while time.perf_counter() < until:
        line = lines[len(found) % len(lines)]
        body = json.dumps({"q": line, "source": pair[0], "target": pair[1]}).encode()
        head = "POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        began = time.perf_counter()
        writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(part for part in answer.lower().split(b"\r\n") if part.startswith(b"content-length:"))
        text = json.loads(await reader.readexactly(int(length.split(b":")[1])))
        found.append(time.perf_counter() - began)
        if answer.split()[1] == b"200":
            n_bytes += len(line.encode()) + len(text["translatedText"].encode())
        else:
            wrong += 1
    writer.close()
    await writer.wait_closed()
    return Load(found, n_bytes, wrong, 0.0)


def bulk_rate(run: Path, precision: str, src: Path, seconds: float) -> float:
    """Return the text bytes per second of `translate` on one core, all lines in one call."""
    command = ["taskset", "-c", "0", sys.executable, "-c", BULK, str(run), precision, str(src), str(seconds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--src", type=Path, default=Path("data/test.ko"))
    parser.add_argument("--pair", default="ko-en", help="language pair of the run")
    parser.add_argument("--precision", default="auto", help="as in bytenmt translate")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the load; the other measurements take a quarter"
    )
    parser.add_argument("--json", type=Path, help="also write the records here")
    options = parser.parse_args()
    run, src, pair, precision = options.run, options.src, options.pair, options.precision
    connections, seconds = options.connections, options.seconds
    lines = [line for line in src.read_text(encoding="utf-8").split("\n") if line.strip()]
    source, _, target = pair.partition("-")
    if len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, os.sched_getaffinity(0) - {0})
    whole = bulk_rate(run, precision, src, seconds / 4)
    arguments = ("-m", f"{pair}={run}", "--threads", 1, "--precision", precision, "--no-log-requests")
    with tempfile.TemporaryDirectory() as folder, run_server(Path(folder), *arguments, core=0) as server:
        alone = load(server, lines, (source, target), 1, seconds / 4)
        before = server.resident_bytes()
        many = load(server, lines, (source, target), connections, seconds)
        after = server.resident_bytes()
        code = server.terminate()
    records = []
    for name, of in (("1 client", alone), (f"{connections} clients", many)):
        rate = of.n_bytes / of.total_seconds
        records += [
            Record("serve", f"{name}, text", rate, "B/s", "translate in bulk", whole, rate / whole),
            Record("serve", f"{name}, requests", len(of.seconds) / of.total_seconds, "/s", "", 0, 0),
            Record("serve", f"{name}, p50", of.percentile(0.5), "ms", "", 0, 0),
            Record("serve", f"{name}, p95", of.percentile(0.95), "ms", "", 0, 0),
        ]
    print(format_table(records))
    print(f"{alone.wrong + many.wrong} of {len(alone.seconds) + len(many.seconds):,} answers were no 200")
    print(f"memory: {before / 1e6:.1f} MB before the load, {after / 1e6:.1f} MB after it; exit code {code}")
    if options.json is not None:
        write_json(options.json, records)


if __name__ == "__main__":
    main()
