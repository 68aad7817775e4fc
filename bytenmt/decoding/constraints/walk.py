"""A text read under a constraint, byte by byte, in plain Python: what is still owed behind it.

The engines step the same numbers in their own ways; this one reads prefixes, and finished texts for what is
told of them. Knows no probabilities.
"""

from __future__ import annotations

from bytenmt.decoding.constraints.constraint import Constraint, Item
from bytenmt.decoding.constraints.nesting import ANYWHERE
from bytenmt.decoding.constraints.span_tracker import SpanTracker
from bytenmt.spans.grammar import WORDLIKE


class Walk:
    """Where a text stands. squeezed: whether it was, at some place, to write out what it owed."""

    def __init__(self, tracker: SpanTracker, constraint: Constraint, limit: int, n_prefix: int = 0) -> None:
        """The first n_prefix bytes are those that the constraint knows already."""
        self._tracker, self._constraint, self._limit, self._n_prefix = tracker, constraint, limit, n_prefix
        self._items = constraint.items
        self.owed = [item.owed for item in self._items]
        self.states, self.inside, self.squeezed = constraint.states or tracker.start, constraint.inside, False
        self._track: list[int] = []  # items of which the last bytes are the beginning
        self._offset = self._n_read = 0

    def read(self, text: bytes) -> Walk:
        """Go on by a text."""
        for byte in text:
            if self._n_read >= self._n_prefix:
                self._take(byte)
            self._n_read += 1
        return self

    def rest(self) -> Constraint:
        """What is owed behind the text, which ends here."""
        self._complete(0x20)
        items = tuple(item._replace(owed=owed) for item, owed in zip(self._items, self.owed, strict=True))
        return self._constraint._replace(items=items, states=self.states, inside=self.inside)

    def may(self, index: int) -> bool:
        """Whether an item may stand here."""
        item = self._items[index]
        if not self.owed[index]:
            return False
        if item.within == ANYWHERE:
            return True
        if item.within != self.inside or (item.after >= 0 and self.owed[item.after]):
            return False
        others = sum(
            owed and other.within == self.inside for other, owed in zip(self._items, self.owed, strict=True)
        )
        return not item.closes or others == 1

    def _ended(self) -> int:
        """The item that is complete here, or -1."""
        return next((i for i in self._track if len(self._items[i].text) == self._offset and self.may(i)), -1)

    def _take(self, byte: int) -> None:
        n = self._offset
        onward = [i for i in self._track if len(self._items[i].text) > n and self._items[i].text[n] == byte]
        onward = [i for i in onward if self.may(i)]
        reserved = self._reserved()
        if not onward:
            self._complete(byte)
            self._track = [
                i
                for i, item in enumerate(self._items)
                if item.text[0] == byte and self.may(i) and self._may_begin(item) and byte & 0xC0 != 0x80
            ]
            if any(self.owed) and self._limit - self._n_read - min(reserved, self._reserved()) < 1:
                self.squeezed = True
        self._offset = n + 1 if onward else int(bool(self._track))
        if onward:
            self._track = onward
        self.states = self._tracker.step(self.states, byte)

    def _may_begin(self, item: Item) -> bool:
        """Whether no span that has begun before could end inside an item that begins here."""
        return not item.begins or all(item.begins[state] for state in self.states)

    def _reserved(self) -> int:
        return sum(item.cost for item, owed in zip(self._items, self.owed, strict=True) if owed)

    def _complete(self, byte: int) -> None:
        """An item that ended before this byte is met."""
        at = self._ended()
        if at < 0 or (self._items[at].right and byte in WORDLIKE):
            return
        item = self._items[at]
        for i, other in enumerate(self._items):
            if other.group == item.group:
                self.owed[i] = False
        if item.leads != ANYWHERE:
            self.inside = item.leads
        self._track, self._offset = [], 0
