"""Repair translated lines whose pairs of codes went astray.

Such a line is translated without its pairs, and what stands between the codes of a pair by itself:
where the one translation is most like the other, the codes are put around it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from bytenmt.documents.codes import codes_of, pair_partners, pairs_with_words
from bytenmt.documents.text_tags import join_tags, split_tags
from bytenmt.documents.translation import LineTranslation
from bytenmt.documents.unit import CodedText, merge_strings, to_markup
from bytenmt.sentinels import Code, find_spans
from bytenmt.translation.confidence import NO_TEXT
from bytenmt.translation.line_batch import PLACEMENT

TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
MAX_FURTHER_TOKENS = 3  # more than a content has, with the spaces between them
MIN_LIKENESS = 0.75  # below it, people should look where the codes stand


class Pair(NamedTuple):
    """A pair of inline codes of a line, with the strings and codes between them."""

    opening: Code
    closing: Code
    content: CodedText


class Place(NamedTuple):
    """A range of tokens (words, signs, spaces) of a translation that resembles a pair's content."""

    begin: int  # index of the first token
    end: int  # index behind the last one
    likeness: float  # Dice's coefficient of their pairs of letters, from 0 to 1


def lines_to_repair(translations: Mapping[CodedText, LineTranslation]) -> list[CodedText]:
    """Return the texts that must be translated, too, before `repair` can mend translations.

    translations: of lines, by UnitLine.parts. A line needs a repair if its translation lost the
    words between a pair of codes, or has codes behind its end. Its texts are the line without its
    pairs of codes, and the content of each pair.
    """
    lines = dict[CodedText, None]()
    for _, line, translation in _with_tags(translations):
        if _is_torn(line, translation):
            lines[_without_pairs(line)] = None
            for pair in _pairs(line):
                lines[_without_pairs(pair.content)] = None
    return list(lines)


def repair(
    translations: Mapping[CodedText, LineTranslation], further: Mapping[CodedText, LineTranslation]
) -> dict[CodedText, LineTranslation]:
    """Return new translations of the lines that need a repair, with codes around the right words.

    translations: of lines, by UnitLine.parts, as given to lines_to_repair. further: translations of
    all texts that lines_to_repair returned, by text. Other lines are left out.
    """
    repaired = dict[CodedText, LineTranslation]()
    for key, line, translation in _with_tags(translations):
        if _is_torn(line, translation):
            whole = further[_without_pairs(line)]
            parts, likeness = _place_pairs(line, whole.parts, further)
            flags = list(whole.flags)
            if likeness < MIN_LIKENESS and PLACEMENT not in flags:
                flags.append(PLACEMENT)
            if not likeness and line != key:
                # Nobody adds tags of strings where they are missing, as the codes of formats.
                parts = merge_strings(translation.parts)
                if _pair_numbers(line) != _pair_numbers(parts):
                    pairs = [code for code in codes_of(line) if code.pair >= 0]
                    parts = merge_strings([*whole.parts, *pairs])
            repaired[key] = LineTranslation(join_tags(parts), flags)
    return repaired


def _pair_numbers(parts: Sequence[str | Code]) -> set[int]:
    return {part.pair for part in parts if isinstance(part, Code) and part.pair >= 0}


def _with_tags(
    translations: Mapping[CodedText, LineTranslation],
) -> Iterator[tuple[CodedText, CodedText, LineTranslation]]:
    """Yield each line, then the line and its translation with the tags in strings as codes."""
    for key, translation in translations.items():
        line = split_tags(key)
        yield key, line, translation._replace(parts=split_tags(translation.parts, line))


def _is_torn(line: CodedText, translation: LineTranslation) -> bool:
    """Return whether a pair with words lost them, or codes were put behind the end of the text."""
    pairs = pairs_with_words(line)
    left = pairs_with_words(merge_strings(translation.parts))
    return bool(pairs) and (PLACEMENT in translation.flags or not pairs <= left)


def _without_pairs(parts: CodedText) -> CodedText:
    return merge_strings(part for part in parts if isinstance(part, str) or part.pair < 0)


def _pairs(parts: CodedText) -> Iterator[Pair]:
    """Yield the pairs of codes, an outer one before those inside it."""
    partners = pair_partners(parts)
    for index, part in enumerate(parts):
        closing = partners.get(index, index)
        if closing > index and isinstance(part, Code) and isinstance(end := parts[closing], Code):
            yield Pair(part, end, parts[index + 1 : closing])


def _place_pairs(
    line: CodedText, translation: Sequence[str | Code], further: Mapping[CodedText, LineTranslation]
) -> tuple[CodedText, float]:
    """Return a translation with the pairs of a line, and how like their contents are at worst."""
    tokens = list[str | Code]()
    for part in translation:
        tokens += _tokens(part) if isinstance(part, str) else [part]
    places = dict[int, Place]()
    before = [list[Code]() for _ in tokens]
    behind = [list[Code]() for _ in tokens]
    for pair in _pairs(line):
        outer = Place(0, len(tokens), 1.0)  # of the innermost pair around this one
        for other in _pairs(line):
            if pair.opening in other.content:
                outer = places[other.opening.pair]
        content = _without_pairs(pair.content)
        texts = [_words(further[content].parts), _words(content)]  # or untranslated, as names are
        place = _most_like(tokens, texts, codes_of(content), outer, list(places.values()))
        if place is None:
            return merge_strings(translation), 0.0
        places[pair.opening.pair] = place
        before[place.begin].append(pair.opening)
        behind[place.end - 1].insert(0, pair.closing)
    placed = list[str | Code]()
    for index, token in enumerate(tokens):
        placed += [*before[index], token, *behind[index]]
    return merge_strings(placed), min(place.likeness for place in places.values())


def _tokens(text: str) -> list[str]:
    """Return the words, signs, white space, placeholders, tags and addresses of a text."""
    tokens = list[str]()
    last = 0
    for begin, end in find_spans(text, NO_TEXT):
        tokens += [*TOKEN.findall(text[last:begin]), text[begin:end]]
        last = end
    return tokens + TOKEN.findall(text[last:])


def _words(parts: Sequence[str | Code]) -> str:
    """Return the strings of parts as one, without codes."""
    return "".join(part for part in parts if isinstance(part, str))


def _most_like(
    tokens: Sequence[str | Code],
    texts: Sequence[str],
    codes: Sequence[Code],
    outer: Place,
    taken: Sequence[Place],
) -> Place | None:
    """Return the place inside `outer` that is most like one of some texts; None if there is none.

    codes: those that it must have. taken: places that it may not overlap, but for those around it.
    """
    barriers = [place for place in taken if outer.begin < place.begin or place.end < outer.end]
    best = None
    for text in texts:
        wanted = sum(map(_bigrams, _tokens(text)), Counter[str]())
        n_tokens = len(_tokens(text)) + MAX_FURTHER_TOKENS
        for begin in range(outer.begin, outer.end):
            ends = [max(begin, barrier.begin) for barrier in barriers if begin < barrier.end]
            end = min([outer.end, begin + n_tokens, *ends])
            for place in _places(tokens, begin, end, codes, wanted):
                if best is None or place.likeness > best.likeness:
                    best = place
    return best


def _places(
    tokens: Sequence[str | Code],
    begin: int,
    last_end: int,
    codes: Sequence[Code],
    wanted: Counter[str],
) -> Iterator[Place]:
    """Yield the places that begin at an index, are texts and have some codes.

    They are compared by the pairs of letters that they share with a text (Dice's coefficient).
    wanted: the pairs of the text.
    """
    if to_markup(tokens[begin : begin + 1]).isspace():
        return
    has_word = False
    found = Counter[str]()
    n_shared = n_codes = 0
    for end in range(begin + 1, last_end + 1):
        token = tokens[end - 1]
        if isinstance(token, Code):
            n_codes += 1
            if [token] != codes[n_codes - 1 : n_codes]:
                return
        else:
            has_word = has_word or token[:1].isalnum()
            for pair in _bigrams(token).elements():
                n_shared += found[pair] < wanted[pair]
                found[pair] += 1
        is_end = isinstance(token, Code) or not token.isspace()
        if is_end and has_word and n_codes == len(codes):
            yield Place(begin, end, 2 * n_shared / (found.total() + wanted.total()))


@lru_cache(4096)
def _bigrams(token: str) -> Counter[str]:
    """Return the pairs of letters of a word, with its ends; a sign itself, but no white space."""
    if not token[:1].isalnum():
        return Counter(token.split())
    return Counter(map("".join, pairwise(f" {token.casefold()} ")))
