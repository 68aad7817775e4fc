"""The middleware around every request: limits, foreign pages, errors, metrics and the log."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bytenmt.serve.service import Service
from bytenmt.serve.work_queue import Refusal

# These change nothing, and other sites cannot read what they return.
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
LEFT_STATUS = 499  # counted for a client that has left
# Other sites do not embed what the server returns, and browsers do not take it for another kind of
# file.
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
TOO_LONG = "the request is too long: at most {:,} bytes"
logger = logging.getLogger(__package__)


def account_of(key: str | None, keys: Sequence[str], address: str) -> str:
    """Return the name under which a client's requests are counted.

    key: the API key it sent. keys: all valid keys; empty: none is needed. address: its IP address.
    The name is a digest of the key, or without keys the address; for IPv6 the /64 network, which
    one customer has alone. Raises Refusal (HTTP 403) for a key that is missing or unknown. The
    check takes the same time for every key.
    """
    if keys:
        digest, *digests = (
            hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            for text in (key or "", *keys)
        )
        if not any([hmac.compare_digest(digest, other) for other in digests]):
            if key:
                raise Refusal(403, "Invalid API key")
            raise Refusal(
                403, "an API key is required: send it as api_key, or as Authorization: Bearer KEY"
            )
        return digest.hex()[:16]
    with suppress(ValueError):
        ip = ipaddress.ip_address(address.partition("%")[0])
        if ip.version == 6 and ip.ipv4_mapped is None:
            return str(ipaddress.ip_network((ip, 64), strict=False))
    return address.removeprefix("::ffff:")


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a value as its JSON body. status: of HTTP."""
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def address_of(scope: Mapping[str, Any]) -> str:
    """Return the IP address of a request's client, "-" if unknown. scope: ASGI's of the request."""
    client = scope.get("client")
    return str(client[0]) if client else "-"


def refusal_of(service: Service, error: BaseException, scope: Mapping[str, Any]) -> Refusal:
    """Convert an error to a Refusal: the HTTP status and message that the client gets.

    TimeoutError becomes status 503, an error of an unknown kind 500, which is logged. service:
    knows the time limit and when to try again. scope: ASGI's of the request.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ClientDisconnect):
        return Refusal(LEFT_STATUS, "")
    if isinstance(error, asyncio.CancelledError):  # by the second SIGTERM
        return Refusal(503, "the server is shutting down")
    if isinstance(error, TimeoutError):
        wait = service.queue.retry_after()
        return Refusal(503, f"not answered within {service.limits.seconds:g} s", wait)
    description = f"{type(error).__name__}: {error}"[:500]
    logger.error("%s failed: %s", address_of(scope), description)
    return Refusal(500, "the server failed to answer: its log has details")


class Gateway:
    """ASGI middleware that limits, checks, counts and logs requests, and answers errors as JSON.

    app: the ASGI application behind it. service: has the limits and metrics. hosts: names of the
    server that the Host header may have, such as *.example.org; others are refused, which stops
    DNS rebinding: a foreign page whose domain resolves to 127.0.0.1. origins: web sites, such as
    https://example.org, whose pages may use the server besides its own; * is any. Browsers name
    the site of a page in the Origin header, which the page cannot forge.
    """

    def __init__(
        self, app: ASGIApp, service: Service, hosts: Sequence[str], origins: Sequence[str]
    ) -> None:
        self._app = app
        self._service = service
        self._origins = {*origins}
        names = "|".join(re.escape(name.lower()).replace(r"\*", ".*") for name in hosts)
        self._own_name = re.compile(rf"({names})(:\d+)?")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI) within Limits.seconds; its body may have Limits.body_bytes."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        service = self._service
        limits = service.limits
        began = time.monotonic()
        status = 0
        n_received = 0
        method = scope["method"]
        must_close = False
        # The route has neither a token nor the name of a file.
        matching = (
            route.path for route in scope["app"].routes if route.matches(scope)[0] is not Match.NONE
        )
        path = next(matching, "(unknown)")

        async def limited_receive() -> Message:
            nonlocal n_received
            message = await receive()
            n_received += len(message.get("body", b""))
            if n_received > limits.body_bytes:
                raise Refusal(413, TOO_LONG.format(limits.body_bytes), closes=True)
            return message

        async def noting_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                closing = [(b"connection", b"close")] if must_close or service.is_draining else []
                message = {**message, "headers": [*message["headers"], *HEADERS, *closing]}
            await send(message)

        try:
            async with asyncio.timeout(limits.seconds):
                headers = Headers(scope=scope)
                self._check_body(headers)
                self._check(headers, path, method)
                await self._app(scope, limited_receive, noting_send)
        except (Exception, asyncio.CancelledError) as error:
            refusal = refusal_of(service, error, scope)
            must_close = refusal.closes
            if not (status or isinstance(error, ClientDisconnect)):
                wait = refusal.retry_after
                more = None if wait is None else {"retry-after": str(wait)}
                answer = json_response({"error": refusal.message}, refusal.status, more)
                await answer(scope, receive, noting_send)
        finally:
            seconds = time.monotonic() - began
            code = status or LEFT_STATUS
            service.metrics.requests.labels(path, code).inc()
            service.metrics.seconds.labels(path).observe(seconds)
            logger.info("%s %s %s %d %.3f s", address_of(scope), method, path, code, seconds)

    def _check_body(self, headers: Headers) -> None:
        """Raise Refusal for a body that is too long (413), or whose end is in doubt (400).

        Two lengths that contradict each other are how requests are smuggled through a proxy.
        """
        length = headers.get("content-length")
        if length is None:
            return
        if "transfer-encoding" in headers:
            raise Refusal(400, "give Content-Length or Transfer-Encoding, not both", closes=True)
        if int(length) > self._service.limits.body_bytes:
            raise Refusal(413, TOO_LONG.format(self._service.limits.body_bytes), closes=True)

    def _check(self, headers: Headers, path: str, method: str) -> None:
        """Raise Refusal for a foreign host name (400) or a page of a foreign site (403)."""
        host = headers.get("host", "")
        # Probes ask by the server's address.
        if not (path in ("/health", "/ready") or self._own_name.fullmatch(host.lower())):
            raise Refusal(
                400, f"the name {host[:100]!r} is not allowed for this server: see --allowed-host"
            )
        for origin in () if method in SAFE_METHODS else headers.getlist("origin"):
            is_own = origin.partition("://")[2] == host
            if not (is_own or {origin, "*"} & self._origins):
                raise Refusal(
                    403, f"pages of {origin[:100]!r} are not allowed: see --allowed-origin"
                )
