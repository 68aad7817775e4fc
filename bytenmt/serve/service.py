"""Translate texts and documents for an event loop: detect the language, find the steps, ask the workers."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from bytenmt.decoding.confidence import verdict_record
from bytenmt.decoding.constraints.constraint_spec import ConstraintSpec
from bytenmt.decoding.constraints.glossary import Glossary, Term
from bytenmt.decoding.interface import Hypothesis
from bytenmt.decoding.line_batch import TranslationResult
from bytenmt.decoding.setting_table import KEPT_BY_SERVER, KEPT_OF_DOCUMENTS
from bytenmt.serve.detect import Detector, Guess
from bytenmt.serve.document_pool import DocumentPool
from bytenmt.serve.document_worker import DocumentSource
from bytenmt.serve.languages import Direction, Languages
from bytenmt.serve.limits import LONGEST_WAIT, SHORTEST_WAIT, UNKNOWN_CLIENT, Client, Limits, Refusal
from bytenmt.serve.metrics import Metrics
from bytenmt.serve.texts import OnPart, PartialTexts, PlainText
from bytenmt.serve.worker import Job, Worker

AUTO = "auto"

WAITING_REQUESTS_FACTOR = 50  # so many times the characters of a request may wait altogether
T = TypeVar("T")


class TranslateParams(NamedTuple):
    """The parameters of a translation.

    source: a code or AUTO. target: a code. html: whether the texts are HTML, or a file. alternatives: of each
    text. keep: classes of spans that are copied, see spans.grammar.CLASSES; None: the server's default.
    terms: a glossary of the client's own, for the one step from source to target.
    client: who asks; clients take turns. details: whether the translations are judged.
    """

    source: str
    target: str
    html: bool = False
    alternatives: int = 0
    keep: tuple[str, ...] | None = None
    terms: tuple[Term, ...] = ()
    client: Client = UNKNOWN_CLIENT
    details: bool = False


class TranslateResponse(NamedTuple):
    """The response to a request to translate a text.

    alternatives: at most as many as the request asked for. guess: the detected language, if the source was
    AUTO. lines: the source of each line that was translated, and the result of the last model.
    """

    text: str
    alternatives: list[str]
    guess: Guess | None
    lines: list[tuple[str, TranslationResult]]

    def line_details(self) -> list[dict[str, Any]]:
        """Return source, translation, bits per byte and verdict of each line, as JSON values."""
        return [
            {
                "source": source,
                "text": result.best.text.decode(),
                "bits_per_byte": result.best.bits_per_byte,
                **verdict_record(result.best),
            }
            for source, result in self.lines
        ]


class Admission:
    """A request in flight until `release` is called or a `with` block ends; later releases do nothing."""

    def __init__(self, on_release: Callable[[], None]) -> None:
        self._on_release: Callable[[], None] | None = on_release

    def release(self) -> None:
        """Count the request as done: it is computed, refused or abandoned.

        An answer that is still being sent does not count, so that clients that do not read hold no places.
        """
        on_release, self._on_release = self._on_release, None
        if on_release is not None:
            on_release()

    def __enter__(self) -> Admission:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass
class Service:
    """Translates texts and documents with the models of a server.

    workers: a thread for each direction that has a model. detector: of the languages that are served.
    keep: classes of spans that are copied from every text unless the client says otherwise. glossaries: the
    server's own terms, of some directions; a client's term replaces the server's for the same source text.
    """

    workers: Mapping[Direction, Worker]
    detector: Detector
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    keep: tuple[str, ...] = tuple(sorted(KEPT_BY_SERVER))
    glossaries: Mapping[Direction, Glossary] = field(default_factory=dict)
    draining: bool = False  # the server is about to end
    n_requests: int = 0  # that are in flight
    n_characters: int = 0
    _seconds_each: float = 0.1  # between two answers under load, as of late
    _last_answer: float = 0.0
    _rules: dict[tuple[tuple[str, ...], Direction], ConstraintSpec | None] = field(default_factory=dict)
    _requests_of: Counter[str] = field(default_factory=Counter)  # in flight, by the accounts of clients
    _characters_of: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.languages = Languages(list(self.workers))
        self._deadlines: set[asyncio.Timeout] = set()  # of the requests that are not answered in full
        self._is_cut_off = False
        self.documents = DocumentPool(self.limits)

    def replace_models(
        self,
        workers: Mapping[Direction, Worker],
        detector: Detector,
        glossaries: Mapping[Direction, Glossary],
    ) -> list[Worker]:
        """Use other models of the same directions from now on.

        Returns the former workers, which may still be at work. Call it in the event loop's thread.
        """
        former = list(self.workers.values())
        self.workers, self.detector, self.glossaries = workers, detector, glossaries
        self._rules.clear()
        return former

    def admitted(self, n_characters: int, client: Client = UNKNOWN_CLIENT) -> Admission:
        """Count a request of so many characters as in flight.

        Raises Refusal (429) if too many requests of all clients, or of this one, are in flight.
        """
        limits = self.limits
        most = WAITING_REQUESTS_FACTOR * limits.characters
        if self.n_requests >= limits.queue or self.n_characters + n_characters > most:
            self._refuse("too many requests are waiting", self.n_requests)
        accounts = client.accounts()
        most = max(limits.characters, most * limits.queue_per_client // limits.queue)
        for name in accounts:
            own = self._requests_of[name]
            if own >= limits.queue_per_client or self._characters_of[name] + n_characters > most:
                self._refuse("too many requests of this client are waiting", own)
        began = time.monotonic()

        def count(sign: int) -> None:
            self.n_requests += sign
            self.n_characters += sign * n_characters
            for name in accounts:
                self._requests_of[name] += sign
                self._characters_of[name] += sign * n_characters
                if not self._requests_of[name]:  # nothing is kept of who has gone
                    del self._requests_of[name], self._characters_of[name]

        def release() -> None:
            count(-1)
            now = time.monotonic()
            since = now - max(began, self._last_answer)
            self._seconds_each += 0.1 * (since - self._seconds_each)
            self._last_answer = now

        count(1)
        return Admission(release)

    def _refuse(self, why: str, n_requests: int) -> None:
        """Raise Refusal (429). n_requests: that must be answered first."""
        wait = self._retry_after(n_requests)
        raise Refusal(429, f"{why}: try again in {wait} s", wait)

    def _retry_after(self, n_requests: int) -> int:
        """Return the seconds in which so many requests will probably be answered, within bounds."""
        return min(max(math.ceil(n_requests * self._seconds_each), SHORTEST_WAIT), LONGEST_WAIT)

    @property
    def not_ready(self) -> str | None:
        """Why the server is not ready for requests, or None if it is."""
        if self.draining:
            return "the server is about to end"
        if dead := [str(direction) for direction, worker in self.workers.items() if not worker.alive]:
            return f"the model of {', '.join(dead)} is not loaded"
        if (
            self.n_requests >= self.limits.queue
            or self.n_characters >= WAITING_REQUESTS_FACTOR * self.limits.characters
        ):
            return "too many requests are waiting"
        return None

    @property
    def n_unanswered(self) -> int:
        """The number of requests whose answer is not sent in full."""
        return len(self._deadlines)

    @asynccontextmanager
    async def request_deadline(self) -> AsyncIterator[None]:
        """Inside, a request is received, translated and answered.

        Raises Refusal (503) and cancels that after Limits.request_seconds, and at `cut_off`.
        """
        try:
            async with asyncio.timeout(0 if self._is_cut_off else self.limits.request_seconds) as deadline:
                self._deadlines.add(deadline)
                try:
                    yield
                finally:
                    self._deadlines.discard(deadline)
        except TimeoutError:
            if not deadline.expired():
                raise
            self.metrics.count("deadlines_total", what="drain" if self._is_cut_off else "request")
            if self._is_cut_off:
                raise Refusal(503, "the server is ending: send the request again", SHORTEST_WAIT) from None
            raise Refusal(503, f"not answered within {self.limits.request_seconds:g} s") from None

    def cut_off(self) -> None:
        """Refuse (503) all requests that are not answered yet, and those that still come."""
        self._is_cut_off = True
        for deadline in self._deadlines:
            if not deadline.expired():
                deadline.reschedule(0)

    async def within_deadline(self, work: Awaitable[T]) -> T:
        """Await work. Raises Refusal (503) and cancels it after Limits.compute_seconds.

        The refusal says when to try again where other requests were translated at that time.
        """
        n_before = self.n_requests
        try:
            async with asyncio.timeout(self.limits.compute_seconds) as deadline:
                return await work
        except TimeoutError:
            if not deadline.expired():
                raise
            self.metrics.count("deadlines_total", what="compute")
            why = f"the text was not translated within {self.limits.compute_seconds:g} s"
            n_others = max(n_before, self.n_requests) - 1
            if n_others > 0:
                wait = self._retry_after(n_others)
                message = f"{why}: it waited for up to {n_others} other requests: try again in {wait} s"
                raise Refusal(503, message, wait) from None
            raise Refusal(503, f"{why}: send less of it") from None

    def check(self, params: TranslateParams) -> TranslateParams:
        """Return parameters with the codes of served languages and the defaults of the server.

        Raises Refusal (400) for a direction that is not served.
        """
        target = self.languages.known(params.target)
        source = AUTO if params.source.lower() == AUTO else self.languages.known(params.source)
        for code, found in ((params.source, source), (params.target, target)):
            if found is None:
                raise Refusal(400, f"{code[:20]} is not supported: see /languages")
        assert source is not None and target is not None
        path = None if source == AUTO else self.languages.path(source, target)
        if source != AUTO and path is None:
            raise Refusal(400, f"no model translates {source} into {target}: see /languages")
        if params.terms and (path is None or len(path) != 1):
            raise Refusal(
                400,
                "Invalid request: a glossary needs a source language other than auto and a direction with a"
                " model of its own",
            )
        keep = params.keep
        if keep is None:
            keep = tuple(sorted({*self.keep, *(KEPT_OF_DOCUMENTS if params.html else ())}))
        return params._replace(source=source, target=target, keep=keep)

    async def translate(
        self, texts: Sequence[str], params: TranslateParams, on_part: OnPart | None = None
    ) -> list[TranslateResponse]:
        """Translate texts; return the translations in the same order.

        params: as `check` returns them. on_part: is called with the number of a text and the next part of its
        translation while it is decoded. Cancelling it cancels the work. Raises Refusal if the detected
        language of a text is not translated into the target, and if it takes too long.
        """
        return await self.observed(self._translate(texts, params, on_part))

    async def _translate(
        self, texts: Sequence[str], params: TranslateParams, on_part: OnPart | None
    ) -> list[TranslateResponse]:
        guesses: list[Guess | None] = [None] * len(texts)
        if params.source == AUTO:  # in a thread: ten thousand texts take seconds
            guesses = await asyncio.to_thread(lambda: [self.guess(text, params.target) for text in texts])
        groups: dict[str, list[int]] = {}
        for number, guess in enumerate(guesses):
            groups.setdefault(guess.language if guess else params.source, []).append(number)
        found: dict[int, TranslateResponse] = {}
        asked = [
            self._group([(n, texts[n], guesses[n]) for n in numbers], source, params, on_part)
            for source, numbers in groups.items()
        ]
        for part in await asyncio.gather(*asked):
            found |= part
        return [found[number] for number in range(len(texts))]

    def guess(self, text: str, target: str) -> Guess:
        """Return the likeliest language that is translated into the target; the target itself if it is the
        likeliest of all."""
        for place, guess in enumerate(self.detector.guesses(text)):
            path = self.languages.path(guess.language, target)
            if path or (path == [] and not place and guess.confidence):
                return guess
        raise Refusal(400, f"no model translates into {target}: see /languages")

    async def _group(
        self,
        texts: Sequence[tuple[int, str, Guess | None]],
        source: str,
        params: TranslateParams,
        on_part: OnPart | None,
    ) -> dict[int, TranslateResponse]:
        """Translate texts of one language; return the translations by the numbers of the texts."""
        path = self.languages.path(source, params.target)
        assert path is not None
        if not path:
            for number, text, _ in texts:
                if on_part is not None:
                    on_part(number, text)
            return {number: TranslateResponse(text, [], guess, []) for number, text, guess in texts}
        pages: list[DocumentSource] = []
        plain: list[PlainText] = []
        if params.html:
            pages = [
                # The byte order mark says that it is UTF-8, whatever the page declares.
                DocumentSource(text.encode("utf-8-sig"), "html", "the text")
                for _, text, _ in texts
            ]
            lines = await self.documents.read(pages, params.client)
        else:
            plain = [PlainText.from_text(text) for _, text, _ in texts]
            lines = [list(one.lines) for one in plain]
        stream = None
        if on_part is not None and plain:  # pages are passed on as wholes
            stream = PartialTexts(plain, [number for number, _, _ in texts], on_part)
        asked = [line.encode() for some in lines for line in some]
        rest = iter(await self._over(path, asked, params, stream.add if stream else None))
        if stream:
            stream.finish()
        self.metrics.count(
            "characters_total", sum(len(text) for _, text, _ in texts), direction=f"{source}-{params.target}"
        )
        results = [[next(rest) for _ in some] for some in lines]
        alternatives = [_alternatives(own) for own in results]
        if pages:
            files = await self.documents.write(pages, alternatives)
            translations = [[data.decode("utf-8-sig") for data in variants] for variants in files]
        else:
            translations = [
                [one.with_translations([line.text.decode() for line in variant]) for variant in variants]
                for one, variants in zip(plain, alternatives, strict=True)
            ]
        found = {}
        for (number, _, guess), own, own_lines, variants in zip(
            texts, results, lines, translations, strict=True
        ):
            best, *others = dict.fromkeys(variants)
            found[number] = TranslateResponse(best, others, guess, list(zip(own_lines, own, strict=True)))
            if on_part is not None and stream is None:
                on_part(number, best)
        return found

    async def read_document(self, document: DocumentSource, params: TranslateParams) -> list[str]:
        """Return the lines of a file that are to be translated.

        Raises Refusal if it cannot be read, takes too long or has too much text.
        """
        reading = self.documents.read([document], params.client)
        (lines,) = await self.within_deadline(reading)
        self.limits.check_texts(lines)
        return lines

    async def document(
        self, document: DocumentSource, lines: Sequence[str], params: TranslateParams
    ) -> bytes:
        """Return a file with translations of its lines.

        lines: as `read_document` returns them. params: as `check` returns them. Raises Refusal if it takes
        too long.
        """

        async def work() -> bytes:
            translations = await self._document_lines(lines, params._replace(alternatives=0))
            ((data,),) = await self.documents.write([document], [[translations]])
            return data

        return await self.observed(work())

    async def observed(self, work: Awaitable[T]) -> T:
        """Await work within the deadline, and count how long it takes."""
        began = time.monotonic()
        found = await self.within_deadline(work)
        self.metrics.observe(time.monotonic() - began)
        return found

    async def _document_lines(self, lines: Sequence[str], params: TranslateParams) -> list[Hypothesis]:
        """Return the translations of the lines of a file."""
        source = params.source
        if source == AUTO:
            source = (await asyncio.to_thread(self.guess, "\n".join(lines), params.target)).language
        path = self.languages.path(source, params.target)
        assert path is not None
        if not path:
            return [Hypothesis(line.encode(), 0.0, 0.0) for line in lines]
        asked = [line.encode() for line in lines]
        results = await self._over(path, asked, params._replace(details=True), None)
        return [result.best for result in results]

    async def _over(
        self,
        path: Sequence[Direction],
        lines: list[bytes],
        params: TranslateParams,
        on_part: Callable[[int, bytes], None] | None,
    ) -> list[TranslationResult]:
        """Translate lines over all steps of a path; return the results of the last step, with the flags of
        all steps if they are judged.
        """
        flags: list[tuple[str, ...]] = [()] * len(lines)
        for step in path[:-1]:
            results = await self.ask(step, lines, 1, None, params)
            lines = [result.best.text for result in results]
            flags = [(*own, *(one.best.flags or ())) for own, one in zip(flags, results, strict=True)]
        results = await self.ask(path[-1], lines, 1 + params.alternatives, on_part, params)
        return [one.with_flags(own) if own else one for own, one in zip(flags, results, strict=True)]

    def rules_of(self, params: TranslateParams, step: Direction) -> ConstraintSpec | None:
        """Return the constraints of a step: kept spans, the server's terms and the client's."""
        keep, server_terms = params.keep or (), self.glossaries.get(step)
        if params.terms:
            own = {term.source for term in params.terms}
            others = (term for term in server_terms.terms() if term.source not in own) if server_terms else ()
            return ConstraintSpec(keep, (), Glossary.from_terms((*others, *params.terms)))
        if (keep, step) not in self._rules:  # it remembers what it has found in lines
            self._rules[keep, step] = ConstraintSpec(keep, (), server_terms) if keep or server_terms else None
        return self._rules[keep, step]

    async def ask(
        self,
        step: Direction,
        lines: list[bytes],
        n_best: int,
        on_part: Callable[[int, bytes], None] | None,
        params: TranslateParams,
    ) -> list[TranslationResult]:
        """Have a worker translate lines of a client."""
        rules, client = self.rules_of(params, step), params.client.accounts()[-1]
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[TranslationResult]] = loop.create_future()

        def settle(outcome: list[TranslationResult] | Exception) -> None:
            if future.done():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        def done(outcome: list[TranslationResult] | Exception) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, outcome)

        def part(line: int, text: bytes) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(on_part, line, text)  # type: ignore[arg-type]

        on_line_part = part if on_part is not None else None
        job = Job(lines, done, n_best, on_line_part, rules, client, params.details)
        worker = self.workers[step]
        worker.submit(job)
        try:
            results = await future
        except asyncio.CancelledError:
            worker.drop(job)
            raise
        name = str(step)
        self.metrics.count("source_bytes_total", sum(map(len, lines)), direction=name)
        n_bytes = sum(len(result.best.text) for result in results)
        self.metrics.count("target_bytes_total", n_bytes, direction=name)
        return results


def _alternatives(results: Sequence[TranslationResult]) -> list[list[Hypothesis]]:
    """Return translations of all lines, the best first.

    The k-th has the k-th hypothesis of each line, or the best one where a line has fewer.
    """
    n_alternatives = max((len(result.hypotheses) for result in results), default=1)
    return [
        [result.hypotheses[k if k < len(result.hypotheses) else 0] for result in results]
        for k in range(n_alternatives)
    ]
