"""Tables of hashed byte n-grams: a lexical memory that is added to the byte embedding.

    e_i = E[x_i] + sum over n of T_n[hash(x_{i-n+1} … x_i)]

T_n (rows, d) holds a vector for every hash value of the last n bytes (ngram_hash.py); different
n-grams may share a row; one more table may hold a vector for the beginning of each word, up to the
byte itself. All T_n start at zero. Hash embeddings are of Svenstrup et al. 2017 (1709.03933), those
of byte n-grams of the byte latent transformer (Pagnoni et al. 2024, 2412.09871, section 3.2.1).

An update reads few of the rows, so a gradient of the size of the tables would be almost all zeros:
backward collects the gradients of the rows that were read, and training/row_adam.py updates those
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bytenmt.ngram_hash import (
    LAST_OF_WORD,
    MIX,
    N_BYTES,
    PER_BYTE,
    PER_ORDER,
    SPREAD,
    WORD,
    WORD_ORDER,
)
from bytenmt.splitmix import signed
from bytenmt.utf8 import BOS

N_POWERS = 1024  # bytes whose word hashes are computed at once, by a power for each

# The last bytes that a decoder has read, (rows, 8) uint8, the newest last; with a table of words
# also the hash of the word's beginning that they end with, (rows,) int64, see ngram_hash.py; ()
# without tables.
RecentBytes = tuple[Tensor, ...]


class RowGradients(NamedTuple):
    """The gradient of one forward pass of NgramTables over t bytes."""

    rows: Tensor  # (t, tables) int64: the rows of `weight` that were summed for each byte
    gradient: Tensor  # (t, d): the gradient of each sum


class NgramTables(nn.Module):
    """Embeds the n-grams that end at each byte: a table of hashed n-grams for each n in `orders`.

    orders: growing numbers from 2 to 8. n_rows: of each table, a power of two. n_word_rows: of one
    more table, hashed by the bytes of a word up to the current one, a power of two; 0: no such
    table. d_embedding: numbers of a row. fold_case: hash A to Z as a to z. weight (len(orders) *
    n_rows + n_word_rows, d_embedding): all tables, concatenated. `weight.grad` stays None: each
    backward pass appends to the list `gradients`, which training empties.
    """

    # The powers of the factor by which the hash of a word grows with each byte, and their inverses.
    powers: Tensor  # (N_POWERS + 1,) int64: PER_BYTE ** i modulo 2 ** 64
    inverses: Tensor  # (N_POWERS,) int64: PER_BYTE ** -i modulo 2 ** 64

    def __init__(
        self,
        d_embedding: int,
        orders: Sequence[int],
        n_rows: int,
        fold_case: bool = False,
        n_word_rows: int = 0,
    ) -> None:
        super().__init__()
        self.orders = tuple(orders)
        self.n_rows = n_rows
        self.fold_case = fold_case
        self.n_word_rows = n_word_rows
        self.weight = nn.Parameter(
            torch.zeros(len(self.orders) * n_rows + n_word_rows, d_embedding)
        )
        self.gradients: list[RowGradients] = []
        # Held here, not in a cache that could free them: a captured CUDA graph reads them again.
        powers, inverses = _powers(N_POWERS)
        self.register_buffer("powers", powers, persistent=False)
        self.register_buffer("inverses", inverses, persistent=False)

    def start(self, rows: int, device: torch.device) -> RecentBytes:
        """Return `recent` for the start of texts (`rows` of them), a tuple.

        It has the last bytes (rows, 8) uint8, all BOS, and with n_word_rows a hash (rows,), 0.
        """
        recent = torch.full((rows, N_BYTES), BOS, dtype=torch.uint8, device=device)
        hashes = torch.zeros(rows, dtype=torch.int64, device=device)
        return (recent, hashes) if self.n_word_rows else (recent,)

    def forward(self, ids: Tensor, recent: RecentBytes) -> Tensor:
        """Return (rows, t, d_embedding): the sum of the vectors of the n-grams ending at each byte.

        ids (rows, t) uint8; recent: the bytes before them, from `start` or ByteEmbedding.advance.
        """
        rows = self.row_numbers(ids, recent).flatten(0, 1)
        summed: Tensor = _SumRows.apply(self.weight, rows, self.gradients)  # type: ignore[no-untyped-call]
        return summed.view(*ids.shape, -1)

    def row_numbers(self, ids: Tensor, recent: RecentBytes) -> Tensor:
        """Return the rows of `weight` that are summed for each byte: (rows, t, tables) int64.

        ids (rows, t) uint8; recent: the bytes before them, from `start` or ByteEmbedding.advance.
        There is a table for each of `orders`, and one more of words if n_word_rows > 0.
        """
        t = ids.shape[1]
        text = torch.cat([recent[0], ids], dim=1)
        text = (_fold_case(text) if self.fold_case else text).long()
        numbers: list[Tensor] = []
        key = torch.zeros_like(text[:, N_BYTES:])
        mask = 0
        for n in range(1, max(self.orders) + 1):
            begin = N_BYTES + 1 - n
            key = key | text[:, begin : begin + t] << (8 * (n - 1))
            mask = mask << 8 | 0xFF
            if n in self.orders:
                numbers.append(_hash_rows(key, n, self.n_rows) + len(numbers) * self.n_rows)
        if self.n_word_rows:
            words = _hash_rows(self.prefix_hashes(ids, recent[1]), WORD_ORDER, self.n_word_rows)
            numbers.append(words + len(numbers) * self.n_rows)
        return torch.stack(numbers, dim=-1)

    def prefix_hashes(self, ids: Tensor, before: Tensor) -> Tensor:
        """Return the hash of the word so far at each byte of ids (rows, t) uint8: (rows, t) int64.

        It is 0 at a byte that is part of no word (see is_word_byte), otherwise a hash of the word's
        bytes up to this one. before (rows,) int64: the hash at the byte before ids, 0 at the start.
        """
        parts = []
        for part in torch.split(ids, N_POWERS, dim=1):
            parts.append(self._short_prefix_hashes(part, before))
            before = parts[-1][:, -1]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _short_prefix_hashes(self, ids: Tensor, before: Tensor) -> Tensor:
        """Return prefix_hashes of at most N_POWERS bytes.

        With P = PER_BYTE, h_i = P h_{i-1} + x_i inside a word, so that h_i = P^i (S_i - S_r), where
        S_i is the sum of x_j P^-j up to i and r the last byte that is part of no word; without such
        a byte P^(i+1) times the hash before is added. int64 wraps around, as arithmetic modulo 2 **
        64 does.
        """
        t = ids.shape[1]
        text = _fold_case(ids)
        in_word = is_word_byte(text)
        powers = self.powers[: t + 1]
        inverses = self.inverses[:t]
        x = torch.where(in_word, text.long() + 1, 0)
        sums = F.pad((x * inverses).cumsum(dim=1), (1, 0))
        places = torch.arange(1, t + 1, device=ids.device).expand_as(ids)
        last_outside = torch.where(in_word, 0, places).cummax(dim=1).values
        hashes = (sums[:, 1:] - sums.gather(1, last_outside)) * powers[:t]
        return hashes + torch.where(last_outside == 0, powers[1:] * before[:, None], 0)


def _fold_case(ids: Tensor) -> Tensor:
    """Return bytes with A to Z as a to z."""
    return torch.where((ids >= ord("A")) & (ids <= ord("Z")), ids + 32, ids)


def is_word_byte(ids: Tensor) -> Tensor:
    """Return a mask of the bytes, uint8, in words: ASCII letters, digits and 0x80 to 0xF4."""
    lower = ids | 32
    is_letter = (lower >= ord("a")) & (lower <= ord("z"))
    is_digit = (ids >= ord("0")) & (ids <= ord("9"))
    return is_letter | is_digit | ((ids >= 0x80) & (ids <= LAST_OF_WORD))


def _hash_rows(key: Tensor, order: int, n_rows: int) -> Tensor:
    """Return the row, below n_rows, of keys of an order, int64 of any shape; see ngram_hash.py."""
    h = (key ^ signed(order * PER_ORDER & WORD)) * signed(SPREAD)
    h = (h ^ ((h >> 32) & 0xFFFFFFFF)) * signed(MIX)
    # A shift of int64 repeats the sign bit; mask all but the highest bits.
    return (h >> (64 - n_rows.bit_length() + 1)) & (n_rows - 1)


def _powers(t: int) -> tuple[Tensor, Tensor]:
    """Return PER_BYTE ** i, (t + 1,), and the inverses of the first t, (t,), modulo 2 ** 64."""
    inverse = pow(PER_BYTE, -1, 1 << 64)
    up = [1]
    down = [1]
    for _ in range(t):
        up.append(up[-1] * PER_BYTE & WORD)
        down.append(down[-1] * inverse & WORD)
    return torch.tensor([*map(signed, up)]), torch.tensor([*map(signed, down[:t])])


class _SumRows(torch.autograd.Function):
    """Sum the rows (t, orders) of weight (v, d); return (t, d).

    The backward pass appends RowGradients to a list instead of computing a gradient of the weight.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: Tensor, gradients: list[RowGradients]) -> Tensor:
        ctx.rows = rows
        ctx.gradients = gradients
        return F.embedding_bag(rows, weight, mode="sum")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        ctx.gradients.append(RowGradients(ctx.rows, gradient.contiguous()))
        return None, None, None
