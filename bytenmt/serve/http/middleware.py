"""Middleware for every request: metrics, log, deadline, and errors as one line of JSON.

While the server is ending, connections are closed after the answer.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bytenmt.serve.http.logs import ServerLog
from bytenmt.serve.http.responses import ClientGoneError, response_to
from bytenmt.serve.http.streams import format_event
from bytenmt.serve.limits import Refusal
from bytenmt.serve.service import Service

KNOWN_PATHS = (
    "translate",
    "translate_file",
    "detect",
    "suggest",
    "languages",
    "health",
    "ready",
    "metrics",
)
GONE = 499  # the status that is counted for a client that has left
ERROR_SECONDS = 1.0  # for sending an error to a client that may not read


class RequestMiddleware:
    """The outermost middleware, around the whole application."""

    def __init__(self, app: ASGIApp, service: Service, log: ServerLog) -> None:
        self._app, self._service, self._log = app, service, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        scope.setdefault("state", {})
        sent = SentResponse(send, self._service)
        try:
            async with self._service.request_deadline():
                await self._app(scope, receive, sent)
        except Exception as error:
            with suppress(TimeoutError):  # the client does not read
                async with asyncio.timeout(ERROR_SECONDS):
                    await self._send_error(error, sent)
        finally:
            self._record(scope, sent, began)

    async def _send_error(self, error: Exception, sent: SentResponse) -> None:
        """Answer with an error, unless the client has gone."""
        if isinstance(error, ClientDisconnect | ClientGoneError):
            self._service.metrics.count("abandoned_total")
            sent.status = GONE
            return
        if not isinstance(error, Refusal):
            self._log.say("failed", "error", error=f"{type(error).__name__}: {error}"[:500])
            error = Refusal(500, "the server has failed at this: its log says more")
        await sent.refuse(error)

    def _record(self, scope: Scope, sent: SentResponse, began: float) -> None:
        """Count a request that has ended, and log it."""
        path = scope["path"].strip("/")
        known = path if path in KNOWN_PATHS else "page" if not path else "other"
        status = sent.status or GONE
        self._service.metrics.count("requests_total", path=known, status=str(status))
        log_fields: dict[str, Any] = scope["state"].get("log_fields", {})
        client = scope.get("client")
        self._log.request(
            method=scope["method"],
            path=scope["path"][:100],
            status=status,
            seconds=round(time.monotonic() - began, 6),
            bytes=sent.n_bytes,
            client=client[0] if client else None,
            **log_fields,
        )


class SentResponse:
    """The ASGI callable to which the application sends, and what it has sent so far.

    While the server is ending, it asks clients to close their connections. status: of HTTP, 0 before there is
    one. n_bytes: of the body.
    """

    def __init__(self, send: Send, service: Service) -> None:
        self._send, self._service = send, service
        self.status = self.n_bytes = 0
        self._is_event_stream = self._is_complete = False

    async def __call__(self, message: Message) -> None:
        match message["type"]:
            case "http.response.start":
                self.status = message["status"]
                headers = dict(message["headers"])
                self._is_event_stream = headers.get(b"content-type", b"").startswith(b"text/event-stream")
                if self._service.draining:
                    message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            case "http.response.body":
                self._is_complete = not message.get("more_body", False)
                self.n_bytes += len(message.get("body", b""))
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with an error as JSON, or end a stream of events with it; other answers stay cut off."""
        if not self.status:
            response = response_to(refusal)
            start = {"status": response.status_code, "headers": response.raw_headers}
            await self({"type": "http.response.start", **start})
            await self({"type": "http.response.body", "body": response.body})
        elif self._is_event_stream and not self._is_complete:
            await self(
                {"type": "http.response.body", "body": format_event("error", {"error": refusal.message})}
            )
