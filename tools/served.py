"""Run a server in a process of its own, as a user starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.request import Request, urlopen

SECONDS = 120.0  # until a server must have answered; kernels may have to be compiled first


class Served:
    """url: with a slash at its end. Its log is a file, so that no pipe fills."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, url: str) -> None:
        self.process, self.url, self._log = process, url, log

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self.url.removeprefix("http://").rstrip("/").rsplit(":", 1)
        return host, int(port)

    def lines(self) -> list[str]:
        """Return the lines of its log so far."""
        return self._log.read_text(encoding="utf-8", errors="replace").splitlines()

    def text(self, path: str) -> str:
        """Return the answer to a GET."""
        with urlopen(self.url + path, timeout=SECONDS) as answer:
            found: bytes = answer.read()
            return found.decode()

    def ask(self, path: str, **fields: Any) -> Any:
        """Return the answer to a POST, JSON to JSON."""
        request = Request(self.url + path, json.dumps(fields).encode(), {"content-type": "application/json"})
        with urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)

    def resident_bytes(self) -> int:
        """Return its resident memory; Linux."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def end(self) -> int:
        """Its exit code after a SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


@contextmanager
def served(folder: Path, *arguments: object, program: str = "", core: int | None = None) -> Iterator[Served]:
    """Inside, the server of these arguments runs. folder: for its log; program: Python in place of the
    command, which is told them; core: of the CPU, that it is to stay on."""
    command = ["-c", program] if program else ["-m", "bytenmt", "serve"]
    log = folder / "serve.log"
    own = ["taskset", "-c", str(core)] if core is not None else []
    with open(log, "wb") as written:
        process = subprocess.Popen(
            [*own, sys.executable, *command, *map(str, arguments), "--port", "0"], stderr=written
        )
    try:
        with open(log, encoding="utf-8", errors="replace") as read:
            yield Served(process, log, _url(process, read))
    finally:
        process.kill()
        process.wait()


def _url(process: subprocess.Popen[bytes], log: IO[str]) -> str:
    """Return the address that the server prints. Raises RuntimeError if it ends first."""
    told = ""
    while True:
        ended = process.poll() is not None
        told += log.read()
        if found := re.search(r"url\W+(http://[\d.:]+/)", told):
            return found[1]
        if ended:
            raise RuntimeError(f"the server has not started: {told}")
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
