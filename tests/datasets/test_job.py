"""A data set block by block: killed anywhere it ends as one that lived, and a row that fails ends nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from made_up_engine import made_up_translator, make_run

from bytenmt.checkpoints.resumable import (
    FINISHED,
    FOLDER,
    SUCCESS,
    FinishedBlock,
    count_try,
    open_manifest,
)
from bytenmt.cli.main import main
from bytenmt.datasets import Translate, job, ray_data
from bytenmt.datasets.blocks import RowBlock, blocks_of
from bytenmt.datasets.formats import FORMATS
from bytenmt.datasets.job import BlockSteps
from bytenmt.datasets.translate import RowError
from bytenmt.errors import BytenmtError

ROWS = [f"row {number}" for number in range(40)]


class DeathError(Exception):
    """An exception that stands for SIGKILL."""


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails with a text that has "bad" in it."""
    translator = made_up_translator()
    make = translator.make_engine

    def making(capacity: int) -> Any:
        engine: Any = make(capacity)
        admit = engine.admit

        def admitting(requests: list[Any]) -> Any:
            if any(b"bad" in request.source for request in requests):
                raise MemoryError("too much")
            return admit(requests)

        engine.admit = admitting
        return engine

    object.__setattr__(translator, "make_engine", making)
    monkeypatch.setattr(Translate, "load", lambda self: translator)


def run_in_process(steps: BlockSteps, blocks: Sequence[RowBlock]) -> Iterator[FinishedBlock]:
    """Run the steps of all blocks in this process; a Runner."""
    for block in blocks:
        data = steps.read(block)
        yield steps.write(block, data, steps.translate_block(block, data))


def job_of(place: Path, name: str = "out") -> tuple[BlockSteps, list[RowBlock]]:
    """Ten blocks of four rows."""
    path = place / "in.txt"
    path.write_text("".join(f"{row:<9}\n" for row in ROWS))
    return BlockSteps("text", str(place / name), Translate("run")), [
        *blocks_of([path], FORMATS["text"], "text", "translation", 40)
    ]


def go(
    place: Path, name: str, dies_after: int | None = None, resume: bool = True, **job_description: Any
) -> list[int]:
    """Translate, until so many blocks have been written; the numbers of these. The last one's line is not yet
    there when it dies."""
    steps, blocks = job_of(place, name)
    written = []

    def runner(steps: BlockSteps, blocks: Sequence[RowBlock]) -> Iterator[FinishedBlock]:
        for one in run_in_process(steps, blocks[::-1]):  # in no order
            written.append(one.number)
            if dies_after == len(written):
                raise DeathError
            yield one

    try:
        with open_manifest(
            place / name, ".jsonl", {"model": "x", "input": [1]} | job_description, resume
        ) as manifest:
            job.run(steps, blocks, manifest, runner)
    except DeathError:
        pass
    return written


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_killed_job_goes_on(tmp_path: Path) -> None:
    """Nothing is lost, nothing is there twice, and what was noted is not done again."""
    assert go(tmp_path, "whole", resume=False) == [*range(10)][::-1]
    assert go(tmp_path, "out", 4, resume=False) == [9, 8, 7, 6]
    noted = tmp_path / "out" / FOLDER / FINISHED
    assert noted.read_bytes().count(b"\n") == 3
    noted.write_bytes(noted.read_bytes() + b'{"number":6,"by')  # a line that was not written to its end
    (tmp_path / "out" / ".part-00000003.jsonl.1.x.tmp").write_bytes(b"half")
    (tmp_path / "out" / "part-00000008.jsonl").write_bytes(b"not as it was noted")
    assert go(tmp_path, "out", 3) == [8, 6, 5]
    assert go(tmp_path, "out") == [5, 4, 3, 2, 1, 0]
    assert go(tmp_path, "out") == []
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    rows = [
        json.loads(line)
        for _, part in sorted(contents(tmp_path / "out").items())
        for line in part.splitlines()
    ]
    assert [row["text"].rstrip() for row in rows] == ROWS
    assert [row["translation"] for row in rows] == [f"{row:<9}".upper() + "0" for row in ROWS]


def test_complete_jobs_are_marked(tmp_path: Path) -> None:
    """The marker is there exactly as long as no part is missing."""
    marker = tmp_path / "out" / SUCCESS
    go(tmp_path, "out", 10, resume=False)
    assert not marker.exists()
    go(tmp_path, "out")
    assert marker.read_bytes() == b""
    go(tmp_path, "out")
    assert marker.exists()
    (tmp_path / "out" / "part-00000008.jsonl").unlink()
    (tmp_path / "out" / "part-00000009.jsonl").unlink()
    go(tmp_path, "out", 1)
    assert not marker.exists()
    go(tmp_path, "out")
    assert marker.exists()


def test_another_job_is_refused(tmp_path: Path) -> None:
    go(tmp_path, "out", 2, resume=False)
    with pytest.raises(BytenmtError, match="out holds a job already: continue it with --resume"):
        go(tmp_path, "out", resume=False)
    with pytest.raises(BytenmtError, match="was started with model x, not y"):
        go(tmp_path, "out", model="y")
    with pytest.raises(BytenmtError, match="was started with another input"):
        go(tmp_path, "out", input=[2])
    with pytest.raises(BytenmtError, match="contains other files"):
        go(tmp_path, ".")
    with (
        open_manifest(tmp_path / "new", "", {}, False),
        pytest.raises(BytenmtError, match="another job is writing"),
    ):
        go(tmp_path, "new")
    (tmp_path / "out" / FOLDER / "job.json").write_bytes(b"{")
    with pytest.raises(BytenmtError, match="cannot be read"):
        go(tmp_path, "out")


def test_what_does_not_come_back_is_told(tmp_path: Path) -> None:
    steps, blocks = job_of(tmp_path)
    with (
        open_manifest(tmp_path / "out", ".jsonl", {}, False) as manifest,
        pytest.raises(BytenmtError, match="9 of 10 parts were not finished"),
    ):
        job.run(steps, blocks, manifest, lambda steps, blocks: run_in_process(steps, blocks[:1]))


def test_a_changed_input_is_noticed(tmp_path: Path) -> None:
    steps, blocks = job_of(tmp_path)
    path = Path(blocks[0].path)
    path.write_bytes(path.read_bytes().replace(b"\n", b" ", 2))
    with pytest.raises(BytenmtError, match="changed while it was read: 2 rows instead of 4"):
        [*run_in_process(steps, blocks)]


def test_a_row_that_fails_is_a_null_with_the_reason() -> None:
    """A RowError among many, which have their translations; of several lines each is translated."""
    texts = [b"a", b"bad", b"", b"c\xff", b"one\r\n\ntwo\n"] + [b"x%d" % number for number in range(50)]
    found = Translate("run").rows(texts)
    assert found[1] == RowError("MemoryError: too much")
    assert [*found[:1], *found[2:5]] == ["A0", "", "C\ufffd0", "ONE0\r\n\nTWO0\n"]
    assert found[5:] == [f"X{number}0" for number in range(50)]
    strict = Translate("run", errors="strict").rows(texts)
    assert strict[3] == RowError("not UTF-8: byte 1 is 0xFF")
    assert [one for place, one in enumerate(strict) if place != 3] == [*found[:3], *found[4:]]


def test_batches_go_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are limited by bytes of text: a long row is translated alone, and all rows are in place."""
    asked: list[list[bytes]] = []
    translator = made_up_translator()
    real = translator.translate_lines

    def translate_lines(lines: Any, first: int) -> Any:
        assert first == sum(map(len, asked))
        asked.append(lines)
        return real(lines, first)

    object.__setattr__(translator, "translate_lines", translate_lines)
    monkeypatch.setattr(Translate, "load", lambda self: translator)
    monkeypatch.setattr("bytenmt.datasets.translate.BATCH_BYTES", 10)
    found = Translate("run").rows([b"abcd", b"ab\nc", b"a", b"x" * 30, b"b"])
    assert asked == [[b"abcd", b"ab", b"c", b"a"], [b"x" * 30], [b"b"]]
    assert found == ["ABCD0", "AB0\nC0", "A0", "X" * 30 + "0", "B0"]


def test_rows_that_kill_their_process_are_given_up(tmp_path: Path) -> None:
    """After so many deaths, of which each process leaves a byte."""
    steps, blocks = job_of(tmp_path)
    (tmp_path / "out" / FOLDER).mkdir(parents=True)
    actor = ray_data.TranslateActor(steps)
    row = {"block": msgspec.msgpack.encode(blocks[3]), "data": steps.read(blocks[3]), "error": ""}
    for _ in range(ray_data.TRIES):
        done = steps.write(blocks[3], row["data"], actor(row)["found"])
        assert done.failed == 0
    assert count_try(tmp_path / "out", 3) == ray_data.TRIES + 1
    done = steps.write(blocks[3], row["data"], actor(row)["found"])
    assert (done.rows, done.failed) == (4, 4)
    assert (
        b'"translation":null,"translation_error":"8 processes died'
        in contents(tmp_path / "out")["part-00000003.jsonl"]
    )


def test_what_goes_wrong_travels_in_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures of an actor's start and of a missing file are results, not exceptions of Ray."""

    def refused(self: Translate) -> None:
        raise BytenmtError("no such run")

    monkeypatch.setattr(Translate, "load", refused)
    steps, blocks = job_of(tmp_path)
    (tmp_path / "out" / FOLDER).mkdir(parents=True)
    row = {"block": msgspec.msgpack.encode(blocks[0]), "finished": b"", "error": ""}
    read = ray_data.ReadActor(steps)(row)
    done = ray_data.WriteActor(steps)(ray_data.TranslateActor(steps)(read))
    assert done == {"finished": b"", "error": "no such run"}
    Path(blocks[0].path).unlink()
    assert "No such file" in ray_data.ReadActor(steps)(row)["error"]


def test_other_peoples_jobs_have_the_class() -> None:
    """Ray's batches of NumPy, and a mistake that is told before anything is sent to another machine."""
    import numpy as np

    from bytenmt.errors import SettingError

    batch = {"id": np.arange(4), "text": np.array(["a", None, float("nan"), 7], dtype=object)}
    done = Translate("run", to="out")(batch)
    assert list(done) == ["id", "text", "out", "out_error"] and done["id"] is batch["id"]
    assert done["out"].tolist() == ["A0", None, None, None]
    assert done["out_error"].tolist() == [None, "no text", "no text", "no text but int"]
    for wrong, told in (
        ({"beem": 2}, "unknown setting beem"),
        ({"errors": "no"}, "errors is 'no'"),
        ({"engine": "x"}, "'x' is none of"),
        ({"to": "text"}, "would replace the column text"),
    ):
        with pytest.raises(SettingError, match=told):
            Translate("run", **wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="no run"):
        Translate()
    with pytest.raises(SettingError, match="no column other, expected one of text"):
        Translate("run", column="other")({"text": np.array(["a"])})


def test_arrows_batches(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = {"text": ["a", None], "id": [1, 2]}
    expected = {**rows, "translation": ["A0", None], "translation_error": [None, "no text"]}
    assert Translate("run")(pa.table(rows)).to_pydict() == expected
    (done,) = Translate("run").batches([pa.RecordBatch.from_pydict(rows)])
    assert done.to_pydict() == expected and isinstance(done, pa.RecordBatch)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another runner than Ray. Its exit code tells whether rows have no translation, also of a job that
    had nothing left to do."""
    monkeypatch.setattr(ray_data, "check_packages", lambda: None)
    monkeypatch.setattr(ray_data, "runner", lambda actors, block_bytes: run_in_process)
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run")
    Path("in.csv").write_text("n,text\n1,eins\n2,bad\n3,drei\n")

    def call(*more: str) -> Any:
        return CliRunner().invoke(main, ["translate-dataset", "-m", "run", "in.csv", "out", *more])

    done = call("--block-bytes", "12")
    assert done.exit_code == 3, done.output
    assert "3 rows in 2 parts, 1 without a translation; 3 rows in" in done.stderr and done.stdout == ""
    assert [part.read_text() for part in sorted(Path("out").glob("part-*"))] == [
        "n,text,translation,translation_error\n1,eins,EINS0,\n2,bad,,MemoryError: too much\n",
        "n,text,translation,translation_error\n3,drei,DREI0,\n",
    ]
    again = call("--block-bytes", "12", "--resume")
    assert again.exit_code == 3 and "3 of 3 rows are done already" in again.stderr
    for more, told in (
        (("--block-bytes", "12"), "holds a job already: continue it with --resume"),
        (("--resume",), "started with block-bytes 12, not"),
        (("--resume", "--block-bytes", "12", "-b", "2"), "started with beam None, not 2"),
        (("--column", "other"), "no column other, expected one of n, text"),
        (("-m", "nothing"), "nothing"),
        (("--n-best", "2"), "No such option"),
    ):
        wrong = call(*more)
        assert wrong.exit_code in (1, 2) and told in wrong.stderr, wrong.output
        assert "Traceback" not in wrong.stderr
    Path("in.csv").write_text("n,text\n1,eins\n3,drei\n")
    whole = CliRunner().invoke(main, ["translate-dataset", "run", "in.csv", "whole"])
    assert whole.exit_code == 0 and "2 rows in 1 parts, 0 without" in whole.stderr, whole.output


def test_a_missing_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_data, "PACKAGES", ("not_there", "os"))
    done = CliRunner().invoke(main, ["translate-dataset", "run", "in", "out"])
    assert done.exit_code == 1
    assert done.stderr == "bytenmt: translate-dataset needs not_there: pip install 'bytenmt[ray]'\n"


def test_the_descendants_of_a_process() -> None:
    """Children and theirs, and none that has ended: what a cluster is made of, and who is left of it."""
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stderr=subprocess.DEVNULL) as child:
        deadline = time.monotonic() + 60
        while len(below := ray_data.descendants(child.pid)) != 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(below) == 1 and below < ray_data.descendants(os.getpid())
        assert child.pid in {pid for pid, _ in ray_data.descendants(os.getpid())}
        child.communicate(b"\n")
    assert not below & ray_data.descendants(1)
