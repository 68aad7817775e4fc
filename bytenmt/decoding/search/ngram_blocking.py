"""Block n-grams (Paulus et al. 2018): no n characters occur twice in a text."""

from __future__ import annotations

from typing import Any

from bytenmt.decoding.search.state import SearchParams
from bytenmt.jit import compiled
from bytenmt.utf8 import ACCEPT, N_IDS


@compiled
def block_ngrams(text: Any, params: SearchParams, utf8: int, allowed: Any, blocked: Any) -> None:
    """Forbid bytes that would complete an n-gram (n characters) that the text already contains.

    Sets allowed[byte] = False for them in `allowed` (256,) bool, unless no byte would be left. n:
    params.ngram. text (t,) uint8: the bytes so far. utf8: the state of the UTF-8 automaton after
    them. blocked (256,) bool: working memory, overwritten.
    """
    start = last_characters(text, params.ngram - 1, utf8)
    if start < 0:
        return
    width = len(text) - start
    for byte in range(N_IDS):
        blocked[byte] = False
    for earlier in range(len(text) - width):
        if is_continuation(text[earlier]) or not is_repeated(text, earlier, start):
            continue
        # The same bytes end at the same place in a character; does the next byte finish it?
        byte = text[earlier + width]
        if params.utf8_next[utf8, byte] == ACCEPT:
            blocked[byte] = True
    is_left = False
    for byte in range(N_IDS):
        is_left = is_left or (allowed[byte] and not blocked[byte])
    if is_left:
        for byte in range(N_IDS):
            allowed[byte] = allowed[byte] and not blocked[byte]


@compiled
def last_characters(text: Any, n: int, utf8: int) -> int:
    """Return the offset at which the last n characters of a text begin; -1 if it has fewer.

    text (t,) uint8. utf8: the state of the UTF-8 automaton after it. An unfinished character at the
    end is not counted.
    """
    start = len(text)
    while utf8 != ACCEPT and start > 0:
        start -= 1
        if not is_continuation(text[start]):
            break
    for _ in range(n):
        if start == 0:
            return -1
        start -= 1
        while is_continuation(text[start]):
            start -= 1
    return start


@compiled
def is_continuation(byte: int) -> bool:
    """Return whether a byte is not the first one of its character in UTF-8."""
    return byte & 0xC0 == 0x80


@compiled
def is_repeated(text: Any, earlier: int, start: int) -> bool:
    """Return whether the bytes from offset `start` to the end also stand at offset `earlier`."""
    for i in range(len(text) - start):  # noqa: SIM110 (Numba compiles no generators)
        if text[earlier + i] != text[start + i]:
            return False
    return True
