"""The command translate-file, with an engine that writes capitals: what it makes, tells and refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_up_engine import made_up_translator

import bytenmt
from bytenmt.cli import translation_commands
from bytenmt.cli.main import main
from bytenmt.config.facts import CorpusFact, Facts
from bytenmt.decoding.translator import Translator
from tools.verify.sample_documents import PO, SAMPLES


@pytest.fixture(autouse=True)
def capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is loaded, and the engine is made up."""
    facts = Facts(corpora=(CorpusFact("/data/train.en", "/data/train.de.gz"),))
    loaded = SimpleNamespace(has_source=True, runs=[SimpleNamespace(facts=facts)])
    monkeypatch.setattr(translation_commands, "loaded_runs", lambda *_, **__: loaded)

    def from_runtime(_: object, settings: Any, group: object = None) -> Translator:
        return made_up_translator(max_source_bytes=settings.max_source_bytes or 1000)

    monkeypatch.setattr(Translator, "from_runtime", from_runtime)


# So that a child in another folder finds the package under test.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(bytenmt.__file__).parent.parent)}
MAIN = "from bytenmt.cli.main import main; main()"
# The engine of this test writes %D for %d, which C does not know.
LOST_CODES = (
    "wrong: its conversions, such as %s, take other arguments than those of the source;"
    " tags or placeholders were lost, and put back by their position"
)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["translate-file", "RUN", *map(str, arguments)])


def test_a_document_in_and_out(tmp_path: Path) -> None:
    """A summary is printed; -v lists the units to review. The engine of this test loses placeholders in the
    middle.
    """
    (tmp_path / "a.po").write_text(PO.replace("%d file", "so %d file"))
    result = run(tmp_path / "a.po", tmp_path / "b.po", "-v", "--flag-above", "100")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        "bytenmt: flags: the model has no thresholds of its own, unsure above 100 bits per byte",
        "5 units: 4 translated, 1 translated before, 2 to review",
        *(
            f"bytenmt: to review: {place}: {LOST_CODES}"
            for place in ("line 10, column 8", "line 11, column 15")
        ),
    ]
    text = (tmp_path / "b.po").read_text()
    assert 'msgid "done"\nmsgstr "fertig"' in text and "A SECOND LINE0\\n" in text
    anew = run(tmp_path / "a.po", tmp_path / "b.po", "--overwrite", "-q")
    assert anew.exit_code == 0 and not anew.stderr
    assert 'msgstr "DONE0"' in (tmp_path / "b.po").read_text()


def test_units_that_need_no_model_are_counted(tmp_path: Path) -> None:
    files = "{n, plural, one {a file} other {# files}}"
    (tmp_path / "a.json").write_text(json.dumps({"text": "Open", "number": "42", "icu": files}))
    result = run(tmp_path / "a.json", tmp_path / "b.json", "-v", "--flag-above", "100")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[1:] == [
        "3 units: 1 translated, 0 translated before, 1 without words, 1 ICU messages left as they were,"
        " 0 to review",
        "bytenmt: ICU message left as it was: line 1, column 42",
    ]
    assert json.loads((tmp_path / "b.json").read_text()) == {"text": "OPEN0", "number": "42", "icu": files}


def test_the_format_is_told_or_named(tmp_path: Path) -> None:
    (tmp_path / "a.doc").write_bytes(SAMPLES["html"].data)
    assert "no format has the suffix '.doc'" in run(tmp_path / "a.doc", tmp_path / "b").stderr
    assert run(tmp_path / "a.doc", tmp_path / "b", "--format", "html").exit_code == 0
    assert b"<li>ONE0<li><b>TWO0</b>" in (tmp_path / "b").read_bytes()
    (tmp_path / "a.csv").write_text("x,y\na,\nb,done\n")
    arguments = (tmp_path / "a.csv", tmp_path / "b.csv", "--column", "x", "--to-column", "y")
    assert run(*arguments).exit_code == 0
    assert (tmp_path / "b.csv").read_text() == "x,y\na,A0\nb,done\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("a.po a.po", "a.po is the input too: give another file"),
        ("a.po a.po/b.po", "cannot be created"),
        ("none.po b.po", "none.po does not exist: check its name"),
        (". b.po", "is a directory: give the name of a file in it"),
        ("a.po b.po --memory none.tmx --pair en-de", "bytenmt: {}/none.tmx does not exist: check its name"),
        ("a.po b.po --format json", "line 1, column 1: not JSON"),
        ("a.po b.po --column x", "--column would be ignored with --format po"),
        ("a.po b.po --format tmx --pair ende", "--pair ende: expected two languages"),
        ("a.po b.po --format html --encoding klingon", "unknown encoding klingon"),
        ("a.po b.po --prefix x", "No such option"),
        ("a.po b.po --flag-above nan", "nan is not in the range"),
    ],
)
def test_one_line_for_a_mistake(tmp_path: Path, arguments: str, message: str) -> None:
    """And nothing is written."""
    (tmp_path / "a.po").write_text(PO)
    words = [str(tmp_path / word) if "." in word else word for word in arguments.split()]
    result = run(*words)
    assert result.exit_code in (1, 2) and message.format(tmp_path) in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.po"]
    assert (tmp_path / "a.po").read_text() == PO


def test_the_standard_streams(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    result = run(tmp_path / "a.txt", "-")
    assert (result.exit_code, result.stdout) == (0, "ONE0\n") and "1 translated" in result.stderr
    command = [sys.executable, "-c", MAIN, "translate-file", "RUN", "-", "-", "--format", "text"]
    done = subprocess.run(command, input=b"\xff\n", capture_output=True, env=ENVIRONMENT, cwd=tmp_path)
    assert b"bytenmt: standard input, line 1, column 1: 0xFF is not valid UTF-8" in done.stderr
    assert "standard input has no suffix: give --format, one of" in run("-", tmp_path / "b.txt").stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_pipe_by_its_name() -> None:
    """/dev/stdout is no file, but a link to the pipe."""
    code = "from pathlib import Path; from bytenmt.cli.console import writer\n"
    code += "with writer(Path('/dev/stdout')) as file: file.write(b'one')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=ENVIRONMENT)
    assert done.stdout == b"one"


def test_another_suffix_than_that_of_the_format(tmp_path: Path) -> None:
    (tmp_path / "a.pot").write_text(PO)
    for output, is_warned in (("b.xlf", True), ("b.po", False), ("b", False)):
        result = run(tmp_path / "a.pot", tmp_path / output)
        expected = f"{output} gets the format of {tmp_path / 'a.pot'}, po, and has the suffix of xliff"
        assert result.exit_code == 0 and (expected in result.stderr) == is_warned
    assert "gets the format" not in run(tmp_path / "a.pot", tmp_path / "b.xlf", "--format", "po").stderr


def test_what_is_broken_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.po").write_text(PO)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "translate_lines", fail)
    assert run(tmp_path / "a.po", tmp_path / "b.po").exit_code == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.po"]


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\xff\n\n42 \xff\n")
    arguments = (tmp_path / "a.txt", tmp_path / "b.txt")
    assert run(*arguments, "--errors", "replace").exit_code == 0
    assert (tmp_path / "b.txt").read_bytes() == "ONE\ufffd0\n\n42 ".encode() + b"\xff\n"
    for more in ((), ("--errors", "strict")):
        assert "a.txt, line 1, column 4: 0xFF is not valid UTF-8 there" in run(*arguments, *more).stderr


@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("a.html", b"<html><body><p>Open, Ren.</p>\n<pre>caf\xe9</pre>", []),
        ("a.md", b"Open.\n\tcaf\xe9\n", []),
        ("a.srt", b"1\n00:00:01,000 --> 00:00:02,000\xe9\nOpen.\n", []),
        ("a.csv", b"en,note\nOpen,caf\xe9\n", ["--column", "en"]),
    ],
)
def test_a_file_in_an_older_encoding(tmp_path: Path, name: str, data: bytes, options: list[str]) -> None:
    """Refuse it, also where such bytes are in no unit: it would come out in two encodings."""
    (tmp_path / name).write_bytes(data)
    arguments = (tmp_path / name, tmp_path / f"b{name}", *options)
    refused = run(*arguments)
    assert refused.exit_code == 1 and not (tmp_path / f"b{name}").exists()
    assert f"{name}, line 2, column " in refused.stderr
    assert (
        "0xE9 is not valid UTF-8 there: give the file's encoding, such as --encoding cp1252" in refused.stderr
    )
    assert run(*arguments, "--encoding", "cp1252").exit_code == 0
    assert b"\xe9" in (tmp_path / f"b{name}").read_bytes()


def test_a_warning_about_a_template(tmp_path: Path) -> None:
    header = 'msgid ""\nmsgstr "Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n'
    entry = 'msgid "%d a"\nmsgid_plural "%d b"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    (tmp_path / "a.pot").write_text(f"{header}\n{entry}")
    arguments = (tmp_path / "a.pot", tmp_path / "b.po")
    warning = (
        "bytenmt: warning: {}: gettext needs Plural-Forms in the header: give --pair, such as --pair en-de"
    )
    assert warning.format(tmp_path / "a.pot") in run(*arguments).stderr.splitlines()
    assert "warning" not in run(*arguments, "--pair", "en-de").stderr


@pytest.mark.parametrize(
    ("declared", "pair", "message"),
    [
        ("de", [], []),
        ("de-AT", [], []),
        ("fr", [], ["{in} declares fr as the target language, and RUN was trained on de"]),
        ("fr", ["--pair", "en-de"], []),
        ("de", ["--pair", "fr-de"], ["--pair declares fr as the source language, and RUN was trained on en"]),
    ],
)
def test_other_languages_than_the_models(
    tmp_path: Path, declared: str, pair: list[str], message: list[str]
) -> None:
    """Are told of; --pair sets the one of the file."""
    text = SAMPLES["xliff 1.2"].data.replace(
        b'target-language="de"', f'target-language="{declared}"'.encode()
    )
    (tmp_path / "a.xlf").write_bytes(text)
    result = run(tmp_path / "a.xlf", tmp_path / "b.xlf", *pair)
    assert result.exit_code == 0, result.output
    expected = [f"bytenmt: warning: {line}".replace("{in}", str(tmp_path / "a.xlf")) for line in message]
    assert [line for line in result.stderr.splitlines() if "declares" in line] == expected
    wanted = b'target-language="%s"' % (b"de" if pair else declared.encode())
    assert wanted in (tmp_path / "b.xlf").read_bytes()


@pytest.mark.parametrize("pair", [[], ["--pair", "en-de"]])
def test_every_file_of_an_xliff_is_looked_at(tmp_path: Path, pair: list[str]) -> None:
    body = '<body><trans-unit id="1"><source>one</source></trans-unit></body>'
    files = "".join(f'<file source-language="{source}">{body}</file>' for source in ("en", "fr", "fr"))
    (tmp_path / "a.xlf").write_text(f'<xliff version="1.2">{files}</xliff>')
    result = run(tmp_path / "a.xlf", tmp_path / "b.xlf", *pair)
    expected = f"{tmp_path / 'a.xlf'} declares fr as the source language, and RUN was trained on en"
    assert [line for line in result.stderr.splitlines() if "declares" in line] == [
        f"bytenmt: warning: {expected}"
    ]
