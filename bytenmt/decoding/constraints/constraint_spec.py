"""Build the constraint of a line from its kept spans and glossary terms, and check translations for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bytenmt.decoding.constraints.constraint import SEPARATOR, Constraint, RequiredItem
from bytenmt.decoding.constraints.glossary import Glossary
from bytenmt.decoding.constraints.span_tracker import SpanTracker, span_tracker
from bytenmt.decoding.constraints.text_reader import TextReader
from bytenmt.decoding.constraints.words import begins_wordlike, ends_wordlike
from bytenmt.errors import SettingError
from bytenmt.kernel_constants import ANYWHERE, ROOT
from bytenmt.spans.extractor import Span
from bytenmt.spans.grammar import CLASSES
from bytenmt.spans.tags import parse_tag, partners
from bytenmt.utf8 import LONGEST_CHARACTER

if TYPE_CHECKING:
    from bytenmt.decoding.interface import Request

CACHED = 2048  # lines whose parts are remembered: they are needed to cut, to translate and to check a line
BEGINNINGS = b"<{"  # of tags and placeholders
# Flags of a translation: required items were written out because the room got short; the translation lacks
# something that is required, or has something more.
LIMIT, UNMET = "limit", "unmet"


class LineParts(NamedTuple):
    """The parts of a source line that constraints are made of.

    spans: kept spans, and glossary terms as spans without a class; terms: for each term, where it begins and
    its target forms, of which one is required; forbidden: target texts that must not occur.
    """

    spans: list[Span]
    terms: list[tuple[int, tuple[bytes, ...]]]
    forbidden: tuple[bytes, ...]


@dataclass(frozen=True, eq=False)
class ConstraintSpec:
    """The constraints that a user set, from which the constraint of each line is made.

    classes: names from spans.grammar.CLASSES, whose spans are kept. patterns: regular expressions of the
    user, whose matches are kept too. glossary: terms and their translations. named: the glossary's file.
    Instances compare by identity, because an engine is built for one of them.
    """

    classes: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    glossary: Glossary | None = None
    named: str | None = None
    tracker: SpanTracker = field(init=False)
    _parts: Callable[[bytes], LineParts] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tracker", span_tracker(self.classes, self.patterns))
        object.__setattr__(self, "_parts", lru_cache(CACHED)(self._read))

    @classmethod
    def from_settings(
        cls, keep: Any = (), keep_pattern: Any = (), glossary: Any = None
    ) -> ConstraintSpec | None:
        """Return the constraints for these settings, or None if nothing is set.

        keep: names of classes of spans, as one text with commas or as several. keep_pattern: one regular
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
        if glossary is None:
            return cls(keep, patterns)
        return cls(keep, patterns, Glossary.from_file(Path(glossary)), str(glossary))

    def spans(self, line: bytes) -> list[Span]:
        """Return the spans of a line that must not be cut: kept spans and glossary terms, in order."""
        return self._parts(line).spans

    def constraint(self, source: bytes, prefix: bytes = b"") -> Constraint:
        """Return the constraint of the translations of a source that begin with the prefix."""
        spans, terms, forbidden = self._parts(source)
        kept = [source[span.begin : span.end] for span in spans if span.of]
        reserved_bytes = self._reserved_bytes(source, kept)
        items, begins = [], [span.begin for span in spans if span.of]
        for group, (text, position) in enumerate(zip(kept, tag_positions(kept), strict=True)):
            binding = 1 if text[0] in reserved_bytes else self.tracker.first_complete(text)
            begins_at = self.tracker.may_begin(text)
            items.append(
                RequiredItem(text, group, len(text) + SEPARATOR, binding, *position, begins=begins_at)
            )
        for group, (begin, forms) in enumerate(terms, len(items)):
            begins += [begin] * len(forms)
            reserved = max(map(len, forms)) + SEPARATOR
            for number, form in enumerate(forms):
                cost = 0 if number else reserved
                binding, begins_at = self.tracker.first_complete(form), self.tracker.may_begin(form)
                items.append(
                    RequiredItem(
                        form, group, cost, binding, needs_word_end=ends_wordlike(form), begins=begins_at
                    )
                )
        constraint = Constraint(_in_order(items, begins), forbidden, reserved_bytes)
        if prefix:
            constraint = TextReader(self.tracker, constraint, len(prefix)).read(prefix).rest()
        return constraint

    @staticmethod
    def _reserved_bytes(source: bytes, kept_texts: Sequence[bytes]) -> bytes:
        """Return the bytes of BEGINNINGS that the source has in kept spans alone.

        In the plain text of a translation such a byte would begin a span too many, left half written.
        """
        return bytes(
            sign
            for sign in BEGINNINGS
            if 0 < source.count(sign) == sum(text.count(sign) for text in kept_texts)
        )

    def add_constraint(self, request: Request) -> Request:
        """Return a request with the constraint of its source, and a length limit that all items fit into."""
        source, limit, prefix = request.source or b"", request.limit, request.prefix
        constraint = self.constraint(source, prefix)
        least = len(prefix) + constraint.n_pending_bytes + (2 * SEPARATOR if prefix else 0)
        if constraint.n_pending_bytes and least > limit:
            constraint, limit = constraint._replace(is_short=True), least
        return request._replace(constraint=constraint, limit=limit)

    def flags(self, request: Request, text: bytes) -> tuple[str, ...]:
        """Return which of LIMIT and UNMET hold for a translation."""
        constraint, limit = request.constraint, request.limit
        short = constraint.is_short
        if not short and len(text) + constraint.n_pending_bytes >= limit:  # else there was room for all
            reader = TextReader(self.tracker, constraint, limit, len(request.prefix))
            short = reader.read(text).is_squeezed
        return (LIMIT,) * short + (UNMET,) * (not self.is_met(request.source or b"", text))

    def is_met(self, source: bytes, text: bytes) -> bool:
        """Return whether a translation has the spans of its source, no others, and a form of each term."""
        spans, terms, forbidden = self._parts(source)
        kept = Counter(source[span.begin : span.end] for span in spans if span.of)
        of_terms = Counter[bytes]()
        for span in spans:
            if not span.of:
                of_terms.update(self.kept_spans(source[span.begin : span.end]))
        written = Counter(self.kept_spans(text))
        # Spans inside a term come or go with its form.
        if kept - written or (not of_terms and not terms and written - kept):
            return False
        if terms and written - kept:
            inside = Counter(span for _, forms in terms for form in forms for span in self.kept_spans(form))
            if set(written - kept) - set(inside) - set(of_terms):
                return False
        has_terms = all(any(_occurs(form, text) for form in forms) for _, forms in terms)
        return has_terms and not any(_occurs(banned, text) for banned in forbidden)

    def kept_spans(self, text: bytes) -> list[bytes]:
        """Return the spans of a text that are kept."""
        return self.tracker.extractor.texts(text)

    def _read(self, source: bytes) -> LineParts:
        """Return the parts of a line.

        A term inside a span does not count; a span inside a term is part of the term.
        """
        spans = self.tracker.extractor.spans(source)
        if self.glossary is None:
            return LineParts(spans, [], ())
        terms: dict[str, tuple[int, tuple[bytes, ...]]] = {}
        forbidden: dict[bytes, None] = {}
        left, of_terms, at = list[Span](), list[Span](), 0
        for begin, end, term in self.glossary.find(source):  # from left to right, as the spans
            while at < len(spans) and spans[at].end <= begin:
                left.append(spans[at])
                at += 1
            after = at  # the first span after the term
            while after < len(spans) and spans[after].begin < end:
                after += 1
            if at < after and (spans[at].begin < begin or end < spans[after - 1].end):
                continue
            if term.forms:
                of_terms.append(Span(begin, end, ""))
                at = after
                terms.setdefault(term.source, (begin, _forms(term.forms)))
            forbidden.update((text.encode(), None) for text in term.forbidden)
        return LineParts(sorted(left + spans[at:] + of_terms), list(terms.values()), tuple(forbidden))


class TagPosition(NamedTuple):
    """The position of a span relative to the others; see RequiredItem for the fields."""

    within: int = ANYWHERE
    next_within: int = ANYWHERE
    after: int = -1
    closes: bool = False


def tag_positions(spans: Sequence[bytes]) -> list[TagPosition]:
    """Return where each span of a source may stand in a translation, so that its elements nest as before.

    A tag without a partner stands in the element in which it stood, after the other such tags there. Void
    elements and text that is no tag may stand anywhere.
    """
    tags = [parse_tag(span.decode()) for span in spans]
    partner = partners(tags)
    positions, within = [TagPosition() for _ in spans], ROOT
    last_unpaired: dict[int, int] = {}  # by element: the last tag in it without a partner
    parents: dict[int, int] = {}  # by opening tag: the element around it
    for index, tag in enumerate(tags):
        if tag is None:
            continue
        if index not in partner:
            positions[index] = TagPosition(within, ANYWHERE, last_unpaired.get(within, -1))
            last_unpaired[within] = index
        elif partner[index] > index:
            parents[index] = within
            positions[index] = TagPosition(within, index)
            within = index
        else:
            within = parents[partner[index]]
            positions[index] = TagPosition(partner[index], within, -1, True)
    return positions


def _in_order(items: Sequence[RequiredItem], begins: Sequence[int]) -> tuple[RequiredItem, ...]:
    """Return items in the order in which they begin in the source, with `after` adapted to it."""
    order = sorted(range(len(items)), key=begins.__getitem__)
    index = {at: number for number, at in enumerate(order)} | {-1: -1}
    return tuple(items[at]._replace(after=index[items[at].after]) for at in order)


def _forms(forms: Sequence[str]) -> tuple[bytes, ...]:
    """Return target forms, and the same with a capital for the beginning of a sentence."""
    capital = [form[0].upper() + form[1:] for form in forms if len(form[0].upper()) == 1]
    return tuple(form.encode() for form in dict.fromkeys((*forms, *capital)))


def _occurs(text: bytes, within: bytes) -> bool:
    """Return whether a text occurs in another one: not inside a word, where it begins or ends like one."""
    at = within.find(text)
    while at >= 0:
        before = within[max(0, at - LONGEST_CHARACTER) : at]
        after = within[at + len(text) : at + len(text) + 1]
        is_inside_word = before and begins_wordlike(text) and ends_wordlike(before)
        if not is_inside_word and not (after and ends_wordlike(text) and begins_wordlike(after)):
            return True
        at = within.find(text, at + 1)
    return False
