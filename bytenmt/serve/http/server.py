"""Run the application with uvicorn: deadlines for clients, reloading on SIGHUP, draining on SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bytenmt.errors import BytenmtError
from bytenmt.serve.http.app import Server
from bytenmt.serve.http.logs import FromUvicorn

MAX_HEAD_BYTES = 1 << 16  # bytes of a request's line and headers
KEEP_ALIVE_SECONDS = 30  # seconds that a connection may be idle
MIN_TAKEN_BYTES = 16_384  # bytes of a long answer that a client must take within the time for sending
BACKLOG = 2048
GRACE_SECONDS = 1  # for sending the refusals of what was not answered in the time for draining


class CountingTransport:
    """A transport that counts written bytes, to tell how many the client has taken and when it stalls."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._n_written = 0
        self._n_taken = 0  # when `_since` was set
        self._since: float | None = None  # since when bytes wait of which not enough were taken

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """See asyncio.WriteTransport."""
        self._n_written += len(data)
        self._transport.write(data)

    def stalled_seconds(self, now: float) -> float:
        """Return for how long the client has taken fewer than MIN_TAKEN_BYTES although bytes are waiting.

        now: of a monotonic clock.
        """
        n_waiting = self._transport.get_write_buffer_size()
        n_taken = self._n_written - n_waiting
        if not n_waiting:
            self._since = None
        elif self._since is None or n_taken >= self._n_taken + MIN_TAKEN_BYTES:
            self._since, self._n_taken = now, n_taken
        return 0.0 if self._since is None else now - self._since


class Connection(HttpToolsProtocol):
    """A connection with limits of time and bytes for the head of a request. patience: seconds."""

    patience = 30.0
    _head_timer: asyncio.TimerHandle | None = None
    _n_head = 0  # bytes of a head that is not whole yet
    _n_fields = 0  # of its parts

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(CountingTransport(transport))  # type: ignore[arg-type]
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_timer is not None:
            self._n_head += len(data)
            if self._n_head > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("The request's head is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._n_fields = 0
        self._start_head_timer()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, n_bytes: int) -> None:
        """Count bytes of a head. Raises ValueError above the limit, which the parser answers with 400."""
        self._n_fields += n_bytes
        if self._n_fields > MAX_HEAD_BYTES:
            raise ValueError("the request's head is too long")

    def on_headers_complete(self) -> None:
        self._stop_head_timer()
        super().on_headers_complete()

    def _start_head_timer(self) -> None:
        """Start the timer for the head of a request."""
        if self._head_timer is None:
            self._n_head = 0
            self._head_timer = self.loop.call_later(self.patience, self.transport.close)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class GracefulServer(uvicorn.Server):
    """A server that drains on SIGTERM or Ctrl-C and reloads on SIGHUP.

    On the first signal it stops listening, answers what it has accepted, and ends with exit code 0; on the
    second one it ends at once. seconds: the time for the answers.
    """

    def __init__(self, config: uvicorn.Config, server: Server, seconds: float) -> None:
        super().__init__(config)
        self._server, self._seconds = server, seconds
        self._n_hang_ups = 0
        self._reloading: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See uvicorn, which would raise the signal again at the end."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn; from now on, SIGHUP reloads."""
        await super().startup(sockets)
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)

    def _hang_up(self) -> None:
        """Reload, and once more for signals that arrive meanwhile."""
        self._n_hang_ups += 1
        if self._reloading is None:
            self._reloading = asyncio.create_task(self._reload())

    async def _reload(self) -> None:
        n_done = 0
        while n_done < self._n_hang_ups and not self.should_exit:
            n_done = self._n_hang_ups
            await self._server.reload()
        self._n_hang_ups, self._reloading = 0, None

    async def on_tick(self, counter: int) -> bool:
        """See uvicorn, which calls it ten times a second."""
        if not counter % 10:
            self._drop_stalled()
        return await super().on_tick(counter)

    def _drop_stalled(self) -> None:
        """Abort connections whose clients have stalled. Closing them would wait for the clients."""
        service, now = self._server.service, time.monotonic()
        for connection in list(self.server_state.connections):
            transport: Any = connection.transport
            if transport.stalled_seconds(now) > service.limits.send_seconds:
                service.metrics.count("deadlines_total", what="send")
                transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        service = self._server.service
        self._server.log.say("ending", requests=service.n_requests)
        await asyncio.sleep(0)  # connections that the system has accepted for us are taken
        for one in self.servers:
            one.close()
        service.draining = True  # not before: clients whose connection is not kept come with another one
        await self._until_answered(self._seconds)
        service.cut_off()
        await self._until_answered(GRACE_SECONDS)
        await super().shutdown(sockets)

    async def _until_answered(self, seconds: float) -> None:
        """Wait until all requests are answered, so many seconds at most; not at all after a second signal."""
        until = time.monotonic() + seconds
        while self._server.service.n_unanswered and time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(0.02)
            self._drop_stalled()


def ignore_hang_ups() -> None:
    """Ignore SIGHUP while no server of this process can reload: before it starts and after it has ended."""
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0: a free one. `run` listens at it. Raises BytenmtError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With the protocol told, asyncio has no packet wait until the one before it is confirmed: 40 ms.
        found = socket.socket(family, kind, protocol)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise _listen_error(host, port, error) from None
    return found


def _listen_error(host: str, port: int, error: OSError) -> BytenmtError:
    return BytenmtError(f"cannot listen on {host}, port {port}: {error.strerror or error}")


def raise_file_limit() -> None:
    """Raise the limit of open files to the highest that the system allows; often it is 1,024 at first."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems count an infinite limit as too much
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run(server: Server, listener: socket.socket, seconds: float = 30.0) -> None:
    """Serve until a signal ends the server. seconds: the longest time for draining."""
    limits = server.service.limits
    connection: Any = type("Connection", (Connection,), {"patience": limits.patience})
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [FromUvicorn(server.log)], False
    logger.setLevel(logging.WARNING)
    config = uvicorn.Config(
        server.app(),
        http=connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,  # after our own draining
        proxy_headers=False,
    )
    raise_file_limit()
    host, port = listener.getsockname()[:2]
    try:
        listener.listen(BACKLOG)
    except OSError as error:  # of two servers that have bound an address, one can listen
        raise _listen_error(host, port, error) from None
    server.service.documents.start()
    shown = f"[{host}]" if ":" in host else host
    server.log.say("serving", url=f"http://{shown}:{port}/")
    try:
        GracefulServer(config, server, seconds).run([listener])
    finally:
        ignore_hang_ups()  # the event loop has set the default action again, which is to end at once
        server.service.documents.close()
        for worker in server.service.workers.values():
            worker.stop()
    server.log.say("ended")
