"""Find the spans of a line, in time linear in its length.

1. Each class finds its spans alone: from left to right, at each place the longest. No span begins inside a
   word.
2. Of spans of several classes that overlap, the longest wins, then the earliest. What is left of a loser on
   either side of the winner is searched again, for spans of its own class.
3. Where bytes of a loser stay without a span, the whole cluster of overlapping spans is one span. So a class
   that is added never takes a byte away: what is kept with some classes is kept with these and others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from bytenmt.spans.automata import DEAD, N_BYTES, Automaton
from bytenmt.spans.grammar import WORDS, SpanClass, named_class, pattern_class

MAX_SETS = 5000  # that a scanner remembers
SET = N_BYTES  # where a node has its set
LAST_IS_LETTER = re.compile(rb"(?:[0-9A-Za-z_]|[\xc3-\xdf][\x80-\xbf])\Z")
Node = list[Any]


class Span(NamedTuple):
    """line[begin:end], in bytes, is a span of the class `of`."""

    begin: int
    end: int
    of: str


class ClassScanner:
    """Finds the leftmost longest matches of a class, in time linear in the text.

    A scan from the left alone would read on behind each beginning in vain, to the end of the text in the
    worst case. So a text is first read from the right: for each place, the set of states from which some
    match ends further on. The second scan then stops where its match ends. Sets are integers: a bit a state.
    """

    def __init__(self, of: SpanClass) -> None:
        self._follow, accepting = of.automaton
        states = range(len(self._follow))
        # For each byte: the states with a transition, as (bit of the state, bit of its target).
        self._edges = [
            [(1 << s, 1 << self._follow[s][b]) for s in states if self._follow[s][b] != DEAD]
            for b in range(N_BYTES)
        ]
        self._accepting = sum(1 << s for s in states if accepting[s])
        # Matches lie in runs of bytes that have transitions; `_separators` turns all other bytes into zeros.
        self._separators = bytes(1 if edges else 0 for edges in self._edges)
        # Each match of an alternative has one of its first bytes, and the bytes that all its matches have.
        first_bytes = [[b for b in range(N_BYTES) if part.follow[0][b] != DEAD] for part in of.parts]
        needed_bytes = [_needed(part) for part in of.parts]
        self._needed = [
            [re.compile(_any_of(first))] + [re.compile(_any_of([b])) for b in needed]
            for first, needed in zip(first_bytes, needed_bytes, strict=True)
        ]
        # Only runs with an anchor are looked at: the byte of each alternative that is rarest in text.
        anchors = [
            [min(needed, key=_is_letter_or_digit)] if needed else first
            for first, needed in zip(first_bytes, needed_bytes, strict=True)
        ]
        self._anchors = re.compile(_any_of(sorted({b for some in anchors for b in some})))
        self._nodes = {0: _node(0)}

    def find(self, text: bytes) -> list[tuple[int, int]]:
        """Return begin and end of the matches, in order; none begins inside a word."""
        matches: list[tuple[int, int]] = []
        anchor = self._anchors.search(text)
        if anchor is None:
            return matches
        separators = text.translate(self._separators)
        end = 0
        while anchor is not None:
            begin = max(end, separators.rfind(b"\0", end, anchor.start()) + 1)
            end = separators.find(b"\0", anchor.end())
            end = len(text) if end < 0 else end
            run = text[begin:end]
            if any(all(byte.search(run) for byte in needed) for needed in self._needed):
                self._find_in_run(run, begin, text, matches)
            anchor = self._anchors.search(text, end)
        return matches

    def _find_in_run(self, part: bytes, first: int, text: bytes, matches: list[tuple[int, int]]) -> None:
        """Append the matches of a run, which begins at text[first]."""
        if len(self._nodes) > MAX_SETS:
            self._nodes = {0: _node(0)}
        node = self._nodes[0]
        nodes = [node]  # of each place, from the last one to the first
        for byte in reversed(part):
            node = node[byte] or self._step(node, byte)
            nodes.append(node)
        nodes.reverse()
        follow, behind = self._follow, 0
        inside: bytearray | None = None
        for begin, node in enumerate(nodes):
            if not node[SET] & 1 or begin < behind:
                continue
            if inside is None:
                inside = _inside_words(text, first, first + len(part))
            if inside[begin]:
                continue
            state, at = 0, begin
            while nodes[at][SET] >> state & 1:
                state = follow[state][part[at]]
                at += 1
            matches.append((first + begin, first + at))
            behind = at

    def _step(self, node: Node, byte: int) -> Node:
        """Return the node of the set before a byte, given that of the set behind it."""
        good = node[SET] | self._accepting
        before = sum(bit for bit, to in self._edges[byte] if to & good)
        following = node[byte] = self._nodes.setdefault(before, _node(before))
        return following


class SpanExtractor:
    """Finds the spans of some classes, see the module.

    >>> line = b"mail 5 people at x@y.org"
    >>> [line[span.begin : span.end] for span in span_extractor(("emails", "numbers")).spans(line)]
    [b'5', b'x@y.org']
    """

    def __init__(self, classes: Sequence[SpanClass]) -> None:
        self.classes = tuple(classes)
        self._scanners = [ClassScanner(one) for one in classes]

    def spans(self, line: bytes) -> list[Span]:
        """Return the spans of a line, in order; they do not overlap."""
        found = [
            (begin, end, number)
            for number, scanner in enumerate(self._scanners)
            for begin, end in scanner.find(line)
        ]
        found.sort(key=lambda one: (one[0], -one[1], one[2]))
        spans: list[Span] = []
        first = 0
        while first < len(found):  # a cluster: spans each of which overlaps one before it
            end, behind = found[first][1], first + 1
            while behind < len(found) and found[behind][0] < end:
                end = max(end, found[behind][1])
                behind += 1
            spans += self._resolve(line, found[first:behind])
            first = behind
        return spans

    def spans_of_text(self, text: str) -> list[Span]:
        """Return the spans of a text with their places in characters; lone surrogates are of no span."""
        line = text.encode("utf-8", "surrogatepass")
        found = self.spans(line)
        if text.isascii():
            return found
        spans, at, n_characters = list[Span](), 0, 0
        for begin, end, of in found:
            first = n_characters + len(line[at:begin].decode("utf-8", "surrogatepass"))
            at, n_characters = end, first + len(line[begin:end].decode())
            spans.append(Span(first, n_characters, of))
        return spans

    def texts(self, line: bytes) -> list[bytes]:
        """Return the spans of a line as texts, in order."""
        return [line[span.begin : span.end] for span in self.spans(line)]

    def _resolve(self, line: bytes, cluster: list[tuple[int, int, int]]) -> list[Span]:
        """Return the spans of a cluster of overlapping ones (begin, end, class), by their beginning."""
        first, last = cluster[0][0], max(end for _, end, _ in cluster)
        heap = [(begin - end, begin, number) for begin, end, number in cluster]
        heapify(heap)
        longest = heap[0]
        whole = Span(first, last, self.classes[longest[2]].name)
        if longest[0] == first - last:
            return [whole]
        owner = [0] * (last - first)  # of each byte: 1 + the index of the winner that has it, or 0
        winners: list[Span] = []
        while heap:
            negative, begin, number = heappop(heap)
            end = begin - negative
            # Winners are at least as long as this span: one that overlaps has its first or its last byte.
            left, right = owner[begin - first], owner[end - 1 - first]
            if left or right:
                low = winners[left - 1].end if left else begin
                high = winners[right - 1].begin if right else end
                for b, e in self._scanners[number].find(line[low:high]):
                    heappush(heap, (b - e, low + b, number))
                continue
            winners.append(Span(begin, end, self.classes[number].name))
            owner[begin - first : end - first] = [len(winners)] * (end - begin)
        return sorted(winners) if all(owner) else [whole]


@lru_cache(maxsize=64)
def span_extractor(classes: tuple[str, ...], patterns: tuple[str, ...] = ()) -> SpanExtractor:
    """Return the extractor of some of CLASSES and of patterns of the user's. Raises SettingError.

    Of equal spans of several classes that of a pattern wins, then that of the earlier class.
    """
    return SpanExtractor([*map(pattern_class, patterns), *map(named_class, classes)])


def _node(states: int) -> Node:
    """Return a set of states with the sets before it: by each byte a node, None where it is not known yet."""
    return [*[None] * N_BYTES, states]


def _inside_words(text: bytes, begin: int, end: int) -> bytearray:
    """Return 1 for each byte of text[begin:end] behind the first one of a word, 0 for the others."""
    inside = bytearray(end - begin)
    for word in WORDS.finditer(text, begin, end):
        low, high = word.start() - begin, word.end() - begin
        inside[low + 1 : high] = b"\1" * (high - low - 1)
        if not low and LAST_IS_LETTER.search(text[max(0, begin - 2) : begin]):
            inside[0] = 1
    return inside


def _is_letter_or_digit(byte: int) -> bool:
    return chr(byte).isalnum()


def has_letters(text: bytes, spans: Sequence[Span]) -> bool:
    """Return whether a text, valid UTF-8, has letters or digits outside of its spans."""
    ends, begins = [0, *(span.end for span in spans)], [*(span.begin for span in spans), len(text)]
    outside = b"".join(text[end:begin] for end, begin in zip(ends, begins, strict=True))
    return any(map(str.isalnum, outside.decode()))


def _any_of(some: Iterable[int]) -> bytes:
    """Return the regular expression of these bytes."""
    return b"[%s]" % b"".join(b"\\x%02x" % byte for byte in some)


def _needed(automaton: Automaton) -> list[int]:
    """Return the bytes that every match has."""
    columns = list(zip(*automaton.follow, strict=True))
    alike = Counter(columns)  # of bytes that no state tells apart, none is needed
    return [b for b in range(N_BYTES) if alike[columns[b]] == 1 and not _matches_without(automaton, b)]


def _matches_without(automaton: Automaton, byte: int) -> bool:
    """Return whether some match has no such byte."""
    reached, waiting = {0}, [0]
    while waiting:
        row = automaton.follow[waiting.pop()]
        for other, state in enumerate(row):
            if state != DEAD and other != byte and state not in reached:
                if automaton.accepting[state]:
                    return True
                reached.add(state)
                waiting.append(state)
    return False
