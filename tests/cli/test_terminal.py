"""Test what is printed on a terminal: foreign names and texts are escaped, and an error is one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bytenmt.cli.console import Console
from bytenmt.cli.main import main
from bytenmt.errors import BytenmtError, DataError, printable

pytestmark = pytest.mark.slow

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


def test_an_error_is_one_line_however_it_is_told() -> None:
    """Errors of every kind are one line, also if one quotes another."""
    error = DataError(f"{HOSTILE} does not exist")
    assert str(error) == f"{error}" == f"{SHOWN} does not exist"
    assert str(BytenmtError(f"no: {error}")) == f"no: {SHOWN} does not exist"


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "-m", A_FILE],
        ["translate", "-m", "no", "-i", "no", "--device", A_FILE],
        ["translate", f"--{A_FILE}"],
        ["predict", "-m", A_FILE, A_FILE],
        ["predict", "-m", "no", A_FILE],
        ["predict", "-m", "no", f"{A_FILE}.bz2"],
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


def test_warnings_too(capsys: pytest.CaptureFixture[str]) -> None:
    Console().warn(HOSTILE)
    assert capsys.readouterr().err == f"bytenmt: warning: {SHOWN}\n"


def test_help_to_a_full_device() -> None:
    command = [sys.executable, "-m", "bytenmt", "--help"]
    with open("/dev/full", "wb") as full:
        told = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (told.returncode, told.stderr) == (1, "bytenmt: No space left on device\n")


def test_out_of_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("bytenmt.decoding.model_summary.model_description", greedy)
    told = CliRunner().invoke(main, ["info", "luong"])
    assert told.exit_code == 1 and told.output.startswith("bytenmt: out of memory: ")
