"""Estimate the confidence in a translation: its bits per byte under the model, and signs of mistakes.

A model that knows a line is sure of nearly every byte; where it guesses, bytes cost bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from bytenmt.decoding.interface import Hypothesis

# A loop is a part of up to 48 bytes that stands four times in a row; a short one stands there more often.
LOOP = re.compile(rb"(.)\1{11}|(..)\2{5}|(.{3,48}?)\3\3\3", re.DOTALL)
# No pair of languages makes a sentence of some length so many times longer or shorter; in bytes, of which an
# ideogram has three.
LENGTHENED, SHORTENED, LONG_ENOUGH = 6.0, 1 / 8, 24


def bits_of_characters(hypothesis: Hypothesis) -> list[tuple[str, float]]:
    """Return each character of the text and the bits of its bytes, and at the end "" with the bits of EOS.

    Raises ValueError if the search kept no scores of bytes.
    """
    if len(hypothesis.byte_scores) != len(hypothesis.text) + 1:
        raise ValueError("the search kept no scores of bytes: set Options.byte_scores")
    characters, at = [], 0
    for character in hypothesis.text.decode():
        end = at + len(character.encode())
        characters.append((character, _bits(hypothesis.byte_scores[at:end])))
        at = end
    return [*characters, ("", _bits(hypothesis.byte_scores[at:]))]


def _bits(scores: Sequence[float]) -> float:
    return max(0.0, -math.fsum(scores) / math.log(2))


def flags(source: bytes, hypothesis: Hypothesis, above: float | None = None) -> Iterator[str]:
    """Yield reasons why a person should look at a translation.

    These are the flags of constraints.constraint_spec; "unsure": it cost more than `above` bits per byte;
    "loop": a part of it is repeated again and again, and none of the source; "length": it is far longer or
    shorter than its source.
    """
    yield from hypothesis.flags or ()
    bits = hypothesis.bits_per_byte
    if above is not None and bits is not None and bits > above:
        yield "unsure"
    text = hypothesis.text
    if has_loop(text) and not has_loop(source):
        yield "loop"
    ratio = (len(text) + 1) / (len(source) + 1)
    if max(len(text), len(source)) >= LONG_ENOUGH and not SHORTENED <= ratio <= LENGTHENED:
        yield "length"


def has_loop(text: bytes) -> bool:
    """Return whether a part of the text is repeated again and again, as by a model caught in a loop."""
    return LOOP.search(text + b" ") is not None
