"""Lines and bars on stderr, on a terminal and off it."""

import io
import re
import sys
import time

import pytest

from bytenmt.cli import console as module
from bytenmt.cli.console import Console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_never_stands_behind_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal every line begins where the bar was wiped away; a bar that is done stands at 100 %."""
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
