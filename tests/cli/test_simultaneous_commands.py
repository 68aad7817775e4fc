"""translate --simultaneous and evaluate --simultaneous as a user meets them."""

from __future__ import annotations

import io
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_up_engine import make_run

from bytenmt.cli.main import main
from bytenmt.cli.simultaneous import translate_as_it_comes
from bytenmt.decoding.translator import Translator
from bytenmt.errors import DataError

LINES = ["하나 둘 셋", "one two", "", "three 3 of many words", "넷"]
SHORT = ["--engine", "torch", "--max-len-a", "0.5", "--max-len-b", "9"]
BOUNDED = ("model.encoder_lookahead=2", "model.d_hidden=16")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with bounded look-ahead, one without, and texts."""
    folder = tmp_path_factory.mktemp("made")
    make_run(folder / "bounded", "luong", settings=BOUNDED)
    make_run(folder / "plain", "luong", settings=BOUNDED[1:])
    (folder / "src").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    (folder / "ref").write_text("".join(f"{line} x\n" for line in LINES), encoding="utf-8")
    return folder


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def accepted(*words: str) -> str:
    done = call(*words)
    assert done.exit_code == 0, (done.stderr, done.exception)
    return done.stdout


def translator_of(run: str) -> Translator:
    return Translator.load(run, engine="torch", max_len_a=0.5, max_len_b=9)


@pytest.mark.slow
@pytest.mark.parametrize("run", ["bounded", "plain"])
def test_each_line_becomes_the_line_of_a_session(place: Path, run: str) -> None:
    expected, translator = "", translator_of(run)
    for line in LINES:
        session = translator.open(8)
        expected += session.feed(line).committed + session.finish().committed + "\n"
    options = ["translate", run, "-i", "src", "--simultaneous", "--wait", "8", *SHORT]
    assert accepted(*options) == expected
    accepted(*options, "-o", "out")
    assert Path("out").read_text(encoding="utf-8") == expected


@pytest.mark.slow
def test_text_is_written_before_its_line_has_ended(place: Path) -> None:
    """The text that a byte decides is in the pipe before the next byte is sent."""
    line = "a line that is longer than its wait"
    (from_test, to_command), (from_command, to_test) = os.pipe(), os.pipe()
    translator, found = translator_of("bounded"), b""

    def work() -> None:
        with open(from_test, "rb") as source, open(to_test, "wb") as out:
            translate_as_it_comes(translator, 4, source, out, "strict")

    thread = threading.Thread(target=work)
    thread.start()
    session = translator_of("bounded").open(4)
    for character in line:
        os.write(to_command, character.encode())
        expected = session.feed(character).committed.encode()
        n_before = len(found)
        while len(found) < n_before + len(expected):
            found += os.read(from_command, 100)
        assert found[n_before:] == expected
    assert len(found) > 20
    os.close(to_command)
    thread.join(60)
    assert os.read(from_command, 1000) == session.finish().committed.encode() + b"\n"
    os.close(from_command)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"a b\r\nc", ["a b", "c"]),
        (b"\xef\xbb\xbfa\n\nb\n", ["a", "", "b"]),
        (b"a\xff b", ["a\ufffd b"]),
        (b"", []),
        (b"a\r", ["a\r"]),
    ],
)
def test_line_ends_marks_and_mistakes(place: Path, text: bytes, lines: list[str]) -> None:
    """Bytes that arrive one by one: line ends of both kinds, a byte order mark, and no UTF-8."""
    fed: list[str] = []

    class Recorder:
        def feed(self, piece: str) -> Any:
            fed[-1] += piece
            return self

        def finish(self) -> Any:
            fed.append("")
            return self

        committed = "x"

    class Source(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return super().read(1)

    class Made:
        languages = ()
        max_source_bytes = 1000

        def open(self, wait: int) -> Recorder:
            return Recorder()

    fed.append("")
    out = io.BytesIO()
    made: Any = Made()
    source: Any = Source(text)
    translate_as_it_comes(made, 4, source, out, "replace")
    assert fed[:-1] == lines and out.getvalue().count(b"\n") == len(lines)
    if b"\xff" in text:
        source.seek(0)
        with pytest.raises(DataError, match="standard input, line 1, byte offset 1: 0xFF is not valid UTF-8"):
            translate_as_it_comes(made, 4, source, out, "strict")


@pytest.mark.slow
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_lines_before_a_mistake_are_written(place: Path, ends: bytes) -> None:
    Path("wrong").write_bytes(
        "하나 둘".encode() + ends + b"one two" + ends + "é ".encode() + b"\xff x" + ends
    )
    done = call("translate", "plain", "-i", "wrong", "--simultaneous", "--errors", "strict", *SHORT)
    assert done.exit_code and "wrong, line 3, byte offset 3: 0xFF is not valid UTF-8" in done.stderr
    Path("right").write_text("하나 둘\none two\n", encoding="utf-8")
    assert done.stdout.startswith(accepted("translate", "plain", "-i", "right", "--simultaneous", *SHORT))


@pytest.mark.slow
def test_sentences_and_long_lines_are_translated_in_parts(place: Path) -> None:
    """The options have the effect of an input with a line for each part."""
    Path("parts").write_text("One is here.\nTwo is there.\n", encoding="utf-8")
    parts = accepted("translate", "plain", "-i", "parts", "--simultaneous", *SHORT).splitlines()
    Path("line").write_text("One is here. Two is there.\n", encoding="utf-8")
    options = ["translate", "plain", "-i", "line", "--simultaneous", *SHORT]
    assert accepted(*options, "--split-sentences", "always") == " ".join(parts) + "\n"
    done = call(*options, "--split-sentences", "never", "--max-source-bytes", "15")
    assert done.stdout == " ".join(parts) + "\n"
    assert "line, line 1 is over the 15 bytes of --max-source-bytes: translated in parts" in done.stderr


TRANSLATE = "translate bounded -i src"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (f"{TRANSLATE} --wait 8", "--wait would be ignored: give --simultaneous with it"),
        (f"{TRANSLATE} --simultaneous --stream", "--simultaneous cannot be combined with --stream"),
        (f"{TRANSLATE} --simultaneous --format jsonl", "cannot be combined with --format"),
        (f"{TRANSLATE} --simultaneous --buffer-size 2", "cannot be combined with --buffer-size"),
        (f"{TRANSLATE} --simultaneous --workers 2", "cannot be combined with --workers"),
        (f"{TRANSLATE} --simultaneous --reverse bounded -b 2", "cannot use reverse: leave it out"),
        (f"{TRANSLATE} --simultaneous --wait 2", "wait is 2: this model needs 3 to"),
        (f"{TRANSLATE} --simultaneous -b 2", "cannot use beam (with a bounded look-ahead)"),
        (f"{TRANSLATE} --simultaneous --keep urls", "cannot use keep or glossary"),
    ],
)
def test_refused(place: Path, words: str, reason: str) -> None:
    done = call(*words.split())
    assert done.exit_code and reason in done.stderr, done.stderr
