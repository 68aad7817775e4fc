"""Mutate HTTP requests and websocket messages for the fuzzer, and answer them with a server's application.

The ASGI application is called in this process, as an HTTP server would call it, with models of random
weights.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.types import ASGIApp, Message

from bytenmt.decoding.constraints.glossary import Glossary
from bytenmt.decoding.loading import Runtime
from bytenmt.decoding.setting_table import KEPT
from bytenmt.decoding.translator import Translator
from bytenmt.documents.formats import FORMATS
from bytenmt.language_profile import LanguageProfile
from bytenmt.reporter import Reporter
from bytenmt.serve.detect import Detector
from bytenmt.serve.explain import Explainer
from bytenmt.serve.http.app import Server
from bytenmt.serve.http.logs import ServerLog
from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import Limits
from bytenmt.serve.service import Service
from bytenmt.serve.suggestions import Suggestions
from bytenmt.serve.worker import EngineKey, Worker
from tools.verify.fuzz_documents import mutate_document
from tools.verify.fuzz_tensors import hostile_value, mutate_bytes
from tools.verify.growth import PIECES

REFUSED = (400, 403, 404, 405, 408, 413, 421, 429)
ABANDONED = 499  # the client disconnected before the answer
LIMITS = Limits(
    body=200_000, characters=2_000, document_seconds=5, document_memory=500_000_000, compute_seconds=60.0
)
POSTED = ("/translate", "/translate", "/translate", "/detect", "/suggest", "/explain")
READ = ("/", "/languages", "/health", "/ready", "/metrics", "/frontend/settings", "/spec", "/docs")
HEADERS = [
    *[("accept", value) for value in ("text/event-stream", "text/html", "\xff")],
    *[
        ("content-type", value)
        for value in ("application/json", "text/plain", "multipart/form-data", "a/b+json")
    ],
    *[("authorization", value) for value in ("Bearer x", "Bearer", "Basic \xff")],
    *[("host", value) for value in ("localhost", "evil.example", "[", "[::1]:x", "")],
    *[("origin", value) for value in ("null", "http://evil.example", "http://localhost", "[")],
    *[("content-length", value) for value in ("0", "-1", "9" * 30, "x", "12")],
]
TEXTS = [
    *(
        "hello",
        "",
        " ",
        "a\nb\r\n\r\nc",
        "x" * 1500,
        "\u202e",
        "\0",
        "https://x.org",
        "{name} <b>a</b> 5",
        "{" * 40,
    ),
    *("\ud800", "é" * 700, "a@b.cd and %s", "\r", "&lt;", "<p>one <b>two</b></p><pre>", "<!--"),
]


class HTTPRequest(NamedTuple):
    """A request, or the messages of a websocket.

    path: without a query. messages: of a websocket, None for a request. leaves: whether the client
    disconnects before the answer.
    """

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    messages: list[str | bytes] | None = None
    leaves: bool = False


def mutate_request(chance: random.Random) -> HTTPRequest:
    """Return a request in which some field, header or byte is hostile."""
    fields: dict[str, Any] = {"q": chance.choice(TEXTS), "source": "en", "target": "de"}
    path = chance.choice(POSTED)
    if path in ("/suggest", "/explain"):
        fields["s"] = chance.choice(TEXTS)
    for _ in range(chance.choice([0, 0, 1, 1, 2])):
        name = chance.choice([*fields, *OPTIONAL])
        fields[name] = _value(name, chance)
    kind = chance.random()
    if kind < 0.1:
        return _websocket(fields, chance)
    headers: dict[str, str] = {"host": "localhost"}
    method, query, body = "POST", b"", b""
    if kind < 0.15:
        method, path = chance.choice(["GET", "HEAD", "OPTIONS", "DELETE"]), chance.choice([*READ, *POSTED])
    elif kind < 0.3:
        path = "/translate_file"
        body, headers["content-type"] = _form(fields, _file(chance), chance)
    elif kind < 0.4:
        body, headers["content-type"] = _form(fields, None, chance)
    elif kind < 0.5:
        headers["content-type"] = "application/x-www-form-urlencoded"
        body = _urlencoded(fields)
    elif kind < 0.55:
        query = _urlencoded(fields)
    else:
        headers["content-type"] = "application/json"
        body = json.dumps(fields).encode("utf-8", "surrogatepass")
    if body and chance.random() < 0.4:
        body = mutate_bytes(body, chance)
    if body and chance.random() < 0.1:
        at = chance.randint(0, len(body))
        body = body[:at] + chance.choice([*PIECES, "[", '{"a":', "--"]).encode() * 20_000 + body[at:]
    if chance.random() < 0.2:
        name, value = chance.choice(HEADERS)
        headers[name] = value
    if chance.random() < 0.03:
        path = chance.choice(["/\0", "/download_file/a/b", "/" + "x" * 5000, "//", "/translate/", "/ws"])
    headers.setdefault("content-length", str(len(body)))
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    return HTTPRequest(method, path, query, raw, body[: 2 * LIMITS.body], leaves=chance.random() < 0.03)


def _value(name: str, chance: random.Random) -> Any:
    """Return a value of a field: a known one or a hostile one."""
    known = OPTIONAL.get(name, TEXTS)
    value = chance.choice(known) if chance.random() < 0.6 else hostile_value(chance)
    return [value] * chance.choice([0, 1, 3, 300]) if name == "q" and chance.random() < 0.2 else value


OPTIONAL: dict[str, list[Any]] = {
    "source": ["auto", "de", "EN", "en-US", "xx", ""],
    "target": ["de", "en", "de-AT", "xx", ""],
    "format": ["html", "text", "HTML", "x"],
    "alternatives": [0, 1, 7, "3", 8, -1],
    "keep": [",".join(KEPT), [*KEPT], "tags", "", [], "x", "tags,,"],
    "glossary": [{"dog": "Hund"}, "dog\tHund", "dog\t!Katze|Hund", {"a": "b" * 400}, {"a\n": "b"}, "\t", {}],
    "details": [True, "1", "x"],
    "api_key": ["x"],
    "column": ["1", "text", "0"],
    "into": ["2", "1"],
    "wait": [1, "16", 10_001, -1],
    "state": ["typing", "paused", "finished", "x"],
    "id": ["a", 5, None, "x" * 65, 2**64],
}


def _websocket(fields: dict[str, Any], chance: random.Random) -> HTTPRequest:
    """Return the handshake and the messages of a websocket."""
    texts: list[str | bytes] = [json.dumps(fields), chance.choice(TEXTS[:8]), "{", "[]", b"\xff", "null", ""]
    messages = [chance.choice(texts[:1] + texts) for _ in range(chance.choice([0, 1, 2, 20]))]
    query = chance.choice([b"", b"source=en&target=de", b"source=%ff", b"id=x&q=y"])
    path = chance.choice(["/ws", "/translate", "/simultaneous"])
    return HTTPRequest("GET", path, query, [(b"host", b"localhost")], b"", messages, chance.random() < 0.2)


def _urlencoded(fields: dict[str, Any]) -> bytes:
    """Return fields as application/x-www-form-urlencoded."""
    return urlencode({name: _plain(value) for name, value in fields.items()}, doseq=True).encode()


def _plain(value: Any) -> Any:
    return (
        [_plain(one) for one in value] if isinstance(value, list) else str(value).encode("utf-8", "replace")
    )


def _file(chance: random.Random) -> tuple[str, bytes]:
    """Return name and bytes of a mutated document to upload."""
    sample = mutate_document(chance)
    suffix = chance.choice(FORMATS[sample.name].suffixes)
    names = [f"a{suffix}"] * 8 + ["a", "../../a.txt", f"a.b{suffix.upper()}", 'a".html', "\u202e.po", ""]
    return chance.choice(names), sample.data


def _form(fields: dict[str, Any], file: tuple[str, bytes] | None, chance: random.Random) -> tuple[bytes, str]:
    """Return a body of multipart/form-data, and its content type."""
    boundary = chance.choice(["xyz", "-", "a b", "x" * 200])
    lines = list[bytes]()
    for name, value in fields.items():
        lines += [f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n'.encode()]
        lines += [str(value).encode("utf-8", "surrogatepass"), b"\r\n"]
    if file is not None:
        disposition = f'content-disposition: form-data; name="file"; filename="{file[0]}"'
        lines += [f"--{boundary}\r\n{disposition}\r\n\r\n".encode("utf-8", "replace"), file[1], b"\r\n"]
    lines.append(f"--{boundary}--\r\n".encode())
    return b"".join(lines), f"multipart/form-data; boundary={boundary}"


class _Failures(Reporter):
    """Collects the lines of the server's log that report a failure."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        if "request" not in line.split()[:2]:
            self.lines.append(line)


class FuzzedServer:
    """An application of two models, created in the process that first calls `answer`.

    runtime: a loaded run, which translates in both directions. folder: for suggestions.
    """

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self._runtime, self._folder = runtime, folder
        self._app: ASGIApp | None = None
        self._failures = _Failures()
        self._runner = asyncio.Runner()

    def answer(self, request: HTTPRequest) -> tuple[str, str]:
        """Send a request and return kind and message of the outcome."""
        if self._app is None:
            self._app = self._make_app()
        self._failures.lines.clear()
        send = _send_messages if request.messages is not None else _send_request
        status, body = self._runner.run(send(self._app, request))
        if self._failures.lines:
            return "traceback", self._failures.lines[0]
        if status in REFUSED:
            return "refused", f"{status} {_error(body)}"
        return ("output", "") if status in (200, 307, ABANDONED) else ("status", f"{status}: {body[:200]!r}")

    def _make_app(self) -> ASGIApp:
        directions = [Direction("en", "de"), Direction("de", "en")]
        workers = {direction: Worker(self._translator) for direction in directions}
        texts = {"en": b"the cat sat on the mat and the dog ", "de": b"der Hund und die Katze auf dem Dach "}
        profiles = {code: LanguageProfile.from_lines([text * 20]) for code, text in texts.items()}
        known = {code: profile for code, profile in profiles.items() if profile is not None}
        service = Service(workers, Detector(["en", "de"], known), LIMITS)
        runtimes = dict.fromkeys(directions, self._runtime)
        suggestions = Suggestions(self._folder / "suggestions")
        return Server(
            service, ServerLog(self._failures), suggestions=suggestions, explain=Explainer(runtimes)
        ).app()

    def _translator(self, kind: EngineKey) -> Translator:
        more: dict[str, Any] = {"beam": kind.n_best, "n_best": kind.n_best}
        if kind.keep is not None:
            more |= {"keep": kind.keep, "glossary": Glossary.from_terms(())}
        return Translator.from_runtime(self._runtime, max_len_a=1.0, max_len_b=6, **more)


def _error(body: bytes) -> str:
    """Return the error of an answer, or the start of the answer where it is not such JSON."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return repr(body[:100])


async def _send_request(app: ASGIApp, request: HTTPRequest) -> tuple[int, bytes]:
    """Return status and body of the answer; ABANDONED where the client disconnected before it."""
    body, half = request.body, len(request.body) // 2
    incoming: list[Message] = [
        {"type": "http.request", "body": body[:half], "more_body": True},
        {"type": "http.request", "body": body[half:], "more_body": False},
    ]
    status, parts = ABANDONED, list[bytes]()

    async def receive() -> Message:
        if incoming:
            return incoming.pop(0)
        if not request.leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    await app({**_scope(request), "type": "http", "method": request.method}, receive, send)
    return status, b"".join(parts)


async def _send_messages(app: ASGIApp, request: HTTPRequest) -> tuple[int, bytes]:
    """Send the messages of a websocket; disconnect when each is answered, or at once."""
    messages = list(request.messages or ())
    answered, n_answers = asyncio.Event(), 0
    incoming: list[Message] = [{"type": "websocket.connect"}]
    for one in messages:
        key = "bytes" if isinstance(one, bytes) else "text"
        incoming.append({"type": "websocket.receive", key: one})

    async def receive() -> Message:
        if incoming:
            return incoming.pop(0)
        if messages and not request.leaves:
            await answered.wait()
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(message: Message) -> None:
        nonlocal n_answers
        text = message.get("text", "")
        is_part = text.startswith("{") and '"part"' in text and '"done"' not in text
        n_answers += message["type"] == "websocket.send" and not is_part
        if n_answers >= len(messages) or message["type"] in (
            "websocket.close",
            "websocket.http.response.body",
        ):
            answered.set()

    await app({**_scope(request), "type": "websocket", "subprotocols": []}, receive, send)
    return 200, b""


def _scope(request: HTTPRequest) -> dict[str, Any]:
    """Return the ASGI scope entries that requests and websockets have in common."""
    return {
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode("utf-8", "replace"),
        "query_string": request.query,
        "root_path": "",
        "headers": request.headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 5000),
        "state": {},
    }
