"""Run the application with uvicorn: reload on SIGHUP, drain on SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import chain
from types import FrameType
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from bytenmt.errors import BytenmtError
from bytenmt.serve.app import App
from bytenmt.serve.service import ServedModels

BACKLOG = 2048
PREFIX = re.compile(r"(/[\w.~-]+)*")  # of the address, as a proxy tells it
logger = logging.getLogger(__package__)


class GracefulServer(uvicorn.Server):
    """A server that ends on SIGTERM or Ctrl-C when all accepted requests are answered, which takes
    Limits.seconds at most; on the second one it ends at once.

    load: reads models and keys anew; called whenever hang_up, which SIGHUP sets, is set.
    """

    def __init__(
        self, config: uvicorn.Config, app: App, load: Callable[[], ServedModels], hang_up: threading.Event
    ) -> None:
        super().__init__(config)
        self._service, self._load, self._hang_up = app.service, load, hang_up
        self._reloading: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end the server, at a second signal at once; uvicorn's would raise it again at the end."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Begin a reload if hang_up is set; uvicorn calls it ten times a second. Returns whether to end."""
        if self._hang_up.is_set() and (self._reloading is None or self._reloading.done()):
            self._hang_up.clear()
            self._reloading = asyncio.create_task(self.reload())
        return await super().on_tick(counter)

    async def reload(self) -> None:
        """Read models, glossaries and keys again while requests are answered.

        Lines that are being decoded keep their model. If something cannot be read, everything stays as it is.
        """
        service, reloads = self._service, self._service.metrics.reloads
        logger.info("reloading")
        try:
            former, service.models = service.models, await asyncio.to_thread(self._load)
        except Exception as error:
            reloads.labels("failed").inc()
            kind = "" if isinstance(error, BytenmtError | OSError) else f"{type(error).__name__}: "
            logger.error("reload failed: %s", f"{kind}{error}"[:500])
            return
        for worker in chain.from_iterable(former.by_direction.values()):
            worker.finish()
        reloads.labels("done").inc()
        logger.info("reloaded")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, wait until open requests are answered, and close; called by uvicorn.

        Connections are closed with their next answer.
        """
        logger.info("ending: %d requests", self._service.n_open)
        await asyncio.sleep(0)  # connections that the system has accepted for us are taken
        for server in self.servers:
            server.close()
        self._service.is_draining = True
        while self._service.n_open and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)


class ProxyHeaders(ProxyHeadersMiddleware):
    """Believes of proxies the client's address, the scheme, and the path before this server's own."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request (ASGI)."""
        prefix = Headers(scope=scope).get("x-forwarded-prefix", "").rstrip("/")
        if (scope["client"] or [""])[0] in self.trusted_hosts and PREFIX.fullmatch(prefix):
            scope |= {"root_path": prefix, "path": prefix + scope["path"]}
        await super().__call__(scope, receive, send)


def listening(host: str, port: int) -> socket.socket:
    """Open a TCP socket that listens at an address; port 0: any free one. Raises BytenmtError."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise BytenmtError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
    # Connections inherit it: no packet waits until the one before it is confirmed, which takes 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def run(
    app: App,
    listener: socket.socket,
    load: Callable[[], ServedModels],
    hang_up: threading.Event,
    proxies: Sequence[str] = (),
) -> None:
    """Serve until a signal. load, hang_up: of GracefulServer. proxies: addresses of trusted proxies."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("bytenmt: %(message)s"))
    for name, level in ((__package__, logging.INFO), ("uvicorn.error", logging.WARNING)):
        logging.getLogger(name).handlers = [handler]
        logging.getLogger(name).setLevel(level)
    config = uvicorn.Config(
        ProxyHeaders(app.asgi(), list(proxies)),  # type: ignore[arg-type]  # other names of ASGI's types
        http="h11",  # httptools takes fields after the body for headers
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
    GracefulServer(config, app, load, hang_up).run([listener])
    logger.info("ended")
