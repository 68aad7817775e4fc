"""The examples of the library run, and what they say is so."""

import doctest
import io
import threading
from pathlib import Path
from types import ModuleType

import pytest
from made_up_engine import make_run

import bytenmt
from bytenmt.api import runs
from bytenmt.training import arguments

WITHOUT_SOURCE = ("model.source=false",)


@pytest.fixture(name="place")
def make_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two small texts and two runs."""
    monkeypatch.chdir(tmp_path)
    make_run(Path("runs", "mine"))
    make_run(Path("runs", "text"), "luong", settings=WITHOUT_SOURCE)
    Path("src").write_text("one\ntwo dogs\n\nfour\n")
    Path("tgt").write_text("eins\nzwei Hunde\n\nvier\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(("module", "least"), [(runs, 8), (arguments, 4)])
def test_the_examples_run(place: Path, module: ModuleType, least: int) -> None:
    said, n = io.StringIO(), 0
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(module, globs={**vars(module), "bytenmt": bytenmt}):
        n += len(example.examples)
        runner.run(example, out=said.write)
    assert said.getvalue() == "" and n >= least


@pytest.mark.slow
def test_a_training_in_another_thread_leaves_signals_alone(place: Path) -> None:
    """Signal handlers can only be set in the main thread."""
    found: list[object] = []
    Path("long").write_text("so many words " * 20)

    def work() -> None:
        try:
            run = bytenmt.train(
                "runs/new",
                arch="luong",
                preset="tiny",
                text="long",
                valid_text="long",
                max_updates=1,
                threads=1,
            )
            found.append(len(run.language_model().surprisal("ab").bits))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [2]


def test_a_model_is_shown_on_one_short_line(place: Path) -> None:
    translator = bytenmt.Run("runs/mine").translator(beam=3)
    assert repr(translator) == "<Translator, beam 3, lines up to 1000 bytes>"
    shown = repr(bytenmt.LanguageModel.load("runs/text"))
    assert shown.startswith("<LanguageModel of runs/text/") and len(shown) < 99 and "\n" not in shown


def test_what_a_command_refuses_is_refused(place: Path) -> None:
    for refused in (
        lambda: bytenmt.Run("runs/text").evaluate("src", "tgt"),
        lambda: bytenmt.Run("runs/text").translator(),
        lambda: bytenmt.Translator.load("runs/text"),
    ):
        with pytest.raises(bytenmt.SettingError, match="is a language model and cannot translate"):
            refused()
    for refused in (
        lambda: bytenmt.Run("runs/text").log_probabilities(["a"], ["b"]),
        lambda: bytenmt.Run("runs/text").log_probabilities([], []),
        lambda: bytenmt.Run("runs/text").byte_log_probabilities("a", "b"),
    ):
        with pytest.raises(
            bytenmt.SettingError, match=r"runs/text is a language model: use .*language_model"
        ):
            refused()
    with pytest.raises(bytenmt.SettingError, match="no lines to evaluate"):
        bytenmt.Run("runs/mine").evaluate([], [])
    for path in ("nowhere", "src"):  # no folder, and a file
        with pytest.raises(bytenmt.CheckpointError, match=f"{path} has no metrics.jsonl"):
            bytenmt.Run(path).metrics()
    with pytest.raises(bytenmt.DataError, match="line 2 of the sources contains a line break"):
        bytenmt.Run("runs/mine").evaluate(["a", "b\nc"], ["d", "e"])
    with pytest.raises(bytenmt.SettingError, match="is a translation model"):
        bytenmt.Run("runs/mine").language_model()
    with pytest.raises(bytenmt.BytenmtError, match="already holds a run"):
        bytenmt.train("runs/mine", arch="luong", src="src", tgt="tgt", valid_src="src", valid_tgt="tgt")
    with pytest.raises(bytenmt.ConfigError, match="train.no_such"):
        bytenmt.train("new", arch="luong", src="src", tgt="tgt", valid_src="src", valid_tgt="tgt", no_such=1)
    assert len(bytenmt.LanguageModel.load("runs/text").surprisal("").bits) == 0
