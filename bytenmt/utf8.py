"""The alphabet of the models, and UTF-8 as a finite automaton over bytes.

The ids 0x00 to 0xFF are the bytes themselves. UTF-8 never contains the bytes 0xF5 to 0xFF, so the
control symbols PAD, BOS and EOS are among them, and the sentinels, which stand for kept spans
(sentinels.py): a search allows them between characters.
"""

import numpy as np
import numpy.typing as npt

N_IDS = 256
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors begin a file with it
PAD = 0xFD  # lengths, not this value, say what is padding; the value only makes mistakes visible
BOS = 0xFE
EOS = 0xFF

TAB = 0x09
NEWLINE = 0x0A
CARRIAGE_RETURN = 0x0D
DELETE = 0x7F

# The states of the automaton: the continuation bytes that the current character still needs.
ACCEPT = 0  # none: between two characters
NEED_1 = 1  # one continuation byte
NEED_2 = 2  # two
NEED_3 = 3  # three
AFTER_E0 = 4  # two, the first not below 0xA0 (an overlong form)
AFTER_ED = 5  # two, the first not above 0x9F (a surrogate)
AFTER_F0 = 6  # three, the first not below 0x90 (an overlong form)
AFTER_F4 = 7  # three, the first not above 0x8F (over U+10FFFF)
AFTER_C2 = 8  # one; below 0xA0 it makes a control character (C1)
REJECT = 9  # not UTF-8; never left again
N_STATES = 10

FORBIDDEN = 255  # the cost of a byte that may not follow
LONGEST_CHARACTER = 4  # bytes; no allowed byte costs more

# Unicode standard, table 3-7 (well-formed UTF-8): from state, first byte, last byte, to state.
_TRANSITIONS = (
    (ACCEPT, 0x00, 0x7F, ACCEPT),
    (ACCEPT, 0xC2, 0xC2, AFTER_C2),
    (ACCEPT, 0xC3, 0xDF, NEED_1),
    (ACCEPT, 0xE0, 0xE0, AFTER_E0),
    (ACCEPT, 0xE1, 0xEC, NEED_2),
    (ACCEPT, 0xED, 0xED, AFTER_ED),
    (ACCEPT, 0xEE, 0xEF, NEED_2),
    (ACCEPT, 0xF0, 0xF0, AFTER_F0),
    (ACCEPT, 0xF1, 0xF3, NEED_3),
    (ACCEPT, 0xF4, 0xF4, AFTER_F4),
    (NEED_1, 0x80, 0xBF, ACCEPT),
    (NEED_2, 0x80, 0xBF, NEED_1),
    (NEED_3, 0x80, 0xBF, NEED_2),
    (AFTER_E0, 0xA0, 0xBF, NEED_1),
    (AFTER_ED, 0x80, 0x9F, NEED_1),
    (AFTER_F0, 0x90, 0xBF, NEED_2),
    (AFTER_F4, 0x80, 0x8F, NEED_2),
    (AFTER_C2, 0x80, 0xBF, ACCEPT),
)
_MISSING = (0, 1, 2, 3, 2, 2, 3, 3, 1)  # bytes that each state but REJECT still needs


def _build_tables() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    following = np.full((N_STATES, N_IDS), REJECT, np.uint8)
    cost = np.full((N_STATES, N_IDS), FORBIDDEN, np.uint8)
    for state, first, last, target in _TRANSITIONS:
        following[state, first : last + 1] = target
        cost[state, first : last + 1] = 1 + _MISSING[target]
    following[ACCEPT, EOS] = ACCEPT
    cost[ACCEPT, EOS] = 0
    return following, cost


# UTF8_NEXT (N_STATES, N_IDS) uint8: the state after taking a byte in a state; EOS stays in ACCEPT.
# UTF8_COST (N_STATES, N_IDS) uint8: the number of bytes, this one included, that are needed to take
# the byte and to finish its character. EOS costs 0 and is allowed in ACCEPT only.
# A decoder with n bytes left allows byte b where UTF8_COST[state, b] <= min(n, LONGEST_CHARACTER):
# without the minimum, 255 bytes or more would allow FORBIDDEN bytes.
UTF8_NEXT, UTF8_COST = _build_tables()


def decoding_cost(line_ends: bool) -> npt.NDArray[np.uint8]:
    """Return a copy of UTF8_COST, (10 states, 256 bytes) uint8, that forbids control characters.

    [state of the UTF-8 automaton, byte] is the number of bytes from `byte` to the end of its
    character; 0 for EOS; 255 if the byte is forbidden in that state. Control characters are C0, DEL
    and C1, except TAB and, if `line_ends`, LF and CR.
    """
    cost = UTF8_COST.copy()
    kept = {TAB}
    if line_ends:
        kept |= {NEWLINE, CARRIAGE_RETURN}
    cost[ACCEPT, [byte for byte in (*range(0x20), DELETE) if byte not in kept]] = FORBIDDEN
    cost[AFTER_C2, 0x80:0xA0] = FORBIDDEN
    return cost


def allowed_bytes(endless: bool) -> npt.NDArray[np.bool_]:
    """Return the mask by which a decoder writes valid UTF-8: which byte may come next.

    The mask is (5, 10, 256) bool: the number of bytes that the text may still have (index 4 stands
    for 4 or more), the state of the UTF-8 automaton (0 between characters; UTF8_NEXT has the
    transitions), and the byte. Control characters except TAB are forbidden. endless: for a language
    model that writes to its maximum length; allow line ends, and EOS only where no byte is left.
    """
    room = np.arange(LONGEST_CHARACTER + 1, dtype=np.uint8)[:, None, None]
    allowed: npt.NDArray[np.bool_] = decoding_cost(line_ends=endless) <= room
    if endless:
        allowed[1:, :, EOS] = False
    return allowed


def first_invalid(data: bytes) -> int:
    """Return the offset of the first byte that is not valid UTF-8, or -1.

    For a truncated character this is its first byte, as in Python's UnicodeDecodeError.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return -1


def repair(data: bytes) -> bytes:
    """Replace invalid UTF-8 in data by U+FFFD, as Python's error handler 'replace' does."""
    return data.decode("utf-8", "replace").encode("utf-8")


def whole_characters(data: bytes) -> bytes:
    """Return data without an incomplete UTF-8 character at its end.

    Bytes above 0xF4 (sentinels, which stand for kept spans) are complete.
    """
    for back in range(1, min(LONGEST_CHARACTER - 1, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # a character begins here
            is_single = byte < 0x80 or byte > 0xF4  # ASCII or a sentinel
            length = 1 if is_single else 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return data[:-back] if length > back else data
    return data
