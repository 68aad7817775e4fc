"""The extractor: which bytes of a line are spans to keep, read once from left to right without looking back.

A span begins where what was read before it can go on as no span, and ends at the last byte at which one of
the classes was complete; what was read in vain is plain text. So a few numbers say all of a text that was
read, and a search can step them byte by byte. Words are read as a whole: no span begins inside one. Knows no
source and no target.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.decoding.constraints.automata import Automaton, Characters, compiled, one, repeated
from bytenmt.decoding.constraints.patterns import WORD, parsed
from bytenmt.decoding.constraints.words import LETTER_LEADS
from bytenmt.errors import SettingError

_NAME = r"[A-Za-z][A-Za-z0-9:._-]*"
_VALUE = r"""("[^"<]*"|'[^'<]*'|[^\s"'<>=`]+)"""
_DOMAIN = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
_AT = rf"[A-Za-z0-9._+-]*@{_DOMAIN}\.[A-Za-z][A-Za-z]+"
_PATH = r"[A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]"
_URL = rf"(https?|ftp)://{_PATH}*[A-Za-z0-9/_~#$&*+=%@-]"
CLASSES = {
    "placeholders": (
        r"\{\{[^{}]*\}\}?|[$#]?\{[A-Za-z0-9_.:,!$ -]*\}|\$[A-Za-z_][A-Za-z0-9_]*"
        r"|%(\([A-Za-z0-9_.-]+\))?([0-9]+\$)?[#0+-]*([0-9]+|\*)?(\.([0-9]+|\*))?(hh|h|ll|l|q|j|z|t|L)?"
        r"[diouxXeEfFgGaAcrspn@]|%%|%[A-Za-z_][A-Za-z_]+%|\[X[0-9]+X\]"
    ),
    "tags": rf"</?{_NAME}(\s+{_NAME}(\s*=\s*{_VALUE})?)*\s*/?>|<>|</>|<!--[^<>]*-->",
    "urls": rf"<?{_URL}|<{_URL}>|www\.{_DOMAIN}(/{_PATH}*[A-Za-z0-9/_~#$&*+=%@-])?",
    "emails": rf"[0-9A-Za-z_]{_AT}|<[A-Za-z]{_AT}>?",
    "numbers": r"[0-9]+([.,][0-9]+)*",
}
ESCAPES = [byte for byte in b" ,.;-/" + string.punctuation.encode() if byte not in WORD]  # best first


class Span(NamedTuple):
    """text[begin:end] of a line is of a class, a name or a pattern."""

    begin: int
    end: int
    of: str


@dataclass(frozen=True, eq=False)
class Lexer:
    """The tables; q states, 0 is the plain one.

    follow (q, 256) int64: the state behind a byte; begins (q, 256) bool: it goes on nothing;
    freely (q, 256) bool: it completes no span, and the byte `escape` (q,) uint8 leads from behind it to the
    plain state: bytes that are not of a span may be no others. loose (q,) bool: the same of states.
    label (q,) int64: which of the names is complete, or -1.
    """

    names: tuple[str, ...]
    follow: npt.NDArray[np.int64]
    begins: npt.NDArray[np.bool_]
    freely: npt.NDArray[np.bool_]
    loose: npt.NDArray[np.bool_]
    escape: npt.NDArray[np.uint8]
    label: npt.NDArray[np.int64]

    def spans(self, line: bytes) -> list[Span]:
        """What is to be kept of a line, in order."""
        follow, begins, label = self._lists
        found = []
        state, begin, last = 0, 0, (0, -1)
        for at, byte in enumerate(line):
            anew = begins[state][byte]
            state = follow[state][byte]
            if anew:
                if last[1] >= 0:
                    found.append(Span(begin, last[0], self.names[last[1]]))
                begin, last = at, (0, -1)
            if label[state] >= 0:
                last = at + 1, label[state]
        if last[1] >= 0:
            found.append(Span(begin, last[0], self.names[last[1]]))
        return found

    def binding(self, text: bytes) -> int:
        """How many bytes of a text it takes until a span is complete in them; the whole of it by default."""
        follow, _, label = self._lists
        state = 0
        for at, byte in enumerate(text):
            state = follow[state][byte]
            if label[state] >= 0:
                return at + 1
        return len(text)

    @cached_property
    def _lists(self) -> tuple[list[list[int]], list[list[bool]], list[int]]:
        """follow, begins and label: lists are read faster."""
        return self.follow.tolist(), self.begins.tolist(), self.label.tolist()


@lru_cache(maxsize=64)
def lexer(classes: tuple[str, ...], patterns: tuple[str, ...] = ()) -> Lexer:
    """The extractor of these of CLASSES and of patterns of one's own, which come first where both end at a
    byte. Raises SettingError."""
    for name in classes:
        if name not in CLASSES:
            raise SettingError(f"{name!r} is no class to keep: expected {', '.join(CLASSES)}")
    names = (*patterns, *classes)
    builds = [parsed(pattern) for pattern in patterns] + [parsed(CLASSES[name]) for name in classes]
    word = repeated(one(Characters(WORD, LETTER_LEADS)), 1, None)
    made = _tables(names, compiled([*builds, word]))
    _check(made)
    return made


def _tables(names: Sequence[str], automaton: Automaton) -> Lexer:
    live = automaton.follow >= 0
    afresh = np.broadcast_to(automaton.follow[0], live.shape)
    follow = np.where(live, automaton.follow, np.where(afresh >= 0, afresh, 0)).astype(np.int64)
    begins = ~live
    begins[0] = True
    label = np.where(automaton.label < len(names), automaton.label, -1).astype(np.int64)
    out = follow[:, ESCAPES] == 0
    direct = out.any(axis=1)
    loose = (label < 0) & direct
    # From where none leads there, one that leads to where another does: prefixes may leave a span open.
    byte = np.where(direct, out.argmax(axis=1), loose[follow[:, ESCAPES]].argmax(axis=1))
    escape = np.array(ESCAPES)[byte].astype(np.uint8)
    return Lexer(tuple(names), follow, begins, loose[follow], loose, escape, label)


def _check(lexer: Lexer) -> None:
    """Raises SettingError for a pattern behind which nothing can be written."""
    left = lexer.follow[np.arange(len(lexer.escape)), lexer.escape] == 0
    for state in np.flatnonzero((lexer.label >= 0) & ~left):
        name = lexer.names[lexer.label[state]]
        raise SettingError(f"the pattern {name!r} cannot be kept: no space or punctuation ends it")
