"""Middleware for every request: metrics, log, deadline, and errors as one line of JSON.

While the server is ending, connections are closed after the answer.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bytenmt.serve.http.logs import ServerLog
from bytenmt.serve.service import Service

KNOWN_PATHS = (
    "translate",
    "translate_file",
    "detect",
    "suggest",
    "explain",
    "review",
    "review/units",
    "review/file",
    "languages",
    "health",
    "ready",
    "metrics",
)
GONE = 499  # the status that is counted for a client that has left


class ClientGoneError(Exception):
    """The client has gone before it was answered."""


class DeadlineError(Exception):
    """A request was not answered within Limits.request_seconds."""


class RequestMiddleware:
    """The outermost middleware, around the whole application."""

    def __init__(self, app: ASGIApp, service: Service, log: ServerLog) -> None:
        self._app, self._service, self._log = app, service, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status = 0
        n_bytes = 0

        async def sent(message: Message) -> None:
            nonlocal status, n_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._service.draining:
                    message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            n_bytes += len(message.get("body", b""))
            await send(message)

        scope.setdefault("state", {})
        try:
            await self._in_time(scope, receive, sent)
        except Exception as error:
            if not await self._send_error(error, status, sent):
                status = GONE
        self._record(scope, status or GONE, began, n_bytes)

    async def _in_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the application answer. Raises DeadlineError if that takes too long."""
        try:
            async with asyncio.timeout(self._service.limits.request_seconds) as deadline:
                await self._app(scope, receive, send)
        except TimeoutError:
            if not deadline.expired():
                raise
            self._service.metrics.count("deadlines_total", what="request")
            raise DeadlineError(f"not answered within {self._service.limits.request_seconds:g} s") from None

    async def _send_error(self, error: Exception, status: int, send: Send) -> bool:
        """Answer with an error. Returns False if the client has gone."""
        if isinstance(error, ClientDisconnect | ClientGoneError):
            self._service.metrics.count("abandoned_total")
            return False
        message = "the server has failed at this: its log says more"
        if isinstance(error, DeadlineError):
            message = str(error)
        else:
            self._log.say("failed", "error", error=f"{type(error).__name__}: {error}"[:500])
        if not status:
            body = msgspec.json.encode({"error": message})
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            status = 503 if isinstance(error, DeadlineError) else 500
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        return True

    def _record(self, scope: Scope, status: int, began: float, n_bytes: int) -> None:
        path = scope["path"].strip("/")
        known = path if path in KNOWN_PATHS else "page" if not path else "other"
        self._service.metrics.count("requests_total", path=known, status=str(status))
        log_fields: dict[str, Any] = scope["state"].get("log_fields", {})
        client = scope.get("client")
        self._log.request(
            method=scope["method"],
            path=scope["path"][:100],
            status=status,
            seconds=round(time.monotonic() - began, 6),
            bytes=n_bytes,
            client=client[0] if client else None,
            **log_fields,
        )
