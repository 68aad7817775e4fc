"""Where words end, as bytes: letters of alphabets go on a word; in scripts without spaces, or with particles
behind a word, nothing does.

Knows no text and no search.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bytenmt.kernel_constants import BLANK as BLANK
from bytenmt.kernel_constants import TAB as TAB
from bytenmt.kernel_constants import TAG as TAG
from bytenmt.spans.grammar import WORDLIKE
from bytenmt.spans.patterns import WORD
from bytenmt.utf8 import N_IDS

Ban = npt.NDArray[np.int16]
Active = frozenset[tuple[int, int]]  # forbidden texts that may have begun: which, and how many bytes


def wordlike() -> npt.NDArray[np.bool_]:
    """(256,) bool: WORDLIKE."""
    found = np.zeros(N_IDS, np.bool_)
    found[list(WORDLIKE)] = True
    return found


def symbols() -> npt.NDArray[np.bool_]:
    """(256,) bool: ASCII that is neither a letter nor a digit."""
    found = np.zeros(N_IDS, np.bool_)
    found[: len(found) // 2] = True
    found[list(WORD)] = False
    return found


def begins_wordlike(text: bytes) -> bool:
    """Whether the first character is a letter or digit of an alphabet."""
    return text[0] in WORDLIKE


def ends_wordlike(text: bytes) -> bool:
    """Whether the last one is."""
    last = len(text) - 1
    while last and text[last] & 0xC0 == 0x80:
        last -= 1
    return text[last] in WORDLIKE


@lru_cache(maxsize=4096)
def ban_automaton(forbidden: tuple[bytes, ...]) -> Ban:
    """The automaton that stops where one of these texts is complete, as a word where it begins or ends like
    one: (states, 256) int16, -1 for the bytes that may not come; 0xFF is the end of the text."""
    start: tuple[Active, bool] = (frozenset(), False)
    numbers, states, rows = {start: 0}, [start], list[list[int]]()
    while len(rows) < len(states):
        active, in_word = states[len(rows)]
        row = []
        for byte in range(N_IDS):
            after = _after(forbidden, active, in_word, byte)
            if after is not None and after not in numbers:
                numbers[after] = len(states)
                states.append(after)
            row.append(-1 if after is None else numbers[after])
        rows.append(row)
    return np.array(rows, np.int16)


def _after(
    forbidden: Sequence[bytes], active: Active, in_word: bool, byte: int
) -> tuple[Active, bool] | None:
    """The state behind a byte; None where it completes a forbidden text."""
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
