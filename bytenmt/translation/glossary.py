"""Read glossaries, and find their terms in a line.

A glossary is a table with lines `term TAB target`, or a CSV. Further columns are not read: OmegaT
has a comment in the third one, DeepL the languages. Of several targets, separated by `|`, the first
one is used; `!X`, which some programs read as a forbidden target, is left out.

A term in small letters matches in any letter case, one with a capital as it is written. The last
word of a term also matches with one of ENDINGS, or an umlaut: `tab` finds "tabs", `Haus` finds
"Häuser"; and before one of PARTICLES, which are not part of the match: `서버` finds two of the four
characters of "서버에서".
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bytenmt.errors import DataError
from bytenmt.sentinels import Span
from bytenmt.utf8 import BYTE_ORDER_MARK, first_invalid

# Endings of plurals and cases in English and German. Verbs have others: -ing and -ed would turn a
# noun into a verb.
ENDINGS = ("s", "es", "n", "en", "e", "er", "ern", "em")
MIN_STEM_LETTERS = 3  # that a form with an ending keeps
# Of Korean; a model reads them behind the sentinel of a name, too.
PARTICLES = (
    *("은", "는", "이", "가", "을", "를", "의", "와", "과"),
    *("에", "에서", "에게", "로", "으로", "도", "만", "들"),
)
_UMLAUTS = str.maketrans("äöüÄÖÜ", "aouAOU")
_TOKEN = re.compile(r"[^\W_]+|[^\w\s]|_")


class Term(NamedTuple):
    """A term of a glossary (source) and its translation (target)."""

    source: str
    target: str


class Glossary:
    """A glossary, which finds its terms in texts.

    Of several terms with the same source text the first one counts.

    >>> Glossary([Term("server", "Dienst")]).find("my Servers")
    {Span(begin=3, end=10): Term(source='server', target='Dienst')}
    """

    def __init__(self, terms: Iterable[Term]) -> None:
        self._terms: dict[tuple[str, bool], Term] = {}
        lengths = set()
        for term in terms:
            words = _TOKEN.findall(term.source)
            is_small = term.source == term.source.lower()
            self._terms.setdefault(_key(words, is_small), term)
            lengths.add(len(words))
        self._lengths = sorted(lengths, reverse=True)  # in words and signs

    @property
    def terms(self) -> list[Term]:
        """The terms of the glossary in their order, without duplicates."""
        return list(self._terms.values())

    @classmethod
    def from_file(cls, path: Path) -> Glossary:
        """Read a glossary from a UTF-8 file of lines `term TAB target`, or CSV if it ends in .csv.

        Further columns are not read; empty lines, and those that begin with #, are skipped. Raises
        DataError, with the number of the line if that is malformed.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
        lines = data.removeprefix(BYTE_ORDER_MARK).split(b"\n")
        terms = (
            parse_term(line.removesuffix(b"\r"), path, number)
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.startswith(b"#")
        )
        return cls(term for term in terms if term.target)

    def find(self, text: str) -> dict[Span, Term]:
        """Map (begin, end) of each occurrence of a term in a text, in characters, to the term.

        Inflected forms count. At each word only the longest term that begins there is found, so
        that occurrences may overlap. A Korean particle behind a term is not part of its span.
        """
        tokens = list(_TOKEN.finditer(text))
        words = [token[0] for token in tokens]
        matches = dict[Span, Term]()
        for begin in range(len(words)):
            for n_words in self._lengths:
                end = begin + n_words
                if end > len(words):
                    continue
                term, n_left = self._lookup(words[begin:end])
                if term is not None:
                    span = Span(tokens[begin].start(), tokens[end - 1].end() - n_left)
                    matches[span] = term
                    break
        return matches

    def _lookup(self, words: list[str]) -> tuple[Term | None, int]:
        """Return the term of some words, and the characters of a particle at their end."""
        for last, n_left in base_forms(words[-1]):
            form = [*words[:-1], last]
            term = self._terms.get(_key(form, False)) or self._terms.get(_key(form, True))
            if term is not None:
                return term, n_left
        return None, 0


def _key(words: list[str], is_small: bool) -> tuple[str, bool]:
    """Return the key of a term. is_small: it is found in any letter case, not only its own."""
    text = " ".join(words)
    return text.casefold() if is_small else text, is_small


def base_forms(word: str) -> Iterator[tuple[str, int]]:
    """Yield (form, n) for a word itself, and each word of which it may be an inflected form.

    n: how many characters at its end are a Korean particle, which is cut off; else 0.
    """
    for written in dict.fromkeys((word, word.translate(_UMLAUTS))):
        yield written, 0
        for ending in ENDINGS:
            stem = written[: -len(ending)]
            if len(stem) >= MIN_STEM_LETTERS and written.lower().endswith(ending):
                yield stem, 0
        if len(written) > MIN_STEM_LETTERS + 2 and written.lower().endswith("ies"):
            yield written[:-3] + "y", 0
    for particle in PARTICLES:
        if word.endswith(particle) and word != particle:
            yield word.removesuffix(particle), len(particle)


def parse_term(line: bytes, path: Path, number: int) -> Term:
    """Parse a line of a glossary file: `term TAB target`, or CSV if `path` ends with .csv.

    A line may have several targets, separated by "|". The first one is taken that has no "!" before
    it, which marks forbidden ones; "" if all have. line: UTF-8, else DataError, as for a line
    without a target. path, number: the file and the number of the line from 1, for errors.
    """
    if first_invalid(line) >= 0:
        raise DataError(f"{path}, line {number} is not valid UTF-8: convert the file to UTF-8")
    is_csv = path.suffix.lower() == ".csv"
    try:
        text = line.decode()
        source, *rest = next(csv.reader([text], strict=True)) if is_csv else text.split("\t")
    except csv.Error as error:
        raise DataError(f"{path}, line {number}: not CSV: {error}") from None
    targets = [target.strip() for part in rest[:1] for target in part.split("|")]
    are_targets = all(target.removeprefix("!") for target in targets)
    if not _TOKEN.search(source) or not rest or not are_targets:
        expected = "term,target" if is_csv else "term TAB target"
        raise DataError(f"{path}, line {number}: expected `{expected}`, or several targets by |")
    allowed = [target for target in targets if not target.startswith("!")]
    return Term(source.strip(), allowed[0] if allowed else "")
