"""Lines in, translations out: order kept, batches inside.

A Translator sorts lines by length, batches them by a byte budget, cuts what is too long into
pieces and joins their translations. It answers a list of lines, a text file, or a stream of which
nobody knows when the next line comes. Several processes share the batches, whole ones, so that each
is computed as one process alone would. Knows models by their contract, and no runs or checkpoints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from bytenmt.alphabet import EOS, LONGEST_CHARACTER, PAD, first_invalid, repair
from bytenmt.corpus import BYTE_ORDER_MARK, TextFile, describe_mistake
from bytenmt.distributed import ALONE, Group
from bytenmt.engines.eager import EagerStepper
from bytenmt.errors import DataError
from bytenmt.models.base import Model
from bytenmt.search import Hypothesis, search

BUFFER_SIZE = 1000  # lines that are translated together
MAX_TOKENS = 16_000  # source bytes of a batch, padding counted, each beam counted
STANDARD_INPUT = "standard input"
HEARTBEAT = 60.0  # seconds without a line until the other processes hear that there is none


class Piece(NamedTuple):
    """text: whole characters of a line; joint: what stood before the next piece, b" " or b""."""

    text: bytes
    joint: bytes


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
    """A model and the way it is asked.

    model: in evaluation mode, on `device`. source: whether it was trained with one; without, it is
    asked for its likeliest text, whatever the line. beam: hypotheses kept, 1 is greedy.
    length_penalty: see search.Hypothesis. The output has at most
    max_len_a * (source bytes) + max_len_b bytes. A line of more than max_source_bytes is translated
    in pieces. max_tokens: source bytes of a batch, EOS and padding counted, times the beam; a line
    that costs more alone is a batch alone. group: the processes that share the work.
    """

    model: Model[Any, Any]
    _: KW_ONLY
    device: torch.device
    source: bool = True
    beam: int = 1
    length_penalty: float = 1.0
    max_len_a: float = 3.0
    max_len_b: int = 100
    max_source_bytes: int = 1000
    max_tokens: int = MAX_TOKENS
    group: Group = ALONE

    def __post_init__(self) -> None:
        if self.max_source_bytes < LONGEST_CHARACTER:
            raise ValueError(f"max_source_bytes is {self.max_source_bytes}, expected at least 4")
        if self.beam < 1 or self.max_tokens < 1:
            raise ValueError(f"beam {self.beam}, max_tokens {self.max_tokens}: expected at least 1")

    def translate(self, lines: Sequence[bytes]) -> list[Hypothesis]:
        """The best translation of each line, in the order of the lines; see n_best."""
        return [hypotheses[0] for hypotheses in self.n_best(lines)]

    def n_best(self, lines: Sequence[bytes]) -> list[list[Hypothesis]]:
        """Up to `beam` translations of each line, best first, in the order of the lines.

        lines: valid UTF-8 without line ends. An empty line has an empty translation, for which the
        model is not asked. Of a line in pieces the k-th translation joins the k-th of each piece;
        its log-probability is their sum. Equal lines are translated once. In a group every process
        gives the same lines, translates its share of their batches and gets what one alone would.
        """
        if self.model.training:
            raise ValueError("the model is in training mode: call its eval() first")
        pieces = [cut(line if self.source else b"", self.max_source_bytes) for line in lines]
        texts = {piece.text for line in pieces for piece in line}
        found: dict[bytes, list[Hypothesis]] = {}
        if self.source:
            texts.discard(b"")
            found[b""] = [Hypothesis(b"", 0.0, 0.0)]
        batches = list(self._batches(texts))
        own = [self._search(batches[index]) for index in self.group.share(len(batches))]
        shares = [iter(share) for share in self.group.gather_all(own)]
        for index, batch in enumerate(batches):
            found.update(zip(batch, next(shares[index % self.group.size]), strict=True))
        return [self._join(line, found) for line in pieces]

    def translate_file(self, text: TextFile, output: BinaryIO, *, buffer_size: int = BUFFER_SIZE) -> None:
        """Write a line for each line of a file, with a progress bar where stderr is a terminal.

        In a group: for the leading process, while the others follow.
        """
        with tqdm(total=len(text), unit=" lines", disable=None) as bar:
            for first in range(0, len(text), buffer_size):
                last = min(first + buffer_size, len(text))
                lines = [text.line(index) for index in range(first, last)]
                self._answer(lines, first + 1, str(text.path), output)
                bar.update(len(lines))
        self._let_go()

    def stream(
        self,
        input: BinaryIO,
        output: BinaryIO,
        *,
        errors: str = "replace",
        buffer_size: int = BUFFER_SIZE,
        name: str = STANDARD_INPUT,
    ) -> None:
        """Write a line for each line of a stream, at once if it comes alone; lines that have come
        together, up to buffer_size, are translated together.

        errors: what to do with invalid UTF-8, "replace" (U+FFFD) or "strict": DataError with name,
        line and byte offset, once the lines before it are answered. An OSError of the input is
        raised here too. In a group: for the leading process, while the others follow.
        """
        waiting: Queue[bytes | _End] = Queue(buffer_size)
        # A daemon: where this loop fails, the thread may be waiting for a line that never comes.
        Thread(target=_read, args=(input, name, errors, waiting), daemon=True).start()
        n_answered, end = 0, None
        patience = HEARTBEAT if self.group.size > 1 else None
        while end is None:
            lines, end = _take(waiting, buffer_size, patience)
            self._answer(lines, n_answered + 1, name, output)
            n_answered += len(lines)
        self._let_go()
        if end.error is not None:
            raise end.error

    def follow(self) -> None:
        """Take this process' share of what the leading one reads in translate_file or stream, until
        its end."""
        if self.group.leads:
            raise ValueError("the leading process has nobody to follow")
        nothing: list[bytes] | None = None
        while (lines := self.group.broadcast(nothing)) is not None:
            self.translate(lines)

    def warn_of_pieces(self, lines: Sequence[bytes], first: int, name: str) -> None:
        """A warning on stderr for each line that is translated in pieces; `first` is the number of
        the first line, from 1."""
        for number, line in enumerate(lines, first):
            if self.source and len(line) > self.max_source_bytes:
                n_pieces = len(cut(line, self.max_source_bytes))
                tqdm.write(
                    f"bytenmt: warning: {name}, line {number} has {len(line)} bytes, over the"
                    f" {self.max_source_bytes} of --max-source-bytes: translated in"
                    f" {n_pieces} pieces",
                    file=sys.stderr,
                )

    def _answer(self, lines: Sequence[bytes], first: int, name: str, output: BinaryIO) -> None:
        """Translate lines and write them; `first` is the number of the first one."""
        if not self.group.leads:
            raise ValueError("only the leading process reads and writes: the others follow()")
        self.warn_of_pieces(lines, first, name)
        self.group.broadcast(lines)
        output.write(b"".join(best.text + b"\n" for best in self.translate(lines)))
        output.flush()

    def _let_go(self) -> None:
        """End the others' follow."""
        nothing: list[bytes] | None = None
        self.group.broadcast(nothing)

    def _batches(self, texts: set[bytes]) -> Iterator[list[bytes]]:
        """The texts by length, cut into batches of max_tokens."""
        batch: list[bytes] = []
        for text in sorted(texts, key=lambda text: (len(text), text)):
            if batch and (len(batch) + 1) * self.beam * (len(text) + 1) > self.max_tokens:
                yield batch
                batch = []
            batch.append(text)
        if batch:
            yield batch

    def _search(self, texts: list[bytes]) -> list[list[Hypothesis]]:
        """Decode one batch."""
        src, src_len = _tensors(texts) if self.source else _no_source(len(texts))
        limits = [int(self.max_len_a * len(text) + self.max_len_b) for text in texts]
        stepper = EagerStepper(self.model, src.to(self.device), src_len.to(self.device), self.beam)
        return search(stepper, torch.tensor(limits), self.length_penalty)

    def _join(self, line: list[Piece], found: dict[bytes, list[Hypothesis]]) -> list[Hypothesis]:
        """The hypotheses of a line from those of its pieces."""
        if len(line) == 1:
            return found[line[0].text]
        joined = []
        for parts in zip(*(found[piece.text] for piece in line), strict=False):
            text = b"".join(part.text + piece.joint for part, piece in zip(parts, line, strict=True))
            log_probability = sum(part.log_probability for part in parts)
            score = log_probability / (len(text) + 1) ** self.length_penalty
            joined.append(Hypothesis(text, log_probability, score))
        return joined


def _tensors(texts: list[bytes]) -> tuple[Tensor, Tensor]:
    """src (n, s) uint8: bytes, EOS, PAD; src_len (n,) int64: bytes with EOS."""
    width = max(len(text) for text in texts) + 1
    rows = b"".join((text + bytes([EOS])).ljust(width, bytes([PAD])) for text in texts)
    src = torch.frombuffer(bytearray(rows), dtype=torch.uint8).view(len(texts), width)
    return src, torch.tensor([len(text) + 1 for text in texts])


def _no_source(n: int) -> tuple[Tensor, Tensor]:
    """src (n, 0) uint8 and src_len (n,) int64, all 0: no source, not even its EOS."""
    return torch.zeros(n, 0, dtype=torch.uint8), torch.zeros(n, dtype=torch.int64)


class _End(NamedTuple):
    """The end of a stream, and the error that ended it."""

    error: Exception | None


def _read(input: BinaryIO, name: str, errors: str, waiting: Queue[bytes | _End]) -> None:
    """The reading thread: put the lines of a stream, without their ends, as valid UTF-8."""
    try:
        for number, line in enumerate(input, 1):
            waiting.put(_clean(line, name, number, errors))
        waiting.put(_End(None))
    except (DataError, OSError) as error:
        waiting.put(_End(error))


def _clean(line: bytes, name: str, number: int, errors: str) -> bytes:
    """A line as corpus.TextFile would give it: no line end, no byte order mark, valid UTF-8."""
    if line.endswith(b"\n"):
        line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    valid = first_invalid(line) < 0
    if not valid and errors == "strict":
        raise DataError(describe_mistake(name, number, line))
    return line if valid else repair(line)


def _take(waiting: Queue[bytes | _End], most: int, patience: float | None) -> tuple[list[bytes], _End | None]:
    """Wait for a line, then take what is there, `most` lines at most; and the end if it came.

    patience: seconds until it comes back without a line; None waits for ever.
    """
    lines: list[bytes] = []
    try:
        item = waiting.get(timeout=patience)
    except Empty:
        return lines, None
    while not isinstance(item, _End):
        lines.append(item)
        if len(lines) == most or waiting.empty():
            return lines, None
        item = waiting.get()
    return lines, item
