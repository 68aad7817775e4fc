"""Word boundaries in bytes, and automata that find forbidden words.

Letters and digits of alphabets continue a word. In scripts without spaces, and in those that attach particles
to words, a word may end anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bytenmt.spans.grammar import WORDLIKE
from bytenmt.spans.patterns import WORD
from bytenmt.utf8 import N_IDS

Ban = npt.NDArray[np.int16]
Active = frozenset[tuple[int, int]]  # forbidden texts that may have begun: index, and number of bytes read


def wordlike_table() -> npt.NDArray[np.bool_]:
    """Return which bytes are in WORDLIKE: (256,) bool."""
    table = np.zeros(N_IDS, np.bool_)
    table[list(WORDLIKE)] = True
    return table


def symbol_table() -> npt.NDArray[np.bool_]:
    """Return which bytes are ASCII, but neither a letter nor a digit: (256,) bool."""
    table = np.zeros(N_IDS, np.bool_)
    table[: len(table) // 2] = True
    table[list(WORD)] = False
    return table


def begins_wordlike(text: bytes) -> bool:
    """Return whether the first character of a text is a letter or digit of an alphabet."""
    return text[0] in WORDLIKE


def ends_wordlike(text: bytes) -> bool:
    """Return whether the last character of a text is a letter or digit of an alphabet."""
    last = len(text) - 1
    while last and text[last] & 0xC0 == 0x80:
        last -= 1
    return text[last] in WORDLIKE


@lru_cache(maxsize=4096)
def ban_automaton(forbidden: tuple[bytes, ...]) -> Ban:
    """Return the transitions (states, 256) int16 of an automaton that finds forbidden texts.

    -1 stands where a byte completes a text: as a word, where the text begins or ends like one. State 0 is the
    start; byte 0xFF stands for the end of the text.
    """
    start: tuple[Active, bool] = (frozenset(), False)
    numbers, states, rows = {start: 0}, [start], list[list[int]]()
    while len(rows) < len(states):
        active, in_word = states[len(rows)]
        row = []
        for byte in range(N_IDS):
            after = _next_state(forbidden, active, in_word, byte)
            if after is not None and after not in numbers:
                numbers[after] = len(states)
                states.append(after)
            row.append(-1 if after is None else numbers[after])
        rows.append(row)
    return np.array(rows, np.int16)


def _next_state(
    forbidden: Sequence[bytes], active: Active, in_word: bool, byte: int
) -> tuple[Active, bool] | None:
    """Return the state after a byte; None if the byte completes a forbidden text."""
    begun = {(i, 0) for i, text in enumerate(forbidden) if not (in_word and begins_wordlike(text))}
    following = set()
    for which, n in active | begun:
        text = forbidden[which]
        if n == len(text):
            if byte not in WORDLIKE:
                return None
        elif text[n] == byte:
            if n + 1 == len(text) and not ends_wordlike(text):
                return None
            following.add((which, n + 1))
    within = in_word if 0x80 <= byte < 0xC0 else byte in WORDLIKE
    return frozenset(following), within
