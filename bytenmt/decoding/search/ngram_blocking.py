"""n-gram blocking (Paulus et al. 2018): no n characters occur twice in a text."""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.decoding.search.state import SearchParams
from bytenmt.jit import allocating
from bytenmt.utf8 import ACCEPT, N_IDS


@allocating
def block_ngrams(text: Any, params: SearchParams, utf8: int, allowed: Any) -> None:
    """Set allowed[byte] = False for bytes that would complete n characters that the text already
    contains.

    If none would be left, all stay. n is params.ngram. text (t,) uint8: the bytes so far. utf8: the
    state of the UTF-8 automaton after them. allowed (256,) bool.
    """
    begun = len(text)  # where the unfinished character begins
    while utf8 != ACCEPT and begun > 0:
        begun -= 1
        if text[begun] & 0xC0 != 0x80:
            break
    start = begun  # of the last n - 1 characters
    for _ in range(params.ngram - 1):
        if start == 0:
            return
        start -= 1
        while text[start] & 0xC0 == 0x80:
            start -= 1
    width = len(text) - start
    blocked = np.zeros(N_IDS, np.bool_)
    for earlier in range(len(text) - width):
        if text[earlier] & 0xC0 == 0x80:
            continue
        same = True
        for i in range(width):
            if text[earlier + i] != text[start + i]:
                same = False
                break
        byte = text[earlier + width]
        # The same bytes end at the same place in a character; does this byte finish it, within the
        # text?
        if same and params.utf8_next[utf8, byte] == ACCEPT:
            blocked[byte] = True
    is_left = False
    for byte in range(N_IDS):
        is_left = is_left or (allowed[byte] and not blocked[byte])
    if is_left:
        for byte in range(N_IDS):
            allowed[byte] = allowed[byte] and not blocked[byte]
