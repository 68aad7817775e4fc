"""Spans that a translation keeps, and the sentinels that stand for them.

A sentinel is a byte that UTF-8 never uses, 0xF5 to 0xFC. Each kept span of a source becomes one of
them, and the model, which has learned to carry them, writes it where the span belongs. (T5 calls
such symbols sentinels: Raffel et al. 2020, section 3.1.4.)

Kept spans are what the patterns of span_classes.py find, what a user's patterns find, terms of a
glossary, and the inline codes of documents. Of overlapping matches the longest is kept, then the
earliest. Spans with nothing between them share a sentinel. As Python text, sentinel k is the lone
surrogate that stands for its byte, so that `text.encode("utf-8", "surrogateescape")` gives the
byte: see to_bytes and to_text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from bytenmt.errors import SettingError
from bytenmt.kernel_constants import FIRST_SENTINEL, N_SENTINELS
from bytenmt.span_classes import CLASSES, NAMES, SPAN_CLASSES

SENTINELS = bytes(range(FIRST_SENTINEL, FIRST_SENTINEL + N_SENTINELS))
PATTERNS: dict[str, tuple[str, ...]] = {
    **{spans.name: spans.patterns for spans in SPAN_CLASSES},
    NAMES: (),
}
# Most sentences have no span of any class, and this finds nothing in them.
_TRIGGER = re.compile("|".join(spans.trigger for spans in SPAN_CLASSES))
_TRIGGERS = [(spans.name, re.compile(spans.trigger)) for spans in SPAN_CLASSES]
_TAG_NAME = re.compile(r"<(/?)([A-Za-z0-9][^\s/>]*+)?[^<>]*?(/?)>")
# Elements of HTML without an end tag.
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"]
    + ["track", "wbr"]
)


class Code(NamedTuple):
    """An inline code of a document, such as an HTML tag, which a translation keeps unchanged."""

    text: str  # as the document has it; the model sees a sentinel byte, 0xF5 to 0xFC
    # A number that an opening and its closing code share; -1 for a code that stands alone.
    pair: int = -1
    opens: bool = False  # whether it is the opening one of a pair


class Span(NamedTuple):
    """The part text[begin:end] of a text, in characters, which a translation keeps unchanged."""

    begin: int
    end: int


@lru_cache(maxsize=256)
def compile_patterns(
    classes: tuple[str, ...] = CLASSES, own: tuple[str, ...] = ()
) -> tuple[re.Pattern[str], ...]:
    """Compile regular expressions of the spans that a translation keeps unchanged.

    classes: names of built-in classes of spans, such as "urls"; own: the user's expressions. Raises
    SettingError for an unknown class, or a pattern that is invalid or matches the empty text.
    """
    patterns = []
    for name in classes:
        if name not in PATTERNS:
            raise SettingError(f"{name!r} is not a class of spans: expected {', '.join(CLASSES)}")
        patterns += [re.compile(pattern) for pattern in PATTERNS[name]]
    for pattern in own:
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise SettingError(
                f"the pattern {pattern!r} is not a valid regular expression: {error}"
            ) from None
        if compiled.search(""):
            raise SettingError(f"the pattern {pattern!r} matches the empty text")
        patterns.append(compiled)
    return tuple(patterns)


def find_spans(text: str, patterns: Sequence[re.Pattern[str]] | None = None) -> list[Span]:
    """Return the spans of a text that match a pattern, in their order.

    patterns: None for those of all built-in classes of spans, such as web addresses. Of overlapping
    matches the longest is kept, of equally long ones the earliest.
    """
    if patterns is None:
        patterns = _triggered_patterns(text)
    matches = {match.span() for pattern in patterns for match in pattern.finditer(text)}
    return drop_overlaps(matches)


def _triggered_patterns(text: str) -> list[re.Pattern[str]]:
    """Return the patterns of the classes whose trigger is in a text; no other one matches there."""
    if not _TRIGGER.search(text):
        return []
    chosen = [compile_patterns((name,)) for name, trigger in _TRIGGERS if trigger.search(text)]
    return [*chain.from_iterable(chosen)]


def drop_overlaps(matches: Iterable[tuple[int, int]]) -> list[Span]:
    """Reduce (begin, end) pairs, offsets in a text, to spans that do not overlap, in their order.

    Of overlapping pairs the longest is taken, of equally long ones the earliest; empty ones are
    left out.
    """
    ranked = sorted(matches, key=lambda span: (span[0] - span[1], span[0]))
    is_taken = bytearray(max((end for _, end in ranked), default=0))  # each character
    chosen: list[Span] = []
    for begin, end in ranked:
        # Chosen spans are at least as long: one that overlaps this one has its first or last
        # character.
        if begin < end and not is_taken[begin] and not is_taken[end - 1]:
            chosen.append(Span(begin, end))
            is_taken[begin:end] = b"\1" * (end - begin)
    return sorted(chosen)


def replace_spans(text: str, changes: Iterable[tuple[Span, str]]) -> str:
    """Replace each span of a text by the string paired with it; spans must not overlap."""
    parts, end = list[str](), 0
    for span, new in sorted(changes):
        parts += [text[end : span.begin], new]
        end = span.end
    return "".join([*parts, text[end:]])


def merge_adjacent(spans: Sequence[Span]) -> list[Span]:
    """Join spans of which one ends where the next begins; spans: in the order of the text."""
    merged: list[Span] = []
    for span in spans:
        if merged and merged[-1].end == span.begin:
            merged[-1] = Span(merged[-1].begin, span.end)
        else:
            merged.append(span)
    return merged


def sentinel_char(number: int) -> str:
    """Return a sentinel, which stands for a kept span in a text, as a str of one lone surrogate.

    number: from 0 to 7. to_bytes encodes the character as the byte 0xF5 + number.
    """
    return chr(0xDC00 + FIRST_SENTINEL + number)


def to_bytes(text: str) -> bytes:
    """Encode a text as UTF-8, and sentinels, its lone surrogates, as the bytes 0xF5 to 0xFC."""
    return text.encode("utf-8", "surrogateescape")


def to_text(data: bytes) -> str:
    """Decode UTF-8, in which sentinels (0xF5 to 0xFC) and invalid bytes become lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def has_sentinels(data: bytes) -> bool:
    """Return whether any byte is a sentinel, 0xF5 to 0xFC, which stands for a kept span."""
    return len(data) != len(data.translate(None, SENTINELS))


def pair_tags(spans: Sequence[str]) -> dict[int, int]:
    """Map the index of each closing HTML tag in a list of strings to that of its opening tag.

    Strings that are not tags and tags without a partner are not in the mapping.
    """
    return match_pairs(
        None
        if tag is None or tag[3] or (tag[2] or "").lower() in _VOID
        else (tag[2] or "", not tag[1])
        for tag in map(_TAG_NAME.fullmatch, spans)
    )


def match_pairs(tags: Iterable[tuple[str, bool] | None]) -> dict[int, int]:
    """Match opening and closing tags: map the index of each closing tag to that of its opening tag.

    tags: the name of each, and whether it opens an element; None where it is not a tag of a pair. A
    closing tag closes the innermost open element of its name; elements inside that are still open
    have no partner.
    """
    partners: dict[int, int] = {}
    opened, n_open = list[tuple[int, str]](), Counter[str]()
    for index, tag in enumerate(tags):
        if tag and tag[1]:
            opened.append((index, tag[0]))
            n_open[tag[0]] += 1
        elif tag and n_open[tag[0]]:
            name = None
            while name != tag[0]:  # the last one that is taken off is the partner
                partners[index], name = opened.pop()
                n_open[name] -= 1
    return partners
