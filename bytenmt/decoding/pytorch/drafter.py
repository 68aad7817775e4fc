"""Drafts on the device: which bytes are drafted behind each text, and how many at once pay.

The look-ups of table.Table for all texts and all orders of context at once, in int64, which wraps as uint64
does. All shapes are constant and nothing waits for the device. Knows no models, nor how a draft is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bytenmt.decoding.interface import Options, Request
from bytenmt.decoding.pytorch.beams import Beams
from bytenmt.ngram_hash import KEYS, MIX, PER_ORDER, SPREAD, WORD
from bytenmt.speculative.table import (
    CHAIN,
    LONGEST_MATCH,
    ORDERS,
    Speculation,
)
from bytenmt.splitmix import signed
from bytenmt.utf8 import BOS, PAD

WIDTHS = (2, 4, 8)  # drafted bytes a pass of which the best is measured; one costs as much as two
# Prices are noisy: they are measured in turn, until so many seconds and rounds are spent; the least counts.
ENOUGH, ROUNDS, MOST_ROUNDS = 0.05, 2, 10
CLOSE = 0.8  # of the best bytes a second: what promises less in the first round is not measured again
MARGIN = 1.05  # a width must promise so many times the bytes a second without drafts: prices are noisy
LOW = (1 << 32) - 1
NO_TEXT = signed(int.from_bytes(bytes([PAD] * 8), "big"))  # a word that no text ends with


class Sources(NamedTuple):
    """What can be copied from the sources, w columns: one a byte, or more.

    before (n, w) int64: the 8 bytes before each byte, the newest lowest, exclusive or NO_TEXT, so that zero
    matches no text; after (n, w) int64: the 8 bytes from it on, the first lowest; left (n, w) int64: how many
    of these there are.
    """

    before: Tensor
    after: Tensor
    left: Tensor

    @staticmethod
    def of(requests: Sequence[Request], device: torch.device) -> Sources | tuple[()]:
        """Nothing where the requests have no source."""
        sources = [request.source for request in requests if request.source is not None]
        if not sources:
            return ()
        length = np.array([len(source) for source in sources])[:, None]
        w = max(1, int(length.max()))
        filling = bytes([PAD]) * 8
        rows = b"".join(filling + source.ljust(w, bytes([PAD])) + filling for source in sources)
        padded = np.frombuffer(rows, np.uint8).reshape(len(sources), w + 16)
        words = np.lib.stride_tricks.sliding_window_view(padded, 8, axis=1)
        before, after = (
            words[:, :w].copy().view(">i8")[:, :, 0],
            words[:, 8 : 8 + w].copy().view("<i8")[:, :, 0],
        )
        left = (length - np.arange(w)).clip(0, CHAIN)
        before = np.where(left > 0, before, NO_TEXT) ^ NO_TEXT
        parts = (before.astype(np.int64), after.astype(np.int64), left.astype(np.int64))
        return Sources(*(torch.from_numpy(part).to(device) for part in parts))


class Drafter:
    """Drafts `width` bytes behind every text of one beam."""

    def __init__(self, speculation: Speculation, width: int, device: torch.device) -> None:
        self.width = width
        self.bytes_a_pass = 1 + float(speculation.table.accepted[:width].sum())  # as many are expected
        table = speculation.table

        def constant(values: object) -> Tensor:
            return torch.tensor(values, dtype=torch.int64).to(device)

        # tag, chain, worth (slots,) int64: of the table, worth is the sum of a slot's reach.
        self._tag = torch.from_numpy(table.tag.astype(np.int64)).to(device)
        self._chain = torch.from_numpy(table.chain.astype(np.uint64).view(np.int64)).to(device)
        self._worth = torch.from_numpy(table.reach.sum(axis=1, dtype=np.int64)).to(device)
        sums = np.pad(table.copy.astype(np.int64).cumsum(axis=1), ((0, 0), (1, 0)))
        # (LONGEST_MATCH + 1, CHAIN + 1) int64: what a match is worth behind which so many bytes are left.
        self._copied = torch.from_numpy(sums).to(device)
        self._shift = min(64 - (len(table.tag).bit_length() - 1), 63)
        self._slots = len(table.tag) - 1
        # Per order: the mask of the context, and what tells the orders apart.
        self._keys = constant([signed(KEYS[order]) for order in ORDERS])
        self._orders = constant([signed(order * PER_ORDER & WORD) for order in ORDERS])
        self._matches = constant([signed(KEYS[length]) for length in range(1, LONGEST_MATCH + 1)])
        self._back = constant(range(8, 0, -1))
        self._newest_lowest = constant(range(56, -8, -8))
        self._ahead = constant(range(width))
        self._first_lowest = self._ahead * 8

    def __call__(self, beams: Beams, sources: Sources | tuple[()]) -> Tensor:
        """The drafted bytes: (n, width) int64. Where the prefix forces bytes, these; what stands behind them,
        and behind a draft that is shorter, is any bytes."""
        word = self.words(beams)
        chain, worth = self.continued(word)
        if sources:
            copied, copied_worth = self.copied(word, sources)
            chain = torch.where(copied_worth > worth, copied, chain)
        bytes_ = (chain >> self._first_lowest) & 0xFF
        at = (beams.step[:, None] + self._ahead).clamp(max=beams.forced.shape[1] - 1)
        forced = beams.forced.gather(1, at)
        return torch.where(forced > 0, forced - 1, bytes_)

    def words(self, beams: Beams) -> Tensor:
        """The last 8 bytes of each text, as ngram_hash.word_of: (n, 1) int64."""
        at = beams.step[:, None] - self._back
        last = beams.history.byte[:, :, 0].gather(1, at.clamp(0, beams.history.byte.shape[1] - 1)).long()
        return (last.masked_fill(at < 0, BOS) << self._newest_lowest).sum(dim=1, keepdim=True)

    def continued(self, word: Tensor) -> tuple[Tensor, Tensor]:
        """The table's chain behind each word (n, 1) and its worth: (n, 1) int64 both."""
        h = ((word & self._keys) ^ self._orders) * signed(SPREAD)
        h = (h ^ ((h >> 32) & LOW)) * signed(MIX)
        slot = (h >> self._shift) & self._slots
        found = self._tag[slot] == (h & LOW | 1)
        # Of the orders that are found the first; a maximum's index is that of the first one.
        first, index = found.to(torch.int64).max(dim=1, keepdim=True)
        slot = slot.gather(1, index)
        return self._chain[slot], self._worth[slot] * first

    def copied(self, word: Tensor, sources: Sources) -> tuple[Tensor, Tensor]:
        """What follows the longest match of each word (n, 1) in its source, the last of equal ones, and its
        worth: (n, 1) int64 both."""
        w = sources.before.shape[1]
        differing = (sources.before ^ (word ^ NO_TEXT))[:, :, None] & self._matches
        length = (differing == 0).sum(dim=2)
        best = (length * w + torch.arange(w, device=word.device)).amax(dim=1, keepdim=True)
        at = best % w
        worth = self._copied[torch.div(best, w, rounding_mode="floor"), sources.left.gather(1, at)]
        return sources.after.gather(1, at), worth


def check(speculation: Speculation | None, options: Options) -> None:
    """Raises ValueError for a search that has no drafts."""
    if speculation is not None and (options.beam > 1 or options.no_repeat_ngram_size):
        raise ValueError(f"{options}: drafts are for one beam and no repetition guard")


def drafter_of(speculation: Speculation, width: int, device: torch.device) -> Drafter | None:
    """None: nothing is drafted."""
    return Drafter(speculation, width, device) if width else None


def best_width(accepted: npt.NDArray[np.float32], price: Callable[[int], float]) -> int:
    """How many bytes to draft a pass, 0: none. accepted (CHAIN,): see table.Table; price: seconds of a pass
    that reads so many drafted bytes, measured anew at each call; a wider one costs no less."""
    yields = 1 + np.pad(accepted.astype(float), (1, 0)).cumsum()  # bytes that are expected of a pass
    if yields[-1] <= MARGIN:
        return 0
    yields[0] *= MARGIN
    least: dict[int, float] = {}
    tried: Sequence[int] = (0, *WIDTHS)
    best, spent = 0, 0.0
    for n_rounds in range(1, MOST_ROUNDS + 1):
        for width in tried:
            cost = price(width)
            spent += cost
            least[width] = min(cost, least.get(width, cost))
            best = max(least, key=lambda m: yields[m] / least[m])
            if yields[-1] / least[width] < yields[best] / least[best]:
                break  # what is wider does not pay either
        if spent > ENOUGH:
            enough = CLOSE * yields[best] / least[best]
            # What came first may have paid for what a process does once.
            tried = [m for m in sorted(least) if m == 0 or yields[m] / least[m] > enough]
            if n_rounds >= ROUNDS or tried == [0]:
                break
    return best


def seconds(run: Callable[[], None], device: torch.device) -> float:
    """Of one run, more than 0; of the CPU those of this process alone, because others may use it too."""
    on_cpu = device.type == "cpu"
    begin = process_time() if on_cpu else perf_counter()
    run()
    if not on_cpu:
        torch.cuda.synchronize(device)
    # The clock of a process whose CPU time is limited moves in ticks, which are longer than a pass.
    return max((process_time() if on_cpu else perf_counter()) - begin, 1e-9)
