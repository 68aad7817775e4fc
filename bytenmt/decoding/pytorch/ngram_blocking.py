"""The repetition guard: which bytes would complete n characters that the text already has in a row.

Knows characters as UTF-8 has them; does not know which bytes are allowed otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bytenmt.utf8 import N_IDS


class Guard(NamedTuple):
    """text (n, T, b) uint8: each beam's bytes, reordered with the beams. common (n, T, b) int32: [i, j, k] is
    in how many bytes the text before its byte j and the whole text end alike."""

    text: Tensor
    common: Tensor

    @staticmethod
    def begin(n: int, width: int, b: int) -> Guard:
        """Empty texts."""
        text = torch.zeros(n, width, b, dtype=torch.uint8)
        return Guard(text, torch.zeros(n, width, b, dtype=torch.int32))

    def go_on(self, byte: Tensor, parent: Tensor, at: Tensor) -> Guard:
        """byte (n, b) uint8 is put at `at` (n, 1, b) int64 behind the text of beam parent (n, b) int64."""
        source = parent[:, None].expand_as(self.text)
        text, common = self.text.gather(2, source), self.common.gather(2, source)
        longer = (common + 1).masked_fill(text != byte[:, None], 0)[:, :-1]
        common = torch.cat([torch.zeros_like(common[:, :1]), longer], dim=1)
        return Guard(text.scatter(1, at, byte[:, None]), common)


def banned(guard: Guard, step: Tensor, within: Tensor, n_characters: int) -> Tensor:
    """step (n,) int64: bytes of the texts; within (n, b) bool: inside a character -> (n, b, 256) bool, the
    bytes that went on from here before. Whether they complete a character is for the caller to see."""
    text, common = guard
    n, width, b = text.shape
    before_end = (torch.arange(width, device=text.device) < step[:, None])[:, :, None]
    starts = ((text & 0xC0) != 0x80) & before_end
    # after: characters that begin at a byte or later; the tail is the last n - 1 and what was begun.
    after = starts.sum(dim=1, keepdim=True) - starts.cumsum(dim=1) + starts.long()
    wanted = (n_characters - 1 + within.long())[:, None]
    n_before = ((after >= wanted) & before_end).sum(dim=1, keepdim=True) + (wanted == 0).long()
    tail = step[:, None, None] + 1 - n_before  # bytes; more than there are where the characters are too few
    again = (common >= tail) & before_end
    # Bytes that do not count go to a column past the last one.
    column = text.long().masked_fill(~again, N_IDS).transpose(1, 2)
    found = torch.zeros(n, b, N_IDS + 1, dtype=torch.bool, device=text.device)
    return found.scatter(2, column, torch.ones_like(again).transpose(1, 2))[:, :, :N_IDS]
