"""Build the constraint of a line from its kept spans and glossary terms, and check translations for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bytenmt.decoding.constraints.constraint import SEPARATOR, Constraint, Item
from bytenmt.decoding.constraints.glossary import Glossary
from bytenmt.decoding.constraints.nesting import places
from bytenmt.decoding.constraints.span_tracker import SpanTracker, span_tracker
from bytenmt.decoding.constraints.text_reader import TextReader
from bytenmt.decoding.constraints.words import begins_wordlike, ends_wordlike
from bytenmt.errors import SettingError
from bytenmt.spans.extractor import Span
from bytenmt.spans.grammar import CLASSES
from bytenmt.utf8 import LONGEST_CHARACTER

if TYPE_CHECKING:
    from bytenmt.decoding.interface import Request as Asked

CACHED = 2048  # lines that are read once, and asked for when they are cut, translated and looked at
Parts = tuple[list[Span], list[tuple[int, tuple[bytes, ...]]], tuple[bytes, ...]]
BEGINNINGS = b"<{"
LIMIT, UNMET = "limit", "unmet"  # flags of a translation


@dataclass(frozen=True, eq=False)
class Rules:
    """The user's settings of constraints, which hold for every line.

    classes: of spans.grammar.CLASSES; patterns: of the user's own; glossary: its terms. Two that were asked
    for in the same words are not the same: a search is compiled for one.
    """

    classes: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    glossary: Glossary | None = None
    named: str | None = None  # the glossary's file
    tracker: SpanTracker = field(init=False)
    _parts: Callable[[bytes], Parts] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tracker", span_tracker(self.classes, self.patterns))
        object.__setattr__(self, "_parts", lru_cache(CACHED)(self._read))

    @classmethod
    def of(cls, keep: Any = (), keep_pattern: Any = (), glossary: Any = None) -> Rules | None:
        """Return rules for these settings, or None where nothing is set.

        keep: names of classes of spans, in one text with commas or several. keep_pattern: one regular
        expression or several. glossary: a file or a Glossary. Raises SettingError, and DataError for a file
        that cannot be used.
        """
        if isinstance(keep, str):
            keep = tuple(name.strip() for name in keep.split(",") if name.strip())
        patterns = (keep_pattern,) if isinstance(keep_pattern, str) else tuple(keep_pattern or ())
        keep = tuple(dict.fromkeys(keep or ()))
        for name in (*keep, *patterns):
            if not isinstance(name, str):
                raise SettingError(f"to keep {name!r}: give names, {', '.join(CLASSES)}, or patterns")
        if glossary is not None and not isinstance(glossary, str | Path | Glossary):
            raise SettingError(f"the glossary is {glossary!r}: give the name of a file")
        if not keep and not patterns and glossary is None:
            return None
        if isinstance(glossary, Glossary):
            return cls(keep, patterns, glossary)
        read = None if glossary is None else Glossary.read(Path(glossary))
        return cls(keep, patterns, read, None if glossary is None else str(glossary))

    def spans(self, line: bytes) -> list[Span]:
        """Return the spans of a line that must not be cut: kept spans and glossary terms, in order."""
        return self._parts(line)[0]

    def constraint(self, source: bytes, prefix: bytes = b"") -> Constraint:
        """Return the constraint of the translations of a source that begin with the prefix."""
        spans, terms, forbidden = self._parts(source)
        kept = [source[span.begin : span.end] for span in spans if span.of]
        reserved_bytes = self._reserved_bytes(source, kept)
        items, begins = [], [span.begin for span in spans if span.of]
        for group, (text, place) in enumerate(zip(kept, places(kept), strict=True)):
            binding = 1 if text[0] in reserved_bytes else self.tracker.first_complete(text)
            begins_at = self.tracker.may_begin(text)
            items.append(Item(text, group, len(text) + SEPARATOR, binding, *place, begins=begins_at))
        for group, (begin, forms) in enumerate(terms, len(items)):
            begins += [begin] * len(forms)
            reserved = max(map(len, forms)) + SEPARATOR
            for number, form in enumerate(forms):
                cost = 0 if number else reserved
                binding, begins_at = self.tracker.first_complete(form), self.tracker.may_begin(form)
                items.append(Item(form, group, cost, binding, right=ends_wordlike(form), begins=begins_at))
        constraint = Constraint(_in_order(items, begins), forbidden, reserved_bytes)
        if prefix:
            constraint = TextReader(self.tracker, constraint, len(prefix)).read(prefix).rest()
        return constraint

    @staticmethod
    def _reserved_bytes(source: bytes, kept: Sequence[bytes]) -> bytes:
        """Return the bytes, of those that begin a tag or a placeholder, that the source has in kept spans
        alone: in plain text such a byte would begin one span too many, which would be left half written."""
        return bytes(
            sign for sign in BEGINNINGS if 0 < source.count(sign) == sum(text.count(sign) for text in kept)
        )

    def asked(self, request: Asked) -> Asked:
        """The request with what it owes, and a limit under which all of that fits."""
        source, limit, prefix = request.source or b"", request.limit, request.prefix
        constraint = self.constraint(source, prefix)
        least = len(prefix) + constraint.n_pending_bytes + (2 * SEPARATOR if prefix else 0)
        if constraint.n_pending_bytes and least > limit:
            constraint, limit = constraint._replace(is_short=True), least
        return request._replace(constraint=constraint, limit=limit)

    def flags(self, request: Asked, text: bytes) -> tuple[str, ...]:
        """What is to be told of a translation: LIMIT, its rest was written out because room got short; UNMET,
        something that was asked for is not there, or more than was asked for."""
        constraint, limit = request.constraint, request.limit
        short = constraint.is_short
        if not short and len(text) + constraint.n_pending_bytes >= limit:  # else there was room for all
            reader = TextReader(self.tracker, constraint, limit, len(request.prefix))
            short = reader.read(text).is_squeezed
        return (LIMIT,) * short + (UNMET,) * (not self.met(request.source or b"", text))

    def met(self, source: bytes, text: bytes) -> bool:
        """Whether a translation has all that its source owes."""
        spans, terms, forbidden = self._parts(source)
        kept = Counter(source[span.begin : span.end] for span in spans if span.of)
        of_terms = Counter[bytes]()
        for found in spans:
            if not found.of:
                of_terms.update(self._kept(source[found.begin : found.end]))
        written = Counter(self._kept(text))
        # Spans inside a term come or go with its form.
        if kept - written or (not of_terms and not terms and written - kept):
            return False
        if terms and written - kept:
            inside = Counter(span for _, forms in terms for form in forms for span in self._kept(form))
            if set(written - kept) - set(inside) - set(of_terms):
                return False
        return all(any(_stands(form, text) for form in forms) for _, forms in terms) and not any(
            _stands(one, text) for one in forbidden
        )

    def _kept(self, text: bytes) -> list[bytes]:
        return self.tracker.extractor.texts(text)

    def _read(self, source: bytes) -> Parts:
        """The spans of a line, those of terms without a name; of each term where it begins, and its forms;
        what is forbidden.

        A term inside a span is no term, a span inside a term goes with it.
        """
        spans = self.tracker.extractor.spans(source)
        if self.glossary is None:
            return spans, [], ()
        terms: dict[str, tuple[int, tuple[bytes, ...]]] = {}
        forbidden: dict[bytes, None] = {}
        left, of_terms, at = list[Span](), list[Span](), 0
        for begin, end, term in self.glossary.find(source):  # from left to right, as the spans
            while at < len(spans) and spans[at].end <= begin:
                left.append(spans[at])
                at += 1
            behind = at
            while behind < len(spans) and spans[behind].begin < end:
                behind += 1
            if at < behind and (spans[at].begin < begin or end < spans[behind - 1].end):
                continue
            if term.forms:
                of_terms.append(Span(begin, end, ""))
                at = behind
                terms.setdefault(term.source, (begin, _forms(term.forms)))
            forbidden.update((text.encode(), None) for text in term.forbidden)
        return sorted(left + spans[at:] + of_terms), list(terms.values()), tuple(forbidden)


def _in_order(items: Sequence[Item], begins: Sequence[int]) -> tuple[Item, ...]:
    """Items by where they begin in the source, and which stands after which as before."""
    order = sorted(range(len(items)), key=begins.__getitem__)
    index = {at: number for number, at in enumerate(order)} | {-1: -1}
    return tuple(items[at]._replace(after=index[items[at].after]) for at in order)


def _forms(forms: Sequence[str]) -> tuple[bytes, ...]:
    """The forms, and those that begin a sentence."""
    capital = [form[0].upper() + form[1:] for form in forms if len(form[0].upper()) == 1]
    return tuple(form.encode() for form in dict.fromkeys((*forms, *capital)))


def _stands(text: bytes, within: bytes) -> bool:
    """Whether a text stands there, as a word where it begins or ends like one."""
    at = within.find(text)
    while at >= 0:
        before, behind = (
            within[max(0, at - LONGEST_CHARACTER) : at],
            within[at + len(text) : at + len(text) + 1],
        )
        goes_on = before and begins_wordlike(text) and ends_wordlike(before)
        if not goes_on and not (behind and ends_wordlike(text) and begins_wordlike(behind)):
            return True
        at = within.find(text, at + 1)
    return False
