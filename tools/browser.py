"""Control a headless Chromium through the Chrome DevTools Protocol: open pages, type, take screenshots."""

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
SECONDS = 60.0  # timeout of every wait


class Page:
    """A browser tab.

    errors: the texts of console errors and uncaught exceptions so far.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._n = socket, 0
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.send_command(f"{domain}.enable")

    def send_command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a DevTools command and return its result."""
        self._n += 1
        self._socket.send(json.dumps({"id": self._n, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=SECONDS))
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"]["text"])
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(message["params"]["exceptionDetails"]))
            if message.get("id") == self._n:
                assert "error" not in message, message
                found: dict[str, Any] = message["result"]
                return found

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        result = self.send_command(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_until(self, expression: str) -> Any:
        """Wait until a JavaScript expression is truthy and return its value."""
        until = time.monotonic() + SECONDS
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < until, f"{expression} was never true"
            time.sleep(0.05)
        return value

    def open(self, url: str, width: int = 1200, height: int = 800, phone: bool = False) -> None:
        """Load a page and wait until it is complete."""
        self.send_command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.send_command("Page.navigate", url=url)
        self.wait_until("document.readyState === 'complete'")

    def type_text(self, text: str) -> None:
        """Type into the focused element, one character at a time."""
        for character in text:
            self.send_command("Input.insertText", text=character)

    def press_key(self, key: str, modifiers: int = 0) -> None:
        """Press and release a key that types no character. modifiers: 1 is Alt, 8 is Shift."""
        for kind in ("keyDown", "keyUp"):
            self.send_command("Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=modifiers)

    def save_screenshot(self, path: Path) -> None:
        """Write a screenshot of the page as PNG."""
        path.write_bytes(base64.b64decode(self.send_command("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def open_browser(*more: str) -> Iterator[Page]:
    """Run a browser with one tab inside a `with` block.

    more: further command-line options of the browser.
    """
    # Child processes may still write into the folder while it is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
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
