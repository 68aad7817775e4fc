"""Start `bytenmt serve` in a process of its own, as a user does, and talk to it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

TIMEOUT_SECONDS = 120.0  # timeout of a response; kernels may have to be compiled first
POLL_SECONDS = 0.05  # between looks at the log of a server that starts


class ServerProcess:
    """A running server, whose log goes to a file, so that no pipe can fill up."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, url: str) -> None:
        self.process = process
        self.url = url
        self._log = log

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server."""
        host, port = self.url.removeprefix("http://").rstrip("/").rsplit(":", 1)
        return host, int(port)

    def log_lines(self) -> list[str]:
        """Return the lines that the server has logged so far."""
        return self._log.read_text(encoding="utf-8", errors="replace").splitlines()

    def get(self, path: str) -> str:
        """Return the body of the response to a GET request."""
        with urlopen(self.url + path, timeout=TIMEOUT_SECONDS) as answer:
            found: bytes = answer.read()
            return found.decode()

    def post(self, path: str, **fields: Any) -> Any:
        """Send fields as JSON in a POST request and return the parsed JSON response."""
        body = json.dumps(fields).encode()
        request = Request(self.url + path, body, {"content-type": "application/json"})
        with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)

    def resident_bytes(self) -> int:
        """Return the server's resident memory in bytes (Linux only)."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """Return the CPU time that the server has used, without its children (Linux only)."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def terminate(self) -> int:
        """Send SIGTERM, wait for the server to end and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT_SECONDS)


@contextmanager
def run_server(
    folder: Path,
    *arguments: object,
    program: str = "",
    checkout: Path | None = None,
    python: str = sys.executable,
) -> Iterator[ServerProcess]:
    """Run a server inside a `with` block.

    folder: where its log is written. arguments: of `bytenmt serve`. program: Python source to run
    instead of that command; it gets the same arguments. checkout: another one, whose program is
    run. python: the interpreter. Raises RuntimeError if the server has not started in
    TIMEOUT_SECONDS.
    """
    command = [python, *(["-c", program] if program else ["-m", "bytenmt", "serve"])]
    log = folder / "serve.log"
    with open(log, "wb") as written:
        process = subprocess.Popen(
            [*command, *map(str, arguments), "--port", "0"], stderr=written, cwd=checkout
        )
    server = ServerProcess(process, log, "")
    try:
        for _ in range(round(TIMEOUT_SECONDS / POLL_SECONDS)):
            found = re.search(r"http://[\d.]+:\d+/", "\n".join(server.log_lines()))
            if found:
                server.url = found[0]
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
                break
        if not server.url:
            raise RuntimeError(f"the server has not started: {server.log_lines()}")
        yield server
    finally:
        process.kill()
        process.wait()
