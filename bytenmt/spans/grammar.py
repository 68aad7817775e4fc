"""The grammar of spans: a pattern for each class, where a span may begin, and which tags belong together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from bytenmt.errors import SettingError
from bytenmt.spans.automata import (
    Automaton,
    Build,
    CharacterSet,
    alternatives,
    character,
    determinize,
    repetition,
    sequence,
)
from bytenmt.spans.patterns import WORD, parse_pattern

# First bytes of the two-byte characters that are letters: Latin, Greek, Cyrillic, Hebrew, Arabic, …
# The letters of scripts without spaces, or with particles behind a word, have three bytes and end a word.
LETTER_LEADS = frozenset(range(0xC3, 0xE0))
WORDLIKE = WORD | LETTER_LEADS  # bytes with which a letter or digit of an alphabet begins
WORDS = re.compile(rb"(?:[0-9A-Za-z_]|[\xc3-\xdf][\x80-\xbf])+")

_NAME = r"[A-Za-z][A-Za-z0-9:._-]*"
_ATTRIBUTE = r"[A-Za-z_:@][A-Za-z0-9:._-]*"
_VALUE = r"""(?:"[^"<]*"|'[^'<]*'|[^\s"'<>=`]+)"""
# The last ones are <1> and <0/> of react-i18next, which numbers the elements of a text.
TAG = (
    rf"</?{_NAME}(?:\s+{_ATTRIBUTE}(?:\s*=\s*{_VALUE})?)*\s*/?>|<>|</>|<!--[^<>]*-->"
    r"|</?[0-9]{1,3}\s*/?>"
)
_DOMAIN = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
_ADDRESS = rf"[0-9A-Za-z_][A-Za-z0-9._+-]*@{_DOMAIN}\.[A-Za-z][A-Za-z]+"
_PATH = r"[A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]"
_PATH_END = r"[A-Za-z0-9/_~#$&*+=%@-]"  # a full stop or a bracket after an address is not part of it
_URL = rf"(https?|ftp)://{_PATH}*{_PATH_END}"

# Conversions of printf, such as %s, %1$s, %-5.2f and %(name)d, those that group digits, %,d and %'d, and
# Java's dates, %1$tY. A letter right behind one makes another span of it: %sch is not the %s of the source
# with two letters more.
_CONVERSION = (
    r"%(\([^(){}\s]+\))?([0-9]+\$)?("
    r"([#0+]*|[#0+-]*([0-9]+|\*))(\.([0-9]+|\*))?(hh|h|ll|l|q|j|z|t|L)?[diouxXeEfFgGaAcrspn@]"
    r"|[#0+-]*[,'][#0+-]*([0-9]+|\*)?(\.([0-9]+|\*))?(ll|l|q|j|z|t|L)?[diufFgG])"
    r"|%[0-9]+\$[A-Za-z]"
)
# $NAME$ of Chrome. As with conversions, what goes on behind it is part of the span: $A$B is one of a shell.
_BETWEEN_DOLLARS = r"(\$[A-Za-z0-9_@]+)+\$"
_WITH_LETTERS_BEHIND = (_CONVERSION, _BETWEEN_DOLLARS)
# Each class as alternatives, which a search follows one by one: together their automata would be larger.
_PATTERNS = {
    "placeholders": (
        r"\{\{[^{}]*\}\}|\{\{\{[^{}]*\}\}\}"  # {{name}}, {{{name}}}
        r"|[$#]?\{([^{}\s][^{}]*|[A-Za-z0-9_.:,!$ -]*)\}",  # {name}, {0}, {}, ${name}, #{name}
        r"\$t\(([^(){}]|\{[^{}]*\}|\{\{[^{}]*\}\})*\)",  # $t(menu.open)
        # $name, %NAME%, %name%, [X7X]; %dx%d and %ld%c are conversions
        r"\$[A-Za-z_][A-Za-z0-9_]*|%%|%[A-Z_][A-Za-z_]+%|%[a-z][A-Za-z_]{3,}%|\[[A-Z][0-9]+[A-Z]\]",
        *_WITH_LETTERS_BEHIND,
    ),
    "tags": (TAG,),
    "urls": (rf"{_URL}|<{_URL}>", rf"www\.{_DOMAIN}(/{_PATH}*{_PATH_END})?"),
    "emails": (rf"{_ADDRESS}|<{_ADDRESS}>",),
    "numbers": (r"[0-9]+([.,][0-9]+)*",),
}
CLASSES = tuple(_PATTERNS)
OPEN, CLOSE, ALONE = "open", "close", "alone"
_ONE_TAG = re.compile(TAG)
_TAG_NAME = re.compile(r"</?([A-Za-z0-9][^\s/>]*)?")
# Of HTML: elements without an end tag; but programs often name a pair <link>…</link>.
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input"] + ["meta", "param", "source", "track", "wbr"]
)


@dataclass(frozen=True, eq=False)
class SpanClass:
    """A class of spans, one of CLASSES or a pattern of the user's.

    automaton: of all its alternatives; parts: of each alternative.
    """

    name: str
    automaton: Automaton
    parts: tuple[Automaton, ...]


@lru_cache(maxsize=256)
def named_class(name: str) -> SpanClass:
    """Return one of CLASSES. Raises SettingError for another name."""
    if name not in _PATTERNS:
        raise SettingError(f"{name!r} is not a class of spans: expected {', '.join(CLASSES)}")
    builds = [_build(pattern) for pattern in _PATTERNS[name]]
    return SpanClass(name, determinize(alternatives(builds)), tuple(map(determinize, builds)))


@lru_cache(maxsize=256)
def pattern_class(pattern: str) -> SpanClass:
    """Return the class of a user's pattern. Raises SettingError where it cannot be kept."""
    automaton = determinize(parse_pattern(pattern))
    return SpanClass(pattern, automaton, (automaton,))


def _build(pattern: str) -> Build:
    build = parse_pattern(pattern)
    if pattern not in _WITH_LETTERS_BEHIND:
        return build
    letters = repetition(character(CharacterSet(WORD, LETTER_LEADS)), 0, None)
    return sequence([build, letters])


def parse_tag(span: str) -> tuple[str, str] | None:
    """Return OPEN or CLOSE and the name of a tag; None for one that stands alone, or for other text."""
    if not _ONE_TAG.fullmatch(span) or span.endswith("/>") or span.startswith("<!"):
        # </> is the end tag of <>, the only tags without a name.
        return (CLOSE, "") if span == "</>" else None
    match = _TAG_NAME.match(span)
    name = (match[1] if match else "") or ""
    if name.lower() in VOID:
        return None
    return (CLOSE if span.startswith("</") else OPEN), name


def partners(tags: Sequence[tuple[str, str] | None]) -> dict[int, int]:
    """Return the index of the partner of each tag that has one.

    tags: kind and name of each tag, None for what is none. An end tag closes the innermost open element of
    its name; elements inside that are still open then have no partner.
    """
    found: dict[int, int] = {}
    open_tags: list[tuple[int, str]] = []
    n_open: dict[str, int] = {}  # by name: so that an end tag without a partner costs no search
    for index, tag in enumerate(tags):
        if tag is None or tag[0] == ALONE:
            continue
        kind, name = tag
        if kind == OPEN:
            open_tags.append((index, name))
            n_open[name] = n_open.get(name, 0) + 1
        elif n_open.get(name):
            begin, last = open_tags.pop()
            n_open[last] -= 1
            while last != name:
                begin, last = open_tags.pop()
                n_open[last] -= 1
            found[index], found[begin] = begin, index
    return found
