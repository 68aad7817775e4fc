"""Read glossaries, and find their terms in a line.

A glossary is a table with lines `term TAB target`, or a CSV. Further columns are not read: OmegaT has a
comment in the third one, DeepL the languages. A target may list several forms, separated by `|`, of which the
translation must contain one; a form `!X` is a text that it must not contain.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bytenmt.decoding.constraints.words import begins_wordlike, ends_wordlike
from bytenmt.errors import DataError
from bytenmt.utf8 import BYTE_ORDER_MARK, describe_mistake, first_invalid

# The search tries every target at every step and writes out the one that it chooses, byte by byte: a target
# of megabytes would take minutes. These limits are several times the length of a sentence.
LONGEST_TEXT = 1_000  # bytes of a term or of one of its targets
LONGEST_LINE = 10_000  # bytes of a line of the table: a term and all its targets
MOST_BYTES = 100_000_000  # of a table
# Endings of inflected words. A term in small letters gets those of plurals, a term with a capital those of
# German nouns, too. More endings find more words that are other words: -ing and -ed turn a noun into a verb.
SHORTEST_STEM = 4  # letters that an inflected form shares with its term
PLURAL_ENDINGS = ("s", "es")
NOUN_ENDINGS = ("s", "es", "n", "en", "e", "er", "ern", "em")


class Term(NamedTuple):
    """A term: its source text, its target forms, of which one is required (the preferred one first), and its
    forbidden target texts."""

    source: str
    forms: tuple[str, ...]
    forbidden: tuple[str, ...]


class TermMatch(NamedTuple):
    """An occurrence of a term, or of an inflected form of it: line[begin:end], in bytes."""

    begin: int
    end: int
    term: Term


@dataclass(frozen=True, eq=False)
class Glossary:
    """Terms by their source text.

    A term in small letters matches any case; one with a capital matches exactly. inflections: terms by the
    inflected forms of their source text, see inflected_forms, as far as these are no terms themselves.

    >>> glossary = Glossary.from_terms([Term("server", ("Server",), ())])
    >>> [(match.begin, match.end) for match in glossary.find(b"my Server")]
    [(3, 9)]
    """

    exact: dict[str, Term] = field(default_factory=dict)
    folded: dict[str, Term] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()  # in characters, the longest first
    inflections: dict[str, Term] = field(default_factory=dict)

    @classmethod
    def from_terms(cls, terms: Iterable[Term], inflected: bool = True) -> Glossary:
        """Return a glossary of terms; terms with the same source text are merged.

        inflected: whether inflected forms of a source text match, too.
        """
        exact: dict[str, Term] = {}
        folded: dict[str, Term] = {}
        for term in terms:
            terms_by_text = folded if term.source == term.source.lower() else exact
            before = terms_by_text.get(term.source, Term(term.source, (), ()))
            forms = tuple(dict.fromkeys(before.forms + term.forms))
            forbidden = tuple(dict.fromkeys(before.forbidden + term.forbidden))
            terms_by_text[term.source] = Term(term.source, forms, forbidden)
        inflections: dict[str, Term] = {}
        for text, term in (*exact.items(), *folded.items()) if inflected else ():
            for form in inflected_forms(text):
                if form not in exact and form not in folded:
                    inflections.setdefault(form, term)
        lengths = sorted({len(text) for text in (*exact, *folded, *inflections)}, reverse=True)
        return cls(exact, folded, tuple(lengths), inflections)

    @classmethod
    def from_file(cls, path: Path, inflected: bool = True) -> Glossary:
        """Read a table. inflected: see from_terms.

        Raises DataError, with the number of the line, for one that is malformed or too long.
        """
        try:
            with open(path, "rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
        if len(data) > MOST_BYTES:
            raise DataError(f"{path} has more than {MOST_BYTES:,} bytes, the most of a glossary")
        lines = data.removeprefix(BYTE_ORDER_MARK).split(b"\n")
        terms = (
            parse_term(line.removesuffix(b"\r"), path, number)
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.startswith(b"#")
        )
        return cls.from_terms(terms, inflected)

    def terms(self) -> list[Term]:
        """Return all terms, to merge several glossaries."""
        return [*self.exact.values(), *self.folded.values()]

    def find(self, line: bytes) -> list[TermMatch]:
        """Return the terms of a line, valid UTF-8, from left to right: at each position the longest one."""
        text = line.decode()
        lower = text.lower()
        if len(lower) != len(text):  # of few characters the small letter is two
            lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
        matches, at, offset = [], 0, 0
        while at < len(text):
            n, term = self._at(text, lower, at)
            n = max(1, n)
            n_bytes = len(text[at : at + n].encode())
            if term is not None:
                matches.append(TermMatch(offset, offset + n_bytes, term))
            at, offset = at + n, offset + n_bytes
        return matches

    def _at(self, text: str, lower: str, at: int) -> tuple[int, Term | None]:
        """Return the number of characters of the longest term that begins at a character, and the term; 0 and
        None if no term begins there."""
        before = text[at - 1 : at].encode()
        after_letter = bool(before) and ends_wordlike(before)
        for n in self.lengths:
            here, here_lower = text[at : at + n], lower[at : at + n]
            term = self.exact.get(here) or self.folded.get(here_lower)
            term = term or self.inflections.get(here) or self.inflections.get(here_lower)
            if term is None or at + n > len(text):
                continue
            inside = after_letter and begins_wordlike(text[at].encode())
            after = text[at + n : at + n + 1].encode()
            goes_on = bool(after) and begins_wordlike(after) and ends_wordlike(text[at + n - 1].encode())
            if not inside and not goes_on:
                return n, term
        return 0, None


def inflected_forms(text: str) -> list[str]:
    """Return the inflected forms of a source text that match a term: its last word with other endings.

    They share at least SHORTEST_STEM letters with it.

    >>> inflected_forms("category"), inflected_forms("bus")
    (['categorys', 'categoryes', 'categories'], [])
    """
    n_letters = next((n for n, letter in enumerate(reversed(text)) if not letter.isalpha()), len(text))
    endings = PLURAL_ENDINGS if text == text.lower() else NOUN_ENDINGS
    forms = [text + ending for ending in endings] if n_letters >= SHORTEST_STEM else []
    if n_letters > SHORTEST_STEM and text.endswith("y"):
        forms.append(text.removesuffix("y") + "ies")
    return forms


def parse_term(line: bytes, path: Path, number: int) -> Term:
    """Parse a line of a table, which is a CSV if its suffix says so. Raises DataError."""
    if len(line) > LONGEST_LINE:
        raise DataError(f"{path}, line {number}: {len(line):,} bytes, at most {LONGEST_LINE:,}")
    if first_invalid(line) >= 0:
        raise DataError(describe_mistake(path, number, line))
    is_csv = path.suffix.lower() == ".csv"
    try:
        text = line.decode()
        source, *rest = next(csv.reader([text], strict=True)) if is_csv else text.split("\t")
    except csv.Error as error:
        raise DataError(f"{path}, line {number}: not CSV: {error}") from None
    targets = [target.strip() for part in rest[:1] for target in part.split("|")]
    source = source.strip()
    if not source or not rest or not all(target.removeprefix("!") for target in targets):
        expected = "term,target" if is_csv else "term TAB target"
        raise DataError(f"{path}, line {number}: expected `{expected}`, or several targets by |")
    longest = max(len(text.encode()) for text in (source, *targets))
    if longest > LONGEST_TEXT:
        problem = f"a term or target of {longest:,} bytes, at most {LONGEST_TEXT:,}"
        raise DataError(f"{path}, line {number}: {problem}")
    forms = tuple(target for target in targets if not target.startswith("!"))
    return Term(source, forms, tuple(target[1:] for target in targets if target.startswith("!")))
