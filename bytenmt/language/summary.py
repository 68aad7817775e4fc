"""Sum up predictions: bits per byte, and how often the true byte was likely."""

from __future__ import annotations

from collections.abc import Iterator

from bytenmt.language.surprisal import Surprisal
from bytenmt.utf8 import EOS


class PredictionSummary:
    """Accumulates bits and accuracy of predictions.

    line_ends: EOS ends a line, as in translations; its bits count, but it is not a byte of the text.
    """

    def __init__(self, line_ends: bool = False) -> None:
        self._line_ends = line_ends
        self.n_predictions = 0  # ends of lines included
        self._n_bytes, self._bits, self._first, self._fifth = 0, 0.0, 0, 0

    def add(self, surprise: Surprisal) -> None:
        """Add the predictions of these bytes to the sums."""
        n_ends = int((surprise.data == EOS).sum()) if self._line_ends else 0
        self.n_predictions += len(surprise.data)
        self._n_bytes += len(surprise.data) - n_ends
        self._bits += float(surprise.bits.sum())
        self._first += int((surprise.rank == 0).sum())
        self._fifth += int((surprise.rank < 5).sum())

    def lines(self) -> Iterator[str]:
        """Yield lines for people: bits per byte, bytes, and how often the true byte was likely."""
        share = 100 / max(1, self.n_predictions)
        yield f"bits per byte: {self._bits / max(1, self._n_bytes):.4f}"
        yield f"bytes: {self._n_bytes}"
        yield f"the likeliest byte: {share * self._first:.2f} %"
        yield f"among the five likeliest: {share * self._fifth:.2f} %"


def json_lines(surprise: Surprisal, first: int) -> bytes:
    """Format a JSON object a line for each byte: its offset, byte, bits and rank (1 for the likeliest).

    first: offset of the first byte. The end of a translation's line is the byte 255, EOS.
    """
    numbers = zip(*(part.tolist() for part in surprise), strict=True)
    lines = (
        f'{{"offset": {offset}, "byte": {byte}, "bits": {bits:.6f}, "rank": {rank + 1}}}\n'
        for offset, (byte, bits, rank) in enumerate(numbers, first)
    )
    return "".join(lines).encode()
