"""How a search chooses among the bytes of a text that owes something: what it favours, and what it ranks by.

Knows probabilities; what is owed, and what each byte leaves owed, is told by constraints.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bytenmt.decoding.constraints.words import BLANK
from bytenmt.decoding.interface import CLOSING_COST, OPEN_WITHIN
from bytenmt.decoding.pytorch.constraints import CLOSING, Bytes, Owing, View
from bytenmt.utf8 import EOS


def chances(log_p: Tensor, masked: Tensor, bytes_: Bytes, sample: bool) -> Tensor:
    """By what a text chooses its byte, in place of masked (n, b, 256): what the end would have had goes to
    what must come before it, and greedy search favours what is owed. log_p (n, b, 256): without the mask."""
    at = bytes_.instead.clamp(min=0)[:, :, None]
    own, end = masked.gather(2, at), log_p[:, :, EOS:]
    more = torch.logaddexp(own, end) if sample else torch.maximum(own, end)
    heeded = (bytes_.instead >= 0)[:, :, None] & (own > -torch.inf) & (end > -torch.inf)
    masked = masked.scatter(2, at, torch.where(heeded, more, own))
    return masked if sample else masked + OPEN_WITHIN * bytes_.favoured


def firm(
    log_p: Tensor, masked: Tensor, bytes_: Bytes, byte: Tensor, sample: bool, cost: float = 0.0
) -> Tensor:
    """How a track goes on with a byte (n, b) int64: firmly where it was chosen for the sake of what is owed,
    and to the end where the text had come to its end. (n, b) int64. cost: of what comes in place of the end.
    See chances and ranks."""
    own = masked.gather(2, byte[:, :, None])[:, :, 0]
    end = log_p[:, :, EOS] - cost * (byte != BLANK)
    closing = (byte == bytes_.instead) & (end > own)
    better = torch.zeros_like(closing) if sample else own < masked.amax(dim=2)
    return torch.where(closing, CLOSING, better.long())


def ranks(log_p: Tensor, masked: Tensor, view: View, bytes_: Bytes) -> Tensor:
    """By what a beam search ranks the bytes, in place of masked (n, b, 256), so that texts are compared that
    owe different numbers of bytes: where something is owed, bytes that leave no choice cost nothing, and what
    comes in place of an end costs what the end would and CLOSING_COST: where that is less than its own, and a
    blank, which is likely behind any sentence, wherever the end is likelier."""
    there = masked > -torch.inf
    alone = (there.sum(dim=2) == 1) & (view.n_owed > 0)
    costs = masked.masked_fill(there & alone[:, :, None], 0.0)
    at = bytes_.instead.clamp(min=0)[:, :, None]
    own, end = costs.gather(2, at), log_p[:, :, EOS:]
    heeded = (bytes_.instead >= 0)[:, :, None] & (own > -torch.inf) & (end > -torch.inf)
    closing = (end - CLOSING_COST > own) | ((at == BLANK) & (end > own))
    return costs.scatter(2, at, torch.where(heeded & closing, end - CLOSING_COST, own))


def kept(owing: Owing, bytes_: Bytes) -> Tensor:
    """A beam's credit by each byte: (n, b, 256) float64. It is for what is being written, which would fall
    behind texts that are not there yet; once that is written the log-probability alone says whether it stood
    where it belongs. But what comes in place of the end stands at the end in any text."""
    stays = bytes_.onward | (owing.firm == CLOSING)[:, :, None]
    return owing.credit[:, :, None] * stays
