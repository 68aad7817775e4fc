"""Inline codes in a text: their pairs, and whether a translation keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from bytenmt.documents.unit import CodedText, merge_strings, to_markup
from bytenmt.documents.words import ICU_FORMS, has_words
from bytenmt.sentinels import Code, find_spans, match_pairs
from bytenmt.translation.confidence import NO_TEXT
from bytenmt.translation.kept_spans import pair_key

# Values of Code.pair: of a code that stands alone, and of a part of a string that is made a code.
ALONE = -1
IN_TEXT = -2


def is_in_text(part: str | Code) -> bool:
    """Return whether a part of a text is a Code that split_spans made from a piece of a string."""
    return isinstance(part, Code) and part.pair == IN_TEXT


def pair_partners(parts: Sequence[str | Code]) -> dict[int, int]:
    """Map the index in `parts` of each opening or closing code to that of its partner, both ways.

    Codes that stand alone are left out.
    """
    opening_of = match_pairs(map(pair_key, parts))
    return opening_of | {opening: closing for closing, opening in opening_of.items()}


def split_spans(parts: CodedText) -> CodedText:
    """Turn placeholders, tags and addresses in the strings of a text into Codes.

    Such a Code has the `pair` IN_TEXT (-2). Strings with ICU plural or select forms, such as
    {n, plural, …}, stay whole.
    """
    pieces = list[str | Code]()
    for part in parts:
        if isinstance(part, Code) or ICU_FORMS.search(part):
            pieces.append(part)
            continue
        last = 0
        for begin, end in find_spans(part, NO_TEXT):
            pieces += [part[last:begin], Code(part[begin:end], IN_TEXT)]
            last = end
        pieces.append(part[last:])
    return merge_strings(pieces)


def codes_of(parts: CodedText) -> list[Code]:
    """Return the inline codes of a text, in order."""
    return [part for part in parts if isinstance(part, Code)]


def keeps_spans(source: CodedText, translation: CodedText) -> bool:
    """Return whether a translation has each code, placeholder, tag and address of a source.

    Each must occur at least as often as in the source.
    """
    counts = Counter(code.text for code in codes_of(split_spans(source)))
    written = to_markup(translation)
    return all(written.count(span) >= n for span, n in counts.items())


def keeps_codes(source: CodedText, translation: CodedText) -> bool:
    """Return whether a translation has each inline code as often as its source, and no other."""
    return Counter(codes_of(source)) == Counter(codes_of(translation))


def pairs_with_words(parts: CodedText) -> set[int]:
    """Return the numbers (Code.pair) of the pairs of codes that have a word between them."""
    partners = pair_partners(parts)
    numbers = set[int]()
    for index, part in enumerate(parts):
        closing = partners.get(index, index)
        if isinstance(part, Code) and part.opens and has_words(parts[index:closing]):
            numbers.add(part.pair)
    return numbers


def nest_pairs(source: CodedText, translation: CodedText) -> CodedText:
    """Move closing codes of a translation so that pairs are nested only as they are in the source.

    If a pair opens inside another one that is not around it in the source, the other is closed
    first: a link may not be in another one. White space just inside a pair moves out of it, unless
    the source has some there: Markdown has no emphasis in ** a**.
    """
    nested = _NestedText(source)
    for part in translation:
        if isinstance(part, str):
            nested.append_string(part)
        elif part.opens:
            nested.open(part)
        elif part.pair < 0:
            nested.parts.append(part)
        else:
            nested.close(part.pair)
    return merge_strings(nested.parts)


class _NestedText:
    """A text that is built part by part; pairs of codes are nested only as they are in `source`."""

    def __init__(self, source: CodedText) -> None:
        self.parts = list[str | Code]()
        self._open_pairs = list[int]()
        self._closing_codes = {code.pair: code for code in codes_of(source) if not code.opens}
        self._outer_pairs = dict[int, set[int]]()
        open_pairs = list[int]()
        for code in codes_of(source):
            if code.opens:
                self._outer_pairs[code.pair] = {*open_pairs}
                open_pairs.append(code.pair)
            elif code.pair in open_pairs:
                open_pairs.remove(code.pair)
        self._spaced_codes = set[Code]()  # codes that have white space on their inner sides
        for part, following in pairwise(source):
            if isinstance(part, Code) and part.opens and to_markup([following])[:1].isspace():
                self._spaced_codes.add(part)
            is_behind_space = to_markup([part])[-1:].isspace()
            if isinstance(following, Code) and not following.opens and is_behind_space:
                self._spaced_codes.add(following)

    def open(self, code: Code) -> None:
        """Append an opening code, behind the ends of pairs that may not be around it."""
        while self._open_pairs and self._open_pairs[-1] not in self._outer_pairs[code.pair]:
            self._close_last()
        self.parts.append(code)
        self._open_pairs.append(code.pair)

    def close(self, pair: int) -> None:
        """Close a pair and those inside it; one that is not open is left out."""
        while pair in self._open_pairs:
            self._close_last()

    def _close_last(self) -> None:
        last = self.parts.pop()
        closing = self._closing_codes[self._open_pairs.pop()]
        if isinstance(last, str) and closing not in self._spaced_codes:
            stripped = last.rstrip()
            self.parts += [stripped, closing, last[len(stripped) :]]
        else:
            self.parts += [last, closing, ""]

    def append_string(self, text: str) -> None:
        """Append a string, of which white space behind opening codes moves in front of them."""
        first_opening = len(self.parts)
        while first_opening:
            before = self.parts[first_opening - 1]
            if isinstance(before, str) or not before.opens or before in self._spaced_codes:
                break
            first_opening -= 1
        is_after_opening = first_opening < len(self.parts)
        # No second space behind a moved one.
        strips = is_after_opening or self.parts[-1:] == [" "]
        stripped = text.lstrip() if strips else text
        if is_after_opening and first_opening > 0:
            last = self.parts[first_opening - 1]
            if isinstance(last, Code) or not last[-1:].isspace():
                self.parts.insert(first_opening, text[: len(text) - len(stripped)])
        self.parts.append(stripped)
