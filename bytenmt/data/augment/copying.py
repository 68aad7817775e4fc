"""Other things to copy: what stands unchanged on both sides of a pair, replaced on both by something made up.

A name, a number, an address, a {placeholder} that nobody has seen before can only be copied, not known.
What is made up has the shape and as many bytes as what it replaces. Knows text; knows no corpora.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from bytenmt.data.bucketing import random_below

LETTER = "A-Za-zÀ-ÖØ-öø-ɏ"  # Latin: the last ranges have two bytes each
ITEM = re.compile(
    r"""(?P<address>(?:https?://|www\.)[^\s<>"')]*[^\s<>"').,;:!?] | [\w.+-]+@[\w-]+(?:\.[\w-]+)+)
    | (?P<placeholder>\{[^{}\s]{1,40}\} | %\(\w{1,40}\)[a-z] | </?[A-Za-z][^<>]{0,80}>)
    | (?P<conversion>%(?:\d\$)?[sdifux](?![A-Za-z]))
    | (?P<number>(?<![\dA-Za-z_.,])\d+(?:[.,:]\d+)*(?![\dA-Za-z_]))
    | (?P<word>(?<![\d_"""
    + LETTER
    + r"])["
    + LETTER
    + r"]{3,}(?![\d_"
    + LETTER
    + r"]))",
    re.VERBOSE | re.ASCII,
)
KEPT = re.compile(r"https?://|www\.|(?<=\))[a-z]$")  # of an address or a placeholder: what makes it one
_LOWER = ("aeiou", "bcdfghjklmnpqrstvwxyz", "àáâäåæçèéêëìíîïñòóôöøùúûüýčďěğłńňőřśšťůűźž")
LIKE = (*_LOWER, *(letters.upper() for letters in _LOWER))
ALIKE = {letter: letters for letters in LIKE for letter in letters} | {d: "0123456789" for d in "0123456789"}
CONVERSIONS = "sdifux"

Below = Callable[[int], int]  # draws a number from 0 to below another


def draws(key: np.uint64) -> Below:
    """Draws that depend on the key alone."""
    state = np.array([key], np.uint64)
    return lambda limit: int(random_below(state, limit))


def other_items(source: str, target: str, below: Below) -> tuple[str, str]:
    """A pair with all that stands on both sides, once on each, replaced by the same made-up things."""
    there = {found.group(): found for found in ITEM.finditer(target)}
    replaced = []
    for found in ITEM.finditer(source):
        value, kind = found.group(), found.lastgroup
        if value not in there or source.count(value) > 1 or target.count(value) > 1:
            continue
        if kind == "word" and value.isascii() and value.islower():
            continue  # no name
        assert kind is not None
        replaced.append((found.span(), there[value].span(), made_up(value, kind, below)))
    return (
        _with(source, [(own, text) for own, _, text in replaced]),
        _with(target, [(other, text) for _, other, text in replaced]),
    )


def made_up(value: str, kind: str, below: Below) -> str:
    """Something of the same kind and as many bytes: vowels for vowels, so that it can be read, capitals for
    capitals, digits for digits; a number's first digit is none or 0 where the value's was."""
    if kind == "conversion":
        return value[:-1] + CONVERSIONS[below(len(CONVERSIONS))]
    kept = {place for found in KEPT.finditer(value) for place in range(*found.span())}
    letters = []
    for place, letter in enumerate(value):
        alike = "" if place in kept else ALIKE.get(letter, "")
        if kind == "number" and place == 0:
            alike = "" if letter == "0" else "123456789"
        letters.append(alike[below(len(alike))] if alike else letter)
    return "".join(letters)


def _with(text: str, items: list[tuple[tuple[int, int], str]]) -> str:
    """A text with other words at these places."""
    parts, end = [], 0
    for (begin, behind), item in sorted(items):
        parts += [text[end:begin], item]
        end = behind
    return "".join([*parts, text[end:]])
