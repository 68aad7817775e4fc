"""Replace names and numbers that both sides of a pair share by made-up ones, so that a model learns
to copy.

A name or a number that was never seen before can only be copied, not known. A made-up one has the
shape and the number of bytes of the one it replaces.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from bytenmt.data.augment.draws import Below, keyed_draws
from bytenmt.sentinels import Span, find_spans, replace_spans, to_bytes, to_text

LETTER = "A-Za-zÀ-ÖØ-öø-ɏ"  # Latin: the last ranges have two bytes each
_ITEM = re.compile(
    f"(?<![\\d_{LETTER}])(?:[{LETTER}]{{3,}}(?![\\d_{LETTER}])"
    f"|[0-9]+(?:[.,][0-9]+)*(?![_{LETTER}]))",
    re.ASCII,
)
_LOWER = ("aeiou", "bcdfghjklmnpqrstvwxyz", "àáâäåæçèéêëìíîïñòóôöøùúûüýčďěğłńňőřśšťůűźž")
_LIKE = (*_LOWER, *(letters.upper() for letters in _LOWER))
_ALIKE = {letter: letters for letters in _LIKE for letter in letters} | {
    d: "0123456789" for d in "0123456789"
}


class Item(NamedTuple):
    """A word or a number in a text, and where it is."""

    span: Span  # its begin and end, in characters
    value: str


def find_items(text: str) -> list[Item]:
    """Return the numbers of a text, and its words of three or more Latin letters, in order, without
    words and numbers inside tags, addresses and the like."""
    spans = find_spans(text)
    return [
        Item(Span(*match.span()), match[0])
        for match in _ITEM.finditer(text)
        if not any(span.begin < match.end() and match.start() < span.end for span in spans)
    ]


def with_other_items(source: bytes, target: bytes, key: np.uint64) -> tuple[bytes, bytes]:
    """Replace each name and number that occurs once in both texts by a made-up one, the same in
    both; return the new (source, target).

    source, target: UTF-8; bytes from 0xF5 to 0xFC in it (sentinels) stay. key: random seed. A word
    of small ASCII letters alone is not a name.
    """
    source_text, target_text, below = to_text(source), to_text(target), keyed_draws(key)
    of_target = {item.value: item.span for item in find_items(target_text)}
    changes: list[tuple[Span, Span, str]] = []
    for span, value in find_items(source_text):
        is_name = not (value.isascii() and value.islower())
        if (
            is_name
            and value in of_target
            and source_text.count(value) == target_text.count(value) == 1
        ):
            changes.append((span, of_target[value], make_up_value(value, below)))
    return (
        to_bytes(replace_spans(source_text, [(span, new) for span, _, new in changes])),
        to_bytes(replace_spans(target_text, [(span, new) for _, span, new in changes])),
    )


def make_up_value(value: str, below: Below) -> str:
    """Return a made-up name or number with as many bytes as `value`.

    Vowels replace vowels, so that it can be read, capitals capitals, and digits digits; a number
    does not begin with 0 unless `value` does. below(n): draws a random integer from 0 to n - 1.
    """
    letters = []
    for place, letter in enumerate(value):
        alike = _ALIKE.get(letter, "")
        if place == 0 and letter.isdigit():
            alike = "" if letter == "0" else "123456789"
        letters.append(alike[below(len(alike))] if alike else letter)
    return "".join(letters)
