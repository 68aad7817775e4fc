"""The figures of a model by what it answers, without one: its translations are made up."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import score_model

SOURCES = ["Tom likes {name}.", "It is late.", "We saw 12 dogs."]
TARGETS = ["Tom mag {name}.", "Es ist groß.", "Wir sahen 12 Hunde."]


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    for name, file in ((score_model.SENTENCES["de"], "test"), *score_model.OTHERS["de"].values()):
        (tmp_path / name).mkdir(exist_ok=True)
        for side, lines in (("en", SOURCES), ("de", TARGETS)):
            (tmp_path / name / f"{file}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
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
    assert set(tatoeba) == {"clean", "upper", "title", "lower", "noise 0.05", "noise 0.1", "noise 0.2"}
    for case in ("clean", "upper", "title", "lower"):
        assert tatoeba[case]["chrf_case_ignored"] == pytest.approx(100) != tatoeba[case]["chrf"]
    assert asked[1] == ["TOM LIKES {name}.", "IT IS LATE.", "WE SAW 12 DOGS."]
    assert tatoeba["noise 0.2"]["chrf_case_ignored"] < 100
    assert found["uistrings"]["kept"] == 0.0  # {NAME}
    assert all("kept" in found[name] for name in score_model.OTHERS["de"])
    assert found["words"] == {"n": len(accepted), "right": len(accepted) - 1, "wrong": {"Save": "SAVE"}}
    assert found["lines"] == 3


def test_what_is_kept() -> None:
    assert score_model.kept_share(["a {x} %s", "b", "<b>c</b>"], ["%s b {x}", "{y}", "<b>c<b>"]) == 0.5
    assert score_model.kept_share(["a"], ["b"]) == 1.0


def test_words_of_both_directions() -> None:
    for direction in ("en-de", "de-en", "en-ko", "ko-en"):
        accepted = tomllib.loads(score_model.WORDS.read_text(encoding="utf-8"))[direction]
        assert len(accepted) == 27 and all(accepted.values())
        first = [ways[0] for ways in accepted.values()]
        assert score_model.interface_words(lambda _, first=first: first, direction)["wrong"] == {}


def test_a_missing_corpus_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data/models/none", "--direction", "en-de", "--corpora", str(tmp_path)]
    assert score_model.main(words) == 1
    assert "error: " in capsys.readouterr().err
