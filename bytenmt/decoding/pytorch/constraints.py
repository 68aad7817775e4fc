"""Constraints on the device: what each beam owes, and which bytes go on; see decoding/constraints.

What is owed is followed softly: a byte with which an item begins may be a byte of plain text, until it is one
that plain text may not have; from then on the item is written to its end, as it is where what was written of
it is a span of its own, the 3 of 3.1. Where room is left for no byte but those that are owed, they are
written out in the order of the source. All shapes are constant and nothing waits for the device. Knows
neither probabilities nor models; its twin is decoding/cpu/search/constraints.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bytenmt.decoding.constraints.constraint import Constraint, Size, numbers
from bytenmt.decoding.constraints.nesting import ANYWHERE
from bytenmt.decoding.constraints.span_tracker import SEPARATORS, SpanTracker
from bytenmt.decoding.constraints.words import BLANK, TAB, TAG, symbols, wordlike
from bytenmt.utf8 import ACCEPT, EOS, LONGEST_CHARACTER, N_IDS


class Owing(NamedTuple):
    """What n sentences owe, see constraint.Numbers, and what each of b beams owes still.

    owed (n, k, b) bool; track (n, k, b) bool: the items of which the last `offset` (n, b) int64 bytes are the
    beginning; spans (n, b, c) int64: states of the parts of the span tracker; inside, banned (n, b) int64: of
    tags, of what is forbidden;
    firm (n, b) int64: SOFT, FIRM: the track is not left, or CLOSING: nothing but what is owed comes any more.
    before (n, b) int64: the byte before, a blank at the beginning.
    credit (n, b) float64: what a beam search ranks a text better for than by its log-probability, see ranks.
    """

    text: Tensor
    first: Tensor
    length: Tensor
    cost: Tensor
    group: Tensor
    binding: Tensor
    within: Tensor
    leads: Tensor
    after: Tensor
    closes: Tensor
    right: Tensor
    begins: Tensor
    ban: Tensor
    shut: Tensor
    owed: Tensor
    track: Tensor
    offset: Tensor
    spans: Tensor
    inside: Tensor
    banned: Tensor
    firm: Tensor
    before: Tensor
    credit: Tensor

    @staticmethod
    def of(constraints: Sequence[Constraint], b: int, size: Size) -> Owing:
        """Before the first byte; size: of the arrays."""
        made = numbers(constraints, size)
        n = len(constraints)
        parts = {name: torch.from_numpy(part) for name, part in made._asdict().items()}
        owed = parts.pop("owed")[:, :, None].repeat(1, 1, b)
        zero = torch.zeros(n, b, dtype=torch.int64)
        states, inside = (
            parts.pop("states")[:, None].repeat(1, b, 1),
            parts.pop("inside")[:, None].repeat(1, b),
        )
        return Owing(
            **parts,
            owed=owed,
            track=torch.zeros_like(owed),
            offset=zero,
            spans=states,
            inside=inside,
            banned=zero.clone(),
            firm=zero.clone(),
            before=torch.full_like(zero, BLANK),
            credit=zero.double(),
        )

    def beams(self, parent: Tensor) -> Owing:
        """The same of these beams (n, b) int64."""
        over = parent[:, None].expand(-1, self.owed.shape[1], -1)
        many = {"owed": self.owed.gather(2, over), "track": self.track.gather(2, over)}
        each = {name: getattr(self, name).gather(1, parent) for name in OF_BEAMS}
        spans = self.spans.gather(1, parent[:, :, None].expand(-1, -1, self.spans.shape[2]))
        return self._replace(**many, **each, spans=spans)


OF_BEAMS = ("offset", "inside", "banned", "firm", "before", "credit")
SOFT, FIRM, CLOSING = 0, 1, 2  # of a track


class View(NamedTuple):
    """What may happen at a step. For each beam, (n, b): ends: an item is complete, and by a byte that does
    not go on with another one it is met; word: not by one that goes on its last word; bound: an item must be
    written on; n_owed and n_left int64: groups that are owed, before and after an item that is complete;
    reserved int64: bytes for the latter. For each item, (n, k, b): onward, with `next` uint8; owed, may: what
    is owed, and may begin, after that. inside (n, b): see Owing."""

    ends: Tensor
    word: Tensor
    bound: Tensor
    n_owed: Tensor
    n_left: Tensor
    reserved: Tensor
    onward: Tensor
    next: Tensor
    owed: Tensor
    may: Tensor
    inside: Tensor


class Bytes(NamedTuple):
    """Of the next byte, each (n, b, 256) bool: allowed; onward: it goes on with an item; begins: one;
    favoured: of these, but for letters that begin one, which are too many. instead (n, b) int64: the byte
    that comes in place of an end that may not come yet, or -1."""

    allowed: Tensor
    onward: Tensor
    begins: Tensor
    favoured: Tensor
    instead: Tensor


class Rulebook:
    """The span tracker's tables on one device."""

    def __init__(self, tracker: SpanTracker, may: Tensor, device: torch.device) -> None:
        """may (5, N_STATES, 256) bool: see utf8.allowed_bytes."""

        def there(part: np.ndarray) -> Tensor:
            return torch.from_numpy(part).to(device)

        self._follow, self._free = there(tracker.follow), there(tracker.free)
        self._separators, self._next_separators = there(tracker.separators), there(tracker.next_separators)
        self._complete = there(tracker.complete)
        self._separator_bytes = torch.tensor(list(SEPARATORS), device=device)
        self._bit = 1 << torch.arange(len(SEPARATORS), dtype=torch.int32, device=device)
        self._wordlike, self._symbol = there(wordlike()), there(symbols())
        self._may = may.to(device)
        self._is_end = torch.arange(N_IDS, device=device) == EOS

    def view(self, owing: Owing) -> View:
        """Where the beams stand."""
        may = _may(owing, owing.owed, owing.inside)
        offset = owing.offset[:, None]
        track = owing.track & may & (offset > 0)
        length = owing.length[:, :, None]
        complete = track & (length == offset)
        ends, which = complete.max(dim=1)
        met = owing.group[:, :, None] == owing.group.gather(1, which)[:, None]
        owed = owing.owed & ~(met & ends[:, None])
        leads = owing.leads.gather(1, which)
        inside = torch.where(ends & (leads != ANYWHERE), leads, owing.inside)
        onward = track & (length > offset)
        at = (owing.first[:, :, None] + offset).clamp(max=owing.text.shape[1] - 1)
        goes_on = onward.any(dim=1)
        binds = (onward & (owing.binding[:, :, None] <= offset)).any(dim=1)
        return View(
            ends,
            ends & owing.right.gather(1, which),
            goes_on & ~ends & ((owing.firm > SOFT) | binds | ~self._is_free(owing)),
            _sum(owing, owing.owed, ones=True),
            _sum(owing, owed, ones=True),
            _sum(owing, owed),
            onward,
            owing.text.gather(1, at.flatten(1)).view_as(at),
            owed,
            _may(owing, owed, inside),
            inside,
        )

    def bytes(self, owing: Owing, view: View, automaton: Tensor, room: Tensor) -> Bytes:
        """Which bytes may come. automaton (n, b) int64: see utf8; room (n,) int64: bytes that are left."""
        left = room[:, None] - view.reserved
        free = self._may[left.clamp(0, LONGEST_CHARACTER), automaton]
        free = free & (_in_common(self._free, owing.spans) != 0)
        free = free & ~view.bound[:, :, None] & ~owing.shut[:, None]
        last = (automaton == ACCEPT) & (view.n_left == 0) & ~view.bound
        free[:, :, EOS].copy_(free[:, :, EOS] & last)
        # A word that goes on leaves its item owed, which then needs room again.
        tight = room[:, None] - _sum(owing, owing.owed) < LONGEST_CHARACTER
        free = free & ~((view.word & tight)[:, :, None] & self._wordlike)

        onward = _as_bytes(view.onward, view.next)
        first = owing.text.gather(1, owing.first.clamp(max=owing.text.shape[1] - 1))[:, :, None]
        fresh = _may_begin(owing) & ((automaton == ACCEPT) & ~view.bound)[:, None]
        begins = _as_bytes(view.may & fresh, first.expand_as(view.may))

        # Where nothing else fits: the first item that may come, or what must stand before it; a blank does,
        # but before tags, and where there is no room.
        closing = owing.firm == CLOSING
        squeezed = ((left < 1) | closing) & view.may.any(dim=1)
        free = torch.where((closing & last)[:, :, None], free & self._is_end, free)
        main = view.may & (owing.cost > 0)[:, :, None]
        which = (2 * (main & fresh).int() + main.int()).max(dim=1).indices  # the first that can begin here
        target = first[:, :, 0].long().gather(1, which)
        can = fresh.gather(1, which[:, None])[:, 0] | ~main.any(dim=1)
        separators = _in_common(self._separators, owing.spans)
        touches = main.any(dim=1) & (target != TAG) & (owing.before != BLANK) & (owing.before != TAB)
        touches = (
            touches
            & (automaton == ACCEPT)
            & ~view.bound
            & ((separators & 1) != 0)  # a blank, the first of them
            & (left > 0)
        )
        separators = torch.where(separators == 0, _in_common(self._next_separators, owing.spans), separators)
        best = ((separators[:, :, None] & self._bit) != 0).int().argmax(dim=2)
        target = torch.where(can, target, self._separator_bytes[best])
        target = torch.where(touches, BLANK, target)
        within, which = (view.onward & ~view.ends[:, None]).max(dim=1)
        target = torch.where(within, view.next.gather(1, which[:, None])[:, 0].long(), target)
        only = torch.zeros_like(free).scatter(2, target[:, :, None], torch.ones_like(free[:, :, :1]))
        instead = ((automaton == ACCEPT) | within) & view.may.any(dim=1)
        allowed = torch.where(squeezed[:, :, None], only, free | onward | begins)
        allowed = allowed & ((room > 0)[:, None, None] | self._is_end)
        ban = owing.ban.gather(1, owing.banned[:, :, None].expand(-1, -1, N_IDS)) < 0
        strict = allowed & ~ban
        allowed = torch.where(strict.any(dim=2, keepdim=True), strict, allowed)
        favoured = onward | (begins & self._symbol)
        return Bytes(allowed, onward, begins & ~onward, favoured, torch.where(instead, target, -1))

    def take(
        self, owing: Owing, view: View, automaton: Tensor, byte: Tensor, held: Tensor, firm: Tensor
    ) -> Owing:
        """Every beam takes a byte (n, b) int64. held (n, 1) bool: of the prefix, which owing knows already.
        firm (n, b) int64: how the track goes on, see Owing. All are of one order of beams."""
        onward = view.onward & (view.next == byte[:, None])
        goes_on = onward.any(dim=1)
        met = view.ends & ~goes_on & ~(view.word & self._wordlike[byte])
        owed = torch.where(met[:, None], view.owed, owing.owed)
        inside = torch.where(met, view.inside, owing.inside)
        first = owing.text.gather(1, owing.first.clamp(max=owing.text.shape[1] - 1))[:, :, None]
        fresh = _may_begin(owing) & ((automaton == ACCEPT) & ~goes_on)[:, None]
        begun = view.may & (first == byte[:, None]) & fresh & owed
        offset = torch.where(goes_on, owing.offset + 1, begun.any(dim=1).long())
        after = self._follow[owing.spans, byte[:, :, None]]
        ban = owing.ban.gather(1, owing.banned[:, :, None].expand(-1, -1, N_IDS))
        banned = ban.gather(2, byte[:, :, None])[:, :, 0].clamp(min=0).long()
        kept = owing.firm * (goes_on | (owing.firm == CLOSING))
        return owing._replace(
            owed=torch.where(held[:, None], owing.owed, owed),
            track=torch.where(held[:, None], owing.track, onward | begun),
            offset=torch.where(held, owing.offset, offset),
            spans=torch.where(held[:, :, None], owing.spans, after),
            inside=torch.where(held, owing.inside, inside),
            banned=banned,
            before=byte,
            firm=torch.where(held, owing.firm, torch.maximum(firm, kept)),
        )

    def _is_free(self, owing: Owing) -> Tensor:
        """Whether what was written could be plain text: no span is complete, and items may still come."""
        complete = self._complete[owing.spans].any(dim=2)
        return ~complete & (_in_common(self._separators, owing.spans) != 0)

    def left(self, view: View, bytes_: Bytes) -> Tensor:
        """Groups that are owed behind each byte, one that is being written not counted: (n, b, 256) int64."""
        going = view.n_owed[:, :, None] - 1
        other = view.n_left[:, :, None] - bytes_.begins.long()
        return torch.where(bytes_.onward, going, other)


def along(owings: Sequence[Owing], column: Tensor) -> Owing:
    """Of states that follow each other those of each sentence's column (n, 1) int64; of one beam."""

    def at(name: str) -> Tensor:
        stacked = torch.stack([getattr(owing, name) for owing in owings], dim=-1)
        index = column.view(-1, *[1] * (stacked.dim() - 1)).expand(*stacked.shape[:-1], 1)
        return stacked.gather(-1, index)[..., 0]

    return owings[0]._replace(**{name: at(name) for name in ("owed", "track", "spans", *OF_BEAMS)})


def _in_common(table: Tensor, spans: Tensor) -> Tensor:
    """The bits that the rows of all parts' states have in common: table (q, ...), spans (n, b, c) ->
    (n, b, ...)."""
    found = table[spans[:, :, 0]]
    for part in range(1, spans.shape[2]):
        found = found & table[spans[:, :, part]]
    return found


def _may_begin(owing: Owing) -> Tensor:
    """Whether no span that has begun could end inside an item: (n, k, b) bool."""
    n, k, _ = owing.begins.shape
    of_parts = owing.begins.gather(2, owing.spans.flatten(1)[:, None].expand(-1, k, -1))
    return of_parts.view(n, k, *owing.spans.shape[1:]).all(dim=3)


def _may(owing: Owing, owed: Tensor, inside: Tensor) -> Tensor:
    """The items that may stand next: owed (n, k, b) bool, inside (n, b) -> (n, k, b) bool."""
    within, own = owing.within[:, :, None], owing.within[:, :, None] == inside[:, None]
    before = owed.gather(1, owing.after.clamp(min=0)[:, :, None].expand_as(owed))
    before = before & (owing.after >= 0)[:, :, None]
    alone = (owed & own).sum(dim=1, keepdim=True) == 1
    return owed & ((within == ANYWHERE) | (own & ~before & (alone | ~owing.closes[:, :, None])))


def _sum(owing: Owing, owed: Tensor, ones: bool = False) -> Tensor:
    """What is reserved for what is owed (n, k, b); ones: the number of groups. (n, b) int64."""
    cost = (owing.cost > 0).long() if ones else owing.cost
    return (owed * cost[:, :, None]).sum(dim=1)


def _as_bytes(items: Tensor, byte: Tensor) -> Tensor:
    """The bytes of these items: items (n, k, b) bool, byte (n, k, b) uint8 -> (n, b, 256) bool."""
    column = byte.long().masked_fill(~items, N_IDS).transpose(1, 2)
    n, b, _ = column.shape
    found = torch.zeros(n, b, N_IDS + 1, dtype=torch.bool, device=items.device)
    return found.scatter(2, column, torch.ones_like(column, dtype=torch.bool))[:, :, :N_IDS]
