"""Parse requests within limits: JSON, forms, multipart bodies and query strings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import HTTPConnection, Request

from bytenmt.decoding.constraints.glossary import Term, parse_term
from bytenmt.decoding.setting_table import KEPT
from bytenmt.errors import DataError
from bytenmt.serve.limits import ApiKeys, Client, Limits, Refusal, client_address
from bytenmt.serve.service import TranslateParams

MAX_FIELDS = 10_000
MAX_TERMS, MAX_TERM_CHARACTERS = 200, 300  # of a glossary; characters of a term and its targets
DISCARD_FACTOR = 16  # times the limit of a body: read and dropped, so that the client gets the answer
TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True)
class ParsedRequest:
    """The fields of a request and its file.

    fields: by name, those of the query string replaced by those of the body. file: name and bytes of an
    upload, None without one.
    """

    fields: Mapping[str, Any]
    file: tuple[str, bytes] | None = None

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field that is one text. Raises Refusal (400)."""
        value = self.fields.get(name)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None and default is not None:
            return default
        if value is None:
            raise Refusal(400, f"Invalid request: missing {name} parameter")
        return _text(value, name)

    def texts(self, name: str = "q") -> tuple[list[str], bool]:
        """Return a field as a list of texts, and whether it was a list. Raises Refusal (400)."""
        value = self.fields.get(name)
        if isinstance(value, list):
            return [_text(one, name) for one in value], True
        return [self.text(name)], False

    def number(self, name: str, most: int) -> int:
        """Return a field that is a whole number from 0 to most; 0 if it is missing. Raises Refusal (400)."""
        value = self.fields.get(name)
        value = 0 if value is None or value == "" else value
        if isinstance(value, str) and value.isdecimal() and len(value) < 10:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise Refusal(400, f"Invalid request: {name} must be a whole number from 0 to {most}")
        return value

    def flag(self, name: str) -> bool:
        """Return a field that is true or false; false if it is missing."""
        value = self.fields.get(name)
        return value is True or (isinstance(value, str) and value.lower() in TRUE)

    def client(self, connection: HTTPConnection, keys: ApiKeys) -> Client:
        """Return who sent a request. Raises Refusal (403) without a required key."""
        return Client(address_of(connection), keys.check(self.key(connection.headers)))

    def key(self, headers: Headers) -> str | None:
        """Return the API key: of the field api_key or apiKey, or a bearer token."""
        for name in ("api_key", "apiKey"):
            value = self.fields.get(name)
            if isinstance(value, str) and value:
                return value
        scheme, _, value = headers.get("authorization", "").partition(" ")
        return value.strip() if scheme.lower() == "bearer" else None

    def translate_params(self, limits: Limits) -> TranslateParams:
        """Return the parameters of a translation. Raises Refusal (400)."""
        shape = self.text("format", "text").lower()
        if shape not in ("text", "html"):
            raise Refusal(400, "Invalid request: format must be text or html")
        alternatives = self.number("alternatives", limits.alternatives)
        return TranslateParams(
            self.text("source", "auto"),
            self.text("target"),
            shape == "html",
            alternatives,
            self.keep(),
            self.terms(),
            details=self.flag("details"),
        )

    def keep(self) -> tuple[str, ...] | None:
        """Return the classes of spans to keep, from a text with commas or a list of texts; None if the
        request has none. Raises Refusal (400)."""
        value = self.fields.get("keep")
        if value is None:
            return None
        given = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
        names = tuple(sorted({name.strip() if isinstance(name, str) else "" for name in given} - {""}))
        if not set(names) <= set(KEPT) or (given and not names and value != ""):
            raise Refusal(400, f"Invalid request: keep must contain only {', '.join(KEPT)}")
        return names

    def terms(self) -> tuple[Term, ...]:
        """Return the glossary, from a JSON object or lines `term TAB target`. Raises Refusal (400)."""
        value = self.fields.get("glossary")
        value = {} if value is None else value
        if isinstance(value, dict):
            lines = [_glossary_line(term, target) for term, target in value.items()]
        elif isinstance(value, str):
            lines = [line for line in value.splitlines() if line.strip()]
        else:
            raise Refusal(400, "Invalid request: glossary must give a target for each term")
        if len(lines) > MAX_TERMS or any(len(line) > MAX_TERM_CHARACTERS for line in lines):
            raise Refusal(
                400, f"a glossary has at most {MAX_TERMS} terms of {MAX_TERM_CHARACTERS} characters"
            )
        try:
            return tuple(parse_term(line.encode(), Path("glossary"), n) for n, line in enumerate(lines, 1))
        except DataError as error:
            raise Refusal(400, f"Invalid request: {error}") from None


async def parse_request(request: Request, limits: Limits) -> ParsedRequest:
    """Read and parse a request. Raises Refusal: 400 if it is malformed, 408 if it does not arrive in time,
    413 if it is too long, 415 if it is compressed."""
    body = await _body(request, limits)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise Refusal(415, f"Content-Encoding {encoding[:50]} is not supported: send the body as it is")
    fields: dict[str, Any] = dict(_pairs(request.url.query))
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        more, file = await _parts(request.headers, body, limits)
        return ParsedRequest({**fields, **more}, file)
    if kind == "application/json" or kind.endswith("+json") or body.lstrip()[:1] == b"{":
        return ParsedRequest({**fields, **parse_json(body)}) if body.strip() else ParsedRequest(fields)
    return ParsedRequest({**fields, **_pairs(decode_utf8(body, "the body"))})


def decode_utf8(data: bytes, name: str) -> str:
    """Decode a text. name: for the message. Raises Refusal (400)."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Refusal(400, f"Invalid request: {name} is not UTF-8") from None


def parse_json(body: bytes | str) -> dict[str, Any]:
    """Decode a JSON object. Raises Refusal (400)."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        raise Refusal(400, f"Invalid JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise Refusal(400, "Invalid JSON: expected an object")
    return found


async def _body(request: Request, limits: Limits) -> bytes:
    """Return the body of a request. Raises Refusal (408, 413).

    A body that is too long is read on for a while, for a client that writes before it reads.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.patience):
            async for part in request.stream():
                size += len(part)
                if size <= limits.body:
                    parts.append(part)
                elif size > DISCARD_FACTOR * limits.body:
                    break
    except TimeoutError:
        if size <= limits.body:
            raise Refusal(408, f"the request did not arrive within {limits.patience:g} s") from None
    if size > limits.body:
        raise Refusal(413, f"the request is too long: at most {limits.body:,} bytes")
    return b"".join(parts)


def address_of(connection: HTTPConnection) -> str:
    """Return the address under which the client of a connection is counted, see `client_address`."""
    return client_address(connection.client.host) if connection.client else "unknown"


async def discard_body(request: Request, limits: Limits) -> None:
    """Read a request's body without keeping it, so that a client that writes before it reads gets to read why
    it is refused."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(limits.patience):
            async for part in request.stream():
                size += len(part)
                if size > DISCARD_FACTOR * limits.body:
                    return


async def _parts(
    headers: Headers, body: bytes, limits: Limits
) -> tuple[dict[str, Any], tuple[str, bytes] | None]:
    """Return the fields and the file of a multipart body. Raises Refusal (400)."""

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        parser = MultiPartParser(
            headers, stream(), max_files=1, max_fields=MAX_FIELDS, max_part_size=limits.body
        )
        parser.spool_max_size = limits.body + 1  # it is in memory already: no file on disk
        form = await parser.parse()
    except (MultiPartException, ValueError, LookupError, KeyError, AttributeError) as error:
        # The parser takes charsets and boundaries as they come and fails in its own ways.
        raise Refusal(400, f"Invalid form: {str(error)[:100]}") from None
    file: tuple[str, bytes] | None = None
    pairs = []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            file = value.filename or "", await value.read()
        else:
            pairs.append((name, value))
    await form.close()
    return _collect(pairs), file


def _pairs(text: str) -> dict[str, Any]:
    """Parse name=value&… into a dictionary. Raises Refusal (400)."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "Invalid request: a field is not UTF-8") from None
    except ValueError:
        raise Refusal(400, f"Invalid request: more than {MAX_FIELDS:,} fields") from None
    return _collect(pairs)


def _collect(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Collect pairs by name; a name that occurs more than once has a list of values."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found


def _glossary_line(term: str, target: Any) -> str:
    """Return an entry of a JSON glossary as a line of a table.

    Raises Refusal (400) where it is no text, or has what ends a line or column of a table.
    """
    line = f"{term}\t{_text(target, 'a target of the glossary')}"
    if len(f"{line}.".splitlines()) != 1 or line.count("\t") != 1:  # the dot: a break at the end counts too
        raise Refusal(
            400, f"Invalid request: glossary has a line break or tab in {term[:100]!r} or its target"
        )
    return line


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise Refusal(
            400, f"Invalid request: {name} must be a string{' or a list of strings' if name == 'q' else ''}"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refusal(400, f"Invalid request: {name} contains an unpaired surrogate") from None
    return value
