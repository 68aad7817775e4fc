"""The routes of the server: LibreTranslate's API, health and metrics, and the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from bytenmt.decoding.constraints.glossary import Glossary
from bytenmt.errors import BytenmtError
from bytenmt.serve.detect import Detector
from bytenmt.serve.document_worker import DocumentSource
from bytenmt.serve.http import openapi
from bytenmt.serve.http.access import AccessMiddleware, AccessPolicy
from bytenmt.serve.http.files import SUFFIXES, DownloadStore, document_source
from bytenmt.serve.http.logs import ServerLog
from bytenmt.serve.http.middleware import RequestMiddleware
from bytenmt.serve.http.page import page
from bytenmt.serve.http.request import ParsedRequest, address_of, discard_body, parse_request
from bytenmt.serve.http.responses import (
    EventStream,
    http_error_response,
    json_response,
    refusal_response,
    while_connected,
)
from bytenmt.serve.http.streams import (
    format_answer,
    format_answers,
    format_event,
    stream_parts,
)
from bytenmt.serve.languages import Direction, name_of
from bytenmt.serve.limits import ApiKeys, Client, Refusal
from bytenmt.serve.metrics import CONTENT_TYPE, CurrentValue
from bytenmt.serve.service import AUTO, Service, TranslateParams, TranslateResponse
from bytenmt.serve.suggestions import Suggestions
from bytenmt.serve.worker import Worker


class LoadedModels(NamedTuple):
    """The parts of a server that are read from files, see Service and Server."""

    workers: Mapping[Direction, Worker]
    detector: Detector
    glossaries: Mapping[Direction, Glossary]
    keys: ApiKeys


class Upload(NamedTuple):
    """A request with a document. name: of the file, with its suffix."""

    request: ParsedRequest
    params: TranslateParams
    name: str
    document: DocumentSource


@dataclass
class Server:
    """The state that the routes share.

    suggestions: None if none are taken. access: which sites may use the server. trusted_proxies: addresses
    and networks whose X-Forwarded-For and X-Forwarded-Proto headers are believed. load: reads models,
    glossaries and keys again; None if `reload` has no effect.
    """

    service: Service
    log: ServerLog
    keys: ApiKeys = field(default_factory=ApiKeys)
    suggestions: Suggestions | None = None
    shelf: DownloadStore = field(default_factory=DownloadStore)
    access: AccessPolicy = field(default_factory=AccessPolicy)
    trusted_proxies: Sequence[str] = ()
    load: Callable[[], LoadedModels] | None = None

    async def reload(self) -> None:
        """Read models, glossaries and keys again while requests are answered.

        Requests that have begun keep their models. If something cannot be read, the log says so and
        everything stays as it is.
        """
        if self.load is None:
            return
        self.log.say("reloading")
        try:
            loaded = await asyncio.to_thread(self.load)
        except Exception as error:
            self.log.say("reload failed", "error", error=f"{type(error).__name__}: {error}"[:500])
            return
        former = self.service.replace_models(loaded.workers, loaded.detector, loaded.glossaries)
        self.keys.replace(loaded.keys)
        for worker in former:
            worker.finish()
        self.log.say("reloaded")

    async def _parse(self, request: Request) -> tuple[ParsedRequest, Client]:
        """Parse a request, and return it with the client that sent it. Raises Refusal."""
        parsed = await parse_request(request, self.service.limits)
        return parsed, parsed.client(request, self.keys)

    async def translate(self, request: Request) -> Response:
        """POST /translate."""
        parsed, client = await self._parse(request)
        service = self.service
        texts, several = parsed.texts()
        params = service.check(parsed.translate_params(service.limits))._replace(client=client)
        n_characters = service.limits.check_texts(texts)
        request.state.log_fields = {
            "pair": f"{params.source}-{params.target}",
            "texts": len(texts),
            "characters": n_characters,
        }
        details = parsed.flag("details")

        def shown(translated: list[TranslateResponse]) -> dict[str, Any]:
            record = format_answers(translated, params) if several else format_answer(translated[0], params)
            if details:
                lines = [one.line_details() for one in translated]
                record["details"] = lines if several else lines[0]
            return record

        if "text/event-stream" in request.headers.get("accept", ""):
            admission = service.admitted(n_characters, client)  # refused before the stream begins, if at all

            async def events() -> AsyncIterator[bytes]:
                try:
                    async for part in stream_parts(service, texts, params, admission):
                        if isinstance(part, tuple):
                            yield format_event("part", {"index": part[0], "text": part[1]})
                        else:
                            yield format_event("done", shown(part))
                except (Refusal, BytenmtError) as error:
                    yield format_event("error", {"error": str(error)})

            return EventStream(events(), admission.release)
        with service.admitted(n_characters, client):
            translated = await while_connected(request, service.translate(texts, params))
        return json_response(shown(translated))

    async def translate_file(self, request: Request) -> Response:
        """POST /translate_file."""
        upload = await self._parse_upload(request)
        service, params = self.service, upload.params
        with service.admitted(0, params.client):  # how much text a file has is known when it has been read
            lines = await while_connected(request, service.read_document(upload.document, params))
        with service.admitted(service.limits.check_texts(lines), params.client):
            data = await while_connected(request, service.document(upload.document, lines, params))
        return json_response({"translatedFileUrl": self._offer(request, upload, data)})

    async def _parse_upload(self, request: Request) -> Upload:
        """Parse a request with a document. Raises Refusal."""
        await self._check_room_for_file(request)
        parsed, client = await self._parse(request)
        if parsed.file is None:
            raise Refusal(400, "Invalid request: missing file parameter")
        params = parsed.translate_params(self.service.limits)._replace(html=True)
        params = self.service.check(params)._replace(client=client)
        pair = params.source, params.target
        document = document_source(*parsed.file, *pair, parsed.text("column", ""), parsed.text("into", ""))
        return Upload(parsed, params, parsed.file[0], document)

    def _offer(self, request: Request, upload: Upload, data: bytes) -> str:
        """Store a translated file and return its URL."""
        stem, _, suffix = upload.name.rpartition(".")
        return f"{request.base_url}{self.shelf.put(f'{stem}_{upload.params.target}.{suffix}', data)}"

    async def _check_room_for_file(self, request: Request) -> None:
        """Refuse (429) an upload for which there is no room before it is parsed: that costs more than to read
        it."""
        length = request.headers.get("content-length", "")
        if length.isdecimal() and len(length) < 10:
            try:
                self.service.documents.check_room(int(length), Client(address_of(request)))
            except Refusal:
                await discard_body(request, self.service.limits)
                raise

    async def download(self, request: Request) -> Response:
        """GET /download_file/TOKEN/NAME."""
        found = self.shelf.get(request.path_params["token"])
        if found is None:
            raise Refusal(404, "no such file: translated files are deleted after ten minutes")
        name, data = found
        return Response(
            data,
            media_type="application/octet-stream",  # never shown as a page of this server
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    async def detect(self, request: Request) -> Response:
        """POST /detect."""
        parsed, _ = await self._parse(request)
        text = parsed.text("q")
        self.service.limits.check_texts([text])
        return json_response([guess._asdict() for guess in self.service.detector.guesses(text)])

    async def suggest(self, request: Request) -> Response:
        """POST /suggest."""
        parsed, _ = await self._parse(request)
        if self.suggestions is None:
            raise Refusal(403, "this server does not accept suggestions")
        texts = parsed.text("q"), parsed.text("s")
        self.service.limits.check_texts(texts)
        params = self.service.check(parsed.translate_params(self.service.limits))
        source = params.source
        if source == AUTO:
            source = self.service.detector.guesses(texts[0])[0].language
        await asyncio.to_thread(self.suggestions.add, Direction(source, params.target), *texts)
        return json_response({"success": True})

    async def languages(self, request: Request) -> Response:
        """GET /languages."""
        return json_response(self.service.languages.listed())

    async def health(self, request: Request) -> Response:
        """GET /health: liveness of the process."""
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """GET /ready: readiness; 503 if the queue is full, a model is missing or the server is ending."""
        why = self.service.not_ready
        return (
            json_response({"status": "ok"})
            if why is None
            else json_response({"status": "unavailable", "error": why}, 503)
        )

    async def metrics(self, request: Request) -> Response:
        """GET /metrics; needs a key if keys are required, as a bearer token or ?api_key=."""
        ParsedRequest(dict(request.query_params)).client(request, self.keys)
        service = self.service
        current: list[CurrentValue] = [
            ("requests_in_flight", {}, service.n_requests),
            ("characters_in_flight", {}, service.n_characters),
        ]
        for direction, worker in service.workers.items():
            of = {"direction": str(direction)}
            current += [
                ("sentences_running", of, worker.n_running),
                ("steps_total", of, worker.n_steps),
                ("sentence_steps_total", of, worker.n_sentence_steps),
            ]
        text = service.metrics.text(current)
        return PlainTextResponse(text, media_type=CONTENT_TYPE)

    async def settings(self, request: Request) -> Response:
        """GET /frontend/settings."""
        languages, limits = self.service.languages, self.service.limits
        first = languages.directions[0]
        return json_response(
            {
                "apiKeys": self.keys.required,
                "keyRequired": self.keys.required,
                "charLimit": limits.characters,
                "frontendTimeout": 300,
                "suggestions": self.suggestions is not None,
                "filesTranslation": True,
                "supportedFilesFormat": list(SUFFIXES),
                "alternatives": limits.alternatives,
                "language": {
                    "source": {"code": AUTO, "name": "Auto Detect"},
                    "target": {"code": first.target, "name": name_of(first.target)},
                },
            }
        )

    async def spec(self, request: Request) -> Response:
        """GET /spec."""
        return json_response(openapi.description())

    async def docs(self, request: Request) -> Response:
        """GET /docs."""
        headers = {"content-security-policy": "default-src 'none'", "x-content-type-options": "nosniff"}
        return HTMLResponse(openapi.page(), headers=headers)

    async def front(self, request: Request) -> Response:
        """GET /: the page for translating."""
        text, policy = page()
        headers = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cache-control": "no-cache",
        }
        return HTMLResponse(text, headers=headers)

    def routes(self) -> list[BaseRoute]:
        """Return all routes."""
        posted = {
            "/translate": self.translate,
            "/translate_file": self.translate_file,
            "/detect": self.detect,
            "/suggest": self.suggest,
        }
        read = {
            "/": self.front,
            "/languages": self.languages,
            "/health": self.health,
            "/ready": self.ready,
            "/metrics": self.metrics,
            "/frontend/settings": self.settings,
            "/spec": self.spec,
            "/docs": self.docs,
            "/download_file/{token}/{name}": self.download,
        }
        return [
            *(Route(path, endpoint, methods=["POST"]) for path, endpoint in posted.items()),
            *(Route(path, endpoint, methods=["GET"]) for path, endpoint in read.items()),
        ]

    def app(self) -> Starlette:
        """Return the ASGI application."""
        middleware = [
            Middleware(RequestMiddleware, service=self.service, log=self.log),
            Middleware(AccessMiddleware, policy=self.access),
        ]
        if self.trusted_proxies:
            middleware.insert(0, Middleware(ProxyHeadersMiddleware, trusted_hosts=list(self.trusted_proxies)))
        if origins := list(self.access.allowed_origins):
            every = ["*"]
            cors = Middleware(CORSMiddleware, allow_origins=origins, allow_methods=every, allow_headers=every)
            middleware.append(cors)
        return Starlette(
            routes=self.routes(),
            middleware=middleware,
            exception_handlers={Refusal: refusal_response, HTTPException: http_error_response},
        )
