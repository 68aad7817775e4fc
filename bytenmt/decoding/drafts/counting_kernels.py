"""Kernels that count a draft table.

All positions of the text are sorted by the bytes that follow them, and then by their context, byte by byte.
So equal contexts stand together and, among them, equal continuations. A chain is built by taking the most
frequent next byte again and again. `where` and `origin` are counting.Positions of targets and of sources,
`table` is a table.DraftTable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.decoding.drafts.lookup import find_entry, find_match, slot_of, tag_of
from bytenmt.jit import njit
from bytenmt.ngram_hash import hash_ngram


@njit
def fill_positions(
    data: Any, bounds: Any, starts: Any, before: Any, eos: Any, word: Any, following: Any
) -> None:
    """Positions.from_texts: data (bytes,) uint8, bounds (m + 1,) of the texts in it."""
    for text in range(len(starts) - 1):
        first, length = bounds[text], bounds[text + 1] - bounds[text]
        n = starts[text + 1] - starts[text]
        last = before
        for j in range(n):
            word[starts[text] + j] = last
            if j < length:
                last = last << np.uint64(8) | np.uint64(data[first + j])
        ahead = np.uint64(0)
        for j in range(max(n, length) - 1, -1, -1):
            byte = np.uint64(data[first + j]) if j < length else np.uint64(eos)
            ahead = ahead >> np.uint64(8) | byte << np.uint64(56)
            if j < n:
                following[starts[text] + j] = ahead


@njit
def radix_sort(order: Any, keys: Any, shift: Any, out: Any) -> None:
    """Sort positions `order` (n,) to `out` by the byte at bit `shift` of keys (n,) uint64: a stable radix
    pass."""
    places = np.zeros(257, np.int64)
    bits = np.uint64(shift)
    for i in range(len(order)):
        places[np.int64(keys[order[i]] >> bits & np.uint64(255)) + 1] += 1
    for byte in range(256):
        places[byte + 1] += places[byte]
    for i in range(len(order)):
        digit = np.int64(keys[order[i]] >> bits & np.uint64(255))
        out[places[digit]] = order[i]
        places[digit] += 1


@njit
def common_prefix_len(a: Any, b: Any) -> Any:
    """Return how many bytes two continuations (uint64, first byte highest) begin with in common."""
    differ = a ^ b
    n = 0
    while n < 8 and differ >> np.uint64(56) == np.uint64(0):
        n += 1
        differ = differ << np.uint64(8)
    return n


@njit
def chain_of(order: Any, following: Any, low: Any, high: Any, eos: Any, counts: Any) -> Any:
    """Return the chain of the positions order[low:high], in the format of `following`.

    counts (CHAIN + 1,): written to; how many positions there are, and how many continue with its first j
    bytes.
    """
    counts[:] = 0
    counts[0] = high - low
    chain = np.uint64(0)
    for j in range(len(counts) - 1):
        bits = np.uint64(56 - 8 * j)
        most, most_low, at = 0, low, low
        while at < high:
            byte = following[order[at]] >> bits & np.uint64(255)
            end = at + 1
            while end < high and following[order[end]] >> bits & np.uint64(255) == byte:
                end += 1
            if end - at > most:
                most, most_low = end - at, at
            at = end
        byte = following[order[most_low]] >> bits & np.uint64(255)
        chain |= byte << bits
        counts[j + 1] = most
        low, high = most_low, most_low + most
        if byte == np.uint64(eos):
            break
    return chain


@njit
def write_slot(table: Any, slot: Any, h: Any, chain: Any, counts: Any, discount: Any) -> None:
    """Write a context to a slot. h: its hash; chain, counts: see chain_of."""
    table.tag[slot] = tag_of(h)
    table.chain[slot] = 0
    for j in range(len(counts) - 1):
        reach = max(0, 255 * (100 * counts[j + 1] - discount)) // (100 * counts[0])
        table.reach[slot, j] = reach
        if reach:
            byte = chain >> np.uint64(56 - 8 * j) & np.uint64(255)
            table.chain[slot] |= byte << np.uint64(8 * j)


@njit
def assign_slots(
    order: Any,
    where: Any,
    chains: Any,
    drafted: Any,
    value: Any,
    table: Any,
    settings: Any,
) -> None:
    """Give contexts of k bytes the slots whose owners are worth less.

    order (n,): positions sorted by context and continuation. chains, drafted (n,): the chain of a shorter
    context for each position, and how many of its bytes are worth their price; both are updated.
    value (slots,) int64: the worth of each owner: hundredths of the bytes that it gets right, less their
    price, beyond what shorter contexts get right. discount, price: in hundredths.
    """
    k, mask, discount, price, eos = settings
    counts = np.zeros(table.reach.shape[1] + 1, np.int64)
    low = 0
    while low < len(order):
        key = where.word[order[low]] & mask
        high = low + 1
        while high < len(order) and where.word[order[high]] & mask == key:
            high += 1
        if high - low > 1:
            chain = chain_of(order, where.following, low, high, eos, counts)
            n, worth = 0, 0
            while n < len(counts) - 1 and 100 * counts[n + 1] - discount > price * counts[0]:
                n += 1
                worth += 100 * counts[n] - discount - price * counts[0]
            for i in range(low, high):
                at = order[i]
                right = common_prefix_len(chains[at], where.following[at])
                worth -= 100 * min(np.int64(drafted[at]), right) - price * np.int64(drafted[at])
            if worth > 0:
                for i in range(low, high):
                    chains[order[i]], drafted[order[i]] = chain, n
                h = hash_ngram(key, k)
                slot = slot_of(h, len(value))
                if worth > value[slot]:
                    value[slot] = worth
                    write_slot(table, slot, h, chain, counts, discount)
        low = high


@njit
def count_copies(where: Any, origin: Any, sources: Any, counts: Any) -> None:
    """Count how many next bytes of a target equal those of its source, by the length of the match before.

    counts (LONGEST_MATCH + 1, CHAIN + 1): [n, j] is how often the next j bytes are equal after a match of n
    bytes. where, origin: targets and sources, line by line; sources (n,) uint8: the bytes of origin.
    """
    for line in range(len(where.starts) - 1):
        first, end = origin.starts[line], origin.starts[line + 1] - 1
        for at in range(where.starts[line], where.starts[line + 1]):
            ahead, length = find_match(sources[first:end], where.word[at])
            after = first + ahead
            counts[length, 0] += 1
            right = common_prefix_len(origin.following[after], where.following[at])
            for j in range(min(right, end - after)):
                counts[length, j + 1] += 1


@njit
def count_hits(where: Any, origin: Any, sources: Any, table: Any, hits: Any) -> None:
    """Count how often the first j + 1 bytes of drafts are right: hits (CHAIN,). See count_copies."""
    for line in range(len(where.starts) - 1):
        first, end = origin.starts[line], origin.starts[line + 1] - 1
        for at in range(where.starts[line], where.starts[line + 1]):
            word, ahead = where.word[at], where.following[at]
            right, n, total = 0, 0, 0
            slot = find_entry(table.tag, word)
            while slot >= 0 and n < len(hits) and table.reach[slot, n]:
                byte = table.chain[slot] >> np.uint64(8 * n) & np.uint64(255)
                if right == n and ahead >> np.uint64(56 - 8 * n) & np.uint64(255) == byte:
                    right += 1
                total += table.reach[slot, n]
                n += 1
            offset, length = find_match(sources[first:end], word)
            after = first + offset
            n, copied = 0, 0
            while n < min(len(hits), end - after) and table.copy[length, n]:
                copied += table.copy[length, n]
                n += 1
            if copied > total:
                right = min(n, common_prefix_len(origin.following[after], ahead))
            for j in range(right):
                hits[j] += 1
