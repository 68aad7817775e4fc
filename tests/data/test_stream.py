"""Pairs from a stream: its windows, where they lie, and what a training makes of them."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from heard import Heard
from processes import results
from small_runs import CPU, assert_same, config, weights

from bytenmt.checkpoints.checkpoint import load_checkpoint
from bytenmt.checkpoints.manifest import METRICS
from bytenmt.data.corpus import PairFiles
from bytenmt.data.sources.stream import PairStream
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.errors import BytenmtError, ConfigError, DataError
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer

N_LINES = 40  # of the texts of conftest
LONG = 900.0  # seconds


def table(texts: dict[str, Any]) -> bytes:
    (pair,) = texts["files"]
    sides = (path.read_bytes().splitlines() for path in (pair.src, pair.tgt))
    return b"".join(b"\t".join(both) + b"\n" for both in zip(*sides, strict=True))


def endless(text: bytes) -> BinaryIO:
    """The lines of a text again and again, which is all that is asked of a stream."""
    return chain.from_iterable(repeat(text.splitlines(keepends=True)))  # type: ignore[return-value]


def learn(run: Path, stream: BinaryIO, texts: dict[str, Any], *settings: str, **more: Any) -> Any:
    given = {"files": [PairFiles(stream=stream)], "valid": texts["valid"], "device": CPU, **more}
    return train(run, config("luong", "train.schedule='constant'", *settings), **given)


def windows(stream: PairStream, n: int) -> list[list[bytes]]:
    found = (corpus for _, corpus, _ in stream.windows(0))
    return [
        [corpus.source(k) for k in range(len(corpus))] for corpus, _ in zip(found, range(n), strict=False)
    ]


def test_windows_and_places() -> None:
    """Each line in one window, the last one shorter and without a line end; a place is the same however one
    comes to it, and a longer stream goes on where a shorter one ended."""
    text = b"".join(b"%d\t%d\n" % (n, n) for n in range(10))
    assert windows(PairStream(io.BytesIO(text[:-1]), 4), 9) == [
        [b"0", b"1", b"2", b"3"],
        [b"4", b"5", b"6", b"7"],
        [b"8", b"9"],
    ]
    short = PairStream(io.BytesIO(text[:-5]), 4)
    places = [place for _, _, place in short.windows(0)]
    assert [(place.before, place.lines) for place in places] == [(0, 4), (4, 4), (8, 1)]
    longer = PairStream(io.BytesIO(text + b"10\t10\n"), 4)
    longer.go_to(places[2])
    assert windows(longer, 9) == [[b"8"], [b"9", b"10"]] and longer.place.before == 11
    for other in (text.replace(b"5", b"6"), text[:20]):
        with pytest.raises(
            DataError, match=r"first \d lines of the stream differ .* 9 lines .* give the same stream again"
        ):
            PairStream(io.BytesIO(other), 4).go_to(places[2])
    first = PairStream(io.BytesIO(text), 4)
    first.go_to(places[0])
    assert windows(first, 1) == [[b"0", b"1", b"2", b"3"]]


def test_a_window_of_no_pair_ends_it() -> None:
    """Else a stream of the wrong kind would be read for ever; a last, short one only ends."""
    good = b"a\tb\n" * 2
    assert windows(PairStream(io.BytesIO(good + b"\t\n"), 2), 9) == [[b"a", b"a"], []]
    with pytest.raises(DataError, match="lines 3 to 4: no pair is left of 2 lines"):
        windows(PairStream(io.BytesIO(good + b"\t\n" * 2), 2), 9)
    with pytest.raises(DataError, match="lines 3 to 4, line 2 has no tab"):
        windows(PairStream(io.BytesIO(good + b"a\tb\nab\n"), 2), 9)


@pytest.mark.slow
def test_a_text_that_is_repeated_is_learnt_as_from_files(texts: dict[str, Any], tmp_path: Path) -> None:
    """Windows of the text's length over several epochs give the same weights and optimiser state to the
    bit.
    """
    settings = ["train.max_updates=22", f"data.stream_window={N_LINES}", "data.noise=0.2"]
    train(tmp_path / "files", config("luong", "train.schedule='constant'", *settings), **texts, device=CPU)
    learn(tmp_path / "stream", endless(table(texts)), texts, *settings)
    assert_same(weights(tmp_path / "files"), weights(tmp_path / "stream"))
    assert load_checkpoint(tmp_path / "stream").facts.progress.epoch >= 2


@pytest.mark.slow
def test_resume_is_bit_identical(texts: dict[str, Any], tmp_path: Path) -> None:
    """Stopped within a window behind the first one; another stream and files are refused."""
    settings, text = ["data.stream_window=17"], table(texts)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    learn(whole, endless(text), texts, *settings, "train.max_updates=11")
    learn(parts, endless(text), texts, *settings, "train.max_updates=7")
    progress = load_checkpoint(parts).facts.progress
    assert progress is not None and progress.epoch >= 1 and progress.batch and progress.stream.before
    more = [*settings, "train.max_updates=11"]
    with pytest.raises(BytenmtError, match="that the run was trained on"):
        learn(parts, endless(text[::-1].replace(b"\n", b"\t.\n")), texts, *more, resume=True)
    with pytest.raises(BytenmtError, match="a stream, now files"):
        learn(parts, io.BytesIO(), texts, *more, resume=True, files=texts["files"])
    learn(parts, endless(text), texts, *more, resume=True)
    assert_same(weights(whole), weights(parts))


def test_what_needs_a_text_that_stays(texts: dict[str, Any], tmp_path: Path) -> None:
    stream = PairFiles(stream=io.BytesIO(b"a\tb\n"))
    with pytest.raises(ConfigError, match="--draft counts a finite text, and --tsv - is a stream"):
        train(
            tmp_path / "run",
            config("bytenet", "train.draft=true"),
            files=[stream],
            valid=texts["valid"],
            device=CPU,
        )
    with pytest.raises(ValueError, match="2 corpora, of which one is a stream"):
        learn(tmp_path / "run", io.BytesIO(), texts, files=[*texts["files"], stream])


@pytest.mark.slow
def test_the_end_of_a_stream_ends_the_run(texts: dict[str, Any], tmp_path: Path) -> None:
    """Validated and saved; every pair was learnt once. Given longer, it goes on; given the same, nothing is
    left."""
    run, heard, text = tmp_path / "run", Heard(), table(texts)
    settings = ["data.stream_window=25", "train.max_updates=100"]
    ended = learn(run, io.BytesIO(text), texts, *settings, reporter=heard)
    assert "the stream has ended" in heard.lines[-1] and ended.update < 50
    assert load_checkpoint(run).facts.progress.best_update
    assert learn(run, io.BytesIO(text), texts, *settings, resume=True) == ended
    assert learn(run, io.BytesIO(text * 2), texts, *settings, resume=True).update > ended.update


class Cut:
    """A stream whose producer the key that stops the training stops too, in the middle of a window, when the
    training has done all that came before; or, where it hangs, does not stop."""

    def __init__(self, lines: bytes, n_lines: int, due: Callable[[], bool], hangs: bool) -> None:
        self._lines, self._left, self._due, self._hangs = iter(endless(lines)), n_lines, due, hangs
        self.freed, self.ended = threading.Event(), False

    def __iter__(self) -> Iterator[bytes]:
        while self._left:
            self._left -= 1
            yield next(self._lines)
        begun = time.monotonic()
        while not self._due() and time.monotonic() < begun + LONG:
            time.sleep(0.05)
        time.sleep(0.2)  # then it most likely waits
        os.kill(os.getpid(), signal.SIGINT)
        if self._hangs:
            self.freed.wait(LONG)
        self.ended = True


def epochs(run: Path) -> list[int]:
    """Return the epoch of each update."""
    if not (run / METRICS).is_file():
        return []
    records = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    return [record["epoch"] for record in records if "train_bits_per_byte" in record]


@pytest.mark.slow
@pytest.mark.parametrize("hangs", [False, True])
def test_what_comes_after_ctrl_c_is_not_learnt(texts: dict[str, Any], tmp_path: Path, hangs: bool) -> None:
    """The run is saved as it was before the window that is cut off or never comes, and goes on to the bit."""
    settings, text = ["data.stream_window=30", "train.max_updates=22"], table(texts)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    learn(whole, endless(text), texts, *settings)
    n_before = sum(epoch < 2 for epoch in epochs(whole))
    stream = Cut(text, 70, lambda: len(epochs(cut)) >= n_before, hangs)
    outcome = learn(cut, stream, texts, *settings)  # type: ignore[arg-type]
    assert not (hangs and stream.ended)
    stream.freed.set()
    assert outcome.signal == signal.SIGINT and outcome.update == n_before
    learn(cut, endless(text), texts, *settings, resume=True)
    assert_same(weights(whole), weights(cut))


def learnt(group: Group, folder: Path, n_updates: int) -> list[list[bytes]]:
    """Go on with a run of the stream folder/table until so many updates; its rows of each update."""
    seen: list[list[bytes]] = []
    update = Trainer.update

    def watched(self: Trainer, step: Any, *arguments: Any) -> Any:
        seen.append([bytes(row) for batch in step for row in batch.source])
        return update(self, step, *arguments)

    texts = {"valid": PairFiles(folder / "valid_src", folder / "valid_tgt")}
    Trainer.update = watched  # type: ignore[method-assign]
    try:
        with open(folder / "table", "rb") as stream:
            given = ["data.stream_window=25", f"train.max_updates={n_updates}"]
            learn(folder / "run", stream, texts, *given, resume=True, group=group)
    finally:
        Trainer.update = update  # type: ignore[method-assign]
    return seen


@pytest.mark.slow
def test_the_number_of_processes_may_change(texts: dict[str, Any], tmp_path: Path) -> None:
    """Two begin, one goes on, two end: the leading process reads for both, and every pair of the stream is
    learnt exactly once."""
    (tmp_path / "table").write_bytes(b"".join(b"%02d\tx\n" % n for n in range(60)))
    parts = [
        *results(learnt, tmp_path, 2),
        learnt(SINGLE_PROCESS, tmp_path, 3),
        *results(learnt, tmp_path, 99),
    ]
    assert [len(part) for part in parts[:3]] == [2, 2, 1] and all(map(any, parts))
    pairs = Counter(row[:2] for part in parts for rows in part for row in rows)
    assert pairs == Counter({b"%02d" % n: 1 for n in range(60)})
