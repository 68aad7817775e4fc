"""Serve metrics to Prometheus over HTTP, on this machine alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

NAMESPACE = "bytenmt"  # every metric's name begins with it
LOOPBACK = "127.0.0.1"


@contextmanager
def serve_metrics(port: int, registry: CollectorRegistry) -> Iterator[str]:
    """Answer GET requests with the metrics of a registry while the context is open; yields the address.

    port: 0 takes a free one. Raises BytenmtError where the port is taken.
    """
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, LOOPBACK, registry)
    except OSError as error:
        raise BytenmtError(f"cannot listen on port {port} ({error.strerror}): give another port") from None
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
