"""How far a translation is to be trusted: the bits that it cost the model, and what looks like a slip.

A model that knows a line is sure of nearly every byte; where it guesses, bytes cost bits. Knows hypotheses
and their sources; knows no engines and no references.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bytenmt.decoding.interface import Hypothesis

# A loop is a piece of text that comes at least so many times in a row and is so long in all, and that the
# source does not have so often.
TIMES, LOOPED = 4, 12
LONGEST_UNIT = 48  # bytes of the piece
# No pair of languages makes a sentence of some length so many times longer or shorter; in bytes, of which an
# ideogram has three.
LENGTHENED, SHORTENED, LONG_ENOUGH = 6.0, 1 / 8, 24


def bits_per_byte(hypothesis: Hypothesis) -> float | None:
    """Of the text, its end paid for too; None of an empty one."""
    n_bytes = len(hypothesis.text)
    return -hypothesis.log_probability / math.log(2) / n_bytes if n_bytes else None


def bits_of_characters(hypothesis: Hypothesis) -> list[tuple[str, float]]:
    """Each character of the text and the bits of its bytes; last an empty one, with the bits of the end.
    Raises ValueError where the search did not keep bytes' scores."""
    if len(hypothesis.byte_scores) != len(hypothesis.text) + 1:
        raise ValueError("the search kept no scores of bytes: set Options.byte_scores")
    found, at = [], 0
    for character in hypothesis.text.decode():
        end = at + len(character.encode())
        found.append((character, _bits(hypothesis.byte_scores[at:end])))
        at = end
    return [*found, ("", _bits(hypothesis.byte_scores[at:]))]


def _bits(scores: Sequence[float]) -> float:
    return max(0.0, -math.fsum(scores) / math.log(2))


def flags(source: bytes, hypothesis: Hypothesis, above: float | None = None) -> Iterator[str]:
    """Why a person should look at a translation: "unsure", it cost more than `above` bits a byte; "loop", a
    piece of it comes again and again, as none of the source does; "length", it is far longer or shorter than
    its source."""
    bits = bits_per_byte(hypothesis)
    if above is not None and bits is not None and bits > above:
        yield "unsure"
    text = hypothesis.text
    if loop(text) and not loop(source):
        yield "loop"
    ratio = (len(text) + 1) / (len(source) + 1)
    if max(len(text), len(source)) >= LONG_ENOUGH and not SHORTENED <= ratio <= LENGTHENED:
        yield "length"


def loop(text: bytes) -> bool:
    """Whether a piece of the text stands at least TIMES times in a row."""
    for unit in range(1, min(LONGEST_UNIT, (len(text) + 1) // TIMES) + 1):
        equal = 0  # bytes in a row that are what stood a unit before; the last space may be missing
        for before, byte in zip(text, text[unit:], strict=False):
            equal = equal + 1 if before == byte else 0
            if equal >= max(LOOPED - unit, (TIMES - 1) * unit - (unit > 1)):
                return True
    return False
