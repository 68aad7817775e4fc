"""Try to use a server with default options from pages of other sites, in a real browser.

    python tools/verify/foreign_page.py RUN [--pair en-de]

A server is started on loopback with a folder for suggestions, and a headless Chromium (it must be installed;
Debian: apt-get install chromium) opens a page of another origin, http://evil.example on another port of this
machine. The page tries to read from the server and to write to it in every way that browsers offer: fetch
with and without CORS, XMLHttpRequest, a form, sendBeacon, EventSource, a script, an iframe, a sandboxed
iframe, whose origin is "null", and a websocket. Then evil.example itself resolves to the server (DNS
rebinding). Nothing may be read or written. Two controls show that the attempts work where they should: from
the server's own page, and from the other site with --allowed-origin. Exits with 1 where anything is
otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.browser import CHROMIUM, Page, open_browser
from tools.served import ServerProcess, run_server

EVIL = "evil.example"
RESOLVER = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
SECONDS = 4000  # milliseconds that an attempt may take in the page
# Each attempt is a JavaScript function of the server's address and fields; it returns the text read, or null.
ATTEMPTS = {
    "fetch languages": "async url => (await fetch(url + 'languages')).text()",
    "fetch metrics": "async url => (await fetch(url + 'metrics')).text()",
    "fetch translate, JSON": """async (url, fields) => (await fetch(url + 'translate', {method: 'POST',
        headers: {'content-type': 'application/json'}, body: JSON.stringify(fields)})).text()""",
    "fetch translate, form": """async (url, fields) => (await fetch(url + 'translate', {method: 'POST',
        body: new URLSearchParams(fields)})).text()""",
    "fetch translate, plain text": """async (url, fields) => (await fetch(url + 'translate', {method: 'POST',
        headers: {'content-type': 'text/plain'}, body: JSON.stringify(fields)})).text()""",
    "fetch suggest without CORS": """async (url, fields) => { const answer = await fetch(url + 'suggest',
        {method: 'POST', mode: 'no-cors', body: new URLSearchParams(fields)});
        return answer.type == 'opaque' ? null : answer.text(); }""",
    "XMLHttpRequest suggest": """(url, fields) => new Promise((done, fail) => {
        const asked = new XMLHttpRequest(); asked.open('POST', url + 'suggest');
        asked.onload = () => done(asked.responseText); asked.onerror = fail;
        asked.send(new URLSearchParams(fields)); })""",
    "sendBeacon suggest": """async (url, fields) => {
        navigator.sendBeacon(url + 'suggest', new URLSearchParams(fields)); return null; }""",
    "form suggest": """(url, fields) => new Promise(done => {
        const frame = document.createElement('iframe'); frame.name = 'f' + Math.random();
        document.body.append(frame);
        const form = document.createElement('form'); form.method = 'post'; form.action = url + 'suggest';
        form.target = frame.name;
        for (const [name, value] of Object.entries(fields)) {
            const input = document.createElement('input'); input.name = name; input.value = value;
            form.append(input); }
        document.body.append(form); form.submit();
        setTimeout(() => { try { done(frame.contentDocument.body.innerText || null); }
                           catch (error) { done(null); } }, 1000); })""",
    "sandboxed iframe suggest": """(url, fields) => new Promise(done => {
        const frame = document.createElement('iframe'); frame.sandbox = 'allow-scripts';
        addEventListener('message', event => done(event.data));
        frame.srcdoc = `<script>fetch(${JSON.stringify(url)} + 'suggest', {method: 'POST',
            body: new URLSearchParams(${JSON.stringify(fields)})}).then(answer => answer.text())
            .then(text => parent.postMessage(text, '*'), () => parent.postMessage(null, '*'))</` + 'script>';
        document.body.append(frame); })""",
    "EventSource": """url => new Promise(done => {
        const source = new EventSource(url + 'translate?q=a&target=de');
        source.onopen = () => { source.close(); done('open'); };
        source.onerror = () => { source.close(); done(null); }; })""",
    "script": """url => new Promise(done => {
        const script = document.createElement('script'); script.src = url + 'languages';
        script.onload = () => done('loaded'); script.onerror = () => done(null);
        document.body.append(script); })""",
    "iframe": """url => new Promise(done => {
        const frame = document.createElement('iframe'); frame.src = url;
        frame.onload = () => { try { done(frame.contentDocument.body.innerText || null); }
                               catch (error) { done(null); } };
        document.body.append(frame); })""",
    "websocket": """(url, fields) => new Promise(done => {
        const socket = new WebSocket(url.replace('http', 'ws') + 'ws');
        socket.onopen = () => socket.send(JSON.stringify(fields));
        socket.onmessage = event => { done(event.data); socket.close(); };
        socket.onerror = () => done(null); })""",
}
# Attempts that fail even from the server's own page: its content security policy forbids frames, and its
# responses may not be loaded as scripts.
NEVER = ("EventSource", "script", "iframe", "form suggest", "sandboxed iframe suggest")
WRITES = ("without CORS", "XMLHttpRequest", "sendBeacon", "form suggest")


class EmptyPage(BaseHTTPRequestHandler):
    """An empty page of another site."""

    def do_GET(self) -> None:
        """Answer every request with the empty page."""
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>evil</title><body>")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def run_other_site() -> Iterator[str]:
    """Serve another site inside a `with` block; the value is its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://{EVIL}:{server.server_port}/"
        server.shutdown()


def run_attempts(page: Page, url: str, pair: tuple[str, str]) -> dict[str, str | None]:
    """Return the text that the open page could read from the server, by attempt; None where it could not."""
    found = {}
    for number, (name, function) in enumerate(ATTEMPTS.items()):
        fields = {"q": f"hello {number}", "s": name, "source": pair[0], "target": pair[1]}
        found[name] = page.evaluate(
            f"Promise.race([Promise.resolve(({function})({json.dumps(url)}, {json.dumps(fields)}))"
            f".catch(() => null), new Promise(done => setTimeout(() => done(null), {SECONDS}))])"
        )
    time.sleep(1)  # requests that nothing waits for arrive
    return found


def read_suggestions(folder: Path) -> str:
    """Return all suggestions that were written."""
    return "".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.tsv")))


def check(server: ServerProcess, folder: Path, site: str, pair: tuple[str, str], allowed: bool) -> list[str]:
    """Return descriptions of unexpected results. allowed: whether the server allows the other site."""
    failures = []

    def readable(texts: dict[str, str | None]) -> list[str]:
        return [name for name, text in texts.items() if text is not None]

    with open_browser(RESOLVER) as page:
        page.open(site)
        assert page.evaluate("location.origin") + "/" == site
        from_site = run_attempts(page, server.url, pair)
        written = read_suggestions(folder)
        print(f"another site{', allowed' if allowed else ''}: read {readable(from_site) or 'nothing'},")
        print(f"  wrote {written.splitlines() or 'nothing'}")
        if allowed:
            expected = [name for name in ATTEMPTS if name.startswith(("fetch", "XML", "web"))]
            expected.remove("fetch suggest without CORS")
            failures += [f"an allowed site cannot use: {n}" for n in set(expected) - set(readable(from_site))]
            failures += [f"an allowed site cannot write by: {name}" for name in WRITES if name not in written]
            return failures
        failures += [f"another site has read by: {name}" for name in readable(from_site)]
        failures += ["another site has written"] if written else []
        rebound = server.url.replace("127.0.0.1", EVIL)
        page.open(rebound)
        found = run_attempts(page, rebound, pair)
        readable_texts = {
            name: text for name, text in found.items() if text and "is not a name of this server" not in text
        }
        failures += [f"DNS rebinding reads by: {name}: {text[:80]}" for name, text in readable_texts.items()]
        failures += ["DNS rebinding has written"] if read_suggestions(folder) else []
        print(f"DNS rebinding: read {list(readable_texts) or 'nothing but refusals'},")
        print(f"  wrote {read_suggestions(folder) or 'nothing'}")
        page.open(server.url)
        own = run_attempts(page, server.url, pair)
        print(f"the server's own page: read {readable(own)}")
        failures += [
            f"the server's own page cannot use: {name}"
            for name in set(ATTEMPTS) - set(readable(own)) - {*NEVER, "sendBeacon suggest"}
        ]
        failures += (
            ["the server's own page cannot write"] if "XMLHttp" not in read_suggestions(folder) else []
        )
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--pair", default="en-de")
    options = parser.parse_args()
    source, _, target = options.pair.partition("-")
    if not CHROMIUM:
        parser.error("no Chromium is installed")
    failures = []
    with run_other_site() as site:
        for more in ((), ("--allowed-origin", site.rstrip("/"))):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                arguments = ("-m", f"{options.pair}={options.run}", "--suggestions", folder, *more)
                with run_server(folder, *arguments) as server:
                    failures += check(server, folder, site, (source, target), bool(more))
    for line in failures:
        print(f"wrong: {line}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
