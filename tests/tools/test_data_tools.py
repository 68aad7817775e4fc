"""Corpora from addresses and folders, words of parallel text, figures of models, the sample."""

import gzip
import random
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tools import get_data, score_model, word_pairs
from tools.results import training_text
from tools.sample import make

TEXT = bytes(range(256)) * 10


def corpus(address: str | None = None) -> dict[str, Any]:
    about = {"sha256": get_data.digest(TEXT), "there": "there.gz"}
    there = {"address": address} if address else {}
    return {"licence": "none", "files": {"input.txt": about}, **there}


def test_a_file_of_an_address_is_unpacked_and_checked(tmp_path: Path) -> None:
    (tmp_path / "there.gz").write_bytes(gzip.compress(TEXT))
    at = corpus(tmp_path.as_uri() + "/{}")
    folder = get_data.fetch("tinyshakespeare", at, tmp_path / "out", None)
    assert (folder / "input.txt").read_bytes() == TEXT
    assert (folder / "train.txt").read_bytes() + (folder / "valid.txt").read_bytes() == TEXT
    assert len((folder / "valid.txt").read_bytes()) == 256
    (tmp_path / "there.gz").unlink()  # what is there is not asked for again
    get_data.fetch("tinyshakespeare", at, tmp_path / "out", None)


def test_a_folder_may_hold_it_packed_or_below_its_name(tmp_path: Path) -> None:
    """Another file is refused."""
    (tmp_path / "any").mkdir()
    packed = tmp_path / "any" / "input.txt.gz"
    packed.write_bytes(gzip.compress(TEXT[1:]))
    with pytest.raises(ValueError, match="is not the file"):
        get_data.fetch("any", corpus(), tmp_path / "out", tmp_path)
    assert not (tmp_path / "out" / "any" / "input.txt").exists()
    packed.write_bytes(gzip.compress(TEXT))
    folder = get_data.fetch("any", corpus(), tmp_path / "out", tmp_path)
    assert (folder / "input.txt").read_bytes() == TEXT
    with pytest.raises(FileNotFoundError, match="--from"):
        get_data.fetch("any", corpus(), tmp_path / "other", None)


# ---- words and their translations

LEXICON = {"cat": "Katze", "dog": "Hund", "house": "Haus", "sees": "sieht", "likes": "mag"}
LEXICON["old"] = "alte"


def text(n: int = 300) -> tuple[list[str], list[str]]:
    draw = random.Random(1)
    every = [draw.sample(list(LEXICON), 3) for _ in range(n)]
    sources = [f"{a.capitalize()} {b} {c}." for a, b, c in every]
    return sources, [f"{LEXICON[c]} {LEXICON[a]} {LEXICON[b]}!" for a, b, c in every]


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the order of words; first words are found as they stand inside of sentences."""
    for name, side in zip(("src", "tgt"), text(), strict=True):
        (tmp_path / name).write_text("\n".join(side) + "\n", encoding="utf-8")
    out = tmp_path / "words"
    given = f"--src {tmp_path}/src --tgt {tmp_path}/tgt -o {out}/a {out}/b".split()
    word_pairs.main(given)
    sides = [(out / name).read_text(encoding="utf-8").split() for name in "ab"]
    assert dict(zip(*sides, strict=True)) == LEXICON
    assert "6 pairs of words" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="none cannot be read"):
        word_pairs.main([*given[:1], str(tmp_path / "none"), *given[2:]])


# ---- figures of a model

SOURCES = ["Tom likes {name}.", "It is late.", "We saw 12 dogs."]
TARGETS = ["Tom mag {name}.", "Es ist groß.", "Wir sahen 12 Hunde."]


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    for name, file in ((score_model.SENTENCES["de"], "test"), *score_model.OTHERS["de"].values()):
        (tmp_path / name).mkdir(exist_ok=True)
        for side, lines in (("en", SOURCES), ("de", TARGETS)):
            (tmp_path / name / f"{file}.{side}").write_text("\n".join([*lines, ""]), "utf-8")
    return tmp_path


def test_figures(corpora: Path) -> None:
    """A model that knows the references in small letters only: right where case is ignored."""
    accepted = tomllib.loads(score_model.WORDS.read_text(encoding="utf-8"))["en-de"]
    known = dict(zip(SOURCES, TARGETS, strict=True))
    asked: list[Sequence[str]] = []

    def translate(lines: Sequence[str]) -> list[str]:
        asked.append(lines)
        by_case = {source.casefold(): target for source, target in known.items()}
        words = {word: f"{ways[-1].upper()}." for word, ways in accepted.items() if word != "Save"}
        return [words.get(line, by_case.get(line.casefold(), line).upper()) for line in lines]

    found = score_model.scores(translate, "en-de", corpora, None)
    tatoeba = found["tatoeba"]
    cases = ("clean", "upper", "title", "lower")
    assert set(tatoeba) == {*cases, "noise 0.05", "noise 0.1", "noise 0.2"}
    for case in cases:
        assert tatoeba[case]["chrf_case_ignored"] == pytest.approx(100) != tatoeba[case]["chrf"]
    assert asked[1] == ["TOM LIKES {name}.", "IT IS LATE.", "WE SAW 12 DOGS."]
    assert tatoeba["noise 0.2"]["chrf_case_ignored"] < 100
    assert found["uistrings"]["kept"] == 0.0  # {NAME}
    assert all("kept" in found[name] for name in score_model.OTHERS["de"])
    n = len(accepted)
    assert found["words"] == {"n": n, "right": n - 1, "wrong": {"Save": "SAVE"}}
    assert found["lines"] == 3


# ---- the Korean-English sample


@pytest.mark.slow
def test_the_sample_is_what_its_generator_writes(tmp_path: Path) -> None:
    make.write_sample(make.make_sample(), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    data = Path(__file__).resolve().parents[2] / "data"
    assert names == {path.name for path in data.iterdir()} - {"README.md", "models", "phrases"}
    for name in names:
        assert (tmp_path / name).read_bytes() == (data / name).read_bytes(), name


def test_lines_are_grouped_by_their_rarest_training_word(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("a dog\n" * 60 + "a Cat\n" * 3, encoding="utf-8")
    counts = training_text.count_words([tmp_path / "train.en"])
    assert counts == {"a": 63, "dog": 60, "cat": 3}
    assert training_text.rarest_count("A dog, a cat!", counts) == 3
    assert training_text.rarest_count("12 + 3", counts) is None
    sources = ["a dog"] * 10 + ["a cat"] * 10 + ["a bird"] * 9
    wrong = ["?"] * 10 + ["a cat"] * 10 + ["?"] * 9
    assert training_text.chrf_by_rarity(sources, wrong, sources, counts) == {
        "1 to 5": {"lines": 10, "chrf": pytest.approx(100)},
        "51 to 1,000": {"lines": 10, "chrf": 0},
    }
