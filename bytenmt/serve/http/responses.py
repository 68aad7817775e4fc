"""What the routes answer with, and how they wait for it: no longer than the client does.

Knows Starlette's requests and responses; knows no service.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bytenmt.serve.http.middleware import Abandoned
from bytenmt.serve.limits import Refusal

T = TypeVar("T")


class Events(StreamingResponse):
    """Server-sent events; ended: is called whenever they are over."""

    def __init__(self, events: AsyncIterator[bytes], ended: Callable[[], object]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._ended = ended

    async def __call__(self, *asgi: Any) -> None:
        try:
            await super().__call__(*asgi)
        finally:
            self._ended()


def json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer."""
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives; cancelled, and Abandoned raised, when the client goes first."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Abandoned
    finally:
        task.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def refused(request: Request, error: Exception) -> Response:
    """What a Refusal becomes."""
    assert isinstance(error, Refusal)
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    if error.status in (408, 413):
        headers["connection"] = "close"  # what is still to come of it is not read
    return json({"error": error.message}, error.status, headers)


async def unknown(request: Request, error: Exception) -> Response:
    """What the router raises becomes."""
    assert isinstance(error, HTTPException)
    return json({"error": str(error.detail)}, error.status_code, error.headers)
