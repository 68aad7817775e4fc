"""Translate texts and documents for an event loop: detect the language, find the models, ask the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from bytenmt import __version__
from bytenmt.decoding.confidence import verdict_record
from bytenmt.decoding.glossary import Glossary, Term
from bytenmt.decoding.interface import Hypothesis
from bytenmt.decoding.kept_spans import KeepSpec, Part
from bytenmt.decoding.line_batch import Chunk, TranslationResult
from bytenmt.prometheus import NAMESPACE
from bytenmt.serve.bodies import PairBody
from bytenmt.serve.documents import DocumentPool, DocumentSource, for_document
from bytenmt.serve.languages import Direction, Guess, Languages, name_of
from bytenmt.serve.work_queue import Limits, Refusal, WorkQueue
from bytenmt.serve.worker import Worker

AUTO = "auto"
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # of histograms, in seconds
MAX_TERMS, MAX_TERM_CHARACTERS = 200, 300  # of a request's glossary; characters of a term and of its target

disable_created_metrics()  # type: ignore[no-untyped-call]  # the time at which each counter was made


class Metrics:
    """Counters, gauges and histograms of a server, beside those of its process, such as its memory."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        own: dict[str, Any] = {"namespace": NAMESPACE, "registry": self.registry}
        Gauge("build_info", "The version.", ["version"], **own).labels(__version__).set(1)
        self.requests = Counter("requests", "Answered requests.", ["path", "status"], **own)
        self.seconds = Histogram(
            "request_seconds", "From headers to answer.", ["path"], buckets=BOUNDS, **own
        )
        self.wait = Histogram("queue_wait_seconds", "Until the first line is decoded.", buckets=BOUNDS, **own)
        self.abandoned = Counter("abandoned", "Requests whose clients left first.", ["kind"], **own)
        self.deadlines = Counter("deadlines", "Requests that were not answered in time.", **own)
        self.reloads = Counter("reloads", "Times that models and keys were read again.", ["result"], **own)
        self.source_bytes = Counter("source_bytes", "Bytes that models translated.", ["direction"], **own)
        self.in_flight = Gauge("requests_in_flight", "Requests that wait or are decoded.", **own)
        self.running = Gauge("sentences_running", "Sentences that are decoded.", ["direction"], **own)


@dataclass
class Models:
    """The parts of a server that are read from files, and read again at a reload."""

    workers: dict[Direction, Worker]
    keep: dict[Direction, KeepSpec | None]  # what is kept, with the server's terms; None: trained for nothing
    keys: Sequence[str] = ()  # that clients need; without any, none is needed

    def __post_init__(self) -> None:
        self.languages = Languages(list(self.workers))

    def keep_with(self, step: Direction, terms: Sequence[Term]) -> KeepSpec | None:
        """Return what a step keeps, with terms of a client, which go before the server's own ones.

        Raises Refusal (400) for terms that the model of the step cannot use.
        """
        keep = self.keep[step]
        if not terms:
            return keep
        if keep is None:
            raise Refusal(400, f"the model of {step} was trained without sentinels and takes no glossary")
        return replace(keep, glossary=Glossary((*terms, *(keep.glossary.terms if keep.glossary else ()))))


class Plan(NamedTuple):
    """The way in which the texts of a request are translated."""

    target: str
    path: list[Direction]  # from the source language; empty if they are in the target language already
    guess: Guess | None  # the detected source language
    terms: Sequence[Term]  # the client's, for a path of one step
    client: str  # the account that takes turns with others


class Translation(NamedTuple):
    """The translation of a text, and the results of its lines by the last model."""

    text: str
    alternatives: list[str]
    results: list[TranslationResult]

    def details(self) -> list[dict[str, Any]]:
        """Return source, translation, bits per byte and verdict of each line, as JSON values."""
        return [
            {
                "source": result.source.decode(),
                "text": result.best.text.decode(),
                "bits_per_byte": result.best.bits_per_byte,
                **verdict_record(result.best),
            }
            for result in self.results
        ]


def split_lines(text: str) -> tuple[list[bytes], list[str]]:
    """Return the lines of a plain text without white space at either end, but for blank ones, and what stands
    before, between and after them."""
    lines, separators = list[bytes](), [""]
    for line in text.splitlines(keepends=True):
        inner = line.strip()
        begin = line.index(inner)
        separators[-1] += line[:begin] if inner else line
        if inner:
            lines.append(inner.encode())
            separators.append(line[begin + len(inner) :])
    return lines, separators


@dataclass
class Service:
    """Translates texts and documents."""

    models: Models
    limits: Limits = Limits()
    metrics: Metrics = field(default_factory=Metrics)
    n_open: int = 0  # requests of which the answer is not sent in full
    is_draining: bool = False  # the server is about to end

    def __post_init__(self) -> None:
        self.queue = WorkQueue(self.limits)
        self.uploads = WorkQueue(self.limits)  # which are read; they do not keep texts waiting
        self.documents = DocumentPool()

    def why_not_ready(self) -> str | None:
        """Return why the server is not ready for requests, or None if it is."""
        workers = self.models.workers.items()
        dead = [str(direction) for direction, worker in workers if not worker.thread.is_alive()]
        if dead:
            return f"the model of {', '.join(dead)} is not loaded"
        if self.is_draining:
            return "the server is about to end"
        return "too many requests are waiting" if self.queue.is_full else None

    def known(self, code: str) -> str:
        """Return a served language. Raises Refusal (400)."""
        found = self.models.languages.known(code)
        if found is None:
            raise Refusal(400, f"{code[:50]!r} is not a served language: see /languages")
        return found

    async def guesses(self, texts: Sequence[str]) -> list[Guess]:
        """Return the languages that texts may be in, see Languages.guesses."""
        return await asyncio.to_thread(self.models.languages.guesses, "\n".join(texts))

    async def plan(self, body: PairBody, texts: Sequence[str], client: str) -> Plan:
        """Return how the texts of a request are translated.

        Raises Refusal (400) for a direction that is not served, and for a glossary that is too long.
        """
        target, guess = self.known(body.target), None
        if body.source.lower() == AUTO:
            guess = (await self.guesses(texts))[0]
        source = guess.language if guess else self.known(body.source)
        path = self.models.languages.path(source, target)
        if path is None:
            detected = f"the text is in {name_of(source)} ({source}), as detected: " if guess else ""
            raise Refusal(400, f"{detected}no model translates from {source} into {target}: see /languages")
        return Plan(target, path, guess, parse_terms(body.glossary) if len(path) == 1 else (), client)

    async def translate(
        self, texts: Sequence[str], plan: Plan, on_part: Callable[[str], object] | None = None, **options: Any
    ) -> list[Translation]:
        """Return the translations of texts, in their order. Cancelling it cancels the work.

        on_part: is given the translation of a single text in parts while it is decoded. options: see
        worker.Job.
        """
        split = [split_lines(text) for text in texts]
        n_begun = 0

        def add(line: int, part: bytes) -> None:
            """Pass on a part of a line, and what stands between it and the line before."""
            nonlocal n_begun
            if text := "".join(split[0][1][n_begun : line + 1]) + part.decode():
                on_part(text)  # type: ignore[misc]
            n_begun = max(n_begun, line + 1)

        options["on_part"] = add if on_part is not None and plan.path and len(texts) == 1 else None
        results = await self._translate_lines([lines for lines, _ in split], plan, **options)
        if options["on_part"]:
            add(len(split[0][0]), b"")
        found = []
        for (_, separators), own in zip(split, results, strict=True):
            n_variants = max((len(result.hypotheses) for result in own), default=1)
            best, *others = dict.fromkeys(_variant(separators, own, k) for k in range(n_variants))
            found.append(Translation(best, others, own))
        return found

    async def translate_html(self, texts: Sequence[str], plan: Plan, **options: Any) -> list[Translation]:
        """Return HTML with its text translated; without alternatives."""
        # The byte order mark says that it is UTF-8, whatever the page declares.
        pages = [DocumentSource("text.html", text.encode("utf-8-sig")) for text in texts]
        lines = await self.documents.run(plan.client, pages)
        results = await self._translate_lines(lines, plan, **options)
        written = await self.documents.run(plan.client, pages, list(map(for_document, results)))
        texts = [page.decode("utf-8-sig") for page in written]
        return [Translation(text, [], own) for text, own in zip(texts, results, strict=True)]

    async def translate_file(self, file: DocumentSource, body: PairBody, client: str) -> bytes:
        """Return a document with its text translated. Raises Refusal."""
        (lines,) = await self.documents.run(client, [file])
        texts = ["".join(part for part in line if isinstance(part, str)) for line in lines]
        plan = await self.plan(body, texts, client)
        with self.queue.admitted(client, self.limits.count_characters(texts)):
            (results,) = await self._translate_lines([lines], plan, is_judged=True)
            (data,) = await self.documents.run(client, [file], [for_document(results)])
            return bytes(data)

    async def _translate_lines(
        self,
        groups: Sequence[Sequence[bytes | Sequence[Part]]],
        plan: Plan,
        has_alternatives: bool = False,
        on_part: Callable[[int, bytes], object] | None = None,
        **options: bool,
    ) -> list[list[TranslationResult]]:
        """Return the results of the lines of each group: of the last model, with the flags of all models."""
        results = [_copied(line) for group in groups for line in group]
        for step in plan.path:
            former, is_last = results, step == plan.path[-1]
            results = await self.models.workers[step].translate(
                [result.parts for result in former],
                on_part=on_part if is_last else None,
                has_alternatives=has_alternatives and is_last,
                keep=self.models.keep_with(step, plan.terms),
                client=plan.client,
                **options,
            )
            self.metrics.source_bytes.labels(str(step)).inc(sum(len(one.best.text) for one in former))
            results = [one.with_flags(own.best.flags or ()) for one, own in zip(results, former, strict=True)]
        rest = iter(results)
        return [[next(rest) for _ in group] for group in groups]


def _copied(line: bytes | Sequence[Part]) -> TranslationResult:
    """Return a line as if it were its own translation."""
    parts: list[Part] = [line.decode()] if isinstance(line, bytes) else list(line)
    text = "".join(part if isinstance(part, str) else part.text for part in parts).encode()
    best = Hypothesis(text, 0.0, 0.0)
    return TranslationResult([best], [Chunk(text, b"", text)], [[best]], parts)


def _variant(separators: Sequence[str], results: Sequence[TranslationResult], k: int) -> str:
    """Return a text with the k-th hypotheses of its lines, or the best one where a line has fewer."""
    chosen = (one.hypotheses[k if k < len(one.hypotheses) else 0].text.decode() for one in results)
    return "".join(part for pair in zip(separators, [*chosen, ""], strict=True) for part in pair)


def parse_terms(value: str | dict[str, str]) -> list[Term]:
    """Return a glossary, from terms with their targets, or lines `term TAB target`. Raises Refusal (400)."""
    pairs = value.items() if isinstance(value, dict) else (line.split("\t", 1) for line in value.splitlines())
    cleaned = [[" ".join(side.split()) for side in pair] for pair in pairs if all(map(str.strip, pair))]
    if len(cleaned) > MAX_TERMS or any(len(side) > MAX_TERM_CHARACTERS for pair in cleaned for side in pair):
        raise Refusal(400, f"a glossary has at most {MAX_TERMS} terms of {MAX_TERM_CHARACTERS} characters")
    if any(len(pair) != 2 for pair in cleaned):
        raise Refusal(400, "a line of the glossary is not a term, a tab and a target")
    return [Term(source, target) for source, target in cleaned]
