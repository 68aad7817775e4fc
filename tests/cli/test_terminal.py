"""Lines on a terminal: foreign texts are escaped, an error is one line, bars are wiped away."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from command_line import Terminal, invoke

from bytenmt.cli import console as module
from bytenmt.cli.console import Console
from bytenmt.cli.main import main
from bytenmt.errors import BytenmtError, DataError, printable

HOSTILE = "e\x1b[31mvil\x9b2J\x7f\x00\nname\r"
SHOWN = r"e\x1b[31mvil\x9b2J\x7f\x00\nname\r"
A_FILE = HOSTILE.replace("\x00", "")
UNDECODABLE = os.fsdecode(b"caf\xe9.txt")


def test_printable() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("한국어 é 🙂\u00a0") == r"한국어 é 🙂\xa0"
    assert printable(UNDECODABLE) == r"caf\xe9.txt"
    assert printable("\ud800 \u202e \u2028 \t") == r"\ud800 \u202e \u2028 \t"
    assert printable(Path("plain")) == "plain"


def test_errors_and_warnings_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = DataError(f"{HOSTILE} does not exist")
    assert str(error) == f"{error}" == f"{SHOWN} does not exist"
    assert str(BytenmtError(f"no: {error}")) == f"no: {SHOWN} does not exist"
    Console().warn(HOSTILE)
    assert capsys.readouterr().err == f"bytenmt: warning: {SHOWN}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "-m", A_FILE],
        ["translate", "-m", "no", "-i", "no", "--device", A_FILE],
        ["translate", f"--{A_FILE}"],
        ["predict", "-m", A_FILE, A_FILE],
        ["info", A_FILE],
        ["info", f"{A_FILE}.safetensors"],
        ["convert", A_FILE, "-o", "x.safetensors"],
        ["train", "-o", "no", "--arch", A_FILE, "--text", A_FILE, "--valid-text", A_FILE],
        [A_FILE],
        [f"--{A_FILE}"],
    ],
)
def test_no_name_reaches_the_terminal_as_it_is(arguments: list[str]) -> None:
    told = CliRunner().invoke(main, arguments, color=True)
    assert told.exit_code in (1, 2) and not isinstance(told.exception, UnicodeError)
    lines = told.output.splitlines()
    assert lines and all(line.isprintable() for line in lines), told.output
    assert "x1b[31mvil" in lines[-1]


def test_no_arguments_show_the_help() -> None:
    assert len(CliRunner().invoke(main, []).output.splitlines()) > 10


@pytest.mark.slow
def test_help_to_a_full_device() -> None:
    command = [sys.executable, "-m", "bytenmt", "--help"]
    with open("/dev/full", "wb") as full:
        told = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (told.returncode, told.stderr) == (1, "bytenmt: No space left on device\n")


def test_errors_of_the_system_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, line in (
        (MemoryError(), "out of memory: "),
        (OSError("a text"), "a text\n"),
        (OSError(2, "No", "x"), "x: No\n"),
    ):
        failing = Mock(side_effect=error)
        monkeypatch.setattr("bytenmt.decoding.model_summary.model_description", failing)
        told = invoke("info luong")
        assert told.exit_code == 1 and told.output.startswith(f"bytenmt: {line}")


def test_a_line_never_stands_behind_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal every line begins where the bar was wiped away; a finished bar is at 100 %."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    console = Console()
    console.say("before")
    with console.bar(1.0, "", 0.25) as bar:
        console.say("first")
        bar.show(0.63, "update 1")
        console.warn("second")
        bar.show(1.0, "update 2")
    console.say("after")
    written = terminal.getvalue()
    assert written.startswith("before\n")
    for line in ("first", "bytenmt: warning: second", "after"):
        before = written[: written.index(line)]
        assert re.search(r"(^|\n|\r) *\r?$", before), (line, before[-80:])
    assert "100%" in written[written.index("second") :].rpartition("after")[0].splitlines()[-1]


def test_a_log_tells_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Off a terminal: after a while a line on the progress; none of what is counted in bytes."""
    console = Console()
    for seconds in (0.0, 3600.0):
        monkeypatch.setattr(module, "QUIET_SECONDS", seconds)
        with console.bar(1.0, "", 0.5) as bar:
            console.say("one")
            time.sleep(0.01)
            bar.show(0.55, "update 5")
            bar.show(0.75, "update 9")
            console.say("two")
        with console.bar(1.0, "", what="compiling") as bar:
            bar.show(0.5, "")
        with console.bar(100, "B") as bar:
            bar.advance(50)
    told = capsys.readouterr().err.splitlines()
    assert [re.sub(r"\d\d:\d\d", "TIME", line) for line in told] == [
        *("50%, ? left", "one", "55%, update 5, TIME left", "75%, update 9, TIME left", "two"),
        *("compiling: 0%, ? left", "compiling: 50%, TIME left"),
        *("one", "two"),
    ]
