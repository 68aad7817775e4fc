"""Lines in, translations out: order kept, decoded side by side.

A Translator sorts lines by length, has an engine decode as many at once as a byte budget allows, cuts what is
too long into pieces and joins their translations. Several processes share the lines. Knows engines by their
protocol; knows no models and imports no PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, AnyStr, Generic, NamedTuple, overload

from bytenmt.decoding.interface import AUTO, Engine, EngineSpec, Hypothesis, Options, Request
from bytenmt.decoding.loading import Runtime, load_runs
from bytenmt.decoding.pieces import Piece, cut, join
from bytenmt.decoding.scheduler import decode
from bytenmt.decoding.settings import Settings, encoded
from bytenmt.decoding.streaming import in_characters
from bytenmt.errors import BytenmtError, SettingError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.spans.extractor import span_extractor

if TYPE_CHECKING:
    from bytenmt.decoding.constraints.rules import Rules
    from bytenmt.distributed import Group  # it imports PyTorch

MOST_SENTENCES = 1024  # side by side, however short
HISTORY = 1 << 30  # bytes that what is chosen for sentences side by side may take; for one, four times that
PER_STEP, GUARDED = 8, 48  # bytes that an engine keeps for a byte of a hypothesis; with a repetition guard
NUMBER_OF_PIECE = 1 << 40  # tells the draws of a line's pieces apart: more than there are lines
ALWAYS_COPIED = ("urls", "emails")  # classes of spans that a line may consist of without being translated
COPIED_IF_KEPT = ("placeholders", "tags")  # the same where they are kept; numbers may be written otherwise
BEGINNINGS = (b"{", b"$", b"#", b"%", b"[", b"<")  # of these two classes


class Translation(NamedTuple, Generic[AnyStr]):
    """A Hypothesis as it is told to whoever gave a line: text is str where the line is, else bytes."""

    text: AnyStr
    log_probability: float
    score: float
    passes: int = 0
    byte_scores: tuple[float, ...] = ()
    flags: tuple[str, ...] | None = None


class Answer(NamedTuple):
    """A line's translations. hypotheses: up to n_best, best first; pieces: of the line; found: the hypotheses
    of each piece, of which those of the line are joined."""

    hypotheses: list[Hypothesis]
    pieces: list[Piece]
    found: list[list[Hypothesis]]


@dataclass(frozen=True, eq=False)
class Translator:
    """A way to make engines, and the way they are asked.

    >>> translator = Translator.load("runs/mine", beam=4, n_best=2)
    >>> texts = translator.translate(["오후 3시 40분", "2026년 11월 21일"])
    >>> best, second = translator.n_best(["오후 3시 40분"])[0]
    >>> (best.text == texts[0] == translator.translate("오후 3시 40분"), best.score >= second.score)
    (True, True)
    >>> for part in Translator.load("runs/mine").stream("오후 3시 40분"):  # as it is decoded
    ...     message = part.encode()

    make_engine: for so many sentences at most side by side, with the same `settings.search`. prepare: is
    called with their number before sentences are decoded together. source: whether
    the runs were trained with one; without, they are asked for their likeliest text, whatever the line.
    longest_source: bytes of the lines that they know. group: the processes that share the work.
    """

    make_engine: Callable[[int], Engine]
    _: KW_ONLY
    prepare: Callable[[int], None] = lambda n_sentences: None
    settings: Settings = field(default_factory=Settings)
    source: bool = True
    longest_source: int = 1000
    group: Group | None = None
    _engines: dict[int, Engine] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def load(
        cls,
        *runs: str | Path,
        engine: str = AUTO,
        device: str = AUTO,
        precision: str = AUTO,
        threads: int | None = None,
        draft: str | int = AUTO,
        reporter: Reporter = SILENT,
        **settings: Any,
    ) -> Translator:
        """The Translator of a run folder or weights file; of several, whose mean probabilities decide.

        engine, device, precision, threads, draft: see interface.EngineSpec; auto is what suits the machine.
        reporter: is told what a user may not expect, such as kernels that are compiled, a line at a time.
        settings: the fields of settings.Settings (prefix, max_len_a, …) and of interface.Options (beam,
        n_best, sample, …), and keep, keep_pattern and glossary as constraints.rules.Rules.of takes them.
        Raises BytenmtError: what a command refuses is refused here.
        """
        for run in runs:
            if not isinstance(run, str | PathLike):
                raise SettingError(f"a run is {run!r}: give the names of folders or files, one by one")
        if not runs:
            raise SettingError("no run: give a run folder or a weights file")
        checked = Settings.of(settings)
        spec = _spec(engine, device, precision, threads, draft)
        return cls.of_runtime(load_runs(runs, spec, reporter), checked)

    @classmethod
    def of_runtime(
        cls,
        runtime: Runtime,
        settings: Settings | None = None,
        *,
        group: Group | None = None,
        **named: Any,
    ) -> Translator:
        """The same of runs that are loaded already. named: settings by their names, instead of a record. What
        is left to the runs is as they have it, see Settings."""
        settings = (Settings.of(named) if settings is None else settings).with_defaults(runtime.search)
        return cls(
            runtime.maker(settings.search),
            prepare=runtime.prepare,
            settings=settings,
            source=runtime.source,
            longest_source=runtime.max_source_bytes,
            group=group,
        )

    @property
    def options(self) -> Options:
        """How the search chooses."""
        return self.settings.search

    @property
    def max_source_bytes(self) -> int:
        """Of a line that is translated in one piece."""
        return self.settings.max_source_bytes or self.longest_source

    @overload
    def translate(self, lines: AnyStr) -> AnyStr: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, lines: Iterable[AnyStr]) -> list[AnyStr]: ...
    def translate(self, lines: Any) -> Any:
        """The best translation of a line; or of each of several lines, in their order.

        lines: a str gives a str, bytes give bytes; without line ends, bytes are valid UTF-8. Raises DataError
        where one is not.
        """
        if isinstance(lines, str | bytes):
            best: Any = self.n_best(lines)
            return best[0].text
        return [translations[0].text for translations in self.n_best(lines)]

    @overload
    def n_best(self, lines: AnyStr) -> list[Translation[AnyStr]]: ...  # type: ignore[overload-overlap]
    @overload
    def n_best(self, lines: Iterable[AnyStr]) -> list[list[Translation[AnyStr]]]: ...
    def n_best(self, lines: Any) -> Any:
        """Up to `n_best` translations of a line, or of each line, best first, with their scores."""
        if isinstance(lines, str | bytes):
            one: list[Any] = [lines]
            return self._told(one, ["the line"])[0]
        lines = list(lines)
        return self._told(lines, [f"line {number}" for number in range(1, len(lines) + 1)])

    def _told(self, lines: Sequence[AnyStr], names: Sequence[str]) -> list[list[Translation[AnyStr]]]:
        """The translations of each line; names: of the lines, for a message."""
        answers = self.answer([encoded(line, name) for line, name in zip(lines, names, strict=True)])
        return [
            [Translation(_like(line, found.text), *found[1:]) for found in answer.hypotheses]
            for line, answer in zip(lines, answers, strict=True)
        ]

    def answer(self, lines: Sequence[bytes], first: int = 0) -> list[Answer]:
        """What is found for each line, in the order of the lines.

        lines: valid UTF-8 without line ends; first: the number of the first one, for its draws. An empty
        line has an empty translation, for which no engine is asked; neither is one for a line of URLs
        and e-mail addresses alone, which is copied. Of a line in pieces the k-th
        translation joins the k-th of each piece; its log-probability is their sum. Equal lines are
        translated once, except in sampling, where a line's draws depend on its number. In a group every
        process gives the same lines, decodes its share and gets what all have found.
        """
        pieces = [self.pieces(line) for line in lines]
        asked = [
            [self.request(piece.text, number, place) for place, piece in enumerate(line)]
            for number, line in enumerate(pieces, first)
        ]
        requests = list(dict.fromkeys(request for line in asked for request in line if request is not None))
        found = dict(zip(requests, self._decode(requests), strict=True))
        flags = None if self.settings.rules is None else ()
        parts = [
            [
                [copied(piece.text, self.options.byte_scores, flags)] if request is None else found[request]
                for piece, request in zip(line, line_requests, strict=True)
            ]
            for line, line_requests in zip(pieces, asked, strict=True)
        ]
        penalty = self.options.length_penalty
        return [Answer(join(*line, penalty), *line) for line in zip(pieces, parts, strict=True)]

    def pieces(self, line: bytes, rules: Rules | None = None) -> list[Piece]:
        """What is translated one by one of a line: never is a span cut that is kept. rules: its own ones."""
        line, rules, limit = line if self.source else b"", rules or self.settings.rules, self.max_source_bytes
        whole = [span[:2] for span in rules.spans(line)] if rules and len(line) > limit else []
        return cut(line, limit, whole)

    def stream(self, line: AnyStr) -> Iterator[AnyStr]:
        """The translation of one line as it is decoded, in parts of whole characters; for beam 1."""
        yield from (_like(line, part) for part in self.stream_bytes(encoded(line, "the line")))

    def stream_bytes(self, line: bytes, number: int = 0) -> Iterator[bytes]:
        """The same of a line as answer takes it."""
        if self.options.beam > 1:
            raise SettingError(f"the beam is {self.options.beam}: only beam 1 knows its text byte by byte")
        for place, piece in enumerate(self.pieces(line)):
            request = self.request(piece.text, number, place)
            if request is not None:
                with self._engine(1) as engine:
                    yield from in_characters(engine, request)
            elif piece.text:
                yield piece.text
            if piece.joint:
                yield piece.joint

    def request(self, text: bytes, number: int, place: int, rules: Rules | None = None) -> Request | None:
        """The request for a piece of line `number`; None for one that is copied (see `copied`).

        place: of the piece in its line.
        """
        prefix, rules = b"" if place else self.settings.prefix, rules or self.settings.rules
        if self.source and not (text and (prefix or has_translatable_text(text, rules))):
            return None
        limit = max(self._limit(len(text)), len(prefix))
        draws = number + place * NUMBER_OF_PIECE if self.options.sample else 0
        request = Request(text if self.source else None, limit, prefix, draws)
        return rules.asked(request) if rules else request

    def _limit(self, n_bytes: int) -> int:
        """Bytes of output at most for so many of the source, the prefix left out of account."""
        return int(self.settings.max_len_a * n_bytes) + self.settings.max_len_b

    def _decode(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """The hypotheses of each request, in their order; in a group of all processes' shares."""
        rank, size = (self.group.rank, self.group.size) if self.group else (0, 1)
        self.prepare(len(requests))
        own: dict[int, list[Hypothesis]] = {}
        for capacity, indices in self._classes(requests):
            mine = indices[rank::size]
            if mine:
                with self._engine(capacity) as engine:
                    for index, hypotheses in decode(engine, [requests[i] for i in mine]):
                        own[mine[index]] = self._flagged(requests[mine[index]], hypotheses)
        for other in self.group.gather_all(own) if self.group else []:
            own |= other
        return [own[index] for index in range(len(requests))]

    def _flagged(self, request: Request, found: list[Hypothesis]) -> list[Hypothesis]:
        """The hypotheses with what is to be told of what they owed."""
        rules = self.settings.rules
        if rules is None:
            return found
        return [one._replace(flags=rules.flags(request, one.text)) for one in found]

    def _classes(self, requests: Sequence[Request]) -> Iterator[tuple[int, list[int]]]:
        """Which requests are decoded by one engine, and how many of them at once: a power of two, so that
        there are few engines. Longest first: what is short fills the places that get free."""
        lengths = [len(request.source or b"") for request in requests]
        order = sorted(range(len(requests)), key=lambda index: -lengths[index])
        start = 0
        while start < len(order):
            capacity = self.capacity(lengths[order[start]])
            end = start
            while end < len(order) and self.capacity(lengths[order[end]]) == capacity:
                end += 1
            yield min(capacity, 1 << (end - start - 1).bit_length()), order[start:end]
            start = end

    def capacity(self, n_bytes: int) -> int:
        """Sentences side by side of which the longest has n_bytes. Raises BytenmtError where the translation
        of one would need more memory than there is any use for."""
        beam, limit = self.options.beam, self._limit(n_bytes)
        history = beam * (limit + 1) * (GUARDED if self.options.no_repeat_ngram_size else PER_STEP)
        if history > 4 * HISTORY:
            raise BytenmtError(
                f"{beam} hypotheses of up to {limit:,} bytes need {history / 1e9:,.1f} GB of memory a line,"
                f" expected {4 * HISTORY / 1e9:.1f} GB at most: lower --max-len-a, --max-len-b or --beam-size"
            )
        most = min(self.settings.max_tokens // (beam * (n_bytes + 1)), MOST_SENTENCES, HISTORY // history)
        return 1 << max(1, most).bit_length() - 1

    @contextmanager
    def _engine(self, capacity: int) -> Iterator[Engine]:
        """An engine nobody else uses; one whose work is broken off is not used again."""
        engine = self._engines.pop(capacity, None) or self.make_engine(capacity)
        yield engine
        self._engines[capacity] = engine


def has_translatable_text(text: bytes, rules: Rules | None = None) -> bool:
    """Whether a text is more than URLs and e-mail addresses, or than placeholders and tags that are kept.

    Blanks and signs between them do not count, letters and digits do. rules: what is kept, and the glossary,
    whose terms are translated wherever they stand.
    """
    classes = tuple(name for name in COPIED_IF_KEPT if rules is not None and name in rules.classes)
    may_have_address = b"@" in text or b"://" in text or b"www." in text
    if not may_have_address and not (classes and text.lstrip().startswith(BEGINNINGS)):
        return True  # nearly every line: in less than a microsecond
    spans = span_extractor(ALWAYS_COPIED + classes).spans(text)
    if not spans or (rules is not None and not all(span.of for span in rules.spans(text))):
        return True
    ends, begins = [0, *(span.end for span in spans)], [*(span.begin for span in spans), len(text)]
    outside = b"".join(text[end:begin] for end, begin in zip(ends, begins, strict=True))
    return any(map(str.isalnum, outside.decode()))


def copied(text: bytes, byte_scores: bool = False, flags: tuple[str, ...] | None = None) -> Hypothesis:
    """Return a text as its own translation, which costs nothing."""
    scores = (0.0,) * (len(text) + 1) if byte_scores and text else ()
    return Hypothesis(text, 0.0, 0.0, byte_scores=scores, flags=flags)


def _spec(engine: str, device: str, precision: str, threads: int | None, draft: str | int) -> EngineSpec:
    """See EngineSpec, whose ValueErrors are the caller's mistakes here: SettingError."""
    try:
        return EngineSpec(engine, device, precision, threads, draft)
    except ValueError as error:
        raise SettingError(str(error)) from None


def _like(line: AnyStr, text: bytes) -> AnyStr:
    """Valid UTF-8 in the type of the line."""
    return text.decode() if isinstance(line, str) else text
