"""The server's HTTP interface as an OpenAPI 3 description, and as a page for people."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from bytenmt import __version__
from bytenmt.decoding.setting_table import KEPT

Schema = dict[str, Any]
STRING: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
FIELDS: dict[str, Schema] = {
    "q": {
        "description": "Text to translate, or a list of texts.",
        "oneOf": [STRING, {"type": "array", "items": STRING}],
    },
    "s": {**STRING, "description": "Translation of q."},
    "source": {
        **STRING,
        "default": "auto",
        "description": "Source language: a code of /languages, or auto to detect it.",
    },
    "target": {**STRING, "description": "Target language: a code of /languages."},
    "format": {
        **STRING,
        "enum": ["text", "html"],
        "default": "text",
        "description": "Format of q: text, or html, of which only the text is translated.",
    },
    "alternatives": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "Number of alternative translations of each text; the maximum is in"
        " /frontend/settings.",
    },
    "keep": {
        "description": "Classes of spans that are copied unchanged from the source to the translation; an"
        " empty string for none. Default: the server's setting; for HTML and files all classes but numbers.",
        "oneOf": [
            {**STRING, "description": "Names of classes, separated by commas."},
            {"type": "array", "items": {**STRING, "enum": list(KEPT)}},
        ],
    },
    "glossary": {
        "description": "Required translations of source terms: an object {term: target}, or lines `term TAB"
        " target`.",
        "oneOf": [{"type": "object", "additionalProperties": STRING}, STRING],
    },
    "details": {
        "type": "boolean",
        "default": False,
        "description": "Also return each line with its verdict (sure, check or wrong), the reasons in words"
        " and as flags, and its bits per byte.",
    },
    "api_key": {
        **STRING,
        "description": "API key, if the server requires one; may be sent as `Authorization: Bearer KEY`"
        " instead.",
    },
    "file": {
        **STRING,
        "format": "binary",
        "description": "Document to translate; its format is given by the suffix of its name.",
    },
    "column": {
        **STRING,
        "description": "Column of a CSV or TSV file to translate: its name, or its number from 1.",
    },
    "into": {
        **STRING,
        "description": "Column of a CSV or TSV file for the translations; default: the same column.",
    },
}
GUESS: Schema = {
    "type": "object",
    "properties": {"language": STRING, "confidence": {**NUMBER, "description": "Confidence from 0 to 100."}},
}
ERROR: Schema = {"type": "object", "properties": {"error": STRING}, "required": ["error"]}
REFUSALS = {
    "400": "The request is not valid.",
    "403": "The API key is missing or wrong, or the request comes from a web page of another site.",
    "408": "The request did not arrive in time.",
    "413": "The request is too long, or parsing a document takes too much time or memory.",
    "415": "The request's body is compressed.",
    "421": "The Host header is not a name of this server.",
    "429": "Too many requests are waiting, of this client or of all clients; Retry-After gives the seconds to"
    " wait.",
    "500": "Internal error.",
    "503": "The request took longer than a time limit of the server, or the server is ending. Retry-After, if"
    " there is one, gives the seconds to wait.",
}
LANGUAGES = ("source", "target")
TRANSLATED: Schema = {
    "type": "object",
    "description": "Each value is a list if q was a list.",
    "properties": {
        "translatedText": {"oneOf": [STRING, {"type": "array", "items": STRING}]},
        "alternatives": {"type": "array", "items": {"oneOf": [STRING, {"type": "array", "items": STRING}]}},
        "detectedLanguage": {"oneOf": [GUESS, {"type": "array", "items": GUESS}]},
        "details": {"type": "array", "items": {}},
    },
    "required": ["translatedText"],
}


def _answer(description: str, schema: Schema | None, kind: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema or {"type": "object"}}}}


def _post(
    summary: str, fields: Sequence[str], required: Sequence[str], answer: dict[str, Any]
) -> dict[str, Any]:
    """Return a POST operation whose fields are sent as JSON, as a form or in the query string, or as
    multipart/form-data if there is a file."""
    schema: Schema = {
        "type": "object",
        "properties": {name: FIELDS[name] for name in (*fields, "api_key")},
        "required": list(required),
    }
    kinds = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"]
    return {
        "summary": summary,
        "requestBody": {"content": {kind: {"schema": schema} for kind in kinds[2 * ("file" in fields) :]}},
        "responses": {"200": answer} | {status: _answer(why, ERROR) for status, why in REFUSALS.items()},
    }


def _get(summary: str, answer: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"summary": summary, **more, "responses": {"200": answer}}


def _path_parameters(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "path", "required": True, "schema": STRING} for name in names]


def _posted() -> dict[str, dict[str, Any]]:
    """Return the operations of the routes that are posted to, by their paths."""
    translation = _answer("The translation.", TRANSLATED)
    translation["content"]["text/event-stream"] = {
        "schema": {
            **STRING,
            "description": "With Accept: text/event-stream: events `part` with the index of a text and the"
            " next part of its translation, then `done` with the whole answer, or `error`.",
        }
    }
    options = ("format", "alternatives", "keep", "glossary", "details")
    return {
        "/translate": _post("Translate texts", ("q", *LANGUAGES, *options), ("q", "target"), translation),
        "/translate_file": _post(
            "Translate a file",
            ("file", *LANGUAGES, "keep", "glossary", "column", "into"),
            ("file", "target"),
            _answer(
                "URL of the translated file, which is kept for ten minutes.",
                {"type": "object", "properties": {"translatedFileUrl": {**STRING, "format": "uri"}}},
            ),
        ),
        "/detect": _post(
            "Detect the language of a text",
            ("q",),
            ("q",),
            _answer("Possible languages, the most likely first.", {"type": "array", "items": GUESS}),
        ),
        "/suggest": _post(
            "Suggest a better translation",
            ("q", "s", *LANGUAGES),
            ("q", "s", "target"),
            _answer(
                "The suggestion is stored.",
                {"type": "object", "properties": {"success": {"type": "boolean"}}},
            ),
        ),
    }


def _read() -> dict[str, dict[str, Any]]:
    """Return the operations of the routes that are read, by their paths."""
    language = {
        "type": "object",
        "properties": {
            "code": STRING,
            "name": STRING,
            "targets": {"type": "array", "items": STRING},
            "direct": {"type": "array", "items": STRING},
        },
    }
    return {
        "/": _get("Web page for translating", _answer("HTML.", STRING, "text/html")),
        "/docs": _get("This description as a page", _answer("HTML.", STRING, "text/html")),
        "/spec": _get("This description", _answer("OpenAPI 3.", None)),
        "/languages": _get(
            "List the languages",
            _answer("All languages with their targets.", {"type": "array", "items": language}),
        ),
        "/frontend/settings": _get("Settings of the web page", _answer("Limits and features.", None)),
        "/health": _get("Liveness check", _answer("The server is running.", None)),
        "/ready": _get(
            "Readiness check; 503 if the queue is full, a model is not loaded or the server is shutting down",
            _answer("The server is ready for requests.", None),
        ),
        "/metrics": _get(
            "Metrics for Prometheus; needs an API key if the server requires keys",
            _answer("Prometheus text format 0.0.4.", STRING, "text/plain"),
        ),
        "/download_file/{token}/{name}": _get(
            "Download a translated file",
            _answer("Content of the file.", {**STRING, "format": "binary"}, "application/octet-stream"),
            parameters=_path_parameters("token", "name"),
        ),
    }


def description() -> dict[str, Any]:
    """Return the OpenAPI 3 description of all routes."""
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "bytenmt",
            "version": __version__,
            "description": "Machine translation, compatible with LibreTranslate's API. The fields of a POST"
            " request"
            " may also be sent in the query string.",
        },
        "paths": {path: {"post": one} for path, one in _posted().items()}
        | {path: {"get": one} for path, one in _read().items()},
    }


def page() -> str:
    """Return the description as HTML, without styles or scripts."""
    spec = description()
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>bytenmt: HTTP interface</title>'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        "</head><body><h1>HTTP interface</h1>",
        f"<p>{html.escape(spec['info']['description'])} As OpenAPI: <a href='spec'>/spec</a>.</p>",
    ]
    for path, operations in spec["paths"].items():
        for method, one in operations.items():
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>")
            parts.append(f"<p>{html.escape(one['summary'])}.</p>")
            if "requestBody" in one:
                kinds = one["requestBody"]["content"]
                schema = next(iter(kinds.values()))["schema"]
                parts.append(f"<p>{', '.join(kinds)}</p><dl>")
                for name, field in schema["properties"].items():
                    needed = " (required)" if name in schema["required"] else ""
                    meaning = field.get("description") or " or ".join(field.get("enum", ()))
                    parts.append(f"<dt><code>{name}</code>{needed}</dt><dd>{html.escape(meaning)}</dd>")
                parts.append("</dl>")
            answers = (f"{status}: {answer['description']}" for status, answer in one["responses"].items())
            parts.append(f"<ul>{''.join(f'<li>{html.escape(answer)}</li>' for answer in answers)}</ul>")
    return "".join([*parts, "</body></html>"])
