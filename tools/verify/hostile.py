"""Send hundreds of hostile requests: strange but valid ones are translated, invalid ones refused.

    python tools/verify/hostile.py RUN [--requests 1000] [--seed 0]

Starts `bytenmt serve` of the run, sends requests over sixteen connections at a time, and ends with 1 where an
answer was anything else than 200 for a valid request and 4xx for others, where the server's log tells of a
failure, or where a text is translated otherwise than before.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote_plus

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.served import ServerProcess, run_server

MOST_BODY, PATIENCE, AT_ONCE = 50_000, 2, 16
SECONDS = 60.0  # until a server that says nothing hangs
CLOSED, HUNG = 0, -1  # the status of a connection that was closed without an answer, or has none
# Of a server for this; short translations, for strange texts make a model go on to the limit.
LIMITS = (
    "--max-body",
    MOST_BODY,
    "--patience",
    PATIENCE,
    "--max-characters",
    10_000,
    "--max-len-a",
    1,
    "--max-len-b",
    20,
    "--log-format",
    "json",
)
STRANGE = (
    *("", " ", "\t\n\r\n", "\0", "a\0b", "\x1b[31mred\x07", "\x7f\x80\x9f", "\ufeffmark", "\uffff\ufffe"),
    *("\u202eright to left\u202c", "\u2028\u2029\x85", "z\u0351\u0340" * 40, "👩‍👩‍👧‍👦🏳️‍🌈", "\U0010ffff"),
    *("ᄒ\u1161ᆫ" * 9, "ㅋㅋㅋㅋ", "뷁", "مرحبا עולם", "İıſK", "ﬀ", "½²", "a" * 4000, "\n" * 500, "가" * 300),
    *("null", "undefined", "NaN", "-0", "1e309", "{}", "[]", '"', "\\", "\\u0000", "'; DROP TABLE t; --"),
    *(
        "<script>alert(1)</script>",
        "{{7*7}}",
        "${jndi:ldap://x}",
        "%s%n%x",
        "../../etc/passwd",
        "%00",
        "&#0;",
    ),
    *("<" * 500, "<!--" * 50, "<a href='", "&amp" * 20, "<p translate=no>", "a\rb", "\r\r\n", "\u200b" * 50),
)


class Sent(NamedTuple):
    """A request as bytes. kind: for the report; valid: whether 200 is due, None where either will do; slow:
    it is cut off, and the rest never comes."""

    kind: str
    data: bytes
    valid: bool | None
    slow: bool = False


def http(
    body: bytes, kind: str = "application/json", path: str = "/translate", method: str = "POST"
) -> bytes:
    """A whole request, after which the server closes."""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {kind}\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


def fields(text: object, **more: object) -> bytes:
    """A translation's JSON."""
    return json.dumps({"q": text, "source": "ko", "target": "en", **more}).encode()


def strange(chance: random.Random) -> Sent:
    """Valid texts of all kinds, in all the ways that they can be sent."""
    text = chance.choice(STRANGE) if chance.random() < 0.7 else _any_text(chance)
    shape = chance.choice(("text", "html"))
    how = chance.randrange(4)
    if how == 0:
        form = f"q={quote_plus(text)}&source=ko&target=en&format={shape}"
        return Sent("strange form", http(form.encode(), "application/x-www-form-urlencoded"), True)
    if how == 1 and len(text) < 2000:
        query = f"/translate?q={quote_plus(text)}&source=auto&target=en"
        return Sent("strange query", http(b"", path=query), True)
    if how == 2:
        return Sent("strange list", http(fields([text, "", text], format=shape, alternatives=1)), True)
    return Sent("strange JSON", http(fields(text, format=shape)), True)


def _any_text(chance: random.Random) -> str:
    codes = (chance.choice((0x80, 0x800, 0x10000, 0x110000)) for _ in range(chance.randrange(60)))
    letters = (chr(chance.randrange(code)) for code in codes)
    return "".join(letter for letter in letters if not "\ud800" <= letter <= "\udfff")


def broken(chance: random.Random) -> Sent:
    """JSON that is none: a byte too many, too few or another, so deep that nobody reads it, not UTF-8."""
    data = bytearray(fields(chance.choice(STRANGE)))
    how = chance.randrange(5)
    if how == 0:
        return Sent("cut JSON", http(bytes(data[: chance.randrange(1, len(data))])), False)
    if how == 1:
        return Sent("deep JSON", http(b'{"q":' + b"[" * chance.randrange(2000, 40_000)), False)
    if how == 2:
        return Sent("bad UTF-8", http(fields("a").replace(b"a", b"\xff\xc0", 1)), False)
    if how == 3:
        return Sent("half a surrogate", http(fields("\ud800 a")), False)
    data[chance.randrange(len(data))] = chance.randrange(256)
    return Sent("changed JSON", http(bytes(data)), None)


def wrong(chance: random.Random) -> Sent:
    """JSON that asks for nothing that there is."""
    value: object = chance.choice((None, 1, 1.5, True, {}, [[]], [1], {"q": "a"}, 10**400, ["a", None]))
    bodies = (
        fields(value),
        fields("a", target=chance.choice(("", "xx", "../en", 7, None, [], "en\r\nx: y", "e" * 9000))),
        fields("a", source=chance.choice((7, {}, "en\0", "de-DE-de"))),
        fields(
            "a", format=chance.choice((1, "xml", [])), alternatives=chance.choice((-1, 99, 1.5, "x", 10**30))
        ),
        fields("a", alternatives=10**30),
        b"[1]",
        b'"a"',
    )
    return Sent("wrong fields", http(chance.choice(bodies)), False)


def huge(chance: random.Random) -> Sent:
    """More bytes, characters or texts than are taken, with and without their length."""
    size = chance.randrange(MOST_BODY + 1, 4 * MOST_BODY)
    how = chance.randrange(4)
    if how == 0:
        chunk = b"%x\r\n" % size + b"a" * size + b"\r\n0\r\n\r\n"
        head = b"POST /translate HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        return Sent("huge chunk", head + chunk, False)
    if how == 1:
        return Sent("many texts", http(fields([""] * 12_000)), False)
    if how == 2:
        return Sent(
            "many fields", http(b"&".join([b"q=a"] * 12_000), "application/x-www-form-urlencoded"), False
        )
    return Sent("huge body", http(fields("a" * size)), False)


def odd(chance: random.Random) -> Sent:
    """Return bytes that are hardly HTTP, or forms that are invalid."""
    noise = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 300)))
    body = fields("a")
    return chance.choice(
        (
            Sent("noise", noise + b"\r\n\r\n", False),
            Sent("another method", http(body, method=chance.choice(("PUT", "DELETE", "BREW", "GET"))), False),
            Sent("another path", http(body, path="/" + quote_plus(noise[:50])), False),
            Sent("two lengths", http(body).replace(b"host", b"content-length: 3\r\nhost"), False),
            Sent("a negative length", http(body).replace(b"length: ", b"length: -"), False),
            Sent(
                "a long head",
                http(body).replace(b"host", b"x: " + b"a" * 60_000 + b"\r\ny: " + b"b" * 9000),
                False,
            ),
            Sent("a broken form", http(noise, "multipart/form-data; boundary=x"), False),
            Sent("a form without a boundary", http(noise, "multipart/form-data"), False),
            Sent("a form of another charset", http(b"q=\xff", "application/x-www-form-urlencoded"), False),
            Sent("a websocket that is none", http(b"", path="/ws", method="GET"), False),
            Sent(
                "a file that is none",
                http(
                    b'--x\r\ncontent-disposition: form-data; name="file"; filename="../a"\r\n\r\n\xff\r\n'
                    b"--x--",
                    "multipart/form-data; boundary=x",
                    "/translate_file?source=ko&target=en",
                ),
                False,
            ),
        )
    )


def slow(chance: random.Random) -> Sent:
    """A valid request of which the rest does not come."""
    data = http(fields("안녕"))
    return Sent("slow", data[: chance.randrange(len(data))], False, slow=True)


KINDS: tuple[tuple[int, Callable[[random.Random], Sent]], ...] = (
    *((40, strange), (20, broken), (12, wrong), (8, huge), (14, odd), (6, slow)),
)


def status_of(server: ServerProcess, sent: Sent) -> int:
    """Return the status of the answer; CLOSED if none came."""
    with socket.create_connection(server.address, timeout=SECONDS) as asked:
        try:
            asked.sendall(sent.data)
            if not sent.slow:
                asked.shutdown(socket.SHUT_WR) if sent.kind == "noise" else None
            found = b""
            while b"\r\n" not in found and (part := asked.recv(1 << 16)):
                found += part
        except (ConnectionResetError, BrokenPipeError):
            found = b""
        except TimeoutError:
            return HUNG
    return int(found.split()[1]) if found.startswith(b"HTTP/1.1 ") else CLOSED


def due(sent: Sent, status: int) -> bool:
    """Return whether a status is one that the request may get."""
    refused = 400 <= status < 500 or (
        status == CLOSED and (sent.slow or sent.kind in ("noise", "a long head"))
    )
    return {True: status == 200, False: refused, None: status == 200 or refused}[sent.valid]


def hostile(server: ServerProcess, n_requests: int, seed: int) -> tuple[Counter[tuple[str, int]], list[str]]:
    """Return how often each kind of request got which status, and the answers that were wrong."""
    chance = random.Random(seed)
    weights = [weight for weight, _ in KINDS]
    makers = [make for _, make in KINDS]
    requests = [make(chance) for make in chance.choices(makers, weights, k=n_requests)]
    text = {"q": ["안녕 3시", "둘"], "source": "ko", "target": "en"}
    before = server.post("translate", **text)
    counts: Counter[tuple[str, int]] = Counter()
    wrongs = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for sent, status in zip(
            requests, pool.map(lambda one: status_of(server, one), requests), strict=True
        ):
            counts[sent.kind, status] += 1
            if not due(sent, status):
                wrongs.append(f"{sent.kind}: {status} for {sent.data[:300]!r}")
    if server.post("translate", **text) != before:
        wrongs.append("a text is translated otherwise than before")
    if "requests_in_flight 0" not in server.get("metrics"):
        wrongs.append("requests are in flight that nobody waits for")
    wrongs += [line for line in server.log_lines() if "Traceback" in line or '"error"' in line]
    return counts, wrongs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server(Path(folder), "-m", f"ko-en={options.run}", *LIMITS) as server,
    ):
        before = server.resident_bytes()
        counts, wrongs = hostile(server, options.requests, options.seed)
        after = server.resident_bytes()
        if server.terminate():
            wrongs.append("the server has not ended well")
    for (kind, status), n in sorted(counts.items()):
        print(f"{n:6d}  {status or 'closed':>6}  {kind}")
    print(f"memory: {before / 1e6:.0f} MB before, {after / 1e6:.0f} MB after {options.requests:,} requests")
    for line in wrongs:
        print(f"wrong: {line}")
    sys.exit(bool(wrongs))


if __name__ == "__main__":
    main()
