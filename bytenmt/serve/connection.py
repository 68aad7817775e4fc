"""Connections of clients: bounded in number and in idle time; malformed requests are logged."""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from bytenmt.serve.service import Service

REQUEST_SECONDS = 30.0  # until an idle connection has brought the headers of a request
# Of descriptors: files, the server's own sockets, pipes of the processes that read documents.
N_RESERVED_DESCRIPTORS = 48
MIN_CONNECTIONS = 8
MAX_DESCRIPTORS = 1 << 16  # raised up to this number where the system's own limit allows it
INVALID = "(invalid)"  # the path of a malformed request in metrics and the log
logger = logging.getLogger(__package__)


class Connection(H11Protocol):
    """An HTTP connection of a client: uvicorn's protocol with a limit on idle time and on number.

    It is closed if no request arrives within REQUEST_SECONDS (30). If more than max_connections are
    open, the one that has been idle longest is closed, or the new one if no other is idle. service:
    its metrics count malformed requests.
    """

    def __init__(self, *args: Any, service: Service, max_connections: int, **more: Any) -> None:
        super().__init__(*args, **more)
        self._service = service
        self._max_connections = max_connections
        self._idle_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """True if no request is being answered; part of the next one's headers may be there."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start a new connection; close one if there are too many. Called by asyncio."""
        super().connection_made(transport)
        self._wait_for_request()
        ours = [one for one in self.connections if isinstance(one, Connection)]
        open_ones = [one for one in ours if not one.transport.is_closing()]
        if len(open_ones) > self._max_connections:
            idle = [one for one in open_ones if one.is_idle and one is not self]
            min(idle, key=lambda one: one._idle_since, default=self).transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer of a connection that has ended; called by asyncio."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Start the idle time of the connection after an answer; called by uvicorn."""
        super().on_response_complete()
        self._wait_for_request()

    def send_400_response(self, msg: str) -> None:
        """Log a malformed request and answer it with status 400 and `msg`; called by uvicorn.

        If only its body is malformed, the route may be at work on an answer, which is given up. If
        part of this answer has been sent, the connection is closed without status 400.
        """
        self._service.metrics.requests.labels(INVALID, 400).inc()
        logger.info("%s - %s 400", self.client[0] if self.client else "-", INVALID)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        super().send_400_response(msg)

    def _wait_for_request(self) -> None:
        """Begin to be idle."""
        if self._timer is not None:
            self._timer.cancel()
        self._idle_since = self.loop.time()
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        if self.is_idle and not self.transport.is_closing():
            self.transport.close()


def raise_connection_limit() -> int:
    """Raise the process's limit of file descriptors as far as the system allows, up to 65,536.

    Return how many connections the server may hold open: the limit less N_RESERVED_DESCRIPTORS
    (48), and at least MIN_CONNECTIONS (8).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY:
        soft = MAX_DESCRIPTORS
    elif soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max(MIN_CONNECTIONS, soft - N_RESERVED_DESCRIPTORS)
