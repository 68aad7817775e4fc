"""Texts in, translations out, for an event loop: which language, over which steps, by which thread.

Knows workers, layouts and limits; knows no HTTP and no models.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from bytenmt.decoding.confidence import bits_per_byte
from bytenmt.decoding.constraints.glossary import Glossary, Term
from bytenmt.decoding.constraints.rules import Rules
from bytenmt.decoding.translator import Answer
from bytenmt.serve.detect import Detector, Guess
from bytenmt.serve.languages import Direction, Languages
from bytenmt.serve.limits import LONGEST_WAIT, SHORTEST_WAIT, Limits, Refusal
from bytenmt.serve.metrics import Metrics
from bytenmt.serve.texts import Layout, Lines, OnPart, Paper, Parts, Translation, layout
from bytenmt.serve.worker import Job, Worker

AUTO = "auto"
TEXTS_WAITING = 50  # so many times the characters of a request may wait altogether


class Wanted(NamedTuple):
    """source: a code or AUTO; target: a code; html: whether the texts are; alternatives: of each text; keep:
    names of what translations have as their source has it, see constraints.lexer.CLASSES; terms: of the
    source language, and what stands for them."""

    source: str
    target: str
    html: bool = False
    alternatives: int = 0
    keep: tuple[str, ...] = ()
    terms: tuple[Term, ...] = ()

    def rules(self) -> Rules | None:
        """What the translations owe."""
        if not self.keep and not self.terms:
            return None
        return Rules(self.keep, (), Glossary.of(self.terms) if self.terms else None)


class LineFound(NamedTuple):
    """A line and its best translation; bits_per_byte: how sure the last model was, None of an empty one."""

    source: str
    text: str
    bits_per_byte: float | None


class Translated(NamedTuple):
    """A text's translation. alternatives: up to as many as were wanted; guess: where the source was AUTO;
    lines: what was asked of models, none where nothing was; direction: the last step."""

    text: str
    alternatives: list[str]
    guess: Guess | None
    lines: list[LineFound]


@dataclass
class Service:
    """workers: a thread for each direction that has a model; detector: of the languages that are served."""

    workers: Mapping[Direction, Worker]
    detector: Detector
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    draining: bool = False  # the server is about to end
    n_requests: int = 0  # that are in flight
    n_lines: int = 0  # that came over websockets and are not answered
    n_characters: int = 0
    _seconds_each: float = 0.1  # between two answers under load, as of late
    _last_answer: float = 0.0

    def __post_init__(self) -> None:
        self.languages = Languages(list(self.workers))

    @contextmanager
    def admitted(self, n_characters: int) -> Iterator[None]:
        """Inside, a request of so many characters is in flight. Raises Refusal (429) where too many are."""
        most = TEXTS_WAITING * self.limits.characters
        if self.n_requests >= self.limits.queue or self.n_characters + n_characters > most:
            wait = math.ceil(self.n_requests * self._seconds_each)
            wait = min(max(wait, SHORTEST_WAIT), LONGEST_WAIT)
            raise Refusal(429, f"too many requests are waiting: try again in {wait} s", wait)
        began = time.monotonic()
        self.n_requests += 1
        self.n_characters += n_characters
        try:
            yield
        finally:
            self.n_requests -= 1
            self.n_characters -= n_characters
            now = time.monotonic()
            since = now - max(began, self._last_answer)
            self._seconds_each += 0.1 * (since - self._seconds_each)
            self._last_answer = now

    def check(self, wanted: Wanted) -> Wanted:
        """The same with codes as they are served. Raises Refusal (400) for what is not."""
        target = self.languages.known(wanted.target)
        source = AUTO if wanted.source.lower() == AUTO else self.languages.known(wanted.source)
        for code, found in ((wanted.source, source), (wanted.target, target)):
            if found is None:
                raise Refusal(400, f"{code[:20]} is not supported: see /languages")
        assert source is not None and target is not None
        path = None if source == AUTO else self.languages.path(source, target)
        if source != AUTO and path is None:
            raise Refusal(400, f"{source} is not translated into {target}: see /languages")
        if wanted.terms and (path is None or len(path) != 1):
            raise Refusal(400, "Invalid request: a glossary is for a named source that a model translates")
        return wanted._replace(source=source, target=target)

    async def translate(
        self, texts: Sequence[str], wanted: Wanted, on_part: OnPart | None = None
    ) -> list[Translated]:
        """The translation of each text, in their order. wanted: as `check` gives it; on_part: is given a
        text's number and what its translation goes on with, while it is decoded. Cancelled, it leaves the
        workers. Raises Refusal where a text's language is found out and not translated into the target."""
        guesses = [self._guess(text, wanted.target) if wanted.source == AUTO else None for text in texts]
        groups: dict[str, list[int]] = {}
        for number, guess in enumerate(guesses):
            groups.setdefault(guess.language if guess else wanted.source, []).append(number)
        found: dict[int, Translated] = {}
        asked = [
            self._group([(n, texts[n], guesses[n]) for n in numbers], source, wanted, on_part)
            for source, numbers in groups.items()
        ]
        for part in await asyncio.gather(*asked):
            found |= part
        return [found[number] for number in range(len(texts))]

    def _guess(self, text: str, target: str) -> Guess:
        """The likeliest language of those that are translated into the target, or the target's own where
        none is likelier."""
        for place, guess in enumerate(self.detector.guesses(text)):
            path = self.languages.path(guess.language, target)
            if path or (path == [] and not place and guess.confidence):
                return guess
        raise Refusal(400, f"nothing is translated into {target}: see /languages")

    async def _group(
        self,
        texts: Sequence[tuple[int, str, Guess | None]],
        source: str,
        wanted: Wanted,
        on_part: OnPart | None,
    ) -> dict[int, Translated]:
        """Texts of one language, by their numbers."""
        path = self.languages.path(source, wanted.target)
        assert path is not None
        if not path:
            for number, text, _ in texts:
                if on_part is not None:
                    on_part(number, text)
            return {number: Translated(text, [], guess, []) for number, text, guess in texts}
        layouts = [layout(text, wanted.html) for _, text, _ in texts]
        plain = [one for one in layouts if isinstance(one, Lines)]  # pages are told as wholes
        told = None
        if on_part is not None and len(plain) == len(layouts):
            told = Parts(plain, [number for number, _, _ in texts], on_part)
        lines = [line.encode() for one in layouts for line in one.lines]
        answers = await self._over(path, lines, wanted, told.part if told else None)
        if told:
            told.end()
        self.metrics.count(
            "characters_total", sum(len(text) for _, text, _ in texts), direction=f"{source}-{wanted.target}"
        )
        found = {}
        rest = iter(answers)
        for (number, _, guess), one in zip(texts, layouts, strict=True):
            own = [next(rest) for _ in one.lines]
            found[number] = Translated(*_filled(one, own), guess, _lines(one, own))
            if on_part is not None and told is None:
                on_part(number, found[number].text)
        return found

    async def document(self, paper: Paper, wanted: Wanted) -> bytes:
        """A file, translated. wanted: as `check` gives it."""
        source = wanted.source
        if source == AUTO:
            source = self._guess("\n".join(paper.lines), wanted.target).language
        path = self.languages.path(source, wanted.target)
        assert path is not None
        lines = [line.encode() for line in paper.lines]
        answers = await self._over(path, lines, wanted._replace(alternatives=0), None) if path else []
        found = [Translation(one.text, one.bits_per_byte) for one in _lines(paper, answers)]
        return paper.written(found or [Translation(line) for line in paper.lines])

    async def _over(
        self,
        path: Sequence[Direction],
        lines: list[bytes],
        wanted: Wanted,
        on_part: Callable[[int, bytes], None] | None,
    ) -> list[Answer]:
        """What the models of all steps find, the last ones' answers."""
        rules = wanted.rules()
        for step in path[:-1]:
            answers = await self._ask(step, lines, 1, None, rules)
            lines = [answer.hypotheses[0].text for answer in answers]
        return await self._ask(path[-1], lines, 1 + wanted.alternatives, on_part, rules)

    async def _ask(
        self,
        step: Direction,
        lines: list[bytes],
        n_best: int,
        on_part: Callable[[int, bytes], None] | None,
        rules: Rules | None,
    ) -> list[Answer]:
        """What a worker finds for lines."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Answer]] = loop.create_future()

        def settle(outcome: list[Answer] | Exception) -> None:
            if future.done():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        def done(outcome: list[Answer] | Exception) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, outcome)

        def part(line: int, text: bytes) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(on_part, line, text)  # type: ignore[arg-type]

        job = Job(lines, done, n_best, part if on_part is not None else None, rules)
        worker = self.workers[step]
        worker.submit(job)
        try:
            answers = await future
        except asyncio.CancelledError:
            worker.drop(job)
            raise
        name = str(step)
        self.metrics.count("source_bytes_total", sum(map(len, lines)), direction=name)
        n_bytes = sum(len(answer.hypotheses[0].text) for answer in answers)
        self.metrics.count("target_bytes_total", n_bytes, direction=name)
        return answers


def _filled(one: Layout, answers: Sequence[Answer]) -> tuple[str, list[str]]:
    """The best text and the others: the k-th joins the k-th translation of each line, or its best."""
    texts: list[str] = []
    most = max((len(answer.hypotheses) for answer in answers), default=1)
    for k in range(most):
        chosen = [answer.hypotheses[k if k < len(answer.hypotheses) else 0] for answer in answers]
        text = one.filled([Translation(best.text.decode(), bits_per_byte(best)) for best in chosen])
        if text not in texts:
            texts.append(text)
    return texts[0], texts[1:]


def _lines(one: Layout, answers: Sequence[Answer]) -> list[LineFound]:
    found = []
    for line, answer in zip(one.lines, answers, strict=True):
        best = answer.hypotheses[0]
        found.append(LineFound(line, best.text.decode(), bits_per_byte(best)))
    return found
