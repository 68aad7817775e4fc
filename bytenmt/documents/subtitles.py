"""Subtitles, SRT and WebVTT: a unit for the text of each cue.

The lines of a cue are one sentence or two, broken to fit a screen: they are translated together, and broken
again into as many. Lines that begin with a dash, which are of several speakers, are translated one by one,
behind their dashes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bytenmt.documents.document import ALONE, LINES, TEXT, MalformedError, Parts, Unit, UnitPart, joined_text
from bytenmt.documents.html import unescape_text
from bytenmt.documents.inline_tags import kind_of_tag, paired

# Possessive quantifiers: a pattern must not try a long run of blanks or digits again at each of its places.
SRT_TIME = re.compile(r"\s*+-?\d++:\d++:\d++[,.:]\d++\s*+-->\s*+-?\d++:\d++:\d++[,.:]\d++.*+")
VTT_TIME = re.compile(r"\s*+(?:\d++:)?\d++:\d++\.\d++\s*+-->\s*+(?:\d++:)?\d++:\d++\.\d++(?:\s.*+)?")
TIME = re.compile(r"\s*+\d++:\d\d:\d\d[,.]\d")
VTT_ARROW = re.compile("-->")
KARAOKE_TIME = re.compile(r"<[\d:.]+>")  # inside a cue of WebVTT: when the words behind it are sung
SRT_ARROW = re.compile(r"\d\s*-->|-->\s*\d")  # a text may have one without times
NOT_A_CUE = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
CODE = re.compile(
    r"</?[A-Za-z][^<>]*>|</>|<[\d:.]+>|<>|\{\\[^{}]*\}|(?P<entity>&(?:\w+|#\d+|#x[0-9a-fA-F]+);)"
)
DASH = re.compile(r"(?:\s++|<[^<>]*+>|\{\\[^{}]*+\})*+[-\u2013\u2014]++\s*+")


class _Line(NamedTuple):
    """A line. end: without its line end."""

    start: int
    end: int
    text: str


def read_srt(text: str) -> list[Unit]:
    """Return the units of an SRT file. Raises MalformedError."""
    units: list[Unit] = []
    for number, block in enumerate(_cut_at_times(_blocks(text), SRT_TIME, numbered=True)):
        at = _times(block, SRT_TIME)
        lines = block if at is None else block[at + 1 :]  # no times: a blank line was in the text of a cue
        wrong = block[0] if at is None and number == 0 else _times_within(lines, SRT_ARROW)
        if wrong is not None:
            raise MalformedError(
                "expected a number and times such as 00:00:01,000 --> 00:00:02,000", wrong.start
            )
        if at is None and len(block) == 1 and block[0].text.strip().isdigit():
            continue  # a number without a cue, as at the end of a file that was cut off
        units += _cues(text, lines, block[0].text.strip() if at == 1 else str(number + 1), entities=False)
    return units


def read_vtt(text: str) -> list[Unit]:
    """Return the units of a WebVTT file. Raises MalformedError."""
    if not re.match(r"WEBVTT(?:[ \t].*)?(?:[\r\n]|$)", text):
        raise MalformedError("expected WEBVTT at the beginning", 0)
    units: list[Unit] = []
    for number, block in enumerate(_cut_at_times(_blocks(text, blank=""), VTT_TIME, numbered=False)):
        if NOT_A_CUE.match(block[0].text):
            continue
        at = _times(block, VTT_TIME)
        wrong = _times_within(block if at is None else block[at + 1 :], VTT_ARROW)
        if wrong is not None:
            raise MalformedError("expected times such as 00:01.000 --> 00:02.000", wrong.start)
        if at is not None:
            name = block[0].text.strip() if at else str(number)
            units += _cues(text, block[at + 1 :], name, entities=True)
    return units


def _times(block: Sequence[_Line], pattern: re.Pattern[str]) -> int | None:
    """Return the index of the line with the times, which is the first or second one, or None."""
    return next((index for index, line in enumerate(block[:2]) if pattern.fullmatch(line.text)), None)


def _times_within(lines: Sequence[_Line], arrow: re.Pattern[str]) -> _Line | None:
    """Return a line that looks like a malformed line of times, or None."""
    return next((line for line in lines if arrow.search(line.text) or TIME.match(line.text)), None)


def _cut_at_times(
    blocks: Iterable[list[_Line]], pattern: re.Pattern[str], numbered: bool
) -> Iterator[list[_Line]]:
    """Split blocks at lines of times, for files that lack blank lines between cues.

    numbered: whether the number on the line before belongs to the cue.
    """
    for block in blocks:
        begin = 0
        for index in range(2, len(block) if not NOT_A_CUE.match(block[0].text) or numbered else 0):
            if pattern.fullmatch(block[index].text):
                ended = index - (numbered and block[index - 1].text.strip().isdigit())
                if ended > begin:
                    yield block[begin:ended]
                begin = ended
        yield block[begin:]


def _blocks(text: str, blank: str = " \t\0") -> Iterator[list[_Line]]:
    """Yield groups of lines that are separated by blank lines. blank: the characters of blank lines."""
    block: list[_Line] = []
    for match in LINES.finditer(text):
        if match[1].strip(blank):
            block.append(_Line(match.start(), match.end(1), match[1]))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _cues(text: str, lines: list[_Line], name: str, entities: bool) -> Iterator[Unit]:
    """Yield the units of a cue: one, or one for each line if speakers take turns."""
    if not lines:
        return
    turns = any(DASH.match(line.text) for line in lines)
    for group in [[_behind_dash(line)] for line in lines] if turns else [lines]:
        start, end = group[0].start, group[-1].end
        ends = text[group[0].end : group[1].start] if len(group) > 1 else ""
        source = _parts(" ".join(line.text for line in group), entities)
        n = len(group)

        def write(parts: Parts, _: bool, n: int = n, ends: str = ends, source: Parts = source) -> str:
            parts = _with_times_in_order(parts, source)
            lines = [_escaped(line, entities) for line in broken(parts, n)]
            if any(TIME.match(line) for line in lines[1:]):  # it would be read as a line of times
                lines = [_escaped(parts, entities)]
            return ends.join(lines)

        yield Unit(start, name, source, start, end, source, write)


def _with_times_in_order(parts: Parts, source: Parts) -> Parts:
    """Return a translation with the times inside the cue in the order of its source: WebVTT wants them so."""
    times = [part for part in source if part.kind == ALONE and KARAOKE_TIME.fullmatch(part.text)]
    following, known = iter(times), frozenset(times)
    return tuple(next(following, part) if part in known else part for part in parts)


def _behind_dash(line: _Line) -> _Line:
    dash = DASH.match(line.text)
    behind = dash.end() if dash and line.text[dash.end() :].strip() else 0
    return _Line(line.start + behind, line.end, line.text[behind:])


def _parts(raw: str, entities: bool) -> Parts:
    parts, last = [], 0
    for match in CODE.finditer(raw):
        if match["entity"] and not entities:
            continue
        parts.append(UnitPart(raw[last : match.start()]))
        last = match.end()
        if match["entity"]:
            parts.append(UnitPart(unescape_text(match[0])))
        else:
            named = re.match(r"</?[A-Za-z]", match[0])
            kind = kind_of_tag(match[0]) if named else ALONE
            parts.append(UnitPart(match[0], kind))
    return paired([*parts, UnitPart(raw[last:])])


def _escaped(parts: Parts, entities: bool) -> str:
    """Return a line for the file, in which --> must not occur."""
    if not entities:
        return joined_text(parts).replace("-->", "->")
    return "".join(
        part.text.replace("&", "&amp;").replace("<", "&lt;").replace("-->", "--&gt;")
        if part.kind == TEXT
        else part.text
        for part in parts
    )


def broken(parts: Parts, n: int) -> list[Parts]:
    """Return a text as at most n lines of about the same length, broken at spaces outside codes."""
    lines: list[list[UnitPart]] = [[]]
    whole = sum(len(part.text) for part in parts if part.kind == TEXT)
    done = 0  # characters of the texts before this part
    for part in parts:
        if part.kind != TEXT:
            lines[-1].append(part)
            continue
        spaces, begin = [match.start() for match in re.finditer(" ", part.text)], 0
        while len(lines) < n:
            wanted = whole * len(lines) / n - done
            first = bisect_left(spaces, begin)
            if first == len(spaces) or wanted > len(part.text):
                break
            index = bisect_left(spaces, wanted, lo=first)
            nearest = spaces[max(first, index - 1) : index + 1]
            at = min(nearest, key=lambda place: abs(place - wanted))
            lines[-1].append(UnitPart(part.text[begin:at]))
            lines.append([])
            begin = at + 1
        lines[-1].append(UnitPart(part.text[begin:]))
        done += len(part.text)
    return [tuple(line) for line in lines if "".join(part.text for part in line).strip()] or [()]
