"""Numbers as Prometheus' text format (version 0.0.4) has them, and a server that shows them on this machine.

Knows numbers and names; does not know what they count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from bytenmt.errors import BytenmtError

PREFIX = "bytenmt_"
CONTENT_TYPE = "text/plain; version=0.0.4"
LOOPBACK = "127.0.0.1"
PATIENCE = 10.0  # seconds that a client has to send a request


def heading(name: str, kind: str, help: str) -> list[str]:
    """What stands above the numbers of a name."""
    return [f"# HELP {PREFIX}{name} {help}", f"# TYPE {PREFIX}{name} {kind}"]


def number(name: str, value: float, labels: str = "") -> str:
    """A line; labels: see `shown`."""
    return f"{PREFIX}{name}{labels} {value:g}" if value < 1e6 else f"{PREFIX}{name}{labels} {value}"


def shown(labels: Mapping[str, str]) -> str:
    """{name="value",…}, as the format escapes it."""
    if not labels:
        return ""
    parts = []
    for name, value in labels.items():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        parts.append(f'{name}="{escaped}"')
    return "{" + ",".join(parts) + "}"


@contextmanager
def serving(port: int, text: Callable[[], str]) -> Iterator[str]:
    """Inside, threads answer GET /metrics by the text, on this machine alone; yields the address. port: 0 is
    a free one. Raises BytenmtError where the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_GET(self) -> None:
            known = self.path.partition("?")[0] == "/metrics"
            body = (text() if known else "GET /metrics\n").encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", CONTENT_TYPE if known else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody is told."""

    try:
        server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    except OSError as error:
        raise BytenmtError(f"port {port} cannot be listened at ({error.strerror}): give another") from None
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
