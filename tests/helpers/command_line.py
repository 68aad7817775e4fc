"""Run commands as a user does: what they print, and what they refuse in one line."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from bytenmt.cli.line_filter import LineFilter
from bytenmt.cli.main import main

# The beginnings of commands, in the folder that cli/conftest.py makes.
EVALUATE = "evaluate -m run"
TRANSLATE = "translate -m run"
# One update: where a fault lets the command through, the test fails soon.
TRAIN = (
    "train -o new --arch luong --tgt tgt --valid-tgt tgt --set train.max_updates=1"
    " --set train.warmup_updates=0"
)
TEXT = "train -o new --arch luong --text tgt --valid-text tgt --set train.max_updates=1"
RESUME = "train -o run --resume --src src --valid-src src --tgt tgt --valid-tgt tgt"


def invoke(*words: object) -> Result:
    """Run a command, given as one line or as words."""
    return CliRunner().invoke(main, [*map(str, words)] if len(words) > 1 else str(words[0]).split())


def accepted(*words: str) -> str:
    """Return what a command prints on stdout; its exit code is 0."""
    result = invoke(*words)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result.stdout


def listing(folder: Path) -> dict[Path, bytes]:
    """Every file of a folder, as another process sees it."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


class DeathError(BaseException):
    """An exception that no command expects."""


@contextmanager
def dying_after(n_batches: int) -> Iterator[None]:
    """Let `translate` die before it answers one batch more; nothing else may end it."""
    answer: Any = LineFilter._answer
    batches = Mock(side_effect=[*[None] * n_batches, DeathError])
    with pytest.MonkeyPatch.context() as patch, pytest.raises(DeathError):
        patch.setattr(LineFilter, "_answer", lambda *given: (batches(), answer(*given)))
        yield


def refused(command: str, code: int = 1) -> str:
    """Return the last line on stderr, the only one where the exit code is 1.

    Nothing is on stdout, and nothing is written in the current folder.
    """
    before = listing(Path.cwd())
    result = invoke(command)
    assert result.exit_code == code, (result.stderr, result.exception)
    assert code == 2 or re.fullmatch(r"bytenmt: [^\n]+\n", result.stderr), result.stderr
    assert result.stdout == ""
    assert listing(Path.cwd()) == before
    return result.stderr.splitlines()[-1] + "\n"
