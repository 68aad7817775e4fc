"""Look-up of drafts in plain Python, as the reference for the compiled one (decoding/drafts/lookup.py)."""

from __future__ import annotations

from typing import NamedTuple

from reference_hash import hash_ngram

from bytenmt.decoding.drafts.table import CHAIN, LONGEST_MATCH, ORDERS, DraftTable


class Draft(NamedTuple):
    """Drafted bytes, and for each the chance in 255ths that it and all before it are accepted."""

    text: bytes
    reach: tuple[int, ...]


NO_DRAFT = Draft(b"", ())


def tag_of(h: int) -> int:
    """Return the tag by which a slot identifies its owner, never 0. h: hash of the context."""
    return h & 0xFFFFFFFF | 1


def draft(table: DraftTable, word: int, source: bytes | None = None) -> Draft:
    """Return what is drafted after a text: the table's chain, or the source's bytes if their reach is larger.

    word: see reference_hash.word_of. source: without EOS; None if there is none.
    """
    chain = draft_from_table(table, word)
    copied = draft_from_source(table, word, source) if source is not None else NO_DRAFT
    return copied if sum(copied.reach) > sum(chain.reach) else chain


def draft_from_table(table: DraftTable, word: int) -> Draft:
    """Return the chain of the longest context that has a slot."""
    shift = 64 - (len(table.tag).bit_length() - 1)
    for order in ORDERS:
        h = hash_ngram(word, order)
        slot = h >> shift
        if int(table.tag[slot]) == tag_of(h):
            reach = [value for value in table.reach[slot].tolist() if value]
            chain = int(table.chain[slot]).to_bytes(CHAIN, "little")
            return Draft(chain[: len(reach)], tuple(reach))
    return NO_DRAFT


def draft_from_source(table: DraftTable, word: int, source: bytes) -> Draft:
    """Return what follows the longest match of the text's end in the source, the last of equal matches."""
    last = word.to_bytes(8, "big")
    length, at = 0, 0
    for end in range(1, len(source)):
        n_same = 0
        while n_same < min(end, LONGEST_MATCH) and source[end - 1 - n_same] == last[7 - n_same]:
            n_same += 1
        if n_same and n_same >= length:
            length, at = n_same, end
    reach = [value for value in table.copy[length].tolist() if value]
    text = source[at : at + len(reach)] if length else b""
    return Draft(text, tuple(reach[: len(text)]))
