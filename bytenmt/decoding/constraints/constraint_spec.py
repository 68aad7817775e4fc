"""Build the constraint of a line from its kept spans and glossary terms, and check translations for them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bytenmt.decoding.constraints.constraint import SEPARATOR, Constraint, RequiredItem
from bytenmt.decoding.constraints.glossary import Glossary
from bytenmt.decoding.constraints.span_tracker import SpanTracker, span_tracker
from bytenmt.decoding.constraints.text_reader import TextReader
from bytenmt.decoding.constraints.words import begins_wordlike, ends_wordlike
from bytenmt.decoding.setting_table import GLOSSARY_MATCHES, INFLECTED
from bytenmt.errors import SettingError
from bytenmt.kernel_constants import ANYWHERE, ROOT
from bytenmt.spans.extractor import Span, has_letters
from bytenmt.spans.grammar import CLASSES, parse_tag, partners
from bytenmt.utf8 import LONGEST_CHARACTER

if TYPE_CHECKING:
    from bytenmt.decoding.interface import Request

CACHED = 2048  # lines whose parts are remembered: they are needed to cut, to translate and to check a line
# A full stop or the like, and quotes such as » after it; and the bytes in which it is looked for.
SENTENCE_END, LONGEST_END = re.compile(rb"(?:[.!?]|\xe2\x80\xa6)[\"')\]\x80-\xff]*\s*\Z"), 12
BEGINNINGS = b"<{"  # of tags and placeholders
# Flags of a translation: LIMIT, required items were written out because the room got short; UNMET, it lacks
# something that is required, or has something more; PLACEMENT, required items stand at its end and do not
# belong there, as those for which the search found no place; or an element has lost the words in it.
LIMIT, UNMET, PLACEMENT = "limit", "unmet", "placement"


class RequiredTerm(NamedTuple):
    """A glossary term in a line.

    begin, end: of its first occurrence. forms: target forms, of which one is required. is_inflected: whether
    the line has an inflected form of the term; then the target form may be inflected, too, that is, a longer
    word may begin with it.
    """

    begin: int
    end: int
    forms: tuple[bytes, ...]
    is_inflected: bool


class LineParts(NamedTuple):
    """The parts of a source line that constraints are made of.

    spans: kept spans, and glossary terms as spans without a class; forbidden: target texts that must not
    occur.
    """

    spans: list[Span]
    terms: list[RequiredTerm]
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
        cls, keep: Any = (), keep_pattern: Any = (), glossary: Any = None, glossary_match: str = INFLECTED
    ) -> ConstraintSpec | None:
        """Return the constraints for these settings, or None if nothing is set.

        keep: names of classes of spans, as one text with commas or as several. keep_pattern: one regular
        expression or several. glossary: a file or a Glossary. glossary_match: whether terms of a file match
        INFLECTED forms of the source, too, or EXACT ones alone. Raises SettingError, and DataError for a file
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
        if glossary_match not in GLOSSARY_MATCHES:
            raise SettingError(
                f"glossary_match is {glossary_match!r}: expected {' or '.join(GLOSSARY_MATCHES)}"
            )
        if not keep and not patterns and glossary is None:
            return None
        if isinstance(glossary, Glossary):
            return cls(keep, patterns, glossary)
        if glossary is None:
            return cls(keep, patterns)
        return cls(
            keep, patterns, Glossary.from_file(Path(glossary), glossary_match == INFLECTED), str(glossary)
        )

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
                RequiredItem(
                    text,
                    group,
                    len(text) + SEPARATOR,
                    binding,
                    *position,
                    begins=begins_at,
                    source_begin=begins[group],
                    source_end=begins[group] + len(text),
                )
            )
        for group, term in enumerate(terms, len(items)):
            begins += [term.begin] * len(term.forms)
            reserved = max(map(len, term.forms)) + SEPARATOR
            for number, form in enumerate(term.forms):
                cost = 0 if number else reserved
                needs_word_end = ends_wordlike(form) and not term.is_inflected
                binding, begins_at = self.tracker.first_complete(form), self.tracker.may_begin(form)
                items.append(
                    RequiredItem(
                        form,
                        group,
                        cost,
                        binding,
                        needs_word_end=needs_word_end,
                        begins=begins_at,
                        source_begin=term.begin,
                        source_end=term.end,
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

    def flags(self, request: Request, text: bytes, is_past_end: bool = False) -> tuple[str, ...]:
        """Return which of LIMIT, UNMET and PLACEMENT hold for a translation.

        is_past_end: see Hypothesis.
        """
        constraint, limit = request.constraint, request.limit
        short = constraint.is_short
        if not short and len(text) + constraint.n_pending_bytes >= limit:  # else there was room for all
            reader = TextReader(self.tracker, constraint, limit, len(request.prefix))
            short = reader.read(text).is_squeezed
        source = request.source or b""
        misplaced = not short and (
            self._is_end_misplaced(source, text, is_past_end) or self._is_element_emptied(source, text)
        )
        return (LIMIT,) * short + (UNMET,) * (not self.is_met(source, text)) + (PLACEMENT,) * misplaced

    def tag_flags(self, source: bytes, text: bytes) -> tuple[str, ...]:
        """Return which of UNMET and PLACEMENT hold for paired tags that were put into a translation."""
        is_emptied = self._is_element_emptied(source, text)
        return (UNMET,) * (not self.is_met(source, text)) + (PLACEMENT,) * is_emptied

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
            inside = Counter(span for term in terms for form in term.forms for span in self.kept_spans(form))
            if set(written - kept) - set(inside) - set(of_terms):
                return False
        has_terms = all(
            any(_occurs(form, text, is_whole=not term.is_inflected) for form in term.forms) for term in terms
        )
        return has_terms and not any(_occurs(banned, text) for banned in forbidden)

    def _is_end_misplaced(self, source: bytes, text: bytes, is_past_end: bool) -> bool:
        """Return whether a translation ends with a span or term that does not belong there.

        That is a span which text follows in the source, or which stands after a sentence in the translation
        alone; or a term which text follows in the source, where the search had to write it (is_past_end).
        """
        spans, terms, _ = self._parts(source)
        if kept := [span for span in spans if span.of]:
            last, is_after_end = _last_spans(text, self.tracker.extractor.spans(text))
            last_in_source, is_after_end_of_source = _last_spans(source, kept)
            if last - last_in_source or (is_after_end and not is_after_end_of_source):
                return True
        ends = {form: term.end for term in terms for form in term.forms}
        form = max((form for form in ends if text.rstrip().endswith(form)), key=len, default=None)
        after = b"" if form is None or not is_past_end else source[ends[form] :]
        return has_letters(after, self.tracker.extractor.spans(after))

    def _is_element_emptied(self, source: bytes, text: bytes) -> bool:
        """Return whether an element has words in the source and none in the translation."""
        spans = [span for span in self._parts(source).spans if span.of]
        filled = _filled_elements(source, spans)
        return bool(filled and filled - _filled_elements(text, self.tracker.extractor.spans(text)))

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
        terms: dict[str, RequiredTerm] = {}
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
                text = source[begin:end].decode()
                is_inflected = term.source not in (text, text.lower())
                first = terms.get(term.source, RequiredTerm(begin, end, _forms(term.forms), is_inflected))
                terms[term.source] = first._replace(is_inflected=first.is_inflected or is_inflected)
            forbidden.update((text.encode(), None) for text in term.forbidden)
        return LineParts(sorted(left + spans[at:] + of_terms), list(terms.values()), tuple(forbidden))


def _last_spans(line: bytes, spans: Sequence[Span]) -> tuple[Counter[bytes], bool]:
    """Return the spans of a line that no letters follow, and whether one of them stands after a sentence.

    Numbers and closing tags do not count: other words may enclose them.
    """
    last, is_after_end, end = Counter[bytes](), False, len(line)
    for span in reversed(spans):
        if has_letters(line[span.end : end], ()):
            break
        text, end = line[span.begin : span.end], span.begin
        if span.of != "numbers" and not text.startswith(b"</"):
            last[text] += 1
            is_after_end |= SENTENCE_END.search(line, max(0, end - LONGEST_END), end) is not None
    return last, is_after_end


def _filled_elements(line: bytes, spans: Sequence[Span]) -> Counter[bytes]:
    """Return how often the line has elements with letters in them, by their opening tags."""
    tags = [line[span.begin : span.end] for span in spans]
    partner = partners([parse_tag(tag.decode()) for tag in tags])
    pieces = [line[one.end : other.begin] for one, other in pairwise(spans)]  # between two spans
    n_filled = list(accumulate((has_letters(piece, ()) for piece in pieces), initial=0))
    return Counter(tags[i] for i, end in partner.items() if i < end and n_filled[end] > n_filled[i])


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


def _occurs(text: bytes, within: bytes, is_whole: bool = True) -> bool:
    """Return whether a text occurs in another one: not inside a word, where it begins or ends like one.

    is_whole: whether a word may not go on after it.
    """
    at = within.find(text)
    while at >= 0:
        before = within[max(0, at - LONGEST_CHARACTER) : at]
        after = within[at + len(text) : at + len(text) + 1]
        is_inside_word = before and begins_wordlike(text) and ends_wordlike(before)
        goes_on = is_whole and after and ends_wordlike(text) and begins_wordlike(after)
        if not is_inside_word and not goes_on:
            return True
        at = within.find(text, at + 1)
    return False
