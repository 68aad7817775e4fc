"""Run the application with uvicorn; drain on SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from bytenmt.errors import BytenmtError
from bytenmt.serve.app import App
from bytenmt.serve.connection import Connection, raise_connection_limit

BACKLOG = 2048
NOTE_SECONDS = 60.0  # between two lines about connections that cannot be accepted
LOG_FORMAT = "%(asctime)s bytenmt: %(message)s"
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%z"
PATH_PREFIX = re.compile(r"(/[\w.~-]+)*")  # of the address, as a proxy sends it
logger = logging.getLogger(__package__)


class GracefulServer(uvicorn.Server):
    """A uvicorn server that ends on SIGTERM or Ctrl-C once all accepted requests are answered.

    That takes at most Limits.seconds (120); on a second signal it ends at once. app: its routes.
    """

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._service = app.service
        self._next_note = 0.0  # of NOTE_SECONDS, by the loop's clock

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections; called by uvicorn."""
        asyncio.get_running_loop().set_exception_handler(self._handle_error)
        await super().startup(sockets)

    def _handle_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error of the event loop; of full tables of descriptors note one a minute.

        asyncio reports each connection that it cannot accept, thousands a second, and tries again
        after a second.
        """
        if "out of system resource" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif loop.time() >= self._next_note:
            self._next_note = loop.time() + NOTE_SECONDS
            logger.error("no file descriptor is left for a connection: raise the limit (ulimit -n)")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to shut down on a signal, at once on a second one; called by uvicorn."""
        self.force_exit = self.should_exit  # uvicorn's own method would raise the signal again
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, answer open requests and close their connections; called by uvicorn."""
        logger.info("shutting down: %d open requests", len(self.server_state.tasks))
        await asyncio.sleep(0)  # connections that the system has accepted for us are taken
        for server in self.servers:
            server.close()
        self._service.is_draining = True
        while self.server_state.tasks and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)


class ProxyHeaders(ProxyHeadersMiddleware):
    """ASGI middleware: takes client address, scheme and path prefix from a proxy's headers.

    Only the headers X-Forwarded-For, -Proto and -Prefix of trusted proxies are believed.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Correct the scope of a request by the headers, and answer it (ASGI)."""
        prefix = Headers(scope=scope).get("x-forwarded-prefix", "").rstrip("/")
        if (scope["client"] or [""])[0] in self.trusted_hosts and PATH_PREFIX.fullmatch(prefix):
            scope |= {"root_path": prefix, "path": prefix + scope["path"]}
        await super().__call__(scope, receive, send)


def listening(host: str, port: int) -> socket.socket:
    """Open a TCP socket that listens at an address; port 0: any free one. Raises BytenmtError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise BytenmtError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}"
        ) from None
    # Connections inherit it: no packet waits 40 ms for the confirmation of the one before it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def run(app: App, listener: socket.socket, proxies: Sequence[str] = ()) -> None:
    """Serve the application with uvicorn until SIGTERM or Ctrl-C.

    listener: the listening socket. proxies: addresses of trusted proxies, whose X-Forwarded-For,
    -Proto and -Prefix headers are believed.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(LOG_FORMAT, TIME_FORMAT))
    # uvicorn warns of malformed requests and upgrades, which Connection logs, with advice to
    # install further packages.
    for name, level in ((__package__, logging.INFO), ("uvicorn.error", logging.ERROR)):
        logging.getLogger(name).handlers = [handler]
        logging.getLogger(name).setLevel(level)
    # Any: Starlette and uvicorn have types of their own for ASGI and for protocols.
    routes: Any = app.asgi()
    application: Any = ProxyHeaders(routes, list(proxies))
    protocol: Any = partial(
        Connection, service=app.service, max_connections=raise_connection_limit()
    )
    config = uvicorn.Config(
        application,
        http=protocol,  # by h11: httptools takes fields after the body for headers
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=1,  # after our own draining
        proxy_headers=False,
    )
    host, port = listener.getsockname()[:2]
    logger.info("serving http://%s:%d/", f"[{host}]" if ":" in host else host, port)
    GracefulServer(config, app).run([listener])
    logger.info("shut down")
