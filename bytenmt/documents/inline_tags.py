"""Inline codes of a unit, that is, tags and placeholders: find them in a string, and restore them in a
translation that may have lost, doubled or crossed some.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby

from bytenmt.documents.document import ALONE, CLOSE, OPEN, TEXT, Parts, UnitPart, joined_text
from bytenmt.spans import grammar
from bytenmt.spans.extractor import span_extractor

PLACEHOLDERS, TAGS = ("placeholders",), ("tags",)  # classes of spans, see spans.grammar
IN_STRINGS = PLACEHOLDERS + TAGS
ESCAPE = re.compile(r"\\[!-/:-@\[-`{-~]")
WORDS = re.compile(r"\s+|\w(?:\S*\w)?|[^\w\s]")  # with the white space and signs between them
MAX_REPARSED = 5_000_000  # characters that are parsed again, at most, to separate tags
NAME = re.compile(r"(?:<|&lt;)/?([A-Za-z0-9][^\s/>&]*)")
# {1&gt;bold&lt;1}, as XLIFF of Phrase has it
PHRASE_TAG = re.compile(r"\{([^{}<>&\s]+)(?:>|&gt;)|&lt;([^{}<>&\s]+)\}")


def kind_of_tag(tag: str) -> str:
    """Return the kind of a tag: <b> opens, </b> closes, <br/> stands alone."""
    if tag.startswith("</"):
        return CLOSE
    return ALONE if tag.endswith("/>") else OPEN


def find_tags(text: str, classes: tuple[str, ...]) -> list[UnitPart]:
    """Split a string into text and codes: its spans of these classes."""
    parts, last = list[UnitPart](), 0
    for begin, end, of in span_extractor(classes).spans_of_text(text):
        parts.append(UnitPart(text[last:begin]))
        parts.append(UnitPart(text[begin:end], kind_of_tag(text[begin:end]) if of == "tags" else ALONE))
        last = end
    parts.append(UnitPart(text[last:]))
    return [part for part in parts if part.text]


def escaped_tags(
    parts: Iterable[UnitPart], escape: Callable[[str], str], classes: tuple[str, ...] = TAGS
) -> Parts:
    """Return the parts with every tag in a text as a code, written with `escape`.

    So <b> that a file shows as text, &lt;b&gt;, can be told from a tag of the file, and is kept like one.
    classes: of the spans that become codes.
    """
    split: list[UnitPart] = []
    for part in paired(parts):
        if part.kind != TEXT or (classes == TAGS and "<" not in part.text):
            split.append(part)
            continue
        for one in find_tags(part.text, classes):
            split.append(one if one.kind == TEXT else UnitPart(escape(one.text), one.kind))
    return paired(split)


def paired(parts: Iterable[UnitPart]) -> Parts:
    """Return the parts with adjacent texts joined and with tags that have no partner turned into ALONE."""
    joined: list[UnitPart] = []
    parts = [part for part in parts if part.text]
    if len(parts) < 2 and all(part.kind in (TEXT, ALONE) for part in parts):  # most units of most files
        return tuple(parts)
    for kind, group in groupby(parts, key=lambda part: part.kind):
        same = list(group)
        joined += [UnitPart("".join(part.text for part in same))] if kind == TEXT else same
    partner = partners(joined)
    return tuple(
        UnitPart(part.text, ALONE) if part.kind in (OPEN, CLOSE) and index not in partner else part
        for index, part in enumerate(joined)
    )


def partners(parts: Sequence[UnitPart]) -> dict[int, int]:
    """Map the index of every opening or closing tag to the index of its partner; omit unpaired tags."""
    return grammar.partners(
        [(part.kind, _name(part.text)) if part.kind in (OPEN, CLOSE) else None for part in parts]
    )


def _name(code: str) -> str:
    """Key used to match opening and closing codes: the name of a tag, a bracket, or the code itself."""
    phrase = PHRASE_TAG.fullmatch(code)
    if phrase:
        return "{" + (phrase[1] or phrase[2])
    match = NAME.match(code)
    if match:
        return match[1].lower()
    return "[" if code.startswith(("]", "![")) else code


def parse_string(text: str, placeholder: re.Pattern[str] | None = None) -> Parts:
    """Split the string of a program into text, tags and placeholders.

    placeholder: matches further placeholders in the text, which only this file has.
    """
    parts = find_tags(text, IN_STRINGS)
    return paired(parts if placeholder is None else _with_placeholders(parts, placeholder))


def _with_placeholders(parts: Iterable[UnitPart], placeholder: re.Pattern[str]) -> Iterator[UnitPart]:
    """Yield the parts, with the matches of a pattern in the texts as codes."""
    for part in parts:
        last = 0
        for match in placeholder.finditer(part.text) if part.kind == TEXT else ():
            yield UnitPart(part.text[last : match.start()])
            yield UnitPart(match[0], ALONE)
            last = match.end()
        yield UnitPart(part.text[last:], part.kind)


def format_string(parts: Parts, placeholder: re.Pattern[str] | None = None) -> str:
    """Return the string of a program from its parts, so that parse_string finds the same codes."""
    return joined_text(separate_tags(parts, lambda text: parse_string(text, placeholder)))


def restore_tags(source: Parts, output: str) -> tuple[Parts, bool]:
    """Return a translation as parts with all codes of its source, and whether it had exactly these.

    Codes that the source has less often, or that would close a pair that is not open, are dropped. Open pairs
    are closed at the end; missing codes are put where they stood, and so are pairs that enclose nothing.
    """
    codes = {index: part for index, part in enumerate(source) if part.kind != TEXT}
    if not codes:
        return ((UnitPart(output),) if output else ()), True
    partner, lost, stack = partners(source), dict(codes), list[int]()
    waiting: dict[tuple[str, str], deque[int]] = {}  # by text and kind: the codes that were not met yet
    for index, part in codes.items():
        waiting.setdefault((part.text, part.kind), deque()).append(index)
    pieces, last, whole = list[str | int](), 0, True  # texts, and the indices of codes in the source
    for begin, end in _occurrences({part.text for part in codes.values()}, output):
        between, code, last = output[last:begin], output[begin:end], end
        closing = partner[stack[-1]] if stack and source[partner[stack[-1]]].text == code else None
        fitting = _fitting(code, waiting, closing)
        if fitting is None:  # dropped, with the space on one of its sides
            is_apart = between.endswith(" ") and not output[end : end + 1].strip()
            pieces.append(between[: len(between) - is_apart])
            whole = False
            continue
        pieces.append(between)
        if fitting == closing:
            stack.pop()
        elif source[fitting].kind == OPEN:
            stack.append(fitting)
        del lost[fitting]
        pieces.append(fitting)
    pieces.append(output[last:])
    while stack:
        whole = False
        closing = partner[stack.pop()]
        del lost[closing]
        pieces.append(closing)
    filled = list[str | int]()  # without the pairs that enclose nothing: they have no place
    for one in pieces:
        if isinstance(one, int) and filled and partner.get(one) == filled[-1] and _encloses(source, one):
            lost |= {index: source[index] for index in (partner[one], one)}
            filled.pop()
        elif one != "":
            filled.append(one)
    if lost:
        filled, whole = _with_lost(source, partner, filled, sorted(lost)), False
    return paired(UnitPart(one) if isinstance(one, str) else source[one] for one in filled), whole


def _encloses(source: Parts, closing: int) -> bool:
    """Return whether a closing tag of a source stands after text, or after the end of another element."""
    before = source[closing - 1]
    return before.kind == CLOSE or (before.kind == TEXT and bool(before.text.strip()))


def _with_lost(
    source: Parts, partner: dict[int, int], pieces: Sequence[str | int], lost: Sequence[int]
) -> list[str | int]:
    """Return the texts and codes of a translation with those that it lost, by their indices in the source.

    Each is put where as large a share of the letters is before it as in the source; tags that would cross
    others there are put at the end.
    """
    words = [w for one in pieces for w in (WORDS.findall(one) if isinstance(one, str) else [one])]
    before = list(accumulate((_n_letters(one.text) * (one.kind == TEXT) for one in source), initial=0))
    reached = list(accumulate((_n_letters(one) if isinstance(one, str) else 0 for one in words), initial=0))
    gaps = dict[int, list[int]]()  # lost codes by the index of the word or code that follows them
    opened = dict[int, int]()  # by closing tag: the gap of the opening one
    for index in lost:
        wanted = before[index] / max(1, before[-1]) * reached[-1]
        after = bisect_left(reached, wanted)
        nearest = min(reached[max(0, after - 1)], reached[after], key=lambda n: abs(n - wanted))
        # A pair encloses a word at least, if it does in the source.
        is_filled = before[partner.get(index, index)] != before[index]
        if is_filled and source[index].kind == OPEN and nearest == reached[-1]:
            nearest = reached[max(0, bisect_left(reached, nearest) - 1)]
        # A closing tag, or %s in "of %s.", stands before the white space and signs between two words.
        follows = _text_beside(source, index, 1)[:1] or " "
        is_before = source[index].kind == CLOSE or not (follows.isalnum() or follows.isspace())
        gap = bisect_left(reached, nearest) if is_before else bisect_right(reached, nearest) - 1
        if index in opened:
            least = bisect_left(reached, reached[opened[index]] + is_filled)
            gap = max(gap, opened[index], min(least, len(words)))
        opened[partner.get(index, -1)] = gap
        gaps.setdefault(gap, []).append(index)
    made = _merged(source, words, gaps)
    if len(partners([source[one] for one in made if isinstance(one, int)])) < len(partner):
        gaps = {gap: [index for index in some if index not in partner] for gap, some in gaps.items()}
        gaps.setdefault(len(words), []).extend(index for index in lost if index in partner)
        made = _merged(source, words, gaps)
    return made


def _text_beside(source: Parts, index: int, step: int) -> str:
    """Return the text that a code touches, on the side -1 or 1; empty where it touches another code."""
    beside = index + step
    return source[beside].text if 0 <= beside < len(source) and source[beside].kind == TEXT else ""


def _n_letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _merged(source: Parts, words: Sequence[str | int], gaps: Mapping[int, Sequence[int]]) -> list[str | int]:
    """Return words and codes with lost codes in their gaps, and white space around these as in the source."""
    made = list[str | int]()
    for at, word in enumerate([*words, ""]):
        for index in gaps.get(at, ()):
            made += [_blank(source, index, -1, made[-1] if made else ""), index]
        if gaps.get(at):
            made.append(_blank(source, gaps[at][-1], 1, word))
        made.append(word)
    return made


def _blank(source: Parts, index: int, step: int, neighbour: str | int) -> str:
    """Return the white space between a code and its neighbour in a translation.

    step: on which side, -1 or 1. It is that of the source; a placeholder is kept apart from words that it did
    not touch there, too.
    """
    if isinstance(neighbour, str) and not neighbour.strip():
        return ""
    text = _text_beside(source, index, step)
    blank = text[: len(text) - len(text.lstrip())] if step > 0 else text[len(text.rstrip()) :]
    code = source[index]
    if blank or isinstance(neighbour, int) or code.kind != ALONE or code.text.startswith("<"):
        return blank
    is_apart = neighbour[::step][:1].isalnum() and not text[::step][:1].isalnum()
    return " " if is_apart else ""


def separate_tags(
    parts: Parts, read: Callable[[str], Iterable[UnitPart]], escaped: Callable[[str], str] = str
) -> Parts:
    """Change the text beside codes so that `read` finds exactly these codes in the written parts.

    A space is added, or the text escaped, where it would change how a code is read, as % before %s. escaped:
    escapes a text, whose escapes do not count as codes. If nothing helps, the codes are written anyway.
    """

    def codes(some: Iterable[UnitPart]) -> list[str]:
        return [part.text for part in some if part.kind != TEXT and not ESCAPE.fullmatch(part.text)]

    wanted, best = codes(parts), list(parts)

    def score(some: Sequence[UnitPart]) -> tuple[int, int]:
        """Return the number of codes that are read before the first wrong one, and minus that of all."""
        found = codes(read(joined_text(some)))
        same = next((n for n, pair in enumerate(zip(found, wanted, strict=False)) if len({*pair}) > 1), None)
        return min(len(found), len(wanted)) if same is None else same, -len(found)

    every, reached = (len(wanted), -len(wanted)), score(best)
    tries = MAX_REPARSED // (1 + len(joined_text(parts)))
    for index, part in enumerate(parts):
        texts = [part.text, escaped(part.text)] if part.kind == TEXT else [part.text]
        for text in dict.fromkeys([*texts, *(" " + text for text in texts if index)]):
            other = [*best[:index], UnitPart(text, part.kind), *best[index + 1 :]]
            if reached == every or tries == 0:
                return tuple(best)
            tries -= 1
            if (there := score(other)) > reached:
                best, reached = other, there
    return tuple(best)


def _occurrences(codes: set[str], text: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the codes in a text, from left to right, the longest at each position.

    A regular expression of thousands of alternatives would try all of them at each place.
    """
    lengths: dict[str, set[int]] = {}  # of the codes by their first characters, three where there are so many
    for code in codes:
        lengths.setdefault(code[:3], set()).add(len(code))
    first = re.compile("|".join(map(re.escape, sorted({code[0] for code in codes}))))
    at = 0
    while match := first.search(text, at):
        begin = match.start()
        possible = {n for size in (1, 2, 3) for n in lengths.get(text[begin : begin + size], ())}
        found = (n for n in sorted(possible, reverse=True) if text[begin : begin + n] in codes)
        n_letters = next(found, 0)
        if n_letters:
            yield begin, begin + n_letters
        at = begin + max(1, n_letters)


def _fitting(text: str, waiting: dict[tuple[str, str], deque[int]], closing: int | None) -> int | None:
    """Return the index of the code in the source that matches a code of the output, or None.

    closing: the code that closes the innermost open pair, where this text may be it. What could close the
    innermost pair as well, as ** does, closes it.
    """
    kinds = (ALONE,) if closing is not None else (ALONE, OPEN)
    first = [line[0] for kind in kinds if (line := waiting.get((text, kind)))]
    if closing is not None:
        first.append(closing)
    if not first:
        return None
    index = min(first)
    if index != closing:
        next(line for kind in kinds if (line := waiting.get((text, kind))) and line[0] == index).popleft()
    return index
