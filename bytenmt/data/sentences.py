"""Find the ends of the sentences of a line, and the signs that no translation changes.

The library sentencex knows terminators and abbreviations of many languages. Its boundaries are kept
unless one of the rules below rejects them: a boundary too many cuts a sentence in two, while one
too few costs little.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import PurePath

UNKNOWN_LANGUAGE = ("en", "de")  # a boundary must then be one by the rules of both
CONTEXT_CHARS = 32  # before a boundary, which the rules look at
TERMINATORS_WITHOUT_SPACE = "。！？｡"  # no white space follows them
# Abbreviations that sentencex lacks, and those that stand before a number.
ABBREVIATIONS = {
    "en": r"approx|pts|inc|vs",
    "de": r"[Ff]a|inkl|exkl|zzgl|MwSt|[Tt]el|[Mm]in|[Mm]ax",
}
BEFORE_A_NUMBER = re.compile(
    r"\b(?:[Vv]ol|[Nn]o|[Nn]r|[Ff]ig|[Aa]bb|[Ss]ect?|[Cc]h|[Kk]ap|[Aa]rt|[Aa]bs|[Pp]p?|[ap]\.m)\.\Z"
)
# Numbers with a dot are ordinals in German ("am 3. Mai", but "siehe Kap. 3.") and parts of dates in
# Korean.
ORDINAL = {
    "de": re.compile(r"(?<![\d.,:])(?<!\.\s)\d{1,2}\.\Z"),
    "ko": re.compile(r"(?<![\d.,])\d{1,4}\.\Z"),
}
NUMBERED = re.compile(r"[\s\d.()]*\Z")  # an item number, such as "2.", is not a sentence
ELLIPSIS = re.compile(r"(?:\.\.\.|…)\Z")
CLOSING_QUOTES = "\"'”’»」』"
# A sign at least four times, with or without spaces, such as ____ and . . . . . in forms and tables
# of contents.
REPEATED_SIGN = re.compile(r"([^\w\s]|_)(?: ?\1){3,}")
LIST_MARK = re.compile(r"\s*(?:[-*+>•·‣◦▪–—]|#{1,6})(?=\s)")  # at the beginning of a line
WITH_ITS_SENTENCE = "!?！？"  # of a repeated sign after a word, the first one
BOX_DRAWING = ("\u2500", "\u259f")
LANGUAGE_SUFFIX = re.compile(r"\.(?!gz|xz)[a-z]{2}")  # of a file name, such as train.de.gz


def sentence_ends(line: str, languages: Sequence[str] = UNKNOWN_LANGUAGE) -> list[int]:
    """Split a line into sentences: return the offset in characters where each of them ends.

    An end stands before the white space that follows; that of the last sentence is left out.
    languages: codes, such as "en"; with several, an end must be one in each of them. Takes time
    linear in the line.

    >>> line = "Dr. Smith came. He sat down."
    >>> [line[:end] for end in sentence_ends(line, ["en"])]
    ['Dr. Smith came.']
    """
    return sorted(set.intersection(*(set(_ends(line, language)) for language in languages)))


def _ends(line: str, language: str) -> list[int]:
    """Return the ends of sentences by the rules of one language."""
    from sentencex import segment

    ends: list[int] = []
    begin = 0
    position = 0
    for sentence in segment(language, line):
        position += len(sentence)
        text = sentence.rstrip()
        end = position - len(sentence) + len(text)
        if position < len(line) and text and _is_end(line, begin, end, position, language):
            ends.append(end)
            begin = position
    return ends if position == len(line) else []


def _is_end(line: str, begin: int, end: int, after: int, language: str) -> bool:
    """Return whether a sentence from `begin` ends at `end`. after: where the next character is."""
    before = line[max(begin, end - CONTEXT_CHARS) : end]
    next_character = line[after]
    if after == end and before[-1] not in TERMINATORS_WITHOUT_SPACE:
        return False
    if next_character.islower():
        return False
    if len(before) < CONTEXT_CHARS and NUMBERED.match(before):
        return False
    if next_character.isdigit() and BEFORE_A_NUMBER.search(before):
        return False
    if language in ORDINAL and ORDINAL[language].search(before):
        return False
    if language in ABBREVIATIONS and re.search(rf"\b(?:{ABBREVIATIONS[language]})\.\Z", before):
        return False
    # Scripts without capitals: the text may go on after a quotation or an ellipsis.
    is_caseless = next_character.isalpha() and not next_character.isupper()
    return not (is_caseless and (before[-1] in CLOSING_QUOTES or ELLIPSIS.search(before)))


def ends_at_signs(line: str) -> list[int]:
    """Split a line at list marks and repeated signs, which no translation changes.

    Returns the offsets, in characters, where a list mark ends, where the text before each repeated
    sign ends, and where the repeated sign ends. A list mark is "-", "•", "##" or the like at the
    beginning of the line. A repeated sign is the same sign at least four times, with or without
    single spaces between; of repeated "!" and "?" after a word, the first one belongs to the text
    before. As in sentence_ends, an end stands before the white space that follows, and the end of
    the line is left out.

    >>> line = "- Name: ________ Really????"
    >>> [line[:end] for end in ends_at_signs(line)]
    ['-', '- Name:', '- Name: ________', '- Name: ________ Really?']
    """
    ends = []
    mark = LIST_MARK.match(line)
    if mark:
        ends.append(mark.end())
    for match in REPEATED_SIGN.finditer(line):
        if not is_sign(match[1]):
            continue
        begin = match.start()
        if match[1] in WITH_ITS_SENTENCE and begin and not line[begin - 1].isspace():
            begin += 1
        while begin and line[begin - 1].isspace():
            begin -= 1
        ends += [begin, match.end()]
    return [end for end in ends if 0 < end < len(line)]


def is_sign(character: str) -> bool:
    """Return whether a character is punctuation, an ASCII symbol or a box-drawing character."""
    if character.isascii():
        return character in string.punctuation
    low, high = BOX_DRAWING
    return unicodedata.category(character).startswith("P") or low <= character <= high


def languages_of_files(names: Iterable[str | PurePath]) -> tuple[str, ...]:
    """Guess the language of texts by the names of their files, such as train.en or train.de.gz.

    Returns its code, such as ("de",), or UNKNOWN_LANGUAGE, ("en", "de"), if the names tell none or
    several.
    """
    codes = {_language_of_file(name) for name in names}
    return tuple(codes) if len(codes) == 1 and "" not in codes else UNKNOWN_LANGUAGE


def _language_of_file(name: str | PurePath) -> str:
    """Return the code of a language that a name ends with, "" if there is none."""
    for suffix in reversed(PurePath(name).suffixes):
        if LANGUAGE_SUFFIX.fullmatch(suffix):
            return suffix[1:]
    return ""
