"""Subtitles, SRT and WebVTT: a unit for the text of each cue.

The lines of a cue are one sentence or two, broken to fit a screen: they are translated together,
and broken again into as many. A line that begins with a dash or with the name of a speaker in
capitals begins a turn of its own, and dash and name stay. Libraries read the files, of which only
translated texts are replaced.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import partial
from html import unescape

import srt
import webvtt

from bytenmt.documents.unit import CodedText, Document, EditedText, ReadOptions, Unit, split_codes
from bytenmt.errors import DataError
from bytenmt.sentinels import Code

TAG = re.compile(r"</?[A-Za-z][^<>]*>|</>|<[\d:.]+>|<>|\{\\[^{}]*\}")
ARROW = re.compile(r"-[ -] *>")  # between the times of a cue
TIME = re.compile(r"\s*+(?:\d++:)?\d++:\d\d[,.]\d")
LINE_BREAK = re.compile(r"\n|\\[Nn]")  # also that of Advanced SubStation Alpha
# What begins a turn: a dash, or a name such as "ANNA:", behind tags.
SPEAKER = r"[A-Z][A-Z0-9.' -]*[A-Z0-9.]:(?:</[a-z]+>)?\s++"
MARKUP = r"(?:\s++|<[^<>]*+>|\{\\[^{}]*+\})*+"
HEAD = re.compile(rf"{MARKUP}(?:(?:[-\u2013\u2014]++|>>+)\s*+(?:{SPEAKER})?|{SPEAKER})(?=\S)")
# A sound, such as [door slams], is translated without its sentence.
SOUND = re.compile(r"^([\[(][^\[\]()]{2,}[\])])\s+(?=\S)|(?<=\S)\s+(\[[^\[\]()]{2,}\])$")


def read_srt(data: bytes, _: ReadOptions) -> Document:
    """Read SRT subtitles: a translation unit for each cue or speaker in it. Raises DataError."""
    file = EditedText(data)
    try:
        cues = [(str(cue.index), cue.content) for cue in srt.parse(file.text)]
    except (srt.SRTParseError, srt.TimestampParseError) as error:
        line = file.line(getattr(error, "expected_start", 0))
        expected = "a number and times as 00:00:01,000 --> 00:00:02,000"
        raise DataError(f"{line}: expected {expected}") from None
    return Document(list(_units(file, cues, False)), file.dump)


def read_vtt(data: bytes, _: ReadOptions) -> Document:
    """Read WebVTT subtitles: a translation unit for each cue or speaker in it. Raises DataError."""
    file = EditedText(data)
    try:
        captions = webvtt.from_string(file.text).captions
    except webvtt.errors.MalformedFileError as error:
        raise DataError(f"not WebVTT: {error}") from None
    cues = [(cue.identifier or str(n), cue.raw_text) for n, cue in enumerate(captions, 1)]
    return Document(list(_units(file, cues, True)), file.dump)


def _units(file: EditedText, cues: Iterable[tuple[str, str]], is_vtt: bool) -> Iterator[Unit]:
    """Yield the units of cues, given by name and text in the order of the file."""
    end = 0
    for name, text in cues:
        text = text.rstrip()
        start = _text_start(file.text, end, text)
        end = start + len(text)
        yield from _cue_units(file, start, text, name, is_vtt)


def _text_start(content: str, position: int, text: str) -> int:
    """Return where the next text of a cue begins, behind its times."""
    for arrow in ARROW.finditer(content, position):
        start = content.find("\n", arrow.end()) + 1
        if content.startswith(text, start):
            return start
    return len(content)


def _cue_units(file: EditedText, start: int, text: str, name: str, is_vtt: bool) -> Iterator[Unit]:
    """Yield the units of a cue: one, or one for each turn of a speaker."""
    line_break = (LINE_BREAK.findall(text) or ["\n"])[0]
    turns = _turns(LINE_BREAK.split(text))
    written = [[head + lines[0], *lines[1:]] for head, lines in turns]

    def write(number: int, parts: CodedText, _: bool) -> None:
        head, lines = turns[number]
        made = "".join(_to_markup(part, is_vtt) for part in parts).replace("\n", " ")
        written[number] = break_lines(head.replace(" ", "\0") + made, len(lines))
        cue = line_break.join(line for turn in written for line in turn)
        file.replace(start, start + len(text), cue.replace("\0", " "))

    for number, (_, lines) in enumerate(turns):
        source = split_codes(SOUND.sub(r"\1\n\2", " ".join(lines)), TAG)
        if is_vtt:
            source = tuple(unescape(part) if isinstance(part, str) else part for part in source)
        yield Unit(source, partial(write, number), f"cue {name}", name)


def _turns(lines: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return the turns of the speakers of a cue: its head, such as a dash, and its lines."""
    turns = list[tuple[str, list[str]]]()
    for line in lines:
        head = HEAD.match(line)
        if head is not None:
            turns.append((head[0], [line[head.end() :]]))
        elif not turns:
            turns.append(("", [line]))
        else:
            turns[-1][1].append(line)
    return turns


def _to_markup(part: str | Code, is_vtt: bool) -> str:
    """Return a part for the file; a code has \\0 for its spaces, at which no line is broken."""
    if isinstance(part, Code):
        return part.text.replace(" ", "\0")
    if is_vtt:
        return part.replace("&", "&amp;").replace("<", "&lt;").replace("-->", "--&gt;")
    return part.replace("-->", "->")


def break_lines(text: str, n: int) -> list[str]:
    """Break the text of a subtitle at spaces into at most n lines of about the same length.

    It stays one line if a further line would begin with a time, a dash or a name, which a reader
    takes for a new cue or speaker.
    """
    width = max(1, len(text) // n)
    wrap = partial(textwrap.wrap, text, break_long_words=False, break_on_hyphens=False)
    while len(lines := wrap(width)) > n:
        width += 1
    if any(TIME.match(line) or HEAD.match(line) for line in lines[1:]):
        return [text]
    return lines
