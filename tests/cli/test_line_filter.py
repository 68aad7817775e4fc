"""Lines as they come: each answered, in order, at once where it comes alone, in bounded memory."""

import io
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import command_server
import pytest
from command_line import Terminal
from hypothesis import assume, given
from hypothesis import strategies as st
from made_up_engine import made_up_translator as made_up

from bytenmt.cli import line_filter as module
from bytenmt.cli.line_filter import InputLine, LineFilter, LineQueue
from bytenmt.data.text_file import TextFile
from bytenmt.errors import DataError
from bytenmt.translation.translator import Translator

Start = Callable[..., "subprocess.Popen[bytes]"]


def answers(translator: Translator, text: bytes, buffer_size: int = 1000) -> list[bytes]:
    output = io.BytesIO()
    LineFilter(translator.translate_lines, output, buffer_size=buffer_size).stream(io.BytesIO(text))
    assert not output.getvalue() or output.getvalue().endswith(b"\n")
    return output.getvalue().split(b"\n")[:-1]


# What is read and written.


@given(st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"ab", b"\xff", b"\xef\xbb\xbf", b"\0"])))
def test_stream_and_file_read_the_same_lines(parts: list[bytes]) -> None:
    """Line ends, a byte order mark and repairs as the corpus has them."""
    content = b"".join(parts)
    assume(content != b"\xef\xbb\xbf")  # a mark alone: no line of a file, one of a stream
    lines = [module.clean(line, number) for number, line in enumerate(io.BytesIO(content), 1)]
    assert lines == list(TextFile.from_bytes(content, "x"))


def test_white_space_is_copied_and_rubbish_repaired() -> None:
    found = answers(made_up(), b" \t\n\n\xff a\nnul\0\r\nend")
    assert found == [b" \t", b"", "\ufffd A0".encode(), b"NUL\x000", b"END0"]


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 1000)
    output = io.BytesIO()
    endless = io.BytesIO(b"one\n" + b"x" * 10_000)
    with pytest.raises(DataError, match="standard input, line 2 has over 1,000 bytes"):
        LineFilter(made_up().translate_lines, output).stream(endless)
    assert output.getvalue() == b"ONE0\n" and endless.tell() < 1100


# Between the reading thread and the one that answers.


def test_what_waits_is_bounded() -> None:
    """No more lines are read than the queue holds; the error of reading comes after the lines."""
    waiting = LineQueue(4)
    n_read = 0

    def lines() -> Iterator[InputLine]:
        nonlocal n_read
        while n_read < 9:
            n_read += 1
            yield InputLine(b"x", 0.0)
        raise OSError(5, "no more")

    thread = threading.Thread(target=waiting.fill, args=(lines(),), daemon=True)
    thread.start()
    batches = waiting.batches()
    n_taken = 0
    while n_taken < 9:
        give_up = time.monotonic() + 20
        while n_read < min(9, n_taken + 5) and time.monotonic() < give_up:
            time.sleep(0.001)
        time.sleep(0.02)
        assert n_read == min(9, n_taken + 5)
        n_lines = len(next(batches))
        assert n_lines == min(4, 9 - n_taken), "what waits is answered together"
        n_taken += n_lines
    with pytest.raises(OSError, match="no more"):
        next(batches)


# A person at a terminal.


def test_a_bar_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr, where it is a terminal, for a file; none for a stream."""

    text, terminal = b"one\ntwo\n", Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert answers(made_up(), text) == [b"ONE0", b"TWO0"] and terminal.getvalue() == ""
    for stderr, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stderr)
        LineFilter(made_up().translate_lines, io.BytesIO()).file(TextFile.from_bytes(text, "text"))
        assert ("100%" in stderr.getvalue()) == shown == bool(stderr.getvalue())


# The program, with pipes.


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with command_server.serving(tmp_path_factory.mktemp("program")) as program:
        yield program


@pytest.fixture
def start(program: Path, template: Path) -> Iterator[Start]:
    """Starts `bytenmt translate` with open pipes, killed after two minutes at the latest."""
    command = f"{program} translate -m run --threads=1 --device=cpu --max-len-a=0.1 --max-len-b=5"
    started: list[subprocess.Popen[bytes]] = []

    def popen(*options: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        words = [*command.split(), *options]
        started.append(subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=template))
        return started[-1]

    def kill(*_: object) -> None:
        for process in started:
            process.kill()

    guard = signal.signal(signal.SIGALRM, kill)
    signal.alarm(120)
    yield popen
    signal.alarm(0)
    signal.signal(signal.SIGALRM, guard)
    kill()
    for process in started:
        process.communicate()


def ask(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Send a line and wait for its answer, before anything else is sent."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert answer.endswith(b"\n"), "no answer to a line alone"
    return answer[:-1]


@pytest.mark.slow
def test_a_line_alone_is_answered_at_once_and_ctrl_c_is_quiet(start: Start) -> None:
    """A coprocess waits for each answer; then an interrupt while the program waits for a line."""
    process = start()
    lines = [b"one", b"", "두 번째".encode(), b"one\r", *(b"%d" % k for k in range(40))]
    found = [ask(process, line) for line in lines]
    assert found[1] == b"" and found[0] == found[3] != b""
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130  # while its input is open
    assert process.communicate() == (b"", b"")
    process = start()
    out, err = process.communicate(b"\n".join(lines))
    assert (out.split(b"\n")[:-1] == found, err, process.returncode) == (True, b"", 0)


@pytest.mark.slow
def test_ctrl_c_in_the_middle_is_quiet(start: Start) -> None:
    process = start()
    ask(process, b"one")
    assert process.stdin is not None
    process.stdin.write(b"".join(b"%d\n" % k for k in range(1000)))
    process.stdin.flush()
    time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert (process.communicate()[1], process.returncode) == (b"", 130)


@pytest.mark.slow
def test_another_encoding_ends_while_the_input_is_open(start: Start) -> None:
    """One line on stderr, though the reading thread still waits."""
    process = start()
    ask(process, b"one")
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(b"bad \xff\n" * (module.N_CHECKED_LINES - 1))
    process.stdin.flush()
    assert process.wait() == 1
    told = process.stderr.read()
    assert told.count(b"\n") == 1
    assert told.startswith(b"bytenmt: standard input is not UTF-8 (99 of 100 lines)")


@pytest.mark.slow
def test_a_closed_pipe_is_quiet(start: Start) -> None:
    """A reader that closes the pipe, like `| head -1`, causes no message."""
    process = start()
    ask(process, b"one")
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stdin.write(b"two\n")
    process.stdin.flush()
    assert process.wait() == 141
    assert process.stderr.read() == b""
    process.stdout = None
