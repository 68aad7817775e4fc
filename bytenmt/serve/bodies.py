"""The fields of requests and answers, how a request is read, and their description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import getdoc
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta, Struct
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from bytenmt import __version__
from bytenmt.serve.work_queue import Refusal

MAX_FIELDS = 10_000
BODY_TYPES = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
T = TypeVar("T")


class KeyBody(Struct, kw_only=True):
    """The fields that every request may have: its API key, for a server that requires one.

    The key may be sent as `Authorization: Bearer KEY` instead.
    """

    api_key: str | None = None
    apiKey: str | None = None  # noqa: N815  # as some clients write it


class PairBody(KeyBody, kw_only=True):
    """The languages of a request to translate; a document is sent beside them, as part `file`."""

    source: str = "auto"  # language code, see /languages; auto: the language is detected
    target: str  # language code


class TranslateBody(PairBody, kw_only=True):
    """A request to translate a text or a list of texts."""

    q: str | list[str]  # a text or a list of texts
    format: Literal["text", "html"] = "text"  # html: tags are kept
    # How many further translations of each plain text to return, at most 3.
    alternatives: Annotated[int, Meta(ge=0)] = 0
    verdicts: bool = False  # whether to judge each sentence: sure, check or wrong; not for html


class DetectBody(KeyBody, kw_only=True):
    """A text (q) whose language is to be detected."""

    q: str


class SuggestBody(PairBody, kw_only=True):
    """A better translation (s) of a text (q), which the server stores for training."""

    q: str
    s: str


async def read_request(
    request: Request, kind: type[T], body_bytes: int
) -> tuple[T, tuple[str, bytes] | None]:
    """Return the fields of a request as an instance of `kind`, and its file: (name, bytes) or None.

    The fields come from the query string and the body (JSON, form or multipart). kind: a class with
    these fields, such as TranslateBody. body_bytes: maximum size of a part of a multipart form.
    Raises Refusal (HTTP 400) for a malformed request or a wrong field.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    file: tuple[str, bytes] | None = None
    try:
        fields = _fields(request.url.query)
        if media_type == "multipart/form-data":
            limits = {"max_files": 1, "max_fields": MAX_FIELDS, "max_part_size": body_bytes}
            async with request.form(**limits) as form:
                texts: dict[str, list[str]] = {}
                for name, value in form.multi_items():
                    if isinstance(value, UploadFile):
                        file = value.filename or "", await value.read()
                    else:
                        texts.setdefault(name, []).append(value)
                fields |= _unpacked(texts)
        elif (body := (await request.body()).strip())[:1] == b"{" or media_type.endswith("json"):
            fields |= msgspec.json.decode(body or b"{}", type=dict[str, Any])
        else:
            fields |= _fields(body.decode())
        return msgspec.convert(fields, kind, strict=False), file
    except HTTPException as error:
        raise Refusal(400, f"Invalid form: {error.detail[:100]}") from None
    except (msgspec.MsgspecError, ValueError, LookupError, AttributeError, RecursionError) as error:
        # Besides msgspec's: what is not UTF-8, too many fields, and the multipart parser's own
        # failures.
        raise Refusal(400, f"Invalid request: {str(error)[:200]}") from None


def _fields(text: str) -> dict[str, Any]:
    return _unpacked(
        parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    )


def _unpacked(fields: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return fields with the value of those that have a single one."""
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def description(routes: Sequence[Route], kinds: Mapping[str, type[Struct]]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of the routes, as a JSON object.

    kinds: the class of the request body of each POST route, by path; all other routes are GET.
    """
    template = "#/components/schemas/{name}"
    references, schemas = msgspec.json.schema_components(kinds.values(), ref_template=template)
    of_path = dict(zip(kinds, references, strict=True))
    paths = {}
    for route in routes:
        operation: dict[str, Any] = {
            "summary": getdoc(route.endpoint),
            "responses": {"default": {"description": "JSON"}},
        }
        method = "get"
        if route.path in kinds:
            method = "post"
            operation["requestBody"] = {
                "content": dict.fromkeys(BODY_TYPES, {"schema": of_path[route.path]})
            }
        paths[route.path] = {method: operation}
    info = {"title": "bytenmt", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
