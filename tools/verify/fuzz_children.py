"""Work on the brink, in forked children of this warmed process: what dies tells how.

A child carries out some numbered tasks one after another, each with an alarm, in an address space of little
more than it has; when it is killed, the task that it was at is to blame, and another child goes on behind it.
Knows processes; knows nothing of what is tried.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SECONDS = 10  # of the processor that a task may take, until it is killed
WAITING = 30  # times as long by the clock: the machine may have other work
ROOM = 2 << 30  # bytes of address space that a child may take besides what it has
TIMERS = (signal.SIGPROF, signal.SIGALRM)
TOGETHER = 25  # tasks of a child
LONGEST = 10_000  # characters of a message, which may tell the user's own words
Task = Callable[[int], tuple[str, str]]  # a number -> kind and message, of an Outcome
EXPECTED = ("output", "refused", "usage")  # kinds of an outcome that is no finding


class Outcome(NamedTuple):
    """Of a task. kind: output, refused, usage; or what must not be: traceback, warning, memory, time, signal,
    misfit, words. message: what was said, or where it broke."""

    number: int
    kind: str
    message: str

    @property
    def is_finding(self) -> bool:
        return self.kind not in EXPECTED


def outcomes(task: Task, numbers: Sequence[int], place: Path) -> Iterator[Outcome]:
    """Those of all numbers, in their order. place: a folder for what the children say."""
    waiting = list(numbers)
    while waiting:
        batch = waiting[:TOGETHER]
        done, status = _child(task, batch, place)
        yield from done
        waiting = waiting[len(done) :]
        if len(done) < len(batch):
            yield Outcome(batch[len(done)], *_death(status))
            waiting = waiting[1:]


def guarded(attempt: Callable[[], tuple[str, str]], refusal: type[Exception]) -> tuple[str, str]:
    """What comes of an attempt; refusal: the exception that is meant for users."""
    try:
        return attempt()
    except refusal as error:
        return said(str(error))
    except MemoryError as error:
        return "memory", _where(error)
    except Exception as error:
        return "traceback", _where(error)


def said(text: str) -> tuple[str, str]:
    """A refusal in words: one line that can be printed."""
    clean = text.isprintable() and 0 < len(text) <= LONGEST
    return ("refused" if clean else "words"), text


def normalised(message: str, place: Path) -> str:
    """A message without what differs from case to case."""
    text = re.sub(rf"{re.escape(str(place))}[^\s:;,)]*", "PATH", message)
    text = re.sub(r"'(?:[^']|'s )*?'(?=[\s,:;.)\]]|$)", "'…'", text)
    text = re.sub(r"\d[\d,.]*(e[+-]?\d+)?", "N", text)
    return re.sub(r"\(?\bF?I?U?N( x N)*\b", "N", text)[:300]


def _child(task: Task, batch: Sequence[int], place: Path) -> tuple[list[Outcome], int]:
    """The outcomes that a child could tell, and how it ended."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        _limit()
        try:
            for number in batch:
                _timers(SECONDS)
                outcome = _told(task, number, place)
                _timers(0)
                os.write(writer, json.dumps(outcome).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        lines = pipe.read().splitlines()
    _, status, usage = os.wait4(process, 0)
    return [Outcome(*json.loads(line)) for line in lines], status


def _timers(seconds: int) -> None:
    """What ends this process, compiled code too; 0: nothing."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * WAITING)


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    size = pages * os.sysconf("SC_PAGE_SIZE") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in TIMERS:
        signal.signal(number, signal.SIG_DFL)


def _told(task: Task, number: int, place: Path) -> Outcome:
    """A task with its stderr in a file, which it may not spoil by a warning."""
    log = os.open(place / "stderr", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 2)
    kind, message = task(number)
    sys.stderr.flush()
    text = Path(place / "stderr").read_text(encoding="utf-8", errors="replace")
    os.close(log)
    if kind in EXPECTED and ("Warning" in text or "Traceback" in text):
        kind, message = "warning", text[-1_000:]
    elif kind == "output" and text:
        message = f"and said: {text.splitlines()[0]}"
    return Outcome(number, kind, message[:2_000])


def _death(status: int) -> tuple[str, str]:
    """How a child ended that did not end its work."""
    if not os.WIFSIGNALED(status):
        return "exit", f"the process ended with {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number in TIMERS:
        return "time", f"not done after {SECONDS} s"
    return "signal", f"killed by {signal.Signals(number).name}"


def _where(error: BaseException) -> str:
    """An exception and the last line of the program's own that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/bytenmt/" in frame.filename] or frames
    text = str(error).encode("ascii", "backslashreplace").decode()
    return f"{type(error).__name__} at {Path(own[-1].filename).name}:{own[-1].lineno}: {text[:200]}"
