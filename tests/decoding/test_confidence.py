"""What is told of a translation that nobody has read yet."""

from __future__ import annotations

import math

import pytest

from bytenmt.decoding.confidence import REASONS, Verdict, bits_of_characters, flags, has_loop
from bytenmt.decoding.interface import Hypothesis


def made(text: str, bits: float = 0.1) -> Hypothesis:
    """A text each of whose bytes, and whose end, cost so many bits."""
    scores = (-bits * math.log(2),) * (len(text.encode()) + 1)
    return Hypothesis(text.encode(), sum(scores), 0.0, 0, scores)


def test_a_character_costs_what_its_bytes_do() -> None:
    found = bits_of_characters(made("a한", 0.5))
    assert [character for character, _ in found] == ["a", "한", ""]
    assert [bits for _, bits in found] == pytest.approx([0.5, 1.5, 0.5])
    assert made("a한", 0.5).bits_per_byte == pytest.approx(2.5 / 4)
    assert made("").bits_per_byte is None
    with pytest.raises(ValueError, match="kept no scores"):
        bits_of_characters(Hypothesis(b"a", -1.0, -1.0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(박수)(박수)(박수)(박수)", True),
        ("the the the the house", True),
        ("hahahahahahaha", True),
        ("aaaaaaaaaaaa", True),
        ("a 12 b 12 c 12 d 12", False),
        ("in the house of the man of the town", False),
        ("10,000,000", False),
        ("aaaa", False),
        ("", False),
    ],
)
def test_loops(text: str, expected: bool) -> None:
    assert has_loop(text.encode()) == expected


@pytest.mark.parametrize(
    ("source", "text", "bits", "expected"),
    [
        ("Guten Tag", "Good day", 0.1, []),
        ("Guten Tag", "Good day", 2.0, ["unsure"]),
        ("Beifall", "(applause) (applause) (applause) (applause)", 0.1, ["loop"]),
        ("ha ha ha ha ha ha", "ha ha ha ha ha ha", 0.1, []),
        ("Ein Satz von einiger Länge, der viel zu erzählen hat.", "Yes", 0.1, ["length"]),
        ("Ja", "A sentence of some length, of which nobody has said a word.", 0.1, ["length"]),
        ("Ja", "Yes, of course", 0.1, []),
        ("", "", 0.1, []),
    ],
)
def test_flags(source: str, text: str, bits: float, expected: list[str]) -> None:
    assert list(flags(source.encode(), made(text, bits), 1.0)) == expected
    assert "unsure" not in flags(source.encode(), made(text, bits))


def test_a_verdict_is_the_worst_of_the_flags() -> None:
    assert Verdict.from_flags([]) == ("sure", ())
    assert Verdict.from_flags(["unsure"]) == ("check", ("the model is unsure",))
    both = Verdict.from_flags(["unsure", "loop", "unsure"])
    assert both == ("wrong", ("repeats itself", "the model is unsure"))
    assert Verdict.from_flags(["of a plugin"]) == ("check", ("of a plugin",))
    assert all(Verdict.from_flags([flag]) == (level, (words,)) for flag, (level, words) in REASONS.items())
