"""Send hostile requests to a server: unusual valid ones must be answered, invalid ones refused.

    python tools/verify/hostile.py RUN [--requests 1000] [--seed 0]

Starts `bytenmt serve` with the run and sends requests over sixteen connections at a time. Exits with 1 where
an answer is not 200 for a valid request or not 4xx for an invalid one, where the server's log reports a
failure, or where the translation of a fixed text has changed afterwards.
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
SECONDS = 60.0  # timeout of an answer
CLOSED, HUNG = 0, -1  # statuses of a connection that was closed without an answer, and of a timeout
# Options of the server. Short translations, because unusual texts make a model decode up to the limit.
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


class RawRequest(NamedTuple):
    """A request as bytes.

    kind: for the report; valid: whether status 200 is expected, None where either is right; slow: the request
    is cut off and the rest never sent.
    """

    kind: str
    data: bytes
    valid: bool | None
    slow: bool = False


def http_request(
    body: bytes, kind: str = "application/json", path: str = "/translate", method: str = "POST"
) -> bytes:
    """Return an HTTP request after which the server closes the connection."""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {kind}\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


def json_body(text: object, **more: object) -> bytes:
    """Return the JSON body of a translation request."""
    return json.dumps({"q": text, "source": "ko", "target": "en", **more}).encode()


def unusual_text(chance: random.Random) -> RawRequest:
    """Return a valid request with an unusual text, in any of the supported encodings."""
    text = chance.choice(STRANGE) if chance.random() < 0.7 else _any_text(chance)
    shape = chance.choice(("text", "html"))
    how = chance.randrange(4)
    if how == 0:
        form = f"q={quote_plus(text)}&source=ko&target=en&format={shape}"
        return RawRequest(
            "strange form", http_request(form.encode(), "application/x-www-form-urlencoded"), True
        )
    if how == 1 and len(text) < 2000:
        query = f"/translate?q={quote_plus(text)}&source=auto&target=en"
        return RawRequest("strange query", http_request(b"", path=query), True)
    if how == 2:
        return RawRequest(
            "strange list", http_request(json_body([text, "", text], format=shape, alternatives=1)), True
        )
    return RawRequest("strange JSON", http_request(json_body(text, format=shape)), True)


def _any_text(chance: random.Random) -> str:
    codes = (chance.choice((0x80, 0x800, 0x10000, 0x110000)) for _ in range(chance.randrange(60)))
    letters = (chr(chance.randrange(code)) for code in codes)
    return "".join(letter for letter in letters if not "\ud800" <= letter <= "\udfff")


def broken_json(chance: random.Random) -> RawRequest:
    """Return a request with broken JSON: cut, changed, nested too deeply, or not UTF-8."""
    data = bytearray(json_body(chance.choice(STRANGE)))
    how = chance.randrange(5)
    if how == 0:
        return RawRequest("cut JSON", http_request(bytes(data[: chance.randrange(1, len(data))])), False)
    if how == 1:
        return RawRequest("deep JSON", http_request(b'{"q":' + b"[" * chance.randrange(2000, 40_000)), False)
    if how == 2:
        return RawRequest("bad UTF-8", http_request(json_body("a").replace(b"a", b"\xff\xc0", 1)), False)
    if how == 3:
        return RawRequest("half a surrogate", http_request(json_body("\ud800 a")), False)
    data[chance.randrange(len(data))] = chance.randrange(256)
    return RawRequest("changed JSON", http_request(bytes(data)), None)


def wrong_fields(chance: random.Random) -> RawRequest:
    """Return a request whose JSON fields have invalid values."""
    value: object = chance.choice((None, 1, 1.5, True, {}, [[]], [1], {"q": "a"}, 10**400, ["a", None]))
    bodies = (
        json_body(value),
        json_body("a", target=chance.choice(("", "xx", "../en", 7, None, [], "en\r\nx: y", "e" * 9000))),
        json_body("a", source=chance.choice((7, {}, "en\0", "de-DE-de"))),
        json_body(
            "a", format=chance.choice((1, "xml", [])), alternatives=chance.choice((-1, 99, 1.5, "x", 10**30))
        ),
        json_body("a", alternatives=10**30),
        b"[1]",
        b'"a"',
    )
    return RawRequest("wrong fields", http_request(chance.choice(bodies)), False)


def oversized_request(chance: random.Random) -> RawRequest:
    """Return a request with too many bytes, characters or texts, with and without a content length."""
    size = chance.randrange(MOST_BODY + 1, 4 * MOST_BODY)
    how = chance.randrange(4)
    if how == 0:
        chunk = b"%x\r\n" % size + b"a" * size + b"\r\n0\r\n\r\n"
        head = b"POST /translate HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        return RawRequest("huge chunk", head + chunk, False)
    if how == 1:
        return RawRequest("many texts", http_request(json_body([""] * 12_000)), False)
    if how == 2:
        return RawRequest(
            "many fields",
            http_request(b"&".join([b"q=a"] * 12_000), "application/x-www-form-urlencoded"),
            False,
        )
    return RawRequest("huge body", http_request(json_body("a" * size)), False)


def malformed_http(chance: random.Random) -> RawRequest:
    """Return a request that is hardly HTTP, or a form that is invalid."""
    noise = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 300)))
    body = json_body("a")
    return chance.choice(
        (
            RawRequest("noise", noise + b"\r\n\r\n", False),
            RawRequest(
                "another method",
                http_request(body, method=chance.choice(("PUT", "DELETE", "BREW", "GET"))),
                False,
            ),
            RawRequest("another path", http_request(body, path="/" + quote_plus(noise[:50])), False),
            RawRequest(
                "two lengths", http_request(body).replace(b"host", b"content-length: 3\r\nhost"), False
            ),
            RawRequest("a negative length", http_request(body).replace(b"length: ", b"length: -"), False),
            RawRequest(
                "a long head",
                http_request(body).replace(b"host", b"x: " + b"a" * 60_000 + b"\r\ny: " + b"b" * 9000),
                False,
            ),
            RawRequest("a broken form", http_request(noise, "multipart/form-data; boundary=x"), False),
            RawRequest("a form without a boundary", http_request(noise, "multipart/form-data"), False),
            RawRequest(
                "a form of another charset",
                http_request(b"q=\xff", "application/x-www-form-urlencoded"),
                False,
            ),
            RawRequest("a websocket that is none", http_request(b"", path="/ws", method="GET"), False),
            RawRequest(
                "a file that is none",
                http_request(
                    b'--x\r\ncontent-disposition: form-data; name="file"; filename="../a"\r\n\r\n\xff\r\n'
                    b"--x--",
                    "multipart/form-data; boundary=x",
                    "/translate_file?source=ko&target=en",
                ),
                False,
            ),
        )
    )


def stalled_request(chance: random.Random) -> RawRequest:
    """Return a valid request of which only the beginning is sent."""
    data = http_request(json_body("안녕"))
    return RawRequest("slow", data[: chance.randrange(len(data))], False, slow=True)


KINDS: tuple[tuple[int, Callable[[random.Random], RawRequest]], ...] = (
    *(
        (40, unusual_text),
        (20, broken_json),
        (12, wrong_fields),
        (8, oversized_request),
        (14, malformed_http),
        (6, stalled_request),
    ),
)


def status_of(server: ServerProcess, sent: RawRequest) -> int:
    """Return the status of the answer; CLOSED if the connection was closed, HUNG after a timeout."""
    with socket.create_connection(server.address, timeout=SECONDS) as connection:
        try:
            connection.sendall(sent.data)
            if not sent.slow:
                connection.shutdown(socket.SHUT_WR) if sent.kind == "noise" else None
            found = b""
            while b"\r\n" not in found and (part := connection.recv(1 << 16)):
                found += part
        except (ConnectionResetError, BrokenPipeError):
            found = b""
        except TimeoutError:
            return HUNG
    return int(found.split()[1]) if found.startswith(b"HTTP/1.1 ") else CLOSED


def is_expected(sent: RawRequest, status: int) -> bool:
    """Return whether the request may get this status."""
    refused = 400 <= status < 500 or (
        status == CLOSED and (sent.slow or sent.kind in ("noise", "a long head"))
    )
    return {True: status == 200, False: refused, None: status == 200 or refused}[sent.valid]


def send_hostile_requests(
    server: ServerProcess, n_requests: int, seed: int
) -> tuple[Counter[tuple[str, int]], list[str]]:
    """Return the number of answers by request kind and status, and descriptions of wrong answers."""
    chance = random.Random(seed)
    weights = [weight for weight, _ in KINDS]
    makers = [make for _, make in KINDS]
    requests = [make(chance) for make in chance.choices(makers, weights, k=n_requests)]
    text = {"q": ["안녕 3시", "둘"], "source": "ko", "target": "en"}
    before = server.post("translate", **text)
    counts: Counter[tuple[str, int]] = Counter()
    failures = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for sent, status in zip(
            requests, pool.map(lambda one: status_of(server, one), requests), strict=True
        ):
            counts[sent.kind, status] += 1
            if not is_expected(sent, status):
                failures.append(f"{sent.kind}: {status} for {sent.data[:300]!r}")
    if server.post("translate", **text) != before:
        failures.append("a text is translated otherwise than before")
    if "requests_in_flight 0" not in server.get("metrics"):
        failures.append("requests are in flight that nobody waits for")
    failures += [line for line in server.log_lines() if "Traceback" in line or '"error"' in line]
    return counts, failures


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
        counts, failures = send_hostile_requests(server, options.requests, options.seed)
        after = server.resident_bytes()
        if server.terminate():
            failures.append("the server has not ended well")
    for (kind, status), n in sorted(counts.items()):
        print(f"{n:6d}  {status or 'closed':>6}  {kind}")
    print(f"memory: {before / 1e6:.0f} MB before, {after / 1e6:.0f} MB after {options.requests:,} requests")
    for line in failures:
        print(f"wrong: {line}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
