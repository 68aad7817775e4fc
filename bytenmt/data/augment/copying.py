"""Replace names and numbers that both sides of a pair share by made-up ones, so that a model learns to copy.

A name or a number that was never seen before can only be copied, not known. A made-up one has the shape and
the number of bytes of the one it replaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bytenmt.data.bucketing import random_below
from bytenmt.sentinels import find_spans

LETTER = "A-Za-zÀ-ÖØ-öø-ɏ"  # Latin: the last ranges have two bytes each
_ITEM = re.compile(
    f"(?<![\\d_{LETTER}])(?:[{LETTER}]{{3,}}(?![\\d_{LETTER}])|[0-9]+(?:[.,][0-9]+)*(?![_{LETTER}]))",
    re.ASCII,
)
_LOWER = ("aeiou", "bcdfghjklmnpqrstvwxyz", "àáâäåæçèéêëìíîïñòóôöøùúûüýčďěğłńňőřśšťůűźž")
_LIKE = (*_LOWER, *(letters.upper() for letters in _LOWER))
_ALIKE = {letter: letters for letters in _LIKE for letter in letters} | {
    d: "0123456789" for d in "0123456789"
}

Below = Callable[[int], int]  # draws a number from 0 to below another


def keyed_draws(key: np.uint64) -> Below:
    """Return a random generator as a function: f(n) is from 0 to n − 1; equal keys give equal sequences."""
    state = np.array([key], np.uint64)
    return lambda limit: int(random_below(state, limit))


class Item(NamedTuple):
    """A name or a number of a text, text[begin:end] in characters."""

    begin: int
    end: int
    value: str


def find_items(text: str) -> list[Item]:
    """Return the words and numbers of a text in order, those inside kept spans left out."""
    spans = find_spans(text)
    return [
        Item(*match.span(), match[0])
        for match in _ITEM.finditer(text)
        if not any(span.begin < match.end() and match.start() < span.end for span in spans)
    ]


def other_items(source: str, target: str, below: Below) -> tuple[str, str]:
    """Return a pair whose names and numbers that stand once on both sides are replaced by made-up ones.

    A word of small ASCII letters alone is no name.
    """
    of_target = {item.value: item for item in find_items(target)}
    replaced = []
    for item in find_items(source):
        other, value = of_target.get(item.value), item.value
        if other is None or source.count(value) > 1 or target.count(value) > 1:
            continue
        if not (value.isascii() and value.islower()):
            replaced.append((item, other, made_up(value, below)))
    return (
        _with(source, [(own, text) for own, _, text in replaced]),
        _with(target, [(other, text) for _, other, text in replaced]),
    )


def made_up(value: str, below: Below) -> str:
    """Return another name or number of as many bytes.

    Vowels stand for vowels, so that it can be read, capitals for capitals, digits for digits; a number does
    not begin with 0 where the value does not.
    """
    letters = []
    for place, letter in enumerate(value):
        alike = _ALIKE.get(letter, "")
        if place == 0 and letter.isdigit():
            alike = "" if letter == "0" else "123456789"
        letters.append(alike[below(len(alike))] if alike else letter)
    return "".join(letters)


def _with(text: str, items: list[tuple[Item, str]]) -> str:
    """Return a text with other items at these places."""
    parts, end = [], 0
    for item, new in sorted(items):
        parts += [text[end : item.begin], new]
        end = item.end
    return "".join([*parts, text[end:]])
