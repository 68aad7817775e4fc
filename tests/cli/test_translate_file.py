"""The command translate-file, with an engine that writes capitals."""

import io
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from command_line import invoke
from made_up_engine import made_up_translator

from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.weights import reverse_path
from bytenmt.cli import inputs, translate_file
from bytenmt.cli.files import writer
from bytenmt.data.pair_files import PairFiles
from bytenmt.errors import CheckpointError
from bytenmt.reporter import Bar
from bytenmt.translation.translator import Translator
from tools.verify.made_up_translations import SAMPLES

PO = (SAMPLES / "catalogue.po.in").read_text()


@pytest.fixture(autouse=True)
def capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is loaded, and the engine is made up."""
    facts = Facts(corpora=(PairFiles(Path("/data/train.en"), Path("/data/train.de.gz")),))
    loaded = SimpleNamespace(has_source=True, has_sentinels=False, source_words=None)
    loaded.runs = [SimpleNamespace(facts=facts)]
    loaded.reranks = lambda _: False
    loaded.make_scorer = None
    monkeypatch.setattr(inputs, "load_models", lambda *_, **__: loaded)

    def from_runtime(_: object, settings: Any) -> Translator:
        return made_up_translator(max_source_bytes=settings.max_source_bytes or 1000)

    monkeypatch.setattr(Translator, "from_runtime", from_runtime)


run = partial(invoke, "translate-file", "RUN")


def test_a_document_in_and_out(tmp_path: Path) -> None:
    files = "{n, plural, one {a file} other {# files}}"
    (tmp_path / "a.po").write_text(f'{PO}\nmsgid "42"\nmsgstr ""\n\nmsgid "{files}"\nmsgstr ""\n')
    result = run(tmp_path / "a.po", tmp_path / "b.po", "-v", "--flag-above", "100")
    assert result.exit_code == 0, result.output
    lines = result.stderr.splitlines()
    assert lines[0].startswith("bytenmt: flags: unsure above a doubt of 100.00; ")
    units = "7 units: 1 without words, 1 untranslated (ICU), 1 translated before, 3 trans"
    assert lines[1].startswith(units) and lines[1].endswith(", 1 fuzzy before")
    assert lines[-1] == "bytenmt: line 37: untranslated (ICU)"
    text = (tmp_path / "b.po").read_text()
    assert 'msgid "done"\nmsgstr "fertig"' in text and "A SECOND LINE0\\n" in text
    anew = run(tmp_path / "a.po", tmp_path / "b.po", "--overwrite", "-q")
    assert anew.exit_code == 0 and not anew.stderr
    assert 'msgstr "DONE0"' in (tmp_path / "b.po").read_text()


def test_the_format_is_told_or_named(tmp_path: Path) -> None:
    (tmp_path / "a.doc").write_bytes(b"<ul><li>one<li><b>two</b></ul>")
    assert "no format has the suffix '.doc'" in run(tmp_path / "a.doc", tmp_path / "b").stderr
    assert run(tmp_path / "a.doc", tmp_path / "b", "--format", "html").exit_code == 0
    assert (tmp_path / "b").read_bytes() == b"<ul><li>ONE0</li><li><b>TWO0</b></li></ul>"
    (tmp_path / "a.csv").write_text("x,y\na,\nb,done\n")
    arguments = (tmp_path / "a.csv", tmp_path / "b.csv", "--column", "x", "--to-column", "y")
    assert run(*arguments, "--pair", "en-de").exit_code == 0
    assert (tmp_path / "b.csv").read_text() == "x,y\na,A0\nb,done\n"


def test_the_standard_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    result = run(tmp_path / "a.txt", "-")
    assert (result.exit_code, result.stdout) == (0, "ONE0\n") and "1 translated" in result.stderr
    monkeypatch.setattr(translate_file, "standard_input", lambda: io.BytesIO(b"\xff\n"))
    done = run("-", "-", "--format", "text")
    assert "bytenmt: standard input: line 1: 0xFF is not valid UTF-8" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_pipe_by_its_name() -> None:
    """/dev/stdout is not a file, but a link to the pipe, as all of /dev/fd are."""
    reading, writing = os.pipe()
    with writer(Path(f"/dev/fd/{writing}")) as file:
        file.write(b"one")
    assert os.read(reading, 9) == b"one"


def test_what_is_broken_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.po").write_text(PO)

    monkeypatch.setattr(Translator, "translate_lines", Mock(side_effect=KeyboardInterrupt))
    result = run(tmp_path / "a.po", tmp_path / "b.po")
    assert result.exit_code == 130 and not result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.po"]


def test_a_model_without_sentinels_is_told(tmp_path: Path) -> None:
    """Codes are put at the end."""
    (tmp_path / "a.md").write_text("one **two**\n")
    told = run(tmp_path / "a.md", tmp_path / "b.md").stderr
    assert "RUN was trained without sentinels: inline codes" in told and "1 to review" in told
    assert "sentinels" not in run(tmp_path / "a.md", tmp_path / "b.md", "--format", "text").stderr


def test_other_languages_than_the_models_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    told = run(tmp_path / "a.txt", tmp_path / "b.txt", "--pair", "fr-de").stderr
    assert "--pair has fr as the source language, and RUN was trained on en" in told
    assert "trained on" not in run(tmp_path / "a.txt", tmp_path / "b.txt", "--pair", "en-de").stderr


@pytest.mark.parametrize(
    ("language", "options", "is_refused"),
    [
        ("fr", "", True),
        ("fr", "--pair en-de", True),
        ("fr", "--pair en-fr", False),
        ("fr", "--overwrite", True),  # it would go on to say that it is French
        ("fr", "--overwrite --pair en-de", False),
        ("de_AT", "", False),
        ("en", "", True),
        ("en", "--pair en-de", False),  # an untranslated copy of the source
    ],
)
def test_a_file_for_another_language_is_refused(
    tmp_path: Path, language: str, options: str, is_refused: bool
) -> None:
    po = f'msgid ""\nmsgstr "Language: {language}\\n"\n\nmsgid "a"\nmsgstr ""\n'
    xliff = (SAMPLES / "version-2.xlf.in").read_text()
    xliff = xliff.replace('trgLang="de"', f'trgLang="{language}"')
    translated = po.removesuffix('""\n') + '"b"\n'
    for name, text in {"a.po": po, "b.po": translated, "a.xlf": xliff}.items():
        (tmp_path / name).write_text(text)
        result = run(tmp_path / name, tmp_path / f"new.{name}", *options.split())
        refused = is_refused or (language == "en" and name != "a.po")
        assert (result.exit_code, (tmp_path / f"new.{name}").exists()) == (refused, not refused)
        assert (f"{name} is for {language}, not for de: " in result.stderr) == refused


def test_progress_is_shown_in_a_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar moves after every hundred lines."""
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(250)))
    steps = list[float]()
    monkeypatch.setattr(Bar, "advance", lambda _, n: steps.append(n))
    assert run(tmp_path / "a.txt", tmp_path / "b.txt").exit_code == 0
    assert steps == [100, 100, 50]


def test_doubtful_units_are_listed_and_wrong_ones_left(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one **two**\n\nthree\n")
    arguments = (tmp_path / "a.md", tmp_path / "b.md", "--review", tmp_path / "list.tsv")
    result = run(*arguments, "--leave-wrong")
    assert "2 units: 1 translated, 1 to review, 1 left as wrong" in result.stderr
    assert (tmp_path / "b.md").read_text() == "ONE **TWO0**\n\nthree\n"
    head, _, row = (tmp_path / "list.tsv").read_text().splitlines()
    assert head == "place\tsource\ttranslation\tverdict\treasons"
    assert row.startswith("line 3\tthree\tTHREE0\twrong\thas no words")
    assert "is also the input" in run(*arguments[:3], tmp_path / "a.md").stderr


def test_a_catalogue_without_plural_forms_is_warned_of(tmp_path: Path) -> None:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
    (tmp_path / "a.pot").write_text(f'{head}msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n')
    assert "a.pot: no Plural-Forms" in run(tmp_path / "a.pot", tmp_path / "b.po").stderr
    assert "Plural" not in run(tmp_path / "a.pot", tmp_path / "b.po", "--pair", "en-de").stderr


def test_the_opposite_model_ranks_where_the_folder_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--fast, greedy search and sampling go without; where it is missing, one line says so."""
    load_models = Mock(wraps=inputs.load_models)
    check_settings = Mock(wraps=inputs.check_settings)
    monkeypatch.setattr(inputs, "load_models", load_models)
    monkeypatch.setattr(inputs, "check_settings", check_settings)
    own, opposite = tmp_path / "en-de", tmp_path / "de-en"
    for folder in (own, opposite):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"")
    (own / "search.json").write_text('{"reverse": "de-en"}')
    (tmp_path / "a.txt").write_text("Some text\n")
    files = (tmp_path / "a.txt", tmp_path / "b.txt")
    for options in ((), ("--fast",), ("--beam-size", "1"), ("--beam-size", "6")):
        answer = invoke("translate-file", own, *files, *options)
        assert answer.exit_code == 0, answer.output
    specs = [call.args[1] for call in load_models.call_args_list]
    assert [spec.reverse for spec in specs] == [opposite, None, None, opposite]
    beams = [call.args[0].get("beam", 0) for call in check_settings.call_args_list]
    assert beams == [12, 0, 1, 6]
    (opposite / "model.safetensors").unlink()
    answer = invoke("translate-file", own, *files)
    assert answer.exit_code == 0 and load_models.call_args.args[1].reverse is None
    missing = f"bytenmt: {opposite} is missing: no opposite model ranks the translations"
    assert answer.stderr.splitlines()[0] == missing


@pytest.mark.parametrize("name", ["../de-en", "/de-en", "a/b", "..", "", "a\\\\b"])
def test_the_opposite_model_is_a_name_and_not_a_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "search.json").write_text(f'{{"reverse": "{name}"}}')
    with pytest.raises(CheckpointError, match=r"search\.json is damaged"):
        reverse_path(tmp_path)
