"""A headless Chromium, driven by its own protocol over a websocket: opened, typed into, photographed."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websockets.sync.client import ClientConnection, connect

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
SECONDS = 60.0  # until what is waited for must be there


class Page:
    """A tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._n = socket, 0
        self.logged: list[str] = []  # errors that the browser has told of
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and what it gives."""
        self._n += 1
        self._socket.send(json.dumps({"id": self._n, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=SECONDS))
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.logged.append(message["params"]["entry"]["text"])
            if message.get("method") == "Runtime.exceptionThrown":
                self.logged.append(json.dumps(message["params"]["exceptionDetails"]))
            if message.get("id") == self._n:
                assert "error" not in message, message
                found: dict[str, Any] = message["result"]
                return found

    def js(self, expression: str) -> Any:
        """The value of an expression, a promise's too."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, expression: str) -> Any:
        """The value of an expression once it is true."""
        until = time.monotonic() + SECONDS
        while not (value := self.js(expression)):
            assert time.monotonic() < until, f"{expression} was never true"
            time.sleep(0.05)
        return value

    def open(self, url: str, width: int = 1200, height: int = 800, phone: bool = False) -> None:
        """A page, when it has loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def type(self, text: str) -> None:
        """Into what has the focus, a character after another."""
        for character in text:
            self.call("Input.insertText", text=character)

    def key(self, key: str, modifiers: int = 0) -> None:
        """A key that is no character. modifiers: 1 is Alt, 8 Shift."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=modifiers)

    def picture(self, path: Path) -> None:
        """Save a screenshot of the page."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(*more: str) -> Iterator[Page]:
    """A browser with a tab of its own. more: options of its command."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # its children still write
        options = (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-port=0",
            "--no-first-run",
        )
        process = subprocess.Popen(
            [CHROMIUM, *options, *more, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = _port(Path(folder) / "DevToolsActivePort")
            with urlopen(f"http://127.0.0.1:{port}/json", timeout=SECONDS) as answer:
                (tab,) = [one for one in json.load(answer) if one["type"] == "page"]
            with connect(tab["webSocketDebuggerUrl"], max_size=1 << 26) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(SECONDS)


def _port(file: Path) -> int:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if file.exists() and "\n" in (text := file.read_text()):
            return int(text.split()[0])
        time.sleep(0.05)
    raise AssertionError("the browser has not started")
