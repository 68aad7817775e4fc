"""Responses of the routes, and waiting for them only as long as the client does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bytenmt.serve.limits import Refusal

T = TypeVar("T")


class ClientGoneError(Exception):
    """The client has gone before it was answered."""


class EventStream(StreamingResponse):
    """A response of server-sent events. ended: is called when the response is over, in whatever way."""

    def __init__(self, events: AsyncIterator[bytes], ended: Callable[[], object]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._ended = ended

    async def __call__(self, *asgi: Any) -> None:
        try:
            await super().__call__(*asgi)
        finally:
            self._ended()


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a JSON body."""
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; if the client leaves first, cancel it and raise ClientGoneError."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        task.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def refusal_response(request: Request, error: Exception) -> Response:
    """Return the response for a Refusal."""
    assert isinstance(error, Refusal)
    return response_to(error)


def response_to(refusal: Refusal) -> Response:
    """Return the response for a request that is refused."""
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    if refusal.status in (408, 413):
        headers["connection"] = "close"  # what is still to come of it is not read
    return json_response({"error": refusal.message}, refusal.status, headers)


async def http_error_response(request: Request, error: Exception) -> Response:
    """Return the response for an error that the router raises."""
    assert isinstance(error, HTTPException)
    return json_response({"error": str(error.detail)}, error.status_code, error.headers)
