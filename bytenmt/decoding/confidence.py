"""Judge a translation: sure, to be checked, or wrong, with the reasons in words.

A model that knows a line is sure of nearly every byte; where it guesses, bytes cost bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bytenmt.decoding.constraints.constraint_spec import LIMIT, UNMET
from bytenmt.decoding.interface import Hypothesis

# Levels of a verdict, the best one first.
SURE, CHECK, WRONG = LEVELS = ("sure", "check", "wrong")
# Flags of a translation: what programs read, the level, and the words that people read.
UNSURE, LOOP, LENGTH, PLACEMENT, LOST = "unsure", "loop", "length", "placement", "lost"
REASONS = {
    LOOP: (WRONG, "repeats itself"),
    LENGTH: (WRONG, "far longer or shorter than its source"),
    UNMET: (WRONG, "a term, placeholder or tag is missing, or there is one too many"),
    LOST: (CHECK, "tags or placeholders were lost, and put back at the end"),
    PLACEMENT: (CHECK, "a tag or placeholder may be in the wrong place"),
    LIMIT: (CHECK, "terms or placeholders were added at the end, as the translation was getting too long"),
    UNSURE: (CHECK, "the model is unsure"),
}
# A loop is a part of up to 48 bytes that stands four times in a row; a short one stands there more often.
REPETITION = re.compile(rb"(.)\1{11}|(..)\2{5}|(.{3,48}?)\3\3\3", re.DOTALL)
# No pair of languages makes a sentence of some length so many times longer or shorter; in bytes, of which an
# ideogram has three.
LENGTHENED, SHORTENED, LONG_ENOUGH = 6.0, 1 / 8, 24


class Verdict(NamedTuple):
    """What a person is told of a translation. level: one of LEVELS; reasons: in words, the gravest first."""

    level: str
    reasons: tuple[str, ...]

    @staticmethod
    def from_flags(flags: Iterable[str]) -> Verdict:
        """Return the verdict of some flags; one that is not in REASONS is a reason to check.

        >>> Verdict.from_flags(["unsure", "loop"])
        Verdict(level='wrong', reasons=('repeats itself', 'the model is unsure'))
        """
        found = dict.fromkeys(REASONS.get(flag, (CHECK, flag)) for flag in flags)
        ranked = sorted(found, key=lambda reason: -LEVELS.index(reason[0]))
        return Verdict(ranked[0][0] if ranked else SURE, tuple(words for _, words in ranked))


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
        yield UNSURE
    text = hypothesis.text
    if has_loop(text) and not has_loop(source):
        yield LOOP
    ratio = (len(text) + 1) / (len(source) + 1)
    if max(len(text), len(source)) >= LONG_ENOUGH and not SHORTENED <= ratio <= LENGTHENED:
        yield LENGTH


def has_loop(text: bytes) -> bool:
    """Return whether a part of the text is repeated again and again, as by a model caught in a loop."""
    return REPETITION.search(text + b" ") is not None
