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
        "description": "The text, or a list of texts.",
        "oneOf": [STRING, {"type": "array", "items": STRING}],
    },
    "s": {**STRING, "description": "The translation of q."},
    "source": {**STRING, "default": "auto", "description": "A language code of /languages, or auto."},
    "target": {**STRING, "description": "A language code of /languages."},
    "format": {**STRING, "enum": ["text", "html"], "default": "text"},
    "alternatives": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "How many further translations of each text; /frontend/settings has the maximum.",
    },
    "keep": {
        "description": "Spans that a translation has exactly as its source; an empty text for none. The"
        " default is the server's, and for HTML and files all but numbers.",
        "oneOf": [
            {**STRING, "description": "Names, separated by commas."},
            {"type": "array", "items": {**STRING, "enum": list(KEPT)}},
        ],
    },
    "glossary": {
        "description": "A target for each term of the source: an object, or lines `term TAB target`.",
        "oneOf": [{"type": "object", "additionalProperties": STRING}, STRING],
    },
    "details": {
        "type": "boolean",
        "default": False,
        "description": "Whether to return every line with its verdict (sure, check or wrong), the reasons in"
        " words and as flags, and its bits per byte.",
    },
    "api_key": {
        **STRING,
        "description": "Where the server asks for one; also taken from Authorization: Bearer.",
    },
    "file": {**STRING, "format": "binary", "description": "Its suffix tells its format."},
    "column": {
        **STRING,
        "description": "Of a CSV or TSV file, the name or number of the column to translate.",
    },
    "into": {**STRING, "description": "The column that takes the translations; by default, the same one."},
}
GUESS: Schema = {
    "type": "object",
    "properties": {"language": STRING, "confidence": {**NUMBER, "description": "Of 100."}},
}
ERROR: Schema = {"type": "object", "properties": {"error": STRING}, "required": ["error"]}
REFUSALS = {
    "400": "The request is not valid.",
    "403": "The API key is missing or wrong, or a page of another site asks.",
    "408": "The request did not arrive in time.",
    "413": "The request is too long, or a document takes too much time or memory to read.",
    "421": "The Host header is not a name of this server.",
    "429": "Too many requests are waiting, of all clients or of this one; Retry-After has the seconds"
    " to wait.",
    "500": "The server has a fault.",
    "503": "A deadline has passed.",
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
    """An operation whose fields may come as JSON, as a form, or in the query string; with a file, as a form
    in several parts."""
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


def description() -> dict[str, Any]:
    """Return the OpenAPI 3 description of all routes."""
    translation = _answer("The translation.", TRANSLATED)
    translation["content"]["text/event-stream"] = {
        "schema": {
            **STRING,
            "description": "With Accept: text/event-stream: events `part` with the index of a text and the"
            " next part of its translation, then `done` with the whole answer, or `error`.",
        }
    }
    options = ("format", "alternatives", "keep", "glossary", "details")
    posted = {
        "/translate": _post("Translate texts", ("q", *LANGUAGES, *options), ("q", "target"), translation),
        "/translate_file": _post(
            "Translate a file",
            ("file", *LANGUAGES, "keep", "glossary", "column", "into"),
            ("file", "target"),
            _answer(
                "Where to fetch the translated file, for ten minutes.",
                {"type": "object", "properties": {"translatedFileUrl": {**STRING, "format": "uri"}}},
            ),
        ),
        "/detect": _post(
            "Tell the language of a text",
            ("q",),
            ("q",),
            _answer("Languages, the likeliest first.", {"type": "array", "items": GUESS}),
        ),
        "/suggest": _post(
            "Send a better translation",
            ("q", "s", *LANGUAGES),
            ("q", "s", "target"),
            _answer("It is kept.", {"type": "object", "properties": {"success": {"type": "boolean"}}}),
        ),
        "/explain": _post(
            "Align a line with its translation",
            ("q", "s", *LANGUAGES),
            ("q", "s", *LANGUAGES),
            _answer(
                "For each character of the translation: how surprising it was, in bits, and the range of"
                " source characters that it is aligned with, null without attention.",
                {
                    "type": "object",
                    "properties": {
                        "bits": {"type": "array", "items": NUMBER},
                        "alignment": {
                            "type": "array",
                            "nullable": True,
                            "items": {"type": "array", "items": NUMBER},
                        },
                    },
                },
            ),
        ),
    }
    language = {
        "type": "object",
        "properties": {
            "code": STRING,
            "name": STRING,
            "targets": {"type": "array", "items": STRING},
            "direct": {"type": "array", "items": STRING},
        },
    }
    read = {
        "/": _get("The page", _answer("HTML.", STRING, "text/html")),
        "/docs": _get("This description as a page", _answer("HTML.", STRING, "text/html")),
        "/spec": _get("This description", _answer("OpenAPI 3.", None)),
        "/languages": _get("List the languages", _answer("All.", {"type": "array", "items": language})),
        "/frontend/settings": _get("What the page needs to know", _answer("Limits and features.", None)),
        "/health": _get("Tell whether the server runs", _answer("It does.", None)),
        "/ready": _get(
            "Tell whether requests should be sent here; 503 where the queue is full, a model is not loaded or"
            " the server is about to end",
            _answer("They should.", None),
        ),
        "/metrics": _get(
            "Figures for Prometheus, with a key where keys are required",
            _answer("Text format 0.0.4.", STRING, "text/plain"),
        ),
        "/download_file/{token}/{name}": _get(
            "Fetch a translated file",
            _answer("Its bytes.", {**STRING, "format": "binary"}, "application/octet-stream"),
            parameters=_path_parameters("token", "name"),
        ),
    }
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "bytenmt",
            "version": __version__,
            "description": "Translation, compatible with LibreTranslate's API. Fields of a POST are also"
            " taken from the query string. Websockets at /ws translate texts as they are sent.",
        },
        "paths": {path: {"post": one} for path, one in posted.items()}
        | {path: {"get": one} for path, one in read.items()},
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
                    told = field.get("description") or " or ".join(field.get("enum", ()))
                    parts.append(f"<dt><code>{name}</code>{needed}</dt><dd>{html.escape(told)}</dd>")
                parts.append("</dl>")
            answers = (f"{status}: {answer['description']}" for status, answer in one["responses"].items())
            parts.append(f"<ul>{''.join(f'<li>{html.escape(answer)}</li>' for answer in answers)}</ul>")
    return "".join([*parts, "</body></html>"])
