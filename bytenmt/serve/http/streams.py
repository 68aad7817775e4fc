"""Translations that are shown while they are decoded: as server-sent events and over a websocket.

Knows the service's parts; knows no workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from bytenmt.errors import BytenmtError
from bytenmt.serve.http.asked import Asked, parsed_json
from bytenmt.serve.limits import Keys, Refusal
from bytenmt.serve.service import Admission, Service, Translated, Wanted

PIPELINED = 16  # lines that a client may send before it reads an answer
LONGEST_ID, LARGEST_ID = 64, 1 << 53  # characters; the first number that JavaScript does not have exactly
POLICY_VIOLATION = 1008
Part = tuple[int, str]


async def parts(
    service: Service, texts: Sequence[str], wanted: Wanted, admission: Admission
) -> AsyncIterator[Part | list[Translated]]:
    """The number of a text and what its translation goes on with, again and again; then the translations. The
    request's place is released as soon as all is computed, however slowly the parts are taken."""
    queue: asyncio.Queue[Part | None] = asyncio.Queue()
    task = asyncio.ensure_future(
        service.translate(texts, wanted, lambda number, part: queue.put_nowait((number, part)))
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


def event(name: str, value: Any) -> bytes:
    """One of the events of a stream; JSON has no line ends."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(value))


class Socket:
    """A websocket: texts in; of each, parts as they are decoded and an object at the end. Texts are answered
    in their order; the query string has what holds for all of them.

    A message is a text, or an object with q and what a translation is asked for besides. The answers:
    {"id", "part"} with the object's id where it had one, then {"id", "done": true, "translatedText", …} or
    {"id", "error"}. plain: as marian-server's clients know it: lines in, their translations out.
    """

    def __init__(self, socket: WebSocket, service: Service, keys: Keys, plain: bool) -> None:
        self._socket, self._service, self._keys, self._plain = socket, service, keys, plain
        fields: dict[str, Any] = dict(socket.query_params)
        if len(service.languages.directions) == 1:
            only = service.languages.directions[0]
            fields = {"source": only.source, "target": only.target, **fields}
        self._fields = fields
        self._n_lines = 0  # that came and are not answered

    async def serve(self) -> None:
        """Until the client goes."""
        await self._socket.accept()
        inbox: asyncio.Queue[str | None] = asyncio.Queue(PIPELINED)
        reader = asyncio.ensure_future(self._read(inbox))
        answering = asyncio.ensure_future(self._answer_all(inbox))
        await asyncio.wait({reader, answering}, return_when=asyncio.FIRST_COMPLETED)
        for task in (reader, answering):
            task.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                await task
        self._service.n_lines -= self._n_lines  # those that it has left

    async def _read(self, inbox: asyncio.Queue[str | None]) -> None:
        """Its end is the client's."""
        with suppress(WebSocketDisconnect, RuntimeError):
            while True:
                message = await self._socket.receive()
                if message["type"] != "websocket.receive":
                    return
                text = message.get("text")
                if text is None:
                    text = (message.get("bytes") or b"").decode("utf-8", "replace")
                self._service.n_lines += 1
                self._n_lines += 1
                await inbox.put(text)

    async def _answer_all(self, inbox: asyncio.Queue[str | None]) -> None:
        while (message := await inbox.get()) is not None:
            known: dict[str, Any] = {}
            try:
                fields = dict(self._fields)
                if not self._plain and message.lstrip()[:1] == "{":
                    fields |= parsed_json(message)
                else:
                    fields["q"] = message
                asked = Asked(fields)
                if "id" in fields:
                    known = {"id": message_id(fields["id"])}
                await self._answer_in_time(asked, known)
            except (Refusal, BytenmtError) as error:
                await self._refused(error, known)
                if isinstance(error, Refusal) and error.status == 403:
                    await self._socket.close(POLICY_VIOLATION)
                    return
            self._service.n_lines -= 1
            self._n_lines -= 1

    async def _answer_in_time(self, asked: Asked, known: dict[str, Any]) -> None:
        """Answer a message. Raises Refusal (503) when that takes longer than a request may."""
        limits = self._service.limits
        try:
            async with asyncio.timeout(limits.request_seconds) as deadline:
                await self._answer(asked, known)
        except TimeoutError:
            if not deadline.expired():
                raise
            self._service.metrics.count("deadlines_total", what="request")
            raise Refusal(503, f"not answered within {limits.request_seconds:g} s") from None

    async def _answer(self, asked: Asked, known: dict[str, Any]) -> None:
        client = asked.client(self._socket, self._keys)
        service = self._service
        wanted = service.check(asked.wanted(service.limits))._replace(client=client)
        texts = [asked.text("q")]
        with service.admitted(service.limits.check_texts(texts), client) as admission:
            async for part in parts(service, texts, wanted, admission):
                if isinstance(part, tuple):
                    if not self._plain:
                        await self._send({**known, "part": part[1]})
                elif self._plain:
                    await self._socket.send_text(part[0].text)
                else:
                    await self._send({**known, "done": True, **answer(part[0], wanted)})

    async def _refused(self, error: Exception, known: dict[str, Any]) -> None:
        message = error.message if isinstance(error, Refusal) else str(error)
        if self._plain:
            await self._socket.send_text("")  # as many lines as came; the reason has no place
        else:
            await self._send({**known, "error": message})

    async def _send(self, value: Any) -> None:
        await self._socket.send_text(msgspec.json.encode(value).decode())


def message_id(value: object) -> str | int | None:
    """Return the id of a message as its answers repeat it. Raises Refusal (400) where it is neither a short
    text nor a whole number nor null."""
    if isinstance(value, str) and len(value) <= LONGEST_ID:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST_ID:
        return value
    if value is None:
        return None
    raise Refusal(400, f"Invalid request: id is a text of at most {LONGEST_ID} characters, or a whole number")


def answer(found: Translated, wanted: Wanted) -> dict[str, Any]:
    """One text's translation, as LibreTranslate's clients read it."""
    record: dict[str, Any] = {"translatedText": found.text}
    if found.guess is not None:
        record["detectedLanguage"] = found.guess._asdict()
    if wanted.alternatives:
        record["alternatives"] = found.alternatives
    return record


def answers(found: Sequence[Translated], wanted: Wanted) -> dict[str, Any]:
    """Those of several: each value is a list."""
    each = [answer(one, wanted) for one in found]
    names = [
        "translatedText",
        *(name for name in ("detectedLanguage", "alternatives") if each and name in each[0]),
    ]
    return {name: [one[name] for one in each] for name in names}
