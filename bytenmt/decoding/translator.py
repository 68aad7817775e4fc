"""Lines in, translations out: order kept, decoded side by side.

A Translator sorts lines by length, has an engine decode as many at once as a byte budget allows, cuts what is
too long into pieces and joins their translations. Several processes share the lines. Knows engines by their
protocol; knows no models and imports no PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, AnyStr, NamedTuple

from bytenmt.config import bounds
from bytenmt.decoding.interface import AUTO, Engine, EngineSpec, Hypothesis, Options, Request
from bytenmt.decoding.loading import Runtime, load_runs
from bytenmt.decoding.scheduler import decode
from bytenmt.errors import BytenmtError, DataError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.utf8 import first_invalid

if TYPE_CHECKING:  # it imports PyTorch
    from bytenmt.distributed import Group

MAX_TOKENS = 16_000  # source bytes side by side, padding counted, each beam counted
MOST_SENTENCES = 1024  # side by side, however short
HISTORY = (
    1 << 30
)  # bytes that what is chosen for sentences side by side may take; for one, four times as many
PER_STEP, GUARDED = 8, 48  # bytes that an engine keeps for a byte of a hypothesis; with a repetition guard
NUMBER_OF_PIECE = 1 << 40  # tells the draws of a line's pieces apart: more than there are lines
NOTHING = Hypothesis(b"", 0.0, 0.0)  # the translation of an empty line


class Piece(NamedTuple):
    """text: whole characters of a line; joint: what stood before the next piece, b" " or b""."""

    text: bytes
    joint: bytes


class Answer(NamedTuple):
    """A line's translations. hypotheses: up to n_best, best first; pieces: of the line; found: the hypotheses
    of each piece, of which those of the line are joined."""

    hypotheses: list[Hypothesis]
    pieces: list[Piece]
    found: list[list[Hypothesis]]


def cut(line: bytes, limit: int) -> list[Piece]:
    """Cut valid UTF-8 into pieces of at most `limit` bytes; texts and joints make the line again.

    A piece ends at the last space that it can reach, else between two characters. limit: at least
    4 bytes, one character.
    """
    pieces = []
    start = 0
    while len(line) - start > limit:
        end = line.rfind(b" ", start + 1, start + limit + 1)
        joint = line[end : end + 1] if end > start else b""
        if not joint:
            end = start + limit
            while line[end] & 0xC0 == 0x80:  # a continuation byte: its character began before
                end -= 1
        pieces.append(Piece(line[start:end], joint))
        start = end + len(joint)
    pieces.append(Piece(line[start:], b""))
    return pieces


@dataclass(frozen=True, eq=False)
class Translator:
    """A way to make engines, and the way they are asked.

    >>> translator = Translator.load("runs/mine", beam=4, n_best=2)
    >>> texts = translator.translate(["오후 3시 40분", "2026년 11월 21일"])
    >>> best, second = translator.n_best(["오후 3시 40분"])[0]
    >>> (best.text.decode() == texts[0], best.score >= second.score)
    (True, True)
    >>> for part in Translator.load("runs/mine").stream("오후 3시 40분"):  # as it is decoded
    ...     message = part.encode()

    make_engine: for so many sentences at most side by side, with the same `options`. source: whether the
    runs were trained with one; without, they are asked for their likeliest text, whatever the line. The
    output has at most max_len_a * (source bytes) + max_len_b bytes. prefix: what it begins with, except
    where the line is empty; it may be longer than that. A line of more than max_source_bytes is
    translated in pieces. max_tokens: source bytes side by side, EOS and padding counted, times the beam; a
    line that costs more is decoded alone. group: the processes that share the work.
    """

    make_engine: Callable[[int], Engine]
    _: KW_ONLY
    options: Options = Options()
    source: bool = True
    prefix: bytes = b""
    max_len_a: float = 3.0
    max_len_b: int = 100
    max_source_bytes: int = 1000
    max_tokens: int = MAX_TOKENS
    group: Group | None = None
    _engines: dict[int, Engine] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        own = {name: value for name, value in vars(self).items() if name != "options"}
        bounds.check(own, bounds.DECODING)
        if first_invalid(self.prefix) >= 0 or b"\n" in self.prefix or b"\r" in self.prefix:
            raise ValueError(f"the prefix {self.prefix!r} is not valid UTF-8 without a line end")

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
        settings: the fields of interface.Options (beam, n_best, length_penalty, sample, …) and of Translator
        (prefix, max_len_a, …); prefix may be a str. Raises BytenmtError.
        """
        spec = EngineSpec(engine, device, precision, threads, draft)
        return cls.of_runtime(load_runs(runs, spec, reporter), **settings)

    @classmethod
    def of_runtime(cls, runtime: Runtime, **settings: Any) -> Translator:
        """The same of runs that are loaded already."""
        names = {one.name for one in fields(Options)}
        options = Options(**{name: value for name, value in settings.items() if name in names})
        own = {name: value for name, value in settings.items() if name not in names}
        if isinstance(own.get("prefix"), str):
            own["prefix"] = _encoded(own["prefix"], "the prefix")
        own = {"source": runtime.source, "max_source_bytes": runtime.max_source_bytes} | own
        return cls(runtime.maker(options), options=options, **own)

    def translate(self, lines: Sequence[AnyStr]) -> list[AnyStr]:
        """The best translation of each line, in the order of the lines, str for str and bytes for bytes.

        lines: without line ends; bytes are valid UTF-8. Raises DataError where one is not.
        """
        best = [hypotheses[0].text for hypotheses in self.n_best(lines)]
        return [_like(line, text) for line, text in zip(lines, best, strict=True)]

    def n_best(self, lines: Sequence[str | bytes]) -> list[list[Hypothesis]]:
        """Up to `n_best` translations of each line, best first, with their scores; see answer."""
        given = [_encoded(line, f"line {number}") for number, line in enumerate(lines, 1)]
        return [answer.hypotheses for answer in self.answer(given)]

    def answer(self, lines: Sequence[bytes], first: int = 0) -> list[Answer]:
        """What is found for each line, in the order of the lines.

        lines: valid UTF-8 without line ends; first: the number of the first one, for its draws. An empty
        line has an empty translation, for which no engine is asked. Of a line in pieces the k-th
        translation joins the k-th of each piece; its log-probability is their sum. Equal lines are
        translated once, except in sampling, where a line's draws depend on its number. In a group every
        process gives the same lines, decodes its share and gets what all have found.
        """
        pieces = [cut(line if self.source else b"", self.max_source_bytes) for line in lines]
        asked = [
            [self._request(piece.text, number, place) for place, piece in enumerate(line)]
            for number, line in enumerate(pieces, first)
        ]
        requests = list(dict.fromkeys(request for line in asked for request in line if request is not None))
        found: dict[Request | None, list[Hypothesis]] = {None: [NOTHING]}
        found.update(zip(requests, self._decode(requests), strict=True))
        parts = [[found[request] for request in line] for line in asked]
        return [Answer(self._join(*line), *line) for line in zip(pieces, parts, strict=True)]

    def stream(self, line: AnyStr) -> Iterator[AnyStr]:
        """The translation of one line as it is decoded, in parts of whole characters; for beam 1."""
        yield from (_like(line, part) for part in self.stream_bytes(_encoded(line, "the line")))

    def stream_bytes(self, line: bytes, number: int = 0) -> Iterator[bytes]:
        """The same of a line as answer takes it."""
        if self.options.beam > 1:
            raise ValueError(f"the beam is {self.options.beam}: only beam 1 knows its text byte by byte")
        for place, piece in enumerate(cut(line if self.source else b"", self.max_source_bytes)):
            request = self._request(piece.text, number, place)
            if request is not None:
                with self._engine(1) as engine:
                    yield from in_characters(engine, request)
            if piece.joint:
                yield piece.joint

    def _request(self, text: bytes, number: int, place: int) -> Request | None:
        """What to ask for a piece of line `number`; place: of the piece in it. None: nothing to ask."""
        if self.source and not text:
            return None
        prefix = b"" if place else self.prefix
        limit = max(self._limit(len(text)), len(prefix))
        draws = number + place * NUMBER_OF_PIECE if self.options.sample else 0
        return Request(text if self.source else None, limit, prefix, draws)

    def _limit(self, n_bytes: int) -> int:
        """Bytes of output at most for so many of the source, the prefix left out of account."""
        return int(self.max_len_a * n_bytes) + self.max_len_b

    def _decode(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """The hypotheses of each request, in their order; in a group of all processes' shares."""
        rank, size = (self.group.rank, self.group.size) if self.group else (0, 1)
        own: dict[int, list[Hypothesis]] = {}
        for capacity, indices in self._classes(requests):
            mine = indices[rank::size]
            if mine:
                with self._engine(capacity) as engine:
                    for index, hypotheses in decode(engine, [requests[i] for i in mine]):
                        own[mine[index]] = hypotheses
        for other in self.group.gather_all(own) if self.group else []:
            own |= other
        return [own[index] for index in range(len(requests))]

    def _classes(self, requests: Sequence[Request]) -> Iterator[tuple[int, list[int]]]:
        """Which requests are decoded by one engine, and how many of them at once: a power of two, so that
        there are few engines. Longest first: what is short fills the places that get free."""
        lengths = [len(request.source or b"") for request in requests]
        order = sorted(range(len(requests)), key=lambda index: -lengths[index])
        start = 0
        while start < len(order):
            capacity = self._capacity(lengths[order[start]])
            end = start
            while end < len(order) and self._capacity(lengths[order[end]]) == capacity:
                end += 1
            yield min(capacity, 1 << (end - start - 1).bit_length()), order[start:end]
            start = end

    def _capacity(self, n_bytes: int) -> int:
        """Sentences side by side of which the longest has n_bytes. Raises BytenmtError where the translation
        of one would need more memory than there is any use for."""
        beam, limit = self.options.beam, self._limit(n_bytes)
        history = beam * (limit + 1) * (GUARDED if self.options.no_repeat_ngram_size else PER_STEP)
        if history > 4 * HISTORY:
            raise BytenmtError(
                f"{beam} hypotheses of up to {limit:,} bytes need {history / 1e9:,.1f} GB of memory a line,"
                f" expected {4 * HISTORY / 1e9:.1f} GB at most: lower --max-len-a, --max-len-b or --beam-size"
            )
        most = min(self.max_tokens // (beam * (n_bytes + 1)), MOST_SENTENCES, HISTORY // history)
        return 1 << max(1, most).bit_length() - 1

    @contextmanager
    def _engine(self, capacity: int) -> Iterator[Engine]:
        """An engine nobody else uses; one whose work is broken off is not used again."""
        engine = self._engines.pop(capacity, None) or self.make_engine(capacity)
        yield engine
        self._engines[capacity] = engine

    def _join(self, line: list[Piece], found: list[list[Hypothesis]]) -> list[Hypothesis]:
        """The hypotheses of a line from those of its pieces."""
        if len(line) == 1:
            return found[0]
        joined = []
        for parts in zip(*found, strict=False):
            text = b"".join(part.text + piece.joint for part, piece in zip(parts, line, strict=True))
            log_probability = sum(part.log_probability for part in parts)
            score = log_probability / (len(text) + 1) ** self.options.length_penalty
            joined.append(Hypothesis(text, log_probability, score, sum(part.passes for part in parts)))
        return joined


def in_characters(engine: Engine, request: Request) -> Iterator[bytes]:
    """What a sentence begins with, character by character as they become sure, then the rest."""
    (handle,) = engine.admit([request])
    n_told = 0
    while True:
        engine.advance(1)
        done = engine.finished()
        text = done[0][1][0].text if done else engine.so_far(handle)
        part = text[n_told:]
        n_whole = first_invalid(part)  # a character may be half there
        part = part if n_whole < 0 else part[:n_whole]
        n_told += len(part)
        if part:
            yield part
        if done:
            return


def _encoded(line: str | bytes, name: str) -> bytes:
    """A line as bytes. Raises DataError where it is not a line of valid UTF-8."""
    try:
        data = line.encode() if isinstance(line, str) else line
    except UnicodeEncodeError:
        raise DataError(f"{name} holds a half of a surrogate pair: expected text") from None
    if first_invalid(data) >= 0:
        raise DataError(f"{name} is not valid UTF-8: convert it, or repair it by .decode('utf-8', 'replace')")
    if b"\n" in data:
        raise DataError(f"{name} holds a line end: give each line alone")
    return data


def _like(line: AnyStr, text: bytes) -> AnyStr:
    """Valid UTF-8 in the type of the line."""
    return text.decode() if isinstance(line, str) else text
