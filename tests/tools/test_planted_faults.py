"""Faults that are planted are what they are called, and are counted."""

import re

from bytenmt.decoding.confidence import is_copy, lacks_number
from tools.planted_faults import INTACT, Count, Pair, plant, table

PAIRS = [
    Pair("I have 3 dogs.", "Ich habe 3 Hunde."),
    Pair("In 1999 and 2005", "1999 und 2005"),
    Pair("Server", "Server"),
    Pair("Good day", "Guten Tag"),
]


def test_each_fault_is_in_the_text_alone() -> None:
    faults = plant(PAIRS, ["Bonjour"], seed=1)
    assert faults == plant(PAIRS, ["Bonjour"], seed=1) != plant(PAIRS, ["Bonjour"], seed=2)
    assert faults[INTACT] == PAIRS
    sources = [pair.source for pair in PAIRS]
    assert [pair.source for pair in faults["another line"]] == sources
    assert all(pair not in PAIRS for pair in faults["another line"])
    for loop, pair in zip(faults["loop"], PAIRS, strict=True):
        assert loop.source == pair.source and set(loop.text.split()) == set(pair.text.split())
        assert re.search(r"(?:^| )(\S+(?: \S+)*?)( \1){3,8}(?: |$)", loop.text)
    assert [pair.source for pair in faults["number"]] == sources[:2]
    assert all(lacks_number(pair.source.encode(), pair.text.encode()) for pair in faults["number"])
    assert faults["copy"] == [Pair(pair.source, pair.source) for pair in (PAIRS[0], PAIRS[1], PAIRS[3])]
    assert all(is_copy(pair.source.encode(), pair.text.encode()) for pair in faults["copy"])
    assert not any(map(str.isalnum, "".join(pair.source for pair in faults["nothing to translate"])))
    assert {pair.source for pair in faults["foreign source"]} == {"Bonjour"}


def test_the_table_has_a_column_for_each_text_and_for_all() -> None:
    found = {"a": {"loop": Count(10, 9, 10, {})}, "b": {"loop": Count(30, 30, 30, {"loop": 30})}}
    assert table(found) == [
        "| | a | b | all |",
        "|---|---:|---:|---:|",
        "| loop | 90.0 % of 10 | 100.0 % of 30 | 97.5 % of 40 |",
    ]
