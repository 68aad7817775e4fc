"""The search defaults of a run: found, stored, used unless an option is given, copied, checked."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from small_runs import CPU, config, nine_lines

from bytenmt.checkpoints.checkpoint import read_weights
from bytenmt.checkpoints.quantize import convert
from bytenmt.checkpoints.weights import SEARCH, read_search
from bytenmt.cli.main import main
from bytenmt.config.facts import SearchDefaults
from bytenmt.decoding.model_summary import model_description
from bytenmt.decoding.translator import Translator
from bytenmt.errors import CheckpointError
from bytenmt.evaluation.scores import text_scores
from bytenmt.training.run import train
from tools import tune_search
from tools.average import average

pytestmark = pytest.mark.slow

SHORT = {"max_len_a": 0.5, "max_len_b": 4}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt a little, and its text."""
    tmp_path = tmp_path_factory.mktemp("trained")
    pair = nine_lines(tmp_path / "text")
    own = config("convs2s", "train.max_updates=25", "train.lr=0.02", "train.valid_lines=0")
    train(tmp_path / "run", own, files=[pair], valid=pair, device=CPU)
    return tmp_path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path / "run"


def write_search(folder: Path, defaults: SearchDefaults) -> None:
    (folder / SEARCH).write_bytes(msgspec.json.encode(defaults))


def penalty_of(*runs: Path, **more: float) -> float:
    return Translator.load(*runs, engine="torch", beam=3, **SHORT, **more).options.length_penalty


def test_they_are_found_and_taken(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The values of the best chrF, by searches of this test's own; option, then run, then the defaults."""
    text = str(tmp_path / "text")
    given = [str(run), "--src", text, "--ref", text, "--engine", "torch", "--beam", "3", "--lines", "4"]
    assert tune_search.main([*given, "--penalties", "0", "0.7", "3", "--ngram-sizes", "0", "1", "2"]) == 0
    shown = capsys.readouterr().out
    lines = (tmp_path / "text").read_text(encoding="utf-8").splitlines()[:4]

    def chrf(size: int, penalty: float) -> float:
        settings = {"no_repeat_ngram_size": size, "length_penalty": penalty}
        translator = Translator.load(run, engine="torch", beam=3, **settings)
        found = text_scores(translator.translate(lines), lines).chrf
        expected = f"no repeats of {size} characters, length penalty {penalty:g}: chrF {found:.2f}"
        assert expected in shown
        return found

    of_sizes = {size: chrf(size, 1.0) for size in (0, 1, 2)}
    size = max(of_sizes, key=lambda size: (of_sizes[size], -size))
    of_penalties = {penalty: chrf(size, penalty) for penalty in (0.0, 0.7, 3.0)}
    penalty = max(of_penalties, key=lambda penalty: (of_penalties[penalty], -abs(penalty - 1)))
    assert read_search(run) == SearchDefaults(length_penalty=penalty, no_repeat_ngram_size=size, beam=3)
    assert penalty_of(run) == penalty and penalty_of(run, length_penalty=0.5) == 0.5
    assert f"# length penalty:  {penalty:g}, found with beam 3" in model_description(str(run), None)
    (run / SEARCH).unlink()
    assert penalty_of(run) == 1


def test_no_repeats_are_taken_by_every_search_but_not_by_samples(run: Path) -> None:
    write_search(run, SearchDefaults(length_penalty=0.3, no_repeat_ngram_size=2, beam=3))
    load = partial(Translator.load, run, engine="torch", **SHORT)
    assert load().options.no_repeat_ngram_size == load(beam=3).options.no_repeat_ngram_size == 2
    assert load(no_repeat_ngram_size=0).options.no_repeat_ngram_size == 0
    assert load(sample=True).options.no_repeat_ngram_size == 0
    assert load(beam=3, length_penalty=1.0).options.no_repeat_ngram_size == 2
    assert "# no repeats:      of 2 characters or more" in model_description(str(run), None)
    text = load(max_len_b=40).translate("aaa")
    pairs = [text[i : i + 2] for i in range(len(text) - 1)]
    assert len(pairs) > 2 and len(set(pairs)) == len(pairs)


def test_of_equal_ones_the_nearest_to_the_usual_one() -> None:
    scores = {0.0: 3.0, 0.6: 5.0, 1.2: 5.0, 2.0: 5.0}
    assert tune_search.best_value([*scores], scores.__getitem__, 1.0) == 1.2
    assert tune_search.best_value([12, 0, 8], lambda size: 1.0, 0) == 0


def test_it_is_carried_on(run: Path, tmp_path: Path) -> None:
    """Convert and average keep it for a folder and its files; the first of several runs that has one decides;
    the file of another folder has none.
    """
    write_search(run, SearchDefaults(length_penalty=0.25, no_repeat_ngram_size=9, beam=4))
    checkpoint = run / "last.safetensors"
    convert(run, tmp_path / "a.safetensors", "int8")
    average([run], tmp_path / "b.safetensors")
    convert(checkpoint, tmp_path / "c.safetensors", "int8")
    convert(tmp_path / "b.safetensors", tmp_path / "d.safetensors", "fp32")
    for path in (run, checkpoint, *(tmp_path / f"{name}.safetensors" for name in "abcd")):
        assert read_weights(path)[1][2].search == SearchDefaults(
            length_penalty=0.25, no_repeat_ngram_size=9, beam=4
        ), path
        assert penalty_of(path) == 0.25
    (tmp_path / "published").mkdir()
    (tmp_path / "published/model.safetensors").write_bytes(checkpoint.read_bytes())
    write_search(tmp_path / "published", SearchDefaults(length_penalty=0.75))
    assert penalty_of(tmp_path / "published") == 0.75
    (tmp_path / "e.safetensors").write_bytes(checkpoint.read_bytes())
    assert penalty_of(tmp_path / "e.safetensors") == 1
    assert penalty_of(tmp_path / "e.safetensors", run) == 0.25


def test_the_command_takes_it(run: Path, tmp_path: Path) -> None:
    """With a beam; greedy search has no use for it, and does not refuse it."""
    write_search(run, SearchDefaults(length_penalty=0.0))

    def answers(*more: str) -> list[dict[str, float]]:
        given = [
            "translate",
            str(run),
            "--engine",
            "torch",
            "-i",
            str(tmp_path / "text"),
            "--format",
            "jsonl",
        ]
        done = CliRunner().invoke(main, [*given, "--no-alignment", *more])
        assert done.exit_code == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def as_told(answer: dict[str, float]) -> bool:
        return answer["score"] == answer["log_probability"]

    assert all(map(as_told, answers("-b", "3"))) and answers()
    assert not any(map(as_told, answers("-b", "3", "--length-penalty", "1")))


@pytest.mark.parametrize(
    "content",
    ["", "{", '{"length_penalty": -1}', '{"length_penalty": 11}', '{"length_penalty": NaN}', "[" * 10_000]
    + ['{"length_penalty": true}', '{"length_penalty": 1e999}', "{}", '{"length_penalty": 1, "beam": 0}']
    + [
        '{"length_penalty": 1, "no_repeat_ngram_size": -1}',
        '{"length_penalty": 1, "no_repeat_ngram_size": 1.5}',
    ],
)
def test_a_file_of_a_stranger(run: Path, content: str) -> None:
    (run / SEARCH).write_text(content)
    with pytest.raises(CheckpointError, match="is damaged") as error:
        penalty_of(run)
    assert "\n" not in str(error.value)
