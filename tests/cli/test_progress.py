"""Lines and bars on stderr, on a terminal and off it."""

import io
import re
import sys
import time

import pytest

from bytenmt.cli.console import Console, duration


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


def test_a_log_carries_the_time_and_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Off a terminal: every half minute a line on the progress, whose end no other line has; none of what is
    counted in bytes."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "strftime", lambda form: "12:34:56")
    console = Console()
    with console.bar(1.0, "", 0.5) as bar:
        console.say("one")
        now[0] += 29
        bar.show(0.55, "update 5")
        now[0] += 31
        bar.show(0.75, "update 9")
        console.say("two")
    console.say("three")
    with console.bar(1.0, "", what="compiling") as bar:
        now[0] += 31
        bar.show(0.5, "")
    with console.bar(100, "B") as bar:
        bar.advance(50)
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "12:34:56 one",
        "12:34:56 75%, update 9, 60 s left",
        "12:34:56 two",
        "three",
        "12:34:56 50%, compiling, 31 s left",
    ]


def test_durations() -> None:
    shown = [duration(seconds) for seconds in (5, 89, 90, 5000, 11_100)]
    assert shown == ["5 s", "89 s", "2 min", "83 min", "3 h 05 min"]
