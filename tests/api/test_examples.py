"""The examples of the library run, and what they say is so."""

import doctest
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from heard import Heard
from made_up_engine import make_run

import bytenmt
from bytenmt import Run, data, evaluation, language, translation
from bytenmt.api import runs
from bytenmt.data import sentences
from bytenmt.training import arguments
from bytenmt.translation import glossary, translator

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


MODULES = [
    # Rooms that people call from Python have an example in the docstring of the folder.
    (data, 10),
    (evaluation, 11),
    (language, 10),
    (translation, 5),
    # Modules.
    (runs, 8),
    (arguments, 4),
    (translator, 4),
    (glossary, 1),
    (sentences, 4),
]


def module_name(value: object) -> str:
    return getattr(value, "__name__", "")


@pytest.mark.slow
@pytest.mark.parametrize(("module", "least"), MODULES, ids=module_name)
def test_the_examples_run(place: Path, module: ModuleType, least: int) -> None:
    said = io.StringIO()
    n = 0
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(module, globs={**vars(module), "bytenmt": bytenmt}):
        n += len(example.examples)
        runner.run(example, out=said.write)
    assert said.getvalue() == "" and n >= least


@pytest.mark.slow
def test_a_training_in_another_thread_leaves_signals_alone(place: Path) -> None:
    """Signal handlers can only be set in the main thread."""
    Path("long").write_text("so many words " * 20)
    asked: dict[str, Any] = {"arch": "luong", "preset": "tiny", "max_updates": 1, "threads": 1}
    asked |= {"text": "long", "valid_text": "long"}
    useless: dict[str, Any] = {"weights": [2.0], "settings": ["data.noise=0.1"]}
    heard = Heard()
    train = partial(bytenmt.train, "runs/new", **asked, **useless, reporter=heard)
    with ThreadPoolExecutor() as threads:
        run = threads.submit(train).result()
    assert "bytenmt: warning: without effect on a language model: noise, weight" in heard.lines
    assert len(run.surprisal("ab").bits) == 2


def test_a_model_is_shown_on_one_short_line(place: Path) -> None:
    translator = bytenmt.Translator.load("runs/mine", beam=3)
    assert repr(translator) == "<Translator, beam 3, lines up to 1000 bytes>"
    assert repr(bytenmt.Run("runs/text")) == "Run(path=PosixPath('runs/text'))"


TEXTS: dict[str, Any] = {"src": "src", "tgt": "tgt", "valid_src": "src", "valid_tgt": "tgt"}
TEXTS["arch"] = "luong"
TEXT, MINE = "runs/text", "runs/mine"
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: bytenmt.Translator.load(TEXT), "is a language model and cannot translate"),
    (lambda: Run(TEXT).log_probabilities(["a"], ["b"]), "a language model: use surpr"),
    (lambda: Run(TEXT).byte_log_probabilities("a", "b"), "a language model: use surpr"),
    (lambda: Run(MINE).surprisal("a"), "is a translation model: use Translator"),
    (lambda: Run(MINE).evaluate([], []), "no lines to evaluate"),
    (lambda: Run(MINE).evaluate(["a", "b\nc"], ["d", "e"]), "line 2 of the sources contains"),
    (lambda: Run("nowhere"), "nowhere does not exist: give a run folder"),
    (lambda: Run("src").metrics(), "src has no metrics.jsonl"),
    (lambda: bytenmt.train("new", **TEXTS, no_such=1), "train.no_such"),
    (lambda: bytenmt.train("new", **TEXTS, device="gpu"), "device is 'gpu': expected"),
    (lambda: bytenmt.train("new", **TEXTS, threads=300), "threads is 300: expected"),
    (lambda: Run(MINE).log_probabilities(["a"], ["b"], engin="x"), "engin is unknown"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_a_command_refuses_is_refused(
    place: Path, call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(bytenmt.BytenmtError, match=message):
        call()
