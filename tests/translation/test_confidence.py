"""Test confidence measures and flags of translations without a reference."""

import math
import re
from collections.abc import Callable

import pytest
from source_tree import PACKAGE

from bytenmt.checkpoints.facts import FlagThresholds
from bytenmt.decoding.interface import Hypothesis
from bytenmt.translation import confidence
from bytenmt.translation.confidence import (
    LEVELS,
    REASONS,
    Verdict,
    has_loop,
    has_wrong_number,
    is_copy,
    text_flags,
)


def test_bits_per_byte_include_the_end() -> None:
    text = "a한"
    # Half a bit for each of four bytes, and for EOS.
    log_probability = -2.5 * math.log(2)
    assert Hypothesis(text.encode(), log_probability, 0.0).bits_per_byte == pytest.approx(2.5 / 4)
    assert Hypothesis(text, log_probability, 0.0).bits_per_byte == pytest.approx(2.5 / 4)
    assert Hypothesis(b"", log_probability, 0.0).bits_per_byte is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(박수)(박수)(박수)(박수)", True),
        ("the the the the house", True),
        ("hahahahahahaha", True),
        ("aaaaaaaaaaaa", True),
        ("a 12 b 12 c 12 d 12", False),
        ("auf seinem Stuhl auf seinem Stuhl auf seinem Stuhl", True),
        ("in einem schwarzen Hemd in einem schwarzen Hemd", True),
        ("Wir waren in Hawaii in Hawaii", True),
        ("Rücken an Rücken", False),
        ("Sie isst hier von Zeit zu Zeit zu Mittag", False),
        ("in the house of the man of the town", False),
        ("10,000,000", False),
        ("aaaa", False),
        ("", False),
    ],
)
def test_loops(text: str, expected: bool) -> None:
    assert has_loop(text.encode()) == expected


LENGTHS = FlagThresholds(n_lines=500, length_ratio=1.2, length_variance=1.7)


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("Guten Tag", "Good day", []),
        ("Beifall", "(applause) (applause) (applause) (applause)", ["loop"]),
        ("ha ha ha ha ha ha", "ha ha ha ha ha ha", []),
        ("Ein Satz von einiger Länge, der viel zu erzählen hat.", "Yes", ["length"]),
        ("Ja", "A sentence of some length, of which nobody has said a word.", ["length"]),
        ("Ja", "Yes, of course", []),
        ("...", "Good day", ["invention"]),
        ("12 Äpfel", "apples", ["number"]),
        ("Delete 5 files", "5 5 Dateien löschen", ["number"]),
        ("", "", []),
    ],
)
def test_flags_of_texts(source: str, text: str, expected: list[str]) -> None:
    assert list(text_flags(source.encode(), text.encode())) == expected


def test_lengths_are_compared_with_those_of_the_languages() -> None:
    """Gale and Church: 4 standard deviations of 1.7 · 41 are 33 bytes, around 1.2 · 40."""
    for n_bytes, expected in [(13, ["length"]), (20, []), (48, []), (78, []), (84, ["length"])]:
        found = list(text_flags(b"the " * 10, bytes(97 + k % 23 for k in range(n_bytes)), LENGTHS))
        assert found == expected, n_bytes


@pytest.mark.parametrize(
    ("judge", "source", "text", "expected"),
    [
        (has_wrong_number, "I paid 1,000 yen.", "Ich habe 1.000 Yen bezahlt.", False),
        (has_wrong_number, "I paid 1,000 yen.", "Ich habe 1000 Yen bezahlt.", False),
        (has_wrong_number, "I paid 1,000 yen.", "Ich habe 100 Yen bezahlt.", True),
        (has_wrong_number, "At 3:40 p.m. or 8:00 a.m.", "Um 15:40 Uhr oder 8 Uhr", False),
        (has_wrong_number, "It costs 1.5 euros.", "Es kostet 1,5 Euro.", False),
        (has_wrong_number, "2 of 2", "2 von", True),
        (has_wrong_number, "in 2008", "im Jahr", True),
        (has_wrong_number, "{0} of %1$s at http://a.b/12", "Datei", False),
        (has_wrong_number, "٣ files", "3 Dateien", False),
        (has_wrong_number, "no number", "7", False),
        (has_wrong_number, "1" * 5000, "1" * 5000, False),
        (has_wrong_number, "Delete 5 files", "5 5 Dateien löschen", True),
        (has_wrong_number, "1,000 yen", "1.000 Yen, 1000 Yen", True),
        (has_wrong_number, "2 of 2", "2 von 2", False),
        (has_wrong_number, "2 of 2", "2 von 2 von 2", True),
        (has_wrong_number, "At 3:40 p.m.", "Um 15:40 Uhr", False),
        (has_wrong_number, "I turned thirteen in 2003.", "Im Jahr 2003 wurde ich 13.", False),
        (has_wrong_number, "{0} files", "{0} von {0} Dateien", False),  # placeholders have a flag
        (is_copy, "Save file", "save file.", True),
        (is_copy, "Save {file}", "Save {file}", True),
        (is_copy, "Save file", "Datei speichern", False),
        (is_copy, "{0}: 12 %", "{0}: 12 %", False),
        (is_copy, "", "", False),
        *(
            (is_copy, text, text, False)
            for text in ("Ok.", "GB", "pm", "D/L", "km/h", "USB", "kHz")
        ),
        *((is_copy, text, text, True) for text in ("Off", "no files", "SETTINGS", "\ud655\uc778")),
    ],
)
def test_number_or_copy(judge: Callable[..., bool], source: str, text: str, expected: bool) -> None:
    assert judge(source.encode(), text.encode()) == expected


def test_a_verdict_is_the_worst_of_the_flags() -> None:
    assert Verdict.from_flags([]) == ("sure", ())
    assert Verdict.from_flags(["unsure"]) == ("check", ("the model is unsure",))
    both = Verdict.from_flags(["unsure", "loop", "unsure"])
    assert both == ("wrong", ("repeats itself", "the model is unsure"))
    assert Verdict.from_flags(["of a plugin"]) == ("check", ("of a plugin",))
    for flag, (level, words) in REASONS.items():
        assert Verdict.from_flags([flag]) == (level, (words,))


def test_each_flag_has_a_level_and_words() -> None:
    """The flags are the texts among the constants of confidence.py, PLACEMENT of line_batch too."""
    constants = {name: value for name, value in vars(confidence).items() if name.isupper()}
    flags = {value for value in constants.values() if isinstance(value, str)} - set(LEVELS)
    assert "placement" in flags
    assert flags == REASONS.keys(), "give each flag of confidence.py its line in REASONS"
    assert {level for level, _ in REASONS.values()} <= set(LEVELS)


def test_the_guide_lists_each_flag_with_its_level() -> None:
    text = (PACKAGE / "docs/decoding.md").read_text(encoding="utf-8")
    table = text.partition("| flag | verdict | meaning |\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \S", table, flags=re.M)
    levels = {flag: level for flag, (level, _) in REASONS.items()}
    cure = "correct the rows `flag | verdict` of bytenmt/docs/decoding.md"
    assert dict(rows) == levels and len(rows) == len(levels), cure
