"""The tables by which a search follows spans, against the extractor, which reads whole lines."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from bytenmt.decoding.constraints.span_tracker import SEPARATORS, SpanTracker, span_tracker
from bytenmt.errors import SettingError
from bytenmt.spans.grammar import CLASSES
from tools.verify.spans import SPANS, random_line

TRACKER = span_tracker(CLASSES)


def read(tracker: SpanTracker, text: bytes) -> tuple[tuple[int, ...], bool]:
    """The states behind a text, and whether a span was complete at any place of it."""
    states, complete = tracker.start, False
    for byte in text:
        states = tracker.step(states, byte)
        complete = complete or bool(tracker.complete[list(states)].any())
    return states, complete


def test_a_span_is_complete_where_the_extractor_finds_one() -> None:
    draw, both = random.Random(0), set[bool]()
    for _ in range(1500):
        text = random_line(draw)[: draw.randrange(1, 12)].encode()
        complete = read(TRACKER, text)[1]
        assert complete == bool(TRACKER.extractor.spans(text)), text
        both.add(complete)
    assert len(both) == 2


def test_an_item_may_begin_where_it_is_found_again() -> None:
    """Behind text without spans: just where the extractor finds the item, and nothing else."""
    draw, both = random.Random(1), set[bool]()
    while len(both) < 2 or draw.random() > 0.0005:
        text, item = random_line(draw)[: draw.randrange(1, 12)].encode(), draw.choice(SPANS).encode()
        states, complete = read(TRACKER, text)
        if complete or TRACKER.extractor.texts(item) != [item]:
            continue
        begins = TRACKER.may_begin(item)
        may = all(begins[state] for state in states)
        behind = [span[:2] for span in TRACKER.extractor.spans(text + item)]
        assert may == (behind == [(len(text), len(text + item))]), (text, item)
        both.add(may)


def test_a_character_is_free_where_it_completes_no_span() -> None:
    """From its first byte on: the letter behind %s completes a longer span whatever its second byte is."""
    states, _ = read(TRACKER, b"%s")

    def is_free(byte: int) -> bool:
        return bool(np.bitwise_and.reduce([TRACKER.free[state, byte] for state in states]))

    assert not is_free(0xC3) and not is_free(ord("a")) and is_free(0xEA) and is_free(ord(" "))
    assert not any(span_tracker((), ("x.",)).free[read(span_tracker((), ("x.",)), b"x")[0], 0xEA])


@pytest.mark.slow
def test_a_separator_lets_items_come() -> None:
    """Behind it every item of each class alone may begin; most text has one."""
    draw = random.Random(2)
    with_separator = 0
    for _ in range(1500):
        text = random_line(draw)[: draw.randrange(1, 12)].encode()
        states, _ = read(TRACKER, text)
        common = int.from_bytes(b"\xff" * 4, "big")
        for state in states:
            common &= int(TRACKER.separators[state])
        with_separator += common > 0
        for bit, byte in enumerate(SEPARATORS):
            if common >> bit & 1:
                after = TRACKER.step(states, byte)
                assert not TRACKER.complete[list(after)].any()
                item = draw.choice(["5", "x@y.org", "http://a.b/c", "%s", "<b>", "{x}"]).encode()
                assert all(TRACKER.may_begin(item)[state] for state in after), (text, byte, item)
    assert with_separator > 1400


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a*", "empty text"),
        ("#.*", "no space or punctuation ends it"),
        ("(a", "has no )"),
        ("a)", "has no ("),
        ("a(?=b)", "(?= is not supported"),
        (r"(a)\1", r"\1 is not supported"),
        (r"\bfoo", r"\b is not supported"),
        ("^a", "^ has no meaning"),
        ("a+?", "? after a repetition"),
        ("[가]", "not ASCII"),
        ("[b-a]", "reverse order"),
        ("[ab", "ends too early"),
        ("a{1,900}", "repetitions"),
        ("(((a{99}){99}){99})", "too large"),
        ("(" * 99 + "a" + ")" * 99, "too deeply"),
    ],
)
def test_other_patterns_are_refused_in_a_line(pattern: str, why: str) -> None:
    with pytest.raises(SettingError, match=re.escape(why)) as error:
        span_tracker((), (pattern,))
    assert "\n" not in str(error.value)


def test_a_pattern_with_many_beginnings_at_once_is_followed_from_the_first() -> None:
    """2 ** 40 sets of beginnings are too many: what is followed is the first one."""
    tracker = span_tracker((), ("a[a-z]{1,40}5",))
    assert len(tracker.follow) < 1000
    assert read(tracker, b"xyz abc5")[1] and not read(tracker, b"xyz abc 5")[1]
