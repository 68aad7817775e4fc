"""Replace items that are identical on both sides of a pair by made-up ones, so that a model learns to copy.

A name, a number, an address or a {placeholder} that was never seen before can only be copied, not known. A
made-up item has the shape and the number of bytes of the item it replaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bytenmt.data.bucketing import random_below
from bytenmt.spans.extractor import span_extractor
from bytenmt.spans.grammar import CLASSES

LETTER = "A-Za-zÀ-ÖØ-öø-ɏ"  # Latin: the last ranges have two bytes each
WORD_ITEM = re.compile(f"(?<![\\d_{LETTER}])[{LETTER}]{{3,}}(?![\\d_{LETTER}])", re.ASCII)
CONVERSION = re.compile(r"%(?:\d\$)?[sdifux]")
WORD, NUMBERS, PLACEHOLDERS = "word", "numbers", "placeholders"
KEPT = re.compile(r"https?://|www\.|(?<=\))[a-z]$")  # what makes an address or a placeholder one
_LOWER = ("aeiou", "bcdfghjklmnpqrstvwxyz", "àáâäåæçèéêëìíîïñòóôöøùúûüýčďěğłńňőřśšťůűźž")
LIKE = (*_LOWER, *(letters.upper() for letters in _LOWER))
ALIKE = {letter: letters for letters in LIKE for letter in letters} | {d: "0123456789" for d in "0123456789"}
CONVERSIONS = "sdifux"
SPAN_MARKERS = re.compile(r"[0-9%{<$@\[]|://|www\.")  # a text without any has no spans: most are told quickly

Below = Callable[[int], int]  # draws a number from 0 to below another


def keyed_draws(key: np.uint64) -> Below:
    """Return a random generator as a function: f(n) is from 0 to n − 1; equal keys give equal sequences."""
    state = np.array([key], np.uint64)
    return lambda limit: int(random_below(state, limit))


class Item(NamedTuple):
    """An item of a text, text[begin:end] in characters. kind: one of spans.grammar.CLASSES, or WORD."""

    begin: int
    end: int
    kind: str
    value: str


def find_items(text: str) -> list[Item]:
    """Return what may be copied from a text: its spans, and the words outside them, in order."""
    spans = span_extractor(CLASSES).spans_of_text(text) if SPAN_MARKERS.search(text) else []
    items = [Item(begin, end, of, text[begin:end]) for begin, end, of in spans]
    at = 0
    for word in WORD_ITEM.finditer(text):
        while at < len(spans) and spans[at].end <= word.start():
            at += 1
        if at == len(spans) or word.end() <= spans[at].begin:
            items.append(Item(*word.span(), WORD, word[0]))
    return sorted(items)


def other_items(source: str, target: str, below: Below) -> tuple[str, str]:
    """Return a pair with all that stands on both sides, once on each, replaced by the same made-up items."""
    of_target = {item.value: item for item in find_items(target)}
    replaced = []
    for item in find_items(source):
        other, value = of_target.get(item.value), item.value
        if other is None or source.count(value) > 1 or target.count(value) > 1:
            continue
        if item.kind == WORD and value.isascii() and value.islower():
            continue  # no name
        replaced.append((item, other, made_up(value, item.kind, below)))
    return (
        _with(source, [((own.begin, own.end), text) for own, _, text in replaced]),
        _with(target, [((other.begin, other.end), text) for _, other, text in replaced]),
    )


def made_up(value: str, kind: str, below: Below) -> str:
    """Return another item of the same kind and as many bytes, or the same where that gives none.

    Vowels stand for vowels, so that it can be read, capitals for capitals, digits for digits; a number does
    not begin with 0 where the value does not.
    """
    if kind == PLACEHOLDERS and CONVERSION.fullmatch(value):
        return value[:-1] + CONVERSIONS[below(len(CONVERSIONS))]
    kept = {place for found in KEPT.finditer(value) for place in range(*found.span())}
    letters = []
    for place, letter in enumerate(value):
        alike = "" if place in kept else ALIKE.get(letter, "")
        if kind == NUMBERS and place == 0:
            alike = "" if letter == "0" else "123456789"
        letters.append(alike[below(len(alike))] if alike else letter)
    made = "".join(letters)
    if kind == WORD or span_extractor(CLASSES).spans_of_text(made) == [(0, len(made), kind)]:
        return made
    return value  # of %-5.2f another letter would make no conversion


def _with(text: str, items: list[tuple[tuple[int, int], str]]) -> str:
    """Return a text with other items at these positions."""
    parts, end = [], 0
    for (begin, behind), item in sorted(items):
        parts += [text[end:begin], item]
        end = behind
    return "".join([*parts, text[end:]])
