"""Subtitles, SRT and WebVTT: a unit for the text of each cue.

The lines of a cue are one sentence or two, broken to fit a screen: they are translated together,
and broken again into as many. Lines that begin with a dash, which are of several speakers, are
translated one by one, behind their dashes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import partial
from html import unescape
from typing import Any

import srt
import webvtt

from bytenmt.documents.unit import (
    CodedText,
    Document,
    EditedText,
    ReadOptions,
    Unit,
    map_strings,
    split_codes,
)
from bytenmt.errors import DataError
from bytenmt.sentinels import Code

TAG = re.compile(r"</?[A-Za-z][^<>]*>|</>|<[\d:.]+>|<>|\{\\[^{}]*\}")
TIME = re.compile(r"\s*+(?:\d++:)?\d++:\d\d[,.]\d")
DASH = re.compile(r"(?:\s++|<[^<>]*+>|\{\\[^{}]*+\})*+[-\u2013\u2014]++\s*+(?=\S)")


def read_srt(data: bytes, _: ReadOptions) -> Document:
    """Read SRT subtitles: a unit for each cue, or each of its speakers. Raises DataError."""
    file = EditedText(data)
    try:
        cues = list(srt.parse(file.text))
    except (srt.SRTParseError, srt.TimestampParseError) as error:
        line = file.line(getattr(error, "expected_start", 0))
        raise DataError(
            f"{line}: expected a number and times as 00:00:01,000 --> 00:00:02,000"
        ) from None
    units = [
        unit for cue in cues for unit in _cue_units(cue, "content", cue.content, str(cue.index))
    ]
    return Document(units, lambda: file.encoded(srt.compose(cues, reindex=False, strict=False)))


def read_vtt(data: bytes, _: ReadOptions) -> Document:
    """Read WebVTT subtitles: a unit for each cue, or each of its speakers. Raises DataError."""
    file = EditedText(data)
    try:
        captions = webvtt.from_string(file.text)
    except webvtt.errors.MalformedFileError as error:
        raise DataError(f"not WebVTT: {error}") from None
    units = [
        unit
        for number, cue in enumerate(captions.captions, 1)
        for unit in _cue_units(cue, "text", cue.raw_text, cue.identifier or str(number))
    ]
    return Document(units, lambda: file.encoded(f"{captions.content}\n"))


def _cue_units(cue: Any, attribute: str, text: str, name: str) -> Iterator[Unit]:
    """Yield the units of a cue: one, or one for each line if speakers take turns.

    attribute: the one of its text.
    """
    is_vtt = attribute == "text"  # as webvtt names it; srt says "content"
    lines = text.split("\n")
    has_turns = any(map(DASH.match, lines))
    if not has_turns:
        lines = [" ".join(lines)]
    for number, line in enumerate(lines):
        dash = DASH.match(line)
        head = dash[0] if has_turns and dash else ""
        source = split_codes(line.removeprefix(head), TAG)
        if is_vtt:
            source = map_strings(unescape, source)

        def write(parts: CodedText, _: bool, number: int = number, head: str = head) -> None:
            made = "".join(_to_markup(part, is_vtt) for part in parts)
            lines[number] = head + made
            broken = lines if has_turns else break_lines(made, text.count("\n") + 1)
            setattr(cue, attribute, "\n".join(broken).replace("\0", " "))

        yield Unit(source, write, f"cue {name}", name)


def _to_markup(part: str | Code, is_vtt: bool) -> str:
    """Return a part for the file.

    A code has zero bytes for its spaces, at which a line may not be broken.
    """
    if isinstance(part, Code):
        return part.text.replace(" ", "\0")
    if is_vtt:
        return part.replace("&", "&amp;").replace("<", "&lt;").replace("-->", "--&gt;")
    return part.replace("-->", "->")


def break_lines(text: str, n: int) -> list[str]:
    """Break a text into at most n lines of about the same length.

    It stays one line if a further line would begin with a time or a dash, which a reader takes for
    a new cue or speaker.
    """
    width = max(1, len(text) // n)
    wrap = partial(textwrap.wrap, text, break_long_words=False, break_on_hyphens=False)
    while len(lines := wrap(width)) > n:
        width += 1
    if any(TIME.match(line) or DASH.match(line) for line in lines[1:]):
        return [text]
    return lines
