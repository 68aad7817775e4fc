"""The automaton against Python's own decoder, and its costs against a search."""

import itertools
import random
import unicodedata

import numpy as np
import pytest

from bytenmt.utf8 import (
    ACCEPT,
    BOS,
    EOS,
    FORBIDDEN,
    LONGEST_CHARACTER,
    N_IDS,
    PAD,
    REJECT,
    UTF8_COST,
    UTF8_NEXT,
    decoding_cost,
    first_invalid,
    repair,
)

# Bytes on both sides of every border that UTF-8 draws.
BORDERS = bytes.fromhex("000a417f808f909fa0bfc0c1c2c3dfe0e1ecedeeeff0f1f3f4f5ff")


def first_mistake(data: bytes) -> int:
    """Return the offset at which Python's decoder ends, -1 for valid UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return -1


def decodes(data: bytes) -> bool:
    return first_mistake(data) < 0


def run(data: bytes, following: np.ndarray, cost: np.ndarray) -> int:
    """The state after the bytes, REJECT as soon as one of them is forbidden or is EOS."""
    state = ACCEPT
    for byte in data:
        if cost[state, byte] in (0, FORBIDDEN):
            return REJECT
        state = int(following[state, byte])
    return state


def mismatches(following: np.ndarray, cost: np.ndarray) -> list[bytes]:
    """Byte strings on which the automaton and Python's decoder differ."""
    strings = [bytes([a]) for a in range(256)]
    strings += [bytes(pair) for pair in itertools.product(range(256), repeat=2)]
    strings += [bytes(three) for three in itertools.product(BORDERS, repeat=3)]
    draw = random.Random(1)
    strings += [bytes(draw.choices(BORDERS, k=4)) for _ in range(40_000)]
    strings += [
        bytes([draw.randrange(0xF0, 0xF5), *draw.choices(BORDERS[4:10], k=3)]) for _ in range(5000)
    ]
    strings += [
        chr(code).encode() for code in range(0, 0x110000, 97) if not 0xD800 <= code < 0xE000
    ]
    return [text for text in strings if (run(text, following, cost) == ACCEPT) != decodes(text)]


@pytest.mark.slow
def test_automaton_accepts_what_python_decodes() -> None:
    assert mismatches(UTF8_NEXT, UTF8_COST) == []


@pytest.mark.slow
def test_cost_is_the_shortest_completion() -> None:
    """Prefixes lead to every state; the shortest completion is found by trying with Python."""
    prefixes = {
        b"": 0,
        b"\xc3": 1,
        b"\xe1": 2,
        b"\xf1": 3,
        b"\xe0": 4,
        b"\xed": 5,
        b"\xf0": 6,
        b"\xf4": 7,
        b"\xc2": 8,
    }
    tails = [bytes(t) for k in range(4) for t in itertools.product(b"\x80\x9f\xa0\xbf", repeat=k)]
    assert {run(prefix, UTF8_NEXT, UTF8_COST) for prefix in prefixes} == set(range(REJECT))
    for prefix in prefixes:
        state = run(prefix, UTF8_NEXT, UTF8_COST)
        for byte in range(N_IDS):
            if (state, byte) == (ACCEPT, EOS):
                continue
            costs = [1 + len(tail) for tail in tails if decodes(prefix + bytes([byte]) + tail)]
            assert UTF8_COST[state, byte] == min(costs, default=FORBIDDEN), (prefix, byte)


def test_control_symbols() -> None:
    assert (N_IDS, PAD, BOS, EOS) == (256, 0xFD, 0xFE, 0xFF)
    assert UTF8_COST[ACCEPT, EOS] == 0 and UTF8_NEXT[ACCEPT, EOS] == ACCEPT
    assert (UTF8_COST[1:, EOS] == FORBIDDEN).all()
    assert (UTF8_COST[:, [BOS, PAD]] == FORBIDDEN).all()
    assert (UTF8_COST[REJECT] == FORBIDDEN).all() and (UTF8_NEXT[REJECT] == REJECT).all()
    assert UTF8_COST[UTF8_COST < FORBIDDEN].max() == LONGEST_CHARACTER
    assert UTF8_NEXT.dtype == UTF8_COST.dtype == np.uint8


@pytest.mark.parametrize("line_ends", [False, True])
def test_control_characters_are_forbidden_and_nothing_else(line_ends: bool) -> None:
    """The automaton agrees with Python's table of characters, each encoded in UTF-8."""
    cost = decoding_cost(line_ends)
    kept = "\t\n\r" if line_ends else "\t"
    for character in map(chr, [*range(0x1000), 0x2028, 0xFEFF, 0x10FFFF]):
        control = unicodedata.category(character) == "Cc" and character not in kept
        assert (run(character.encode(), UTF8_NEXT, cost) == ACCEPT) != control, hex(ord(character))
    assert cost[8, 0x9F] == FORBIDDEN and UTF8_COST[8, 0x9F] == 1  # the table itself is left alone


@pytest.mark.parametrize(
    "data, repaired",
    [
        (b"", ""),
        (b"caf\xe9 ol\xe9", "caf\ufffd ol\ufffd"),
        (b"a\xe2\x82", "a\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf0\x9f\x98b\xff", "\ufffdb\ufffd"),
        ("\ufeff한".encode(), "\ufeff한"),
    ],
)
def test_repair(data: bytes, repaired: str) -> None:
    assert repair(data) == repaired.encode()
    draw = random.Random(2)
    for _ in range(500):
        text = bytes(draw.choices(BORDERS, k=draw.randrange(12)))
        assert repair(text) == text.decode("utf-8", "replace").encode()
        assert first_invalid(text) == first_mistake(text) and first_invalid(repair(text)) == -1
