"""The repetition guard in compiled code; its twin is decoding/pytorch/ngram_blocking.py.

Compiled without a cache of its own, as part of interpreter.py. Does not know which bytes are allowed
otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bytenmt.decoding.cpu.kernels.simd import allocating
from bytenmt.decoding.cpu.search.slots import Rules
from bytenmt.utf8 import ACCEPT, N_IDS


@allocating
def forbid_repeats(text: Any, rules: Rules, state: int, allowed: Any, favoured: Any) -> None:
    """Take away the bytes that would end a repeated n-gram of characters, if others are left; but those that
    are favoured (256,) bool."""
    begun = len(text)  # where the unfinished character begins
    while state != ACCEPT and begun > 0:
        begun -= 1
        if text[begun] & 0xC0 != 0x80:
            break
    start = begun  # of the last n - 1 characters
    for _ in range(rules.ngram - 1):
        if start == 0:
            return
        start -= 1
        while text[start] & 0xC0 == 0x80:
            start -= 1
    width = len(text) - start
    banned = np.zeros(N_IDS, np.bool_)
    for earlier in range(len(text) - width):
        if text[earlier] & 0xC0 == 0x80:
            continue
        same = True
        for i in range(width):
            if text[earlier + i] != text[start + i]:
                same = False
                break
        byte = text[earlier + width]
        # The same bytes end at the same place in a character; does this byte finish it, within the text?
        if same and rules.follow[state, byte] == ACCEPT and not favoured[byte]:
            banned[byte] = True
    left = False
    for byte in range(N_IDS):
        left = left or (allowed[byte] and not banned[byte])
    if left:
        for byte in range(N_IDS):
            allowed[byte] = allowed[byte] and not banned[byte]
