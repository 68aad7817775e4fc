"""Sum up predictions: bits per byte and accuracy, in all and by script."""

from __future__ import annotations

import codecs
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.language.scripts import ESCAPED, LAST_ESCAPED, script
from bytenmt.language.surprisal import Surprisal
from bytenmt.utf8 import EOS

WHOLE = "in all"  # the name of the sums over all characters
ENDS = "ends of lines"  # of translations: bits, but no bytes of the text


class Characters(NamedTuple):
    """Whole characters of a text, and the surprisal of each of their bytes."""

    code: npt.NDArray[np.uint32]  # (n,), code points; a byte that is not UTF-8 is 0xDC00 plus the byte
    n_bytes: npt.NDArray[np.int64]  # (n,), bytes of each character
    surprise: Surprisal  # of all their bytes, in order


class WholeCharacters:
    """Groups the bytes of successive Surprisal chunks into characters; a cut character waits for its rest."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._waiting = Surprisal(np.zeros(0, np.uint8), np.zeros(0), np.zeros(0, np.int64))

    def add(self, surprise: Surprisal | None) -> Characters:
        """Add the next bytes (None at the end of the text); return the characters that are now complete."""
        text = self._decoder.decode(b"" if surprise is None else surprise.data.tobytes(), surprise is None)
        code = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        n_bytes = 1 + (code >= 0x80).astype(np.int64) + (code >= 0x800) + (code >= 0x10000)
        n_bytes[(code >= ESCAPED) & (code <= LAST_ESCAPED)] = 1
        both = self._waiting if surprise is None else Surprisal.concatenate([self._waiting, surprise])
        whole, self._waiting = both.split(int(n_bytes.sum()))
        return Characters(code, n_bytes, whole)


class PredictionSums(NamedTuple):
    """Sums over the predictions of a text's bytes, or of those of one script."""

    n_bytes: float  # bytes of the text
    n_ranked: float  # number of predictions, ends of lines included
    bits: float  # -log2 p, summed
    first: float  # predictions whose true byte was the likeliest
    fifth: float  # predictions whose true byte was among the five likeliest


class PredictionSummary:
    """Accumulates bits and accuracy of predictions, in all and by script.

    line_ends: EOS ends a line and is not a byte of the text, as in translations.
    """

    def __init__(self, line_ends: bool = False) -> None:
        self._line_ends = line_ends
        self._sums = defaultdict[str, npt.NDArray[np.float64]](lambda: np.zeros(5))

    def add(self, characters: Characters) -> None:
        """Add the predictions of these characters to the sums."""
        code, n_bytes, (data, bits, rank) = characters
        ends = (data == EOS) & self._line_ends
        values = np.stack([~ends, np.ones(len(data)), bits, rank == 0, rank < 5])
        kinds, of_character = np.unique(code, return_inverse=True)
        scripts = np.array([script(kind) for kind in kinds.tolist()], object)
        names = np.where(ends, ENDS, np.repeat(scripts[of_character], n_bytes))
        for name in set(names.tolist()):
            self._sums[name] += values[:, names == name].sum(axis=1)
        self._sums[WHOLE] += values.sum(axis=1)

    def sums(self) -> dict[str, PredictionSums]:
        """Return the sums of all characters, under the name WHOLE, then those by script, most bytes first."""
        by_name = {name: PredictionSums(*values.tolist()) for name, values in self._sums.items()}
        return dict(sorted(by_name.items(), key=lambda item: (item[0] != WHOLE, -item[1].n_bytes)))

    def lines(self) -> Iterator[str]:
        """Yield lines for people: bits per byte, bytes and a table by script. Call `add` before."""
        whole = self.sums()[WHOLE]
        yield f"bits per byte: {whole.bits / max(1, whole.n_bytes):.4f}"
        yield f"bytes: {whole.n_bytes:.0f}"
        yield f"{'by script':28}{'bytes':>12}{'bits per byte':>16}{'right':>10}{'of five':>10}"
        for name, (n_bytes, n_ranked, bits, first, fifth) in self.sums().items():  # ENDS come last
            shares = "".join(f"{100 * share / max(1, n_ranked):8.2f} %" for share in (first, fifth))
            row = f"  {name:26}{n_bytes:12.0f}{bits / max(1, n_bytes):16.4f}{shares}"
            ends = f"Ends of lines add {bits:.1f} bits, but no bytes, to the first row."
            yield ends if name == ENDS else row


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
