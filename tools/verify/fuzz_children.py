"""Run tasks that may crash in forked children of this process, and report how each ended.

A child runs a batch of numbered tasks, each with a timer, in a limited address space. When it is killed, the
task in progress is to blame, and another child continues with the next one.
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

CPU_SECONDS = 10  # time limit of a task
WALL_FACTOR = 30  # the limit of wall-clock time as a multiple, because the machine may have other work
ADDRESS_SPACE = 2 << 30  # bytes that a child may allocate in addition to its inherited memory
TIMERS = (signal.SIGPROF, signal.SIGALRM)
BATCH = 25  # tasks of a child
MAX_MESSAGE = 10_000  # characters; long because a message may repeat the user's input
Task = Callable[[int], tuple[str, str]]  # from a number to kind and message of an Outcome
EXPECTED = ("output", "refused", "usage")  # kinds of outcomes that are not findings


class Outcome(NamedTuple):
    """The outcome of a task.

    kind: one of EXPECTED, or a finding: traceback, warning, memory, time, signal, exit, misfit, changed,
    malformed, status, words. message: the program's message, or where it failed.
    """

    number: int
    kind: str
    message: str

    @property
    def is_finding(self) -> bool:
        return self.kind not in EXPECTED


def run_in_children(task: Task, numbers: Sequence[int], folder: Path) -> Iterator[Outcome]:
    """Yield the outcomes of a task for all numbers, in order. folder: for the children's stderr."""
    waiting = list(numbers)
    while waiting:
        batch = waiting[:BATCH]
        done, status = _run_batch(task, batch, folder)
        yield from done
        waiting = waiting[len(done) :]
        if len(done) < len(batch):
            yield Outcome(batch[len(done)], *_cause_of_death(status))
            waiting = waiting[1:]


def run_guarded(attempt: Callable[[], tuple[str, str]], refusal: type[Exception]) -> tuple[str, str]:
    """Return kind and message of an attempt's outcome. refusal: the exception type meant for users."""
    try:
        return attempt()
    except refusal as error:
        return judge_message(str(error))
    except MemoryError as error:
        return "memory", _describe(error)
    except Exception as error:
        return "traceback", _describe(error)


def judge_message(text: str) -> tuple[str, str]:
    """Return kind and message of a refusal; the kind is `words` unless it is one printable line."""
    clean = text.isprintable() and 0 < len(text) <= MAX_MESSAGE
    return ("refused" if clean else "words"), text


def normalize_message(message: str, folder: Path) -> str:
    """Return a message without paths, quoted words and numbers, so that equal messages can be counted."""
    text = re.sub(rf"{re.escape(str(folder))}[^\s:;,)]*", "PATH", message)
    text = re.sub(r"'(?:[^']|'s )*?'(?=[\s,:;.)\]]|$)", "'…'", text)
    text = re.sub(r"\d[\d,.]*(e[+-]?\d+)?", "N", text)
    return re.sub(r"\(?\bF?I?U?N( x N)*\b", "N", text)[:300]


def _run_batch(task: Task, batch: Sequence[int], folder: Path) -> tuple[list[Outcome], int]:
    """Run tasks in a forked child; return the outcomes of those that ended, and the child's wait status."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        _limit()
        try:
            for number in batch:
                _set_timers(CPU_SECONDS)
                outcome = _run_task(task, number, folder)
                _set_timers(0)
                os.write(writer, json.dumps(outcome).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        lines = pipe.read().splitlines()
    _, status, usage = os.wait4(process, 0)
    return [Outcome(*json.loads(line)) for line in lines], status


def _set_timers(seconds: int) -> None:
    """Let signals end this process, including compiled code, after so many CPU seconds; 0 cancels them."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * WALL_FACTOR)


def _limit() -> None:
    """Limit the address space of this process, forbid core files, and let the timers' signals kill it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    size = pages * os.sysconf("SC_PAGE_SIZE") + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in TIMERS:
        signal.signal(number, signal.SIG_DFL)


def _run_task(task: Task, number: int, folder: Path) -> Outcome:
    """Run a task with its stderr in a file; a warning or traceback there is a finding."""
    log = os.open(folder / "stderr", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 2)
    kind, message = task(number)
    sys.stderr.flush()
    text = Path(folder / "stderr").read_text(encoding="utf-8", errors="replace")
    os.close(log)
    if kind in EXPECTED and ("Warning" in text or "Traceback" in text):
        kind, message = "warning", text[-1_000:]
    elif kind == "output" and text:
        message = f"and said: {text.splitlines()[0]}"
    return Outcome(number, kind, message[:2_000])


def _cause_of_death(status: int) -> tuple[str, str]:
    """Return kind and message for a child that ended before its tasks did."""
    if not os.WIFSIGNALED(status):
        return "exit", f"the process ended with {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number in TIMERS:
        return "time", f"not done after {CPU_SECONDS} s"
    return "signal", f"killed by {signal.Signals(number).name}"


def _describe(error: BaseException) -> str:
    """Describe an exception with the last line of the package in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/bytenmt/" in frame.filename] or frames
    text = str(error).encode("ascii", "backslashreplace").decode()
    return f"{type(error).__name__} at {Path(own[-1].filename).name}:{own[-1].lineno}: {text[:200]}"
