"""Patterns as users write them: the regular part of Python's syntax.

Literals, `.`, `[...]`, `\\d \\w \\s`, groups, `| * + ? {m,n}`. What needs more than a finite memory, or looks
around, is refused. Knows no automata but how they are put together.
"""

from __future__ import annotations

import re
import string

from bytenmt.decoding.constraints.automata import (
    ANY,
    ASCII,
    LEADS,
    Build,
    Characters,
    Nondeterministic,
    either,
    literal,
    one,
    repeated,
    sequence,
)
from bytenmt.errors import SettingError

MOST_REPEATS = 200
MOST_NESTED = 50  # groups
DIGITS = frozenset(string.digits.encode())
WORD = frozenset((string.ascii_letters + string.digits + "_").encode())
SPACE = frozenset(b" \t\r\v\f")
ESCAPES = {"d": DIGITS, "w": WORD, "s": SPACE}
CONTROLS = {"t": "\t", "r": "\r", "f": "\f", "v": "\v"}
COUNTED = re.compile(r"\{(\d*)(,?)(\d*)\}")


def parsed(pattern: str) -> Build:
    """A pattern as a user writes it. Raises SettingError for what is not regular or not understood."""
    parser = _Parser(pattern)
    try:
        build = parser.alternatives(0)
        if parser.at < len(pattern):
            raise SettingError("a ) has no (")
        nfa = Nondeterministic()
        begin = nfa.state()
        if build(nfa, begin) in nfa.closure([begin]):
            raise SettingError("it matches the empty text")
    except SettingError as error:
        raise SettingError(f"the pattern {pattern!r} cannot be kept: {error}") from None
    return build


class _Parser:
    """Recursive descent over a pattern."""

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
        if depth > MOST_NESTED:
            raise SettingError("its groups are nested too deeply")
        parts = [self.sequence(depth)]
        while self.peek() == "|":
            self.take()
            parts.append(self.sequence(depth))
        return parts[0] if len(parts) == 1 else either(parts)

    def sequence(self, depth: int) -> Build:
        parts = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repetition(self.atom(depth)))
        return sequence(parts)

    def repetition(self, part: Build) -> Build:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        counted = COUNTED.match(self.text, self.at)
        if self.peek() in simple and self.peek():
            part = repeated(part, *simple[self.take()])
        elif counted and (counted[1] or counted[2]):
            self.take(len(counted[0]))
            least = int(counted[1] or 0)
            most = least if not counted[2] else int(counted[3]) if counted[3] else None
            if not least <= (least if most is None else most) <= MOST_REPEATS:
                raise SettingError(f"{counted[0]} is not among 0 to {MOST_REPEATS} repetitions")
            part = repeated(part, least, most)
        else:
            return part
        if self.peek() in ("*", "+", "?") and self.peek():
            raise SettingError(f"{self.peek()} behind a repetition is not regular")
        return part

    def atom(self, depth: int) -> Build:
        character = self.take()
        if character == "(":
            if self.peek() == "?" and self.peek(2) != "?:":
                raise SettingError(f"({self.peek(2)} is not regular")
            self.take(2 if self.peek() == "?" else 0)
            build = self.alternatives(depth + 1)
            if self.peek() != ")":
                raise SettingError("a ( has no )")
            self.take()
            return build
        if character == "[":
            return one(self.set_())
        if character == ".":
            return one(ANY)
        if character == "\\":
            return self.escape()
        if character in "^$*+?":
            raise SettingError(f"{character} has no meaning at its place")
        if character == "\n":
            raise SettingError("a line end stands in no line")
        return literal(character.encode())

    def escape(self) -> Build:
        character = self.take()
        if character in ESCAPES:
            return one(Characters(ESCAPES[character]))
        if character.lower() in ESCAPES:
            return one(Characters(ASCII - ESCAPES[character.lower()], LEADS))
        return literal(self.plain(character).encode())

    def plain(self, character: str) -> str:
        """The character that stands behind a backslash."""
        if character in CONTROLS:
            return CONTROLS[character]
        if character == "x" and re.fullmatch("[0-7][0-9a-fA-F]", self.peek(2)):
            return chr(int(self.take(2), 16))
        if character.isalnum() or character == "\n":
            raise SettingError(f"\\{character} is not regular, or not known")
        return character

    def set_(self) -> Characters:
        """Behind a [."""
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
                    raise SettingError("a range in [ ] has no order")
                found.update(range(low, high + 1))
        self.take()
        found.discard(0x0A)
        return Characters(ASCII - found, LEADS) if negated else Characters(frozenset(found))

    def member(self, found: set[int]) -> int | None:
        """Put one member into the set; returns it, None where it stands for several."""
        character = self.take()
        if character == "\\":
            character = self.take()
            if character in ESCAPES:
                found |= ESCAPES[character]
                return None
            character = self.plain(character)
        if ord(character) >= 0x80:
            raise SettingError(f"{character} in [ ] is not ASCII: write (a|b) instead")
        found.add(ord(character))
        return ord(character)
