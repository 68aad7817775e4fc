"""Sum up predictions: bits per byte and accuracy, in all, by script and by position in a character."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.language.scripts import POSITIONS, Characters, Splitter, positions, script
from bytenmt.language.surprisal import Surprise
from bytenmt.utf8 import EOS

ENDS = "ends of lines"  # of translations: bits, but no bytes of the text


@dataclass
class Sum:
    """Sums over predictions.

    n_bytes: of the text; n_ranked: predictions, ends of lines included; bits; first, fifth: predictions whose
    byte was the likeliest, or among the five likeliest.
    """

    n_bytes: int = 0
    n_ranked: int = 0
    bits: float = 0.0
    first: int = 0
    fifth: int = 0

    @property
    def bits_per_byte(self) -> float:
        return self.bits / max(1, self.n_bytes)

    def accuracy(self, n: int) -> float:
        """Return the accuracy in percent for the likeliest byte (n = 1) or the five likeliest (n = 5)."""
        return 100 * (self.first if n == 1 else self.fifth) / max(1, self.n_ranked)

    def add(self, bits: npt.NDArray[np.float64], rank: npt.NDArray[np.int64], n_bytes: int) -> None:
        """Add predictions. bits, rank (n,): of each; n_bytes: bytes of the text among them."""
        self.n_bytes += n_bytes
        self.n_ranked += len(bits)
        self.bits += float(bits.sum())
        self.first += int((rank == 0).sum())
        self.fifth += int((rank < 5).sum())


class ScoredCharacters(NamedTuple):
    """Whole characters and the cost of each of their bytes."""

    characters: Characters
    surprise: Surprise


class WholeCharacters:
    """Collects costs of bytes and returns them as whole characters, once their last byte has come."""

    def __init__(self) -> None:
        self._splitter = Splitter()
        self._waiting = Surprise(np.zeros(0, np.uint8), np.zeros(0), np.zeros(0, np.int64))

    def add(self, surprise: Surprise | None) -> ScoredCharacters:
        """Add costs of bytes (None at the end) and return the characters that are complete now."""
        data = b"" if surprise is None else surprise.data.tobytes()
        characters = self._splitter.split(data, last=surprise is None)
        both = self._waiting if surprise is None else Surprise.joined([self._waiting, surprise])
        whole, self._waiting = both.cut(int(characters.n_bytes.sum()))
        return ScoredCharacters(characters, whole)


@dataclass
class Figures:
    """Collects the sums. line_ends: EOS ends a line and is not a byte of the text, as in translations."""

    line_ends: bool = False
    whole: Sum = field(default_factory=Sum)
    by_script: dict[str, Sum] = field(default_factory=dict)
    by_position: dict[str, Sum] = field(default_factory=dict)

    def add(self, whole: ScoredCharacters) -> None:
        """Add whole characters."""
        (code, n_bytes), (data, bits, rank) = whole
        ends = (data == EOS) & self.line_ends
        self.whole.add(bits, rank, int((~ends).sum()))
        kinds, of_character = np.unique(code, return_inverse=True)
        names = [script(kind) for kind in kinds.tolist()]
        order = sorted(set(names))
        index = np.array([order.index(name) for name in names], np.int64)
        of_bytes = np.repeat(index[of_character], n_bytes)
        of_position = positions(whole.characters)
        for table, labels, of in (
            (self.by_script, order, of_bytes),
            (self.by_position, POSITIONS, of_position),
        ):
            for number, name in enumerate(labels):
                mine = (of == number) & ~ends
                if mine.any():
                    table.setdefault(name, Sum()).add(bits[mine], rank[mine], int(mine.sum()))
            if ends.any():
                table.setdefault(ENDS, Sum()).add(bits[ends], rank[ends], 0)

    def lines(self) -> Iterator[str]:
        """Yield the result as lines for people, bits per byte first."""
        whole = self.whole
        yield f"bits per byte: {whole.bits_per_byte:.4f}"
        yield f"accuracy: {whole.accuracy(1):.2f} % at 1, {whole.accuracy(5):.2f} % at 5"
        yield f"bytes: {whole.n_bytes}"
        for title, table in (("script", self.by_script), ("position in a character", self.by_position)):
            yield f"{'by ' + title:28}{'bytes':>12}{'bits per byte':>16}{'at 1':>10}{'at 5':>10}"
            for name, one in sorted(table.items(), key=lambda item: -item[1].n_bytes):
                cost = f"{one.bits_per_byte:.4f}" if one.n_bytes else f"{one.bits:.1f} bits"
                shares = f"{one.accuracy(1):8.2f} %{one.accuracy(5):8.2f} %"
                yield f"  {name:26}{one.n_bytes:12}{cost:>16}{shares}"


def json_lines(surprise: Surprise, first: int) -> bytes:
    """Format each byte as a JSON object: offset (from `first` on), byte, bits and rank (1 for the likeliest).

    The end of a translation's line is the byte 255.
    """
    numbers = zip(*(part.tolist() for part in surprise), strict=True)
    lines = (
        f'{{"offset": {offset}, "byte": {byte}, "bits": {bits:.6f}, "rank": {rank + 1}}}\n'
        for offset, (byte, bits, rank) in enumerate(numbers, first)
    )
    return "".join(lines).encode()
