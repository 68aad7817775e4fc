"""Read glossaries, and find their terms in a line.

A table has lines `term TAB target`: target forms stand side by side by `|`, of which one must stand in the
translation, and `!X` is a text that must not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bytenmt.decoding.constraints.words import begins_wordlike, ends_wordlike
from bytenmt.errors import DataError
from bytenmt.utf8 import BYTE_ORDER_MARK, describe_mistake, first_invalid

# The search tries every target at every step and must write out the one it chooses, byte by byte: one of
# megabytes would take minutes. These are several times what a sentence has.
LONGEST_TEXT = 1_000  # bytes of a term or of one of its targets
LONGEST_LINE = 10_000  # bytes of a line of the table: a term and all its targets
MOST_BYTES = 100_000_000  # of a table


class Term(NamedTuple):
    """source: as it stands in the table; forms: of which one must come, the preferred one first; forbidden:
    of which none may."""

    source: str
    forms: tuple[str, ...]
    forbidden: tuple[str, ...]


class Found(NamedTuple):
    """A term at line[begin:end], in bytes."""

    begin: int
    end: int
    term: Term


@dataclass(frozen=True, eq=False)
class Glossary:
    """Terms by their text. A term in small letters is found in any case; one with a capital as it stands."""

    exact: dict[str, Term] = field(default_factory=dict)
    folded: dict[str, Term] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()  # in characters, the longest first

    @classmethod
    def of(cls, terms: Iterable[Term]) -> Glossary:
        """Terms whose text is the same become one, with all forms."""
        exact: dict[str, Term] = {}
        folded: dict[str, Term] = {}
        for term in terms:
            among = folded if term.source == term.source.lower() else exact
            before = among.get(term.source, Term(term.source, (), ()))
            forms = tuple(dict.fromkeys(before.forms + term.forms))
            among[term.source] = Term(
                term.source, forms, tuple(dict.fromkeys(before.forbidden + term.forbidden))
            )
        lengths = sorted({len(text) for text in (*exact, *folded)}, reverse=True)
        return cls(exact, folded, tuple(lengths))

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """A table. Raises DataError with the line where it is none, and for one that is too long."""
        try:
            with open(path, "rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
        if len(data) > MOST_BYTES:
            raise DataError(f"{path} has more than {MOST_BYTES:,} bytes, the most of a glossary")
        lines = data.removeprefix(BYTE_ORDER_MARK).split(b"\n")
        terms = (
            term_of(line.removesuffix(b"\r"), path, number)
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.startswith(b"#")
        )
        return cls.of(terms)

    def terms(self) -> list[Term]:
        """Return all terms, for a glossary that is made of several."""
        return [*self.exact.values(), *self.folded.values()]

    def find(self, line: bytes) -> list[Found]:
        """The terms of a line, valid UTF-8, from left to right; at a place the longest."""
        text = line.decode()
        lower = text.lower()
        if len(lower) != len(text):  # of few characters the small letter is two
            lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
        found, at, offset = [], 0, 0
        while at < len(text):
            n, term = self._at(text, lower, at)
            n = max(1, n)
            n_bytes = len(text[at : at + n].encode())
            if term is not None:
                found.append(Found(offset, offset + n_bytes, term))
            at, offset = at + n, offset + n_bytes
        return found

    def _at(self, text: str, lower: str, at: int) -> tuple[int, Term | None]:
        """The longest term that begins at a character, and how many it has; 0 and None where none does."""
        before = text[at - 1 : at].encode()
        after_letter = bool(before) and ends_wordlike(before)
        for n in self.lengths:
            term = self.exact.get(text[at : at + n]) or self.folded.get(lower[at : at + n])
            if term is None or at + n > len(text):
                continue
            inside = after_letter and begins_wordlike(text[at].encode())
            behind = text[at + n : at + n + 1].encode()
            goes_on = bool(behind) and begins_wordlike(behind) and ends_wordlike(text[at + n - 1].encode())
            if not inside and not goes_on:
                return n, term
        return 0, None


def term_of(line: bytes, path: Path, number: int) -> Term:
    """A line of a table. Raises DataError."""
    if len(line) > LONGEST_LINE:
        raise DataError(f"{path}, line {number}: {len(line):,} bytes, at most {LONGEST_LINE:,}")
    if first_invalid(line) >= 0:
        raise DataError(describe_mistake(path, number, line))
    source, *rest = line.decode().split("\t")
    targets = [target.strip() for part in rest[:1] for target in part.split("|")]
    source = source.strip()
    if not source or len(rest) != 1 or not all(target.removeprefix("!") for target in targets):
        raise DataError(f"{path}, line {number}: expected `term TAB target`, or several targets by |")
    longest = max(len(text.encode()) for text in (source, *targets))
    if longest > LONGEST_TEXT:
        told = f"a term or target of {longest:,} bytes, at most {LONGEST_TEXT:,}"
        raise DataError(f"{path}, line {number}: {told}")
    forms = tuple(target for target in targets if not target.startswith("!"))
    return Term(source, forms, tuple(target[1:] for target in targets if target.startswith("!")))
