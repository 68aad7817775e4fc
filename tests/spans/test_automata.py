"""Automata of patterns: minimal, with the language of Python's regular expressions."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from bytenmt.errors import SettingError
from bytenmt.spans.automata import DEAD, Automaton, determinize
from bytenmt.spans.patterns import parse_pattern


def random_pattern(chance: random.Random, depth: int = 0) -> str:
    """Return a pattern over a, b and c."""
    kind = chance.random()
    if depth > 3 or kind < 0.35:
        return chance.choice(["a", "b", "ab", "c", "[a-c]", "[^a]"])
    if kind < 0.55:
        return random_pattern(chance, depth + 1) + random_pattern(chance, depth + 1)
    if kind < 0.7:
        return f"({random_pattern(chance, depth + 1)}|{random_pattern(chance, depth + 1)})"
    return f"({random_pattern(chance, depth + 1)}){chance.choice(['*', '+', '?', '{2}', '{1,3}'])}"


def accepts(automaton: Automaton, text: str) -> bool:
    state = 0
    for byte in text.encode():
        if (state := automaton.follow[state][byte]) == DEAD:
            return False
    return automaton.accepting[state]


def distinguishable(automaton: Automaton) -> set[tuple[int, int]]:
    """Return the pairs of states that some text tells apart, by filling a table of pairs (Moore, 1956)."""
    n_states = len(automaton.follow)
    ends = [*automaton.accepting, False]
    follow = [*automaton.follow, [DEAD] * 256]
    bytes_ = {column: byte for byte, column in enumerate(zip(*automaton.follow, strict=True))}.values()
    pairs = {pair for pair in itertools.combinations(range(n_states), 2) if ends[pair[0]] != ends[pair[1]]}
    while True:
        more = {
            (one, other)
            for one, other in itertools.combinations(range(n_states), 2)
            if any(
                (follow[one][byte] == DEAD) != (follow[other][byte] == DEAD)
                or tuple(sorted((follow[one][byte], follow[other][byte]))) in pairs
                for byte in bytes_
            )
        }
        if more <= pairs:
            return pairs
        pairs |= more


@pytest.mark.parametrize("seed", range(40))
def test_automata_are_minimal_and_match_as_python_does(seed: int) -> None:
    chance = random.Random(seed)
    pattern = random_pattern(chance)
    try:
        automaton = determinize(parse_pattern(pattern))
    except SettingError:  # it matches the empty text
        assert re.fullmatch(pattern, "")
        return
    expected = re.compile(pattern)
    for n in range(5):
        for text in map("".join, itertools.product("abcd", repeat=n)):
            assert accepts(automaton, text) == bool(expected.fullmatch(text)), (pattern, text)
    n_states = len(automaton.follow)
    if n_states <= 40:
        assert len(distinguishable(automaton)) == n_states * (n_states - 1) // 2, pattern
