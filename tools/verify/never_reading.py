"""Attack a server with clients that never read their answers, and measure the effect on honest clients.

    python tools/verify/never_reading.py RUN [--pair en-de] [--clients 1000] [--connections 32] [--seconds 60]

A server of the run is started on loopback. Honest clients keep connections open and send one line after
another, first alone, then during the attack. The attackers share another loopback address (127.0.0.2), have
tiny receive buffers, and are plain HTTP requests, event streams and websockets in equal parts. Each asks for
a long text, never reads an answer (a websocket reads its handshake), asks again every --pace seconds, and
reconnects when the server has closed its connection. Fails (exit code 1) where an honest request is not
answered with 200, where the 95th percentile of the honest response times is more than three times its value
without the attack, where the server is not ready soon after the attack, or where it does not end cleanly.
Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import multiprocessing
import random
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.bench.serve import Load, load
from tools.served import ServerProcess, run_server

KINDS = ("http", "events", "websocket")
ATTACKER = "127.0.0.2"  # Linux has the whole of 127.0.0.0/8 on its loopback device
RECEIVE_BUFFER = 2048  # bytes; the kernel doubles it
HANDSHAKE_SECONDS = 5.0
RAMP_SECONDS = 5.0  # of the attack before honest clients are measured
WORST_RATIO = 3.0
RECOVERY_SECONDS = 90.0  # timeout for the server to be ready after the attack
SMALL = ("--send-timeout", "5", "--no-log-requests")


def request_bytes(kind: str, text: str, pair: tuple[str, str]) -> bytes:
    """Return the bytes that a client of a kind sends first."""
    if kind == "websocket":
        key = base64.b64encode(random.randbytes(16)).decode()
        head = (
            f"GET /ws?source={pair[0]}&target={pair[1]} HTTP/1.1\r\nhost: localhost\r\n"
            f"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
            f"sec-websocket-key: {key}\r\n\r\n"
        )
        return head.encode()
    body = json.dumps({"q": text, "source": pair[0], "target": pair[1]}).encode()
    accept = "text/event-stream" if kind == "events" else "*/*"
    head = f"POST /translate HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n"
    return head.encode() + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def text_frame(text: str) -> bytes:
    """Return a masked text frame of a websocket (RFC 6455, section 5.2)."""
    data = text.encode()
    mask = random.randbytes(4)
    masked = bytes(byte ^ mask[k % 4] for k, byte in enumerate(data))
    length = struct.pack("!BBH", 0x81, 0x80 | 126, len(data)) if len(data) < 1 << 16 else b""
    if not length:
        length = struct.pack("!BBQ", 0x81, 0x80 | 127, len(data))
    return length + mask + masked


async def attack(
    address: tuple[str, int], kind: str, text: str, pair: tuple[str, str], pace: float, until: float
) -> Counter[str]:
    """Send requests of a kind and read nothing, until a time of the loop's clock. Return counts of events."""
    loop = asyncio.get_running_loop()
    counts: Counter[str] = Counter()
    first, frame = request_bytes(kind, text, pair), text_frame(text)
    await asyncio.sleep(random.random() * min(pace, until - loop.time()))
    while loop.time() < until:
        with socket.socket() as client:
            client.setblocking(False)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            client.bind((ATTACKER, 0))
            try:
                await loop.sock_connect(client, address)
                counts[f"{kind}: connected"] += 1
                again = first
                if kind == "websocket":
                    await loop.sock_sendall(client, first)
                    async with asyncio.timeout(HANDSHAKE_SECONDS):
                        await loop.sock_recv(client, 1 << 10)
                    again = frame
                while loop.time() < until:
                    async with asyncio.timeout_at(until):
                        await loop.sock_sendall(client, again)
                        counts[f"{kind}: requests sent"] += 1
                        await asyncio.sleep(pace)
            except TimeoutError:
                pass
            except OSError:
                counts[f"{kind}: cut off"] += 1
        await asyncio.sleep(min(1.0, max(0.0, until - loop.time())))
    return counts


def run_attack(
    address: tuple[str, int], n_clients: int, text: str, pair: tuple[str, str], pace: float, seconds: float
) -> Counter[str]:
    """Attack with n_clients clients, in equal parts of each kind; see `attack`."""

    async def everybody() -> Counter[str]:
        until = asyncio.get_running_loop().time() + seconds
        clients = [attack(address, KINDS[n % 3], text, pair, pace, until) for n in range(n_clients)]
        return sum(await asyncio.gather(*clients), Counter())

    return asyncio.run(everybody())


def wait_until_ready(server: ServerProcess) -> float:
    """Return the seconds until /ready answers 200 and nothing is in flight; infinite after a timeout."""
    began = time.monotonic()
    while time.monotonic() < began + RECOVERY_SECONDS:
        with suppress(HTTPError):
            server.get("ready")
            if "requests_in_flight 0" in server.get("metrics"):
                return time.monotonic() - began
        time.sleep(0.2)
    return float("inf")


def measure(
    server: ServerProcess,
    lines: Sequence[str],
    pair: tuple[str, str],
    connections: int,
    seconds: float,
    attackers: int,
    pace: float,
    attack_text: str,
) -> tuple[Load, Load, Counter[str]]:
    """Return the loads of the honest clients without and with the attack, and the counts of the attackers."""
    load(server, lines, pair, connections, seconds / 4)  # warm-up
    alone = load(server, lines, pair, connections, seconds)
    # In a process of its own, so that the attackers do not slow down the event loop of the honest clients.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        lasts = seconds + RAMP_SECONDS + 2
        running = pool.submit(run_attack, server.address, attackers, attack_text, pair, pace, lasts)
        time.sleep(RAMP_SECONDS)
        attacked = load(server, lines, pair, connections, seconds)
        counts = running.result()
    return alone, attacked, counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--src", type=Path, default=Path("data/test.en"), help="lines of the honest clients")
    parser.add_argument("--clients", type=int, default=1000, help="attackers")
    parser.add_argument("--connections", type=int, default=32, help="honest clients")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the attack")
    parser.add_argument("--pace", type=float, default=5.0, help="seconds between two requests of an attacker")
    parser.add_argument("--characters", type=int, default=2000, help="length of an attacker's text")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=SMALL, help="options of the server")
    options = parser.parse_args()
    lines = [line for line in options.src.read_text(encoding="utf-8").split("\n") if line.strip()]
    text = "\n".join(lines * (1 + options.characters // len("".join(lines))))[: options.characters]
    source, _, target = options.pair.partition("-")
    arguments = ("-m", f"{options.pair}={options.run}", *options.serve)
    failures = []
    with tempfile.TemporaryDirectory() as folder, run_server(Path(folder), *arguments) as server:
        before = server.resident_bytes()
        alone, attacked, counts = measure(
            server,
            lines,
            (source, target),
            options.connections,
            options.seconds,
            options.clients,
            options.pace,
            text,
        )
        recovery = wait_until_ready(server)
        after = server.resident_bytes()
        if code := server.terminate():
            failures.append(f"the server has ended with {code}")
        failures += [line for line in server.log_lines() if "Traceback" in line][:3]
    for name, of in (("without the attack", alone), ("during the attack", attacked)):
        print(
            f"{name}: {len(of.seconds)} requests, {of.wrong} not answered with 200,"
            f" p50 {of.percentile(0.5):.0f} ms, p95 {of.percentile(0.95):.0f} ms"
        )
    for name, n in sorted(counts.items()):
        print(f"{n:8d}  {name}")
    ratio = attacked.percentile(0.95) / alone.percentile(0.95)
    print(f"p95 ratio {ratio:.2f}; nothing in flight {recovery:.1f} s after the attack")
    print(f"memory: {before / 1e6:.0f} MB before, {after / 1e6:.0f} MB after")
    if alone.wrong or attacked.wrong:
        failures.append("honest requests have failed")
    if ratio > WORST_RATIO:
        failures.append(f"the 95th percentile is more than {WORST_RATIO} times its value without the attack")
    if recovery > RECOVERY_SECONDS:
        failures.append("requests are in flight long after their clients have gone")
    for line in failures:
        print(f"wrong: {line}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
