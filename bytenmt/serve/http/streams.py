"""Translations that are sent while they are decoded, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from bytenmt.serve.service import Admission, Service, TranslateParams, TranslateResponse

Part = tuple[int, str]


async def stream_parts(
    service: Service, texts: Sequence[str], params: TranslateParams, admission: Admission
) -> AsyncIterator[Part | list[TranslateResponse]]:
    """Yield the parts of translations as they are decoded, with the number of their text; at last the list of
    all translations.

    admission: is released as soon as everything is computed, however slowly the parts are taken.
    """
    queue: asyncio.Queue[Part | None] = asyncio.Queue()
    task = asyncio.ensure_future(
        service.translate(texts, params, lambda number, part: queue.put_nowait((number, part)))
    )
    task.add_done_callback(lambda _: admission.release())
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (part := await queue.get()) is not None:
            yield part
        yield task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


def format_event(name: str, value: Any) -> bytes:
    """Return a server-sent event; its JSON has no line ends."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(value))


def format_answer(translation: TranslateResponse, params: TranslateParams) -> dict[str, Any]:
    """Return the answer for one text, with the fields of LibreTranslate."""
    record: dict[str, Any] = {"translatedText": translation.text}
    if translation.guess is not None:
        record["detectedLanguage"] = translation.guess._asdict()
    if params.alternatives:
        record["alternatives"] = translation.alternatives
    return record


def format_answers(translations: Sequence[TranslateResponse], params: TranslateParams) -> dict[str, Any]:
    """Return the answer for a list of texts: every field is a list."""
    each = [format_answer(one, params) for one in translations]
    names = [
        "translatedText",
        *(name for name in ("detectedLanguage", "alternatives") if each and name in each[0]),
    ]
    return {name: [one[name] for one in each] for name in names}
