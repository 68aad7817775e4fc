"""convert calibrates the thresholds of flags, and keeps those that a file has."""

from pathlib import Path

import pytest
from command_line import invoke
from made_up_engine import make_run

from bytenmt.checkpoints.facts import Facts, FlagThresholds
from bytenmt.checkpoints.weights import read_run
from bytenmt.data.pair_files import PairFiles
from bytenmt.translation.source_words import is_known, is_ordinary

pytestmark = pytest.mark.slow


LINES = [f"{word} {number}" for number in range(30) for word in ("a", "bc", "def", "g")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and its validation text; every target is its source twice."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "src").write_text("".join(f"{line}\n" for line in LINES))
    (folder / "tgt").write_text("".join(f"{line}{line}\n" for line in LINES))
    facts = Facts(valid=PairFiles(folder / "src", folder / "tgt"))
    make_run(folder / "run", settings=("data.empty_source=0.1",), facts=facts)
    return folder


def flags_of(file: Path) -> FlagThresholds | None:
    return read_run(file)[1].facts.flags


def test_on_the_validation_text_of_a_run(place: Path) -> None:
    first, second, third = (place / f"{name}.safetensors" for name in ("first", "second", "third"))
    answer = invoke("convert", place / "run", "-o", first)
    assert answer.exit_code == 0 and "flags calibrated on 120 lines\n" in answer.stderr
    assert "beam search: sure up to a doubt of" in answer.stderr
    found = flags_of(first)
    assert found is not None and found.n_lines == 120 and found.length_ratio == 2.0
    assert found.source_bits is not None and found.length_variance == 0.0
    assert [*found.searches] == ["greedy", "beam"]
    (place / "table").write_text("".join(f"{line}\t{line}{line}\n" for line in LINES))
    facts = Facts(valid=PairFiles(tsv=place / "table"))
    make_run(place / "tsv", settings=("data.empty_source=0.1",), facts=facts)
    assert invoke("convert", place / "tsv", "-o", second).exit_code == 0
    assert flags_of(second) == found
    answer = invoke("convert", first, "-o", second)
    assert answer.exit_code == 0 and "flags" not in answer.stderr and flags_of(second) == found
    own = ("--valid-src", place / "src", "--valid-tgt", place / "src")
    answer = invoke("convert", first, "-o", third, *own)
    assert answer.exit_code == 0, answer.output
    other = flags_of(third)
    assert other is not None and other.length_ratio == 1.0


def test_a_text_that_is_too_short(place: Path) -> None:
    (place / "short").write_text("a\n" * 99)
    output = place / "short.safetensors"
    short = ("--valid-src", place / "short", "--valid-tgt", place / "short")
    answer = invoke("convert", place / "run", "-o", output, *short)
    assert answer.exit_code == 1
    assert "99 lines to calibrate flags on: give 100 or more" in answer.stderr
    (place / "tgt").rename(place / "elsewhere")
    answer = invoke("convert", place / "run", "-o", output)
    assert answer.exit_code == 0 and flags_of(output) is None


def test_words_of_the_training_text(place: Path) -> None:
    """They are stored, kept by another conversion, and no reader needs them."""
    (place / "train.en").write_text("The old house in Gotham\nAn old house\n" * 3)
    (place / "train.de").write_text("Das alte Haus in Gotham\nEin altes Haus\n" * 3)
    first, second = place / "words.safetensors", place / "again.safetensors"
    files = ("--train-src", place / "train.en", "--train-tgt", place / "train.de")
    answer = invoke("convert", place / "run", "-o", first, *files)
    assert answer.exit_code == 0, answer.stderr
    assert "times and more are known" in answer.stderr
    words = read_run(first)[1].facts.words
    assert words is not None and words.language == "en"
    assert is_known("House", words) and not is_known("mansion", words)
    assert not is_ordinary("Gotham", words) and is_ordinary("House", words)
    assert invoke("convert", first, "-o", second).exit_code == 0
    assert read_run(second)[1].facts.words == words
    answer = invoke("convert", first, "-o", place / "third.safetensors", *files[:2])
    assert answer.exit_code == 1 and "give as many files of each" in answer.stderr
