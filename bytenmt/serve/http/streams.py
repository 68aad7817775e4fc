"""Translations that are sent while they are decoded: as server-sent events and over a websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from bytenmt.decoding.setting_table import DEFAULT_WAIT
from bytenmt.errors import BytenmtError
from bytenmt.serve.http.request import ParsedRequest, address_of, decode_utf8, parse_json
from bytenmt.serve.limits import ApiKeys, Refusal
from bytenmt.serve.service import Admission, Service, TranslateParams, TranslateResponse
from bytenmt.serve.simultaneous import TypedLine, TypingState

PIPELINED = 16  # lines that a client may send before it reads an answer
LONGEST_ID, LARGEST_ID = 64, 1 << 53  # characters; the first number that JavaScript does not have exactly
MAX_WAIT = 10_000  # bytes, of simultaneous translation
POLICY_VIOLATION, TRY_AGAIN_LATER = 1008, 1013  # codes with which a websocket is closed
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


class WebSocketSession:
    """A websocket that translates messages in order.

    A message is a text, or a JSON object with q and other fields of POST /translate; fields of the query
    string hold for all messages. The answers to a message: {"id", "part"} while it is decoded, then {"id",
    "done": true, "translatedText", …} or {"id", "error"}, with the object's id if it has one. plain: the
    protocol of marian-server: lines in, translations out. The websocket is closed if too many are open, and
    when Limits.idle_seconds have passed without a message since the last answer.
    """

    def __init__(self, socket: WebSocket, service: Service, keys: ApiKeys, plain: bool) -> None:
        self._socket, self._service, self._keys, self._plain = socket, service, keys, plain
        fields: dict[str, Any] = dict(socket.query_params)
        if len(service.languages.directions) == 1:
            only = service.languages.directions[0]
            fields = {"source": only.source, "target": only.target, **fields}
        self._fields = fields
        self._n_lines = 0  # that came and are not answered
        self._inbox: asyncio.Queue[str | bytes] = asyncio.Queue(PIPELINED)
        self._idle_timer: asyncio.Timeout | None = None

    async def serve(self) -> None:
        """Answer messages until the client leaves."""
        self._socket.state.log_fields = {"messages": 0}
        await self._socket.accept()
        try:
            admission = self._service.admit_socket(address_of(self._socket))
        except Refusal as error:
            if not self._plain:
                await self._refused(error, {})
            await self._socket.close(TRY_AGAIN_LATER)
            return
        with admission:
            await self._serve()

    async def _serve(self) -> None:
        tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._answer_all())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                    await task
            self._count_lines(-self._n_lines)  # those that it has left

    async def _read(self) -> None:
        """Put messages into the inbox until the client leaves or is idle for too long."""
        with suppress(WebSocketDisconnect, RuntimeError):
            try:
                async with asyncio.timeout(None) as self._idle_timer:
                    self._count_lines(0)
                    await self._read_messages()
            except TimeoutError:
                await self._socket.close(reason=f"no message for {self._service.limits.idle_seconds:g} s")

    async def _read_messages(self) -> None:
        try:
            while (message := await self._socket.receive())["type"] == "websocket.receive":
                text = message.get("text")
                self._count_lines(1)
                self._socket.state.log_fields["messages"] += 1
                await self._inbox.put(message.get("bytes") or b"" if text is None else text)
        finally:
            self._idle_timer = None

    def _count_lines(self, n: int) -> None:
        """Count n more lines that are not answered. The client is idle from now on if there are none."""
        self._service.n_lines += n
        self._n_lines += n
        if self._idle_timer is not None and not self._idle_timer.expired():
            idle_until = asyncio.get_running_loop().time() + self._service.limits.idle_seconds
            self._idle_timer.reschedule(None if self._n_lines else idle_until)

    async def _answer_all(self) -> None:
        while True:
            message = await self._inbox.get()
            known: dict[str, Any] = {}
            try:
                fields = dict(self._fields)
                message = message if isinstance(message, str) else decode_utf8(message, "the message")
                if not self._plain and message.lstrip()[:1] == "{":
                    fields |= parse_json(message)
                else:
                    fields["q"] = message
                parsed = ParsedRequest(fields)
                if "id" in fields:
                    known = {"id": message_id(fields["id"])}
                async with self._service.request_deadline():
                    await self._answer(parsed, known)
            except (Refusal, BytenmtError) as error:
                await self._refused(error, known)
                if isinstance(error, Refusal) and error.status == 403:
                    await self._socket.close(POLICY_VIOLATION)
                    return
            self._count_lines(-1)

    async def _answer(self, parsed: ParsedRequest, known: dict[str, Any]) -> None:
        client = parsed.client(self._socket, self._keys)
        service = self._service
        params = service.check(parsed.translate_params(service.limits))._replace(client=client)
        texts = [parsed.text("q")]
        with service.admitted(service.limits.check_texts(texts), client) as admission:
            async for part in stream_parts(service, texts, params, admission):
                if isinstance(part, tuple):
                    if not self._plain:
                        await self._send({**known, "part": part[1]})
                elif self._plain:
                    await self._socket.send_text(part[0].text)
                else:
                    details = {"details": part[0].line_details()} if params.details else {}
                    await self._send({**known, "done": True, **format_answer(part[0], params), **details})

    async def _refused(self, error: Exception, known: dict[str, Any]) -> None:
        message = error.message if isinstance(error, Refusal) else str(error)
        if self._plain:
            await self._socket.send_text("")  # as many lines as came; the reason has no place
        else:
            await self._send({**known, "error": message})

    async def _send(self, value: Any) -> None:
        await self._socket.send_text(msgspec.json.encode(value).decode())


class SimultaneousSocket(WebSocketSession):
    """A websocket that translates lines while they are typed: see TypedLine.

    A message is a JSON object: q, the line as it now is; state, see TypingState; id, which names the line;
    wait; and source, target, keep, glossary, details and api_key as in POST /translate. Each has an answer:
    {"id", "committed", "tail", "new_segment", …} or {"id", "error"}. A new id or changed parameters begin a
    line. A text is not translated where a newer message waits, unless it is finished.
    """

    def __init__(self, socket: WebSocket, service: Service, keys: ApiKeys) -> None:
        super().__init__(socket, service, keys, plain=False)
        self._line: TypedLine | None = None
        self._line_key: object = None

    async def _serve(self) -> None:
        try:
            await super()._serve()
        finally:
            self._close_line()

    async def _answer(self, parsed: ParsedRequest, known: dict[str, Any]) -> None:
        service, client = self._service, parsed.client(self._socket, self._keys)
        params = service.check(parsed.translate_params(service.limits))._replace(client=client, details=False)
        text, wait = parsed.text("q"), parsed.number("wait", MAX_WAIT) or DEFAULT_WAIT
        if params.html or params.alternatives or "\n" in text or "\r" in text:
            raise Refusal(400, "Invalid request: expected one line, in format text, without alternatives")
        key = known, params, wait
        if self._line is None or self._line.is_finished or key != self._line_key:
            self._close_line()
            self._line, self._line_key = TypedLine(service, params, wait), key
        n_characters = service.limits.check_texts([text])
        state = typing_state(parsed.text("state", "paused"))
        is_judged = parsed.flag("details")
        if self._inbox.empty() or state == TypingState.FINISHED:
            try:
                with service.admitted(n_characters, client):
                    update = await self._line.update(text, state, is_judged)
            except BaseException:
                self._close_line()
                raise
        else:
            update = self._line.unchanged()
        shown = TranslateResponse("", [], self._line.guess, update.results)
        await self._send(
            {
                **known,
                "committed": update.committed,
                "tail": update.tail,
                "new_segment": update.is_new_segment,
                **({"detectedLanguage": shown.guess._asdict()} if shown.guess else {}),
                **({"details": shown.line_details()} if is_judged else {}),
            }
        )

    def _close_line(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


def typing_state(value: str) -> TypingState:
    """Return the state of a text. Raises Refusal (400)."""
    try:
        return TypingState(value)
    except ValueError:
        known = ", ".join(one.value for one in TypingState)
        raise Refusal(400, f"Invalid request: state must be one of {known}") from None


def message_id(value: object) -> str | int | None:
    """Return the id of a message as its answers repeat it.

    Raises Refusal (400) where it is neither a short text nor a whole number nor null.
    """
    if isinstance(value, str) and len(value) <= LONGEST_ID:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST_ID:
        return value
    if value is None:
        return None
    raise Refusal(
        400, f"Invalid request: id must be a string of at most {LONGEST_ID} characters or a whole number"
    )


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
