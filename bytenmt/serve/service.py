"""Translate texts and documents for an event loop.

Detect the language, find the model, ask its worker.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from bytenmt import __version__
from bytenmt.documents.translation import LineTranslation
from bytenmt.documents.unit import CodedText
from bytenmt.serve import documents
from bytenmt.serve.bodies import PairBody, TranslateBody
from bytenmt.serve.documents import (
    DocumentPool,
    DocumentSource,
    TranslatedFile,
    read,
    write,
)
from bytenmt.serve.languages import Direction, LanguageGuess, ServedLanguages, name_of
from bytenmt.serve.work_queue import Limits, Refusal, WorkQueue
from bytenmt.serve.worker import Worker
from bytenmt.translation.confidence import verdict_record
from bytenmt.translation.kept_spans import SourceLine
from bytenmt.translation.line_batch import TranslationResult

AUTO = "auto"
MAX_ALTERNATIVES = 3  # to a best translation
# Characters that are translated again to repair a document, as a multiple of those that it has:
# deeply nested codes would ask for far more.
MAX_REPAIR_SHARE = 2.0
# Upper bounds of the histograms' buckets, in seconds.
BUCKET_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

logger = logging.getLogger(__package__)
prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # when each counter was made


class Metrics:
    """The Prometheus metrics of a server; `registry` has them and metrics of the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        common: dict[str, Any] = {"namespace": "bytenmt", "registry": self.registry}
        self.build_info = Gauge(
            "build_info",
            "The version, and of each direction the digest of its models' files.",
            ["version", "direction", "models"],
            **common,
        )
        self.requests = Counter("requests", "Answered requests.", ["path", "status"], **common)
        in_seconds: dict[str, Any] = {"buckets": BUCKET_SECONDS, **common}
        self.seconds = Histogram("request_seconds", "Until the answer.", ["path"], **in_seconds)
        self.source_bytes = Counter(
            "source_bytes", "Bytes that models translated.", ["direction"], **common
        )
        self.in_flight = Gauge("requests_in_flight", "Requests that wait or are decoded.", **common)
        self.queue_seconds = Histogram(
            "queue_wait_seconds", "Until the first line is decoded.", **in_seconds
        )
        self.dead_processes = Counter(
            "dead_document_processes", "Processes that died with a document.", **common
        )


class DirectionWorkers(NamedTuple):
    """The two or three threads that decode with the model, or ensemble, of one direction."""

    worker: Worker  # for the best translation alone
    alternatives: Worker  # for MAX_ALTERNATIVES (3) further translations, with a wider beam
    digests: tuple[str, ...] = ()  # the beginning of the SHA-256 of each weights file
    # For documents, with a wide beam ranked by a model of the opposite direction; None: `worker`.
    documents: Worker | None = None


class TranslationPlan(NamedTuple):
    """The direction and client of a request to translate."""

    direction: Direction
    guess: LanguageGuess | None  # the detected source language, None if the client named it
    client: str  # name of the client; clients take turns

    @property
    def is_copy(self) -> bool:
        """Return whether the texts are in the target language already and stay as they are."""
        return self.direction.source == self.direction.target


class TextTranslation(NamedTuple):
    """The translation of a text of a request."""

    variants: list[str]  # distinct translations, the best one first
    # Of each sentence of the best one, in order: begin and end in the text, in characters, verdict,
    # reasons, flags and unknown_words. Empty if it was not judged.
    verdicts: Sequence[Mapping[str, Any]] = ()


def split_lines(text: str) -> tuple[list[bytes], list[str]]:
    """Return the stripped, non-blank lines of a text, and the white space around them.

    There is one separator more than lines: separators[i] stands before lines[i].
    """
    lines: list[bytes] = []
    separators = [""]
    for line in text.splitlines(keepends=True):
        inner = line.strip()
        if not inner:
            separators[-1] += line
            continue
        begin = line.index(inner)
        separators[-1] += line[:begin]
        lines.append(inner.encode())
        separators.append(line[begin + len(inner) :])
    return lines, separators


@dataclass
class Service:
    """Translates texts and documents for the server's routes, by its models, within its limits."""

    models: dict[Direction, DirectionWorkers]  # the running models of each direction
    keys: Sequence[str] = ()  # API keys, of which a client needs one; empty: none is needed
    limits: Limits = Limits()  # of characters, requests and seconds
    metrics: Metrics = field(default_factory=Metrics)  # for Prometheus
    is_draining: bool = False  # the server is shutting down

    def __post_init__(self) -> None:
        self.languages = ServedLanguages(list(self.models))
        self.queue = WorkQueue(self.limits)
        self.metrics.in_flight.set_function(lambda: self.queue.n_requests)
        # Uploads do not keep texts waiting.
        self.uploads = WorkQueue(self.limits._replace(seconds=math.inf))
        self.documents = DocumentPool(self.metrics.dead_processes.inc)
        for direction, model in self.models.items():
            labels = (__version__, str(direction), " ".join(model.digests))
            self.metrics.build_info.labels(*labels).set(1)

    def why_not_ready(self) -> str | None:
        """Return why the server is not ready for requests, or None if it is."""
        if self.is_draining:
            return "the server is shutting down"
        return "too many requests are waiting" if self.queue.is_full else None

    async def guesses(self, texts: Sequence[str]) -> list[LanguageGuess]:
        """Return the languages that the texts, taken together, may be in, likeliest first."""
        return await asyncio.to_thread(self.languages.guesses, "\n".join(texts))

    async def plan(self, body: PairBody, texts: Sequence[str], client: str) -> TranslationPlan:
        """Choose the direction of a request, detecting its source language if that is "auto".

        body: the languages asked for. texts: to detect the language of. client: name of the client.
        Raises Refusal (HTTP 400) for a direction that is not served.
        """
        target = self.languages.known(body.target)
        guess = (await self.guesses(texts))[0] if body.source.lower() == AUTO else None
        source = guess.language if guess else self.languages.known(body.source)
        plan = TranslationPlan(Direction(source, target), guess, client)
        if not plan.is_copy and plan.direction not in self.models:
            message = f"no model translates from {source} into {target}: see /languages"
            if guess is not None:
                message = f"the text is in {name_of(source)} ({source}), as detected: {message}"
            raise Refusal(400, message)
        return plan

    async def translate(
        self,
        texts: Sequence[str],
        plan: TranslationPlan,
        body: TranslateBody,
        on_part: Callable[[str], object] | None = None,
    ) -> list[TextTranslation]:
        """Translate texts; return distinct translations of each, the best first (HTML: only one).

        plan: direction and client, from `plan`. body: the fields format, alternatives and verdicts
        of the request. on_part: for a single plain text, called with its next translated sentences,
        by any thread. Raises Refusal (HTTP 400) for verdicts of HTML.
        """
        if body.verdicts and body.format == "html":
            raise Refusal(400, "HTML has no verdicts: leave out verdicts, or format=html")
        if plan.is_copy:
            return [TextTranslation([text]) for text in texts]
        if body.format == "html":
            # The byte order mark says that it is UTF-8, whatever the page declares.
            pages = [DocumentSource("text.html", text.encode("utf-8-sig")) for text in texts]
            of_pages = await self.documents.run(plan.client, read, pages)
            translated = await self._translate_documents(pages, of_pages, plan, is_judged=False)
            return [TextTranslation([page.data.decode("utf-8-sig")]) for page in translated]
        split = [split_lines(text) for text in texts]
        n_begun = 0

        def add(line: int, part: bytes) -> None:
            """Pass on a part of a line, and what stands between it and the line before."""
            nonlocal n_begun
            separators = split[0][1]
            text = "".join(separators[n_begun : line + 1]) + part.decode()
            if text and on_part is not None:
                on_part(text)
            n_begun = max(n_begun, line + 1)

        is_streamed = on_part is not None and len(texts) == 1
        results = await self._translate_lines(
            [lines for lines, _ in split],
            plan,
            n_more=body.alternatives,
            on_part=add if is_streamed else None,
            is_judged=body.verdicts,
        )
        if is_streamed:
            add(len(split[0][0]), b"")
        return [
            _text_translation(separators, of_lines, body.verdicts)
            for (_, separators), of_lines in zip(split, results, strict=True)
        ]

    async def translate_file(
        self, file: DocumentSource, body: PairBody, client: str
    ) -> TranslatedFile:
        """Translate a document and mark its doubtful paragraphs for review.

        body: the languages asked for. client: name of the client. Raises Refusal if the file is
        malformed, the direction is not served, or the work is too much.
        """
        (lines,) = await self.documents.run(client, read, [file])
        texts = [_text_of(line) for line in lines]
        plan = await self.plan(body, texts, client)
        with self.queue.admitted(client, self.limits.count_characters(texts)):
            return (await self._translate_documents([file], [lines], plan, is_judged=True))[0]

    async def _translate_documents(
        self,
        files: Sequence[DocumentSource],
        lines: Sequence[Any],
        plan: TranslationPlan,
        is_judged: bool,
    ) -> list[TranslatedFile]:
        """Return files with their lines translated. is_judged: mark doubtful units."""
        if plan.is_copy:
            return [TranslatedFile(file.data) for file in files]
        results = await self._translate_lines(
            lines, plan, is_document=is_judged, is_judged=is_judged
        )
        made = [_line_translations(of_file) for of_file in results]
        if any(_has_codes(line) for of_file in lines for line in of_file):
            made = await self._repair(lines, made, plan, is_judged)
        files = [file._replace(pair=file.pair or (*plan.direction,)) for file in files]
        translated: list[TranslatedFile] = await self.documents.run(plan.client, write, files, made)
        return translated

    async def _repair(
        self,
        lines: Sequence[Sequence[CodedText]],
        translations: list[list[LineTranslation]],
        plan: TranslationPlan,
        is_judged: bool,
    ) -> list[list[LineTranslation]]:
        """Return translations of the lines of files, those repaired whose codes went astray.

        They stay as they are where a repair would take too much time or further text.
        """
        try:
            torn = await self.documents.run(plan.client, documents.torn_lines, lines, translations)
            n_torn = sum(len(_text_of(line)) for of_file in torn for line in of_file)
            n_characters = sum(len(_text_of(line)) for of_file in lines for line in of_file)
            if not n_torn or n_torn > MAX_REPAIR_SHARE * n_characters:
                return translations
            results = await self._translate_lines(
                torn, plan, is_document=is_judged, is_judged=is_judged
            )
            further = [_line_translations(of_file) for of_file in results]
            made: list[list[LineTranslation]] = await self.documents.run(
                plan.client, documents.repaired, lines, translations, torn, further
            )
        except Refusal as refusal:
            logger.warning("codes were not repaired: %s", refusal.message)
            return translations
        return made

    async def _translate_lines(
        self,
        groups: Sequence[Sequence[SourceLine]],
        plan: TranslationPlan,
        n_more: int = 0,
        is_document: bool = False,
        **options: Any,
    ) -> list[list[TranslationResult]]:
        """Return the results of the lines of each group.

        n_more: alternatives. is_document: whether nobody waits for each line. options: of
        TranslationJob.
        """
        model = self.models[plan.direction]
        worker = model.alternatives if n_more else model.worker
        if is_document and model.documents is not None:
            worker = model.documents
        lines = list(chain.from_iterable(groups))
        results = await worker.translate(
            lines,
            client=plan.client,
            on_begin=self.metrics.queue_seconds.observe,
            **options,
        )
        n_bytes = sum(len(result.source) for result in results)
        self.metrics.source_bytes.labels(str(plan.direction)).inc(n_bytes)
        remaining = iter(results)
        return [list(islice(remaining, len(group))) for group in groups]


def _has_codes(line: CodedText) -> bool:
    return not all(isinstance(part, str) for part in line)


def _text_of(line: CodedText) -> str:
    """Return the text of a document's line without its inline codes."""
    return "".join(part for part in line if isinstance(part, str))


def _line_translations(results: Sequence[TranslationResult]) -> list[LineTranslation]:
    return [LineTranslation(result.parts, result.best.flags or ()) for result in results]


def _text_translation(
    separators: Sequence[str], results: Sequence[TranslationResult], is_judged: bool
) -> TextTranslation:
    """Return the translation of a text from the hypotheses of its lines."""
    variants = [_variant(separators, results, k) for k in range(1 + MAX_ALTERNATIVES)]
    distinct = list(dict.fromkeys(variants))
    if not is_judged:
        return TextTranslation(distinct)
    return TextTranslation(distinct, _sentence_verdicts(separators, results))


def _sentence_verdicts(
    separators: Sequence[str], results: Sequence[TranslationResult]
) -> list[dict[str, Any]]:
    """Return where each sentence of a translated text stands, and its verdict."""
    verdicts = []
    position = len(separators[0])
    for result, separator in zip(results, separators[1:], strict=True):
        for chunk, hypotheses in zip(result.chunks, result.chunk_hypotheses, strict=True):
            best = hypotheses[0]
            source = chunk.text.decode()
            end = position + len(best.text.decode())
            record = {"begin": position, "end": end, **verdict_record(best)}
            record["unknown_words"] = [word for word in result.unknown_words if word in source]
            if end > position:
                verdicts.append(record)
            position = end + len(chunk.separator.decode())
        position += len(separator)
    return verdicts


def _variant(separators: Sequence[str], results: Sequence[TranslationResult], k: int) -> str:
    """Return a text with the k-th hypotheses of its lines, or the best of a line with fewer."""
    text = separators[0]
    for result, separator in zip(results, separators[1:], strict=True):
        hypothesis = result.hypotheses[k] if k < len(result.hypotheses) else result.best
        text += hypothesis.text.decode() + separator
    return text
