"""Parse a pattern in the regular part of Python's regular expressions.

Literals, `.`, `[...]`, `\\d \\w \\s`, groups, `| * + ? {m,n}`. Back-references and look-around, which no
finite automaton can match, are refused.
"""

from __future__ import annotations

import re
import string

from bytenmt.errors import SettingError
from bytenmt.spans.automata import (
    ANY,
    ASCII,
    LEAD_BYTES,
    Build,
    CharacterSet,
    Nfa,
    alternatives,
    character,
    literal,
    repetition,
    sequence,
)

MAX_REPEATS = 200
MAX_DEPTH = 50  # groups
DIGITS = frozenset(string.digits.encode())
WORD = frozenset((string.ascii_letters + string.digits + "_").encode())
SPACE = frozenset(b" \t\r\v\f")
ESCAPES = {"d": DIGITS, "w": WORD, "s": SPACE}
CONTROLS = {"t": "\t", "r": "\r", "f": "\f", "v": "\v"}
COUNTED = re.compile(r"\{(\d*)(,?)(\d*)\}")


def parse_pattern(pattern: str) -> Build:
    """Return the builder of a pattern. Raises SettingError where the pattern is not regular or malformed."""
    parser = _Parser(pattern)
    try:
        build = parser.alternatives(0)
        if parser.at < len(pattern):
            raise SettingError("a ) has no (")
        nfa = Nfa()
        begin = nfa.add_state()
        if build(nfa, begin) in nfa.closure([begin]):
            raise SettingError("it matches the empty text")
    except SettingError as error:
        raise SettingError(cannot_be_kept(pattern, str(error))) from None
    return build


def cannot_be_kept(pattern: str, reason: str) -> str:
    """Return the message for a pattern that is refused; of a long pattern it quotes the beginning."""
    quoted = repr(pattern if len(pattern) <= 100 else pattern[:100] + "…")
    return f"the pattern {quoted} cannot be kept: {reason}"


class _Parser:
    """A recursive-descent parser; `at` is its position in `text`."""

    def __init__(self, pattern: str) -> None:
        self.text, self.at = pattern, 0

    def peek(self, n: int = 1) -> str:
        return self.text[self.at : self.at + n]

    def take(self, n: int = 1) -> str:
        if len(part := self.peek(n)) < n:
            raise SettingError("it ends too early")
        self.at += n
        return part

    def alternatives(self, depth: int) -> Build:
        if depth > MAX_DEPTH:
            raise SettingError("its groups are nested too deeply")
        parts = [self.sequence(depth)]
        while self.peek() == "|":
            self.take()
            parts.append(self.sequence(depth))
        return parts[0] if len(parts) == 1 else alternatives(parts)

    def sequence(self, depth: int) -> Build:
        parts = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repetition(self.atom(depth)))
        return sequence(parts)

    def repetition(self, part: Build) -> Build:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        counted = COUNTED.match(self.text, self.at)
        if self.peek() in simple and self.peek():
            part = repetition(part, *simple[self.take()])
        elif counted and (counted[1] or counted[2]):
            self.take(len(counted[0]))
            least = int(counted[1] or 0)
            most = least if not counted[2] else int(counted[3]) if counted[3] else None
            if not least <= (least if most is None else most) <= MAX_REPEATS:
                raise SettingError(f"{counted[0]} repetitions: expected 0 to {MAX_REPEATS}")
            part = repetition(part, least, most)
        else:
            return part
        if self.peek() in ("*", "+", "?") and self.peek():
            raise SettingError(f"{self.peek()} after a repetition is not supported")
        return part

    def atom(self, depth: int) -> Build:
        letter = self.take()
        if letter == "(":
            if self.peek() == "?" and self.peek(2) != "?:":
                raise SettingError(f"({self.peek(2)} is not supported")
            self.take(2 if self.peek() == "?" else 0)
            build = self.alternatives(depth + 1)
            if self.peek() != ")":
                raise SettingError("a ( has no )")
            self.take()
            return build
        if letter == "[":
            return character(self.set_())
        if letter == ".":
            return character(ANY)
        if letter == "\\":
            return self.escape()
        if letter in "^$*+?":
            raise SettingError(f"{letter} has no meaning at its place")
        if letter == "\n":
            raise SettingError("a line break never matches: texts are single lines")
        return literal(letter.encode())

    def escape(self) -> Build:
        letter = self.take()
        if letter in ESCAPES:
            return character(CharacterSet(ESCAPES[letter]))
        if letter.lower() in ESCAPES:
            return character(CharacterSet(ASCII - ESCAPES[letter.lower()], LEAD_BYTES))
        return literal(self.plain(letter).encode())

    def plain(self, letter: str) -> str:
        """Return the character that an escape means. Raises SettingError."""
        if letter in CONTROLS:
            return CONTROLS[letter]
        if letter == "x" and re.fullmatch("[0-7][0-9a-fA-F]", self.peek(2)):
            return chr(int(self.take(2), 16))
        if letter.isalnum() or letter == "\n":
            raise SettingError(f"\\{letter} is not supported")
        return letter

    def set_(self) -> CharacterSet:
        """Parse the set behind a [."""
        negated = self.peek() == "^"
        self.take(int(negated))
        found: set[int] = set()
        first = True
        while self.peek() != "]" or first:
            first = False
            low = self.member(found)
            if low is not None and self.peek() == "-" and self.peek(2) != "-]":
                self.take()
                high = self.member(found)
                if high is None or high < low:
                    raise SettingError("a range in [ ] is in reverse order")
                found.update(range(low, high + 1))
        self.take()
        found.discard(0x0A)
        return CharacterSet(ASCII - found, LEAD_BYTES) if negated else CharacterSet(frozenset(found))

    def member(self, codes: set[int]) -> int | None:
        """Add one member to `codes`; return its code, or None where it stands for several characters."""
        letter = self.take()
        if letter == "\\":
            letter = self.take()
            if letter in ESCAPES:
                codes |= ESCAPES[letter]
                return None
            letter = self.plain(letter)
        if ord(letter) >= 0x80:
            raise SettingError(f"{letter} in [ ] is not ASCII: write (a|b) instead")
        codes.add(ord(letter))
        return ord(letter)
