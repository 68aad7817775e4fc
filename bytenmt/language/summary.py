"""Sum up predictions: bits per byte, and how often the true byte was likely."""

from __future__ import annotations

from collections.abc import Iterator

from bytenmt.language.surprisal import Surprisal


class PredictionSummary:
    """Accumulates bits and accuracy of predictions."""

    def __init__(self) -> None:
        self.n_bytes = 0
        self._bits = 0.0
        self._n_first = 0  # true bytes that were the likeliest
        self._n_fifth = 0  # true bytes that were among the five likeliest

    def add(self, surprise: Surprisal) -> None:
        """Add the predictions of these bytes to the sums."""
        self.n_bytes += len(surprise.data)
        self._bits += float(surprise.bits.sum())
        self._n_first += int((surprise.rank == 0).sum())
        self._n_fifth += int((surprise.rank < 5).sum())

    def lines(self) -> Iterator[str]:
        """Yield lines for people: bits per byte, bytes, and how often the true byte was likely."""
        share = 100 / max(1, self.n_bytes)
        yield f"bits per byte: {self._bits / max(1, self.n_bytes):.4f}"
        yield f"bytes: {self.n_bytes}"
        yield f"the likeliest byte: {share * self._n_first:.2f} %"
        yield f"among the five likeliest: {share * self._n_fifth:.2f} %"


def json_lines(surprise: Surprisal, first: int) -> bytes:
    """Format a JSON object a line for each byte: its offset, byte, bits and rank from 1.

    first: offset of the first byte.
    """
    lines = ""
    numbers = zip(*(part.tolist() for part in surprise), strict=True)
    for offset, (byte, bits, rank) in enumerate(numbers, first):
        lines += f'{{"offset": {offset}, "byte": {byte}, "bits": {bits:.6f}, "rank": {rank + 1}}}\n'
    return lines.encode()
