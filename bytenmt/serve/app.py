"""The routes of the server: LibreTranslate's API, health and metrics, and the page."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path, PurePath
from typing import Any, TypeVar

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from bytenmt.serve import bodies
from bytenmt.serve.documents import SUFFIXES, DocumentSource
from bytenmt.serve.gateway import Gateway, account_of, address_of, json_response, refusal_of
from bytenmt.serve.languages import name_of
from bytenmt.serve.service import AUTO, MAX_ALTERNATIVES, Service
from bytenmt.serve.work_queue import Refusal

# Translated files are kept for so long and up to this size in all; the oldest ones go first.
KEPT_SECONDS = 600.0
KEPT_BYTES = 1 << 26
BYTES_PER_QUEUED_CHARACTER = 25  # of an upload, before it is known how much text it has
MAX_SUGGESTION_BYTES = 1 << 28  # of a file of suggestions
PAGE = Path(__file__).with_name("page")
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'"
)
BODIES: dict[str, type[bodies.KeyBody]] = {
    "/translate": bodies.TranslateBody,
    "/translate_file": bodies.PairBody,
    "/detect": bodies.DetectBody,
    "/suggest": bodies.SuggestBody,
}
# Of Limits.seconds for a streamed translation, so that its client hears of a failure.
STREAM_SHARE = 0.9
T = TypeVar("T")
logger = logging.getLogger(__package__)


class App:
    """The HTTP routes of the translation server, and the translated files that await download.

    service: translates texts and documents. hosts: names of the server that a Host header may have,
    such as *.example.org. origins: web sites, such as https://example.org, whose pages may use the
    server. suggestions: folder for better translations that clients send; None: refuse them.
    """

    def __init__(
        self,
        service: Service,
        hosts: Sequence[str],
        origins: Sequence[str],
        suggestions: Path | None,
    ) -> None:
        self.service = service
        self.suggestions = suggestions
        self._hosts = list(hosts)
        self._origins = list(origins)
        self._files: dict[str, bytes] = {}  # by token
        read = (self.languages, self.spec, self.health, self.ready, self.metrics)
        self._routes = [
            *(Route(path, getattr(self, path[1:]), methods=["POST"]) for path in BODIES),
            *(Route(f"/{endpoint.__name__}", endpoint) for endpoint in read),
            Route("/", self.page),
            Route("/frontend/settings", self.settings),
            Route("/download_file/{token}/{name}", self.download_file),
        ]

    def asgi(self) -> Starlette:
        """Return the ASGI application: routes and web page behind a Gateway (checks, log)."""
        origins = self._origins
        middleware = [Middleware(Gateway, service=self.service, hosts=self._hosts, origins=origins)]
        if origins:
            cors = Middleware(
                CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"]
            )
            middleware.insert(0, cors)
        return Starlette(
            routes=[*self._routes, Mount("/page", StaticFiles(directory=PAGE))],
            middleware=middleware,
            exception_handlers={HTTPException: _http_error},
        )

    async def _read(self, request: Request, kind: type[T]) -> tuple[T, Any, str]:
        """Return the fields and the file of a request, and its client's account. Raises Refusal."""
        body, file = await bodies.read_request(request, kind, self.service.limits.body_bytes)
        return body, file, self._account(request, body)

    def _account(self, request: Request, body: Any = None) -> str:
        """Return the name under which a client is counted.

        The key is in the body, in the query string, or a bearer token. Raises Refusal (403) where
        one is needed and missing.
        """
        key = request.query_params.get("api_key") if body is None else body.api_key or body.apiKey
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not key and scheme.lower() == "bearer":
            key = token.strip()
        return account_of(key, self.service.keys, address_of(request.scope))

    async def translate(self, request: Request) -> Response:
        """Translate the text, or the list of texts, in the field q; answer with translatedText.

        With `Accept: text/event-stream` the answer is a stream of events: `part` with the next part
        of the translation, and at the end `done` with the whole answer, or `error`.
        """
        body, _, client = await self._read(request, bodies.TranslateBody)
        service = self.service
        is_list = isinstance(body.q, list)
        texts = body.q if isinstance(body.q, list) else [body.q]
        n_characters = service.limits.count_characters(texts)
        plan = await service.plan(body, texts, client)

        async def answer(on_part: Any = None, seconds: float | None = None) -> dict[str, Any]:
            with service.queue.admitted(client, 0 if plan.is_copy else n_characters):
                async with asyncio.timeout(seconds):
                    translations = await service.translate(texts, plan, body, on_part)
            fields: dict[str, list[Any]] = {
                "translatedText": [translation.variants[0] for translation in translations]
            }
            if plan.guess:
                fields["detectedLanguage"] = [plan.guess] * len(translations)
            if body.alternatives:
                fields["alternatives"] = [
                    translation.variants[1 : 1 + body.alternatives] for translation in translations
                ]
            if body.verdicts:
                fields["verdicts"] = [translation.verdicts for translation in translations]
            if is_list:
                return fields
            return {name: values[0] for name, values in fields.items()}

        if "text/event-stream" not in request.headers.get("accept", ""):
            return json_response(await _while_connected(request, answer()))
        parts = asyncio.Queue[str | None]()  # None ends them
        loop = asyncio.get_running_loop()

        def add(part: str) -> None:  # called by the worker's thread
            loop.call_soon_threadsafe(parts.put_nowait, part)

        task = asyncio.create_task(answer(add, STREAM_SHARE * service.limits.seconds))
        task.add_done_callback(lambda _: parts.put_nowait(None))
        await asyncio.sleep(0)  # refused before the stream begins, if at all
        if task.done():
            task.result()

        async def events() -> AsyncIterator[bytes]:
            try:
                while (text := await parts.get()) is not None:
                    yield _event("part", {"index": 0, "text": text})
                yield _event("done", await task)
            except (Exception, asyncio.CancelledError) as error:
                yield _event("error", {"error": refusal_of(service, error, request.scope).message})
            finally:
                task.cancel()

        headers = {"cache-control": "no-store"}
        return StreamingResponse(events(), media_type="text/event-stream", headers=headers)

    async def translate_file(self, request: Request) -> Response:
        """Translate the document in the field file; return a URL of it, valid for ten minutes."""
        service = self.service
        size = request.headers.get("content-length", "")
        n_bytes = int(size) if size.isdecimal() and len(size) < 12 else service.limits.body_bytes
        address = account_of(None, (), address_of(request.scope))
        with service.uploads.admitted(address, n_bytes // BYTES_PER_QUEUED_CHARACTER):
            body, file, client = await self._read(request, bodies.PairBody)
            if file is None:
                raise Refusal(
                    400, "the field file is missing: send the document in it (multipart/form-data)"
                )
            file_name, contents = file
            path = PurePath(file_name.replace("\\", "/"))
            if path.suffix.lower() not in SUFFIXES:
                raise Refusal(
                    400, f"expected a file whose name ends in one of {', '.join(SUFFIXES)}"
                )
            pair = None if body.source.lower() == AUTO else (body.source, body.target)
            source = DocumentSource(path.name, contents, pair)
            made = await _while_connected(request, service.translate_file(source, body, client))
        token = self._keep(made.data)
        name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{path.stem[-80:]}_{body.target}{path.suffix}")
        url = f"{request.base_url}download_file/{token}/{name}"
        return json_response(
            {
                "translatedFileUrl": url,
                "units": made.n_translated,
                "unitsToReview": made.n_to_review,
            }
        )

    def _keep(self, data: bytes) -> str:
        """Keep a translated file for ten minutes; return the token that its download needs."""
        token = secrets.token_urlsafe(16)
        self._files[token] = data
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._files.pop, token, None)
        while sum(map(len, self._files.values())) > KEPT_BYTES and len(self._files) > 1:
            del self._files[next(iter(self._files))]
        return token

    async def download_file(self, request: Request) -> Response:
        """Download a translated file; needs the API key if keys are required."""
        self._account(request)
        data = self._files.get(request.path_params["token"])
        if data is None:
            raise Refusal(404, "no such file: translated files are deleted after ten minutes")
        headers = {"content-disposition": "attachment"}  # never shown as a page of this server
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def detect(self, request: Request) -> Response:
        """Detect the language of the text q: list possible languages, the likeliest first."""
        body, _, _ = await self._read(request, bodies.DetectBody)
        self.service.limits.count_characters([body.q])
        return json_response(await self.service.guesses([body.q]))

    async def suggest(self, request: Request) -> Response:
        """Store a better translation (s) of a text (q) in the server's folder for suggestions."""
        body, _, client = await self._read(request, bodies.SuggestBody)
        if self.suggestions is None:
            raise Refusal(403, "this server does not accept suggestions")
        self.service.limits.count_characters([body.q, body.s])
        plan = await self.service.plan(body, [body.q], client)
        pair = [" ".join(text.split()) for text in (body.q, body.s)]
        if not all(pair) or plan.is_copy:
            raise Refusal(
                400, "a suggestion needs a text (q), and its translation (s) into another language"
            )
        path = self.suggestions / f"{plan.direction}.tsv"
        try:
            with open(path, "ab") as file:
                if file.tell() > MAX_SUGGESTION_BYTES:
                    raise Refusal(507, "the file of suggestions is full")
                file.write("\t".join(pair).encode() + b"\n")
        except OSError as error:
            logger.error("cannot write %s: %s", path, error.strerror)
            raise Refusal(507, "the suggestion could not be stored") from None
        return json_response({"success": True})

    async def languages(self, request: Request) -> Response:
        """List all languages of the server, each with the languages it can be translated into."""
        return json_response(self.service.languages.listed())

    async def health(self, request: Request) -> Response:
        """Tell that the server is running: always 200."""
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Tell whether requests are accepted: 503 if the queue is full or the server is ending."""
        if why := self.service.why_not_ready():
            raise Refusal(503, why)
        return json_response({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        """Return the metrics for Prometheus; needs the API key if keys are required."""
        self._account(request)
        text = generate_latest(self.service.metrics.registry)
        return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def settings(self, request: Request) -> Response:
        """Return the limits and features of the server that its web page needs to know."""
        target = self.service.languages.directions[0].target
        has_keys = bool(self.service.keys)
        return json_response(
            {
                "apiKeys": has_keys,
                "keyRequired": has_keys,
                "charLimit": self.service.limits.characters,
                "frontendTimeout": 300,
                "suggestions": self.suggestions is not None,
                "filesTranslation": True,
                "supportedFilesFormat": SUFFIXES,
                "alternatives": MAX_ALTERNATIVES,
                "language": {
                    "source": {"code": AUTO, "name": "Auto Detect"},
                    "target": {"code": target, "name": name_of(target)},
                },
            }
        )

    async def spec(self, request: Request) -> Response:
        """Return the OpenAPI description of all routes, this one among them."""
        return json_response(bodies.description(self._routes, BODIES))

    async def page(self, request: Request) -> Response:
        """Return the web page in which people translate, as HTML."""
        headers = {"content-security-policy": PAGE_POLICY, "referrer-policy": "no-referrer"}
        return FileResponse(PAGE / "index.html", headers=headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """Return an error of Starlette's, such as an unknown path, in the form of all others."""
    assert isinstance(error, HTTPException)
    return json_response({"error": error.detail}, error.status_code, error.headers)


def _event(name: str, value: Any) -> bytes:
    """Return a server-sent event; its JSON has no line ends."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(value))


async def _while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work; cancel it and raise ClientDisconnect if the client leaves."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task = asyncio.create_task(work)
    watch = asyncio.create_task(left())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
