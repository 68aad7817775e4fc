"""On Ray itself, in its local mode; what needs no Ray stands in test_job.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_up_engine import make_run

import bytenmt
from bytenmt.datasets import ray_data
from bytenmt.decoding.translator import Translator

pytestmark = pytest.mark.slow

pytest.importorskip("ray")
# One start of Ray for all; in a process of its own, because Ray ends what it has started by its group.
PROGRAM = """
import json, sys
from bytenmt.cli.main import main

more = ["-m", "run", "--actors", "2", "--block-bytes", "150", "--max-len-a", "0.1", "--max-len-b", "9"]
for resume in ([], ["--resume"]):
    try:
        main(["translate-dataset", "in.jsonl", "out", *more, *resume], standalone_mode=False)
    except SystemExit as ended:  # of the broken row
        assert ended.code == 3, ended.code

import ray
from bytenmt.datasets import Translate

rows = ray.data.from_items([{"id": 0, "text": "eins"}, {"id": 1, "text": None}]).map_batches(
    Translate,
    fn_constructor_args=["run"],
    fn_constructor_kwargs={"max_len_a": 0.1, "max_len_b": 9},
    batch_format="pyarrow",
    compute=ray.data.ActorPoolStrategy(size=1),
    num_cpus=0.75,
)
print(json.dumps(rows.take_all()))
main(["translate-dataset", "in.jsonl", "wrong", *more, "--engine", "torch", "--precision", "int8"])
"""
SECONDS = 300  # until it counts as hanging


def rays() -> set[tuple[int, str]]:
    """The processes of this machine that Ray has started."""
    return {one for one in ray_data.descendants(1) if b"ray" in ray_data._command_line(one[0])}


def test_a_data_set_on_ray(tmp_path: Path) -> None:
    """Parts in order, a job that has nothing left to do, one's own, an actor that cannot begin."""
    run = make_run(tmp_path / "run")
    texts = [f"Zeile {number}" for number in range(30)]
    rows = [{"id": number, "text": text} for number, text in enumerate(texts)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "broken\n")
    before = rays()
    root = str(Path(bytenmt.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        start_new_session=True,
    )
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert len(parts) > 3, done.stderr
    found = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    expected = Translator.load(run, max_len_a=0.1, max_len_b=9).translate(texts)
    assert [row["translation"] for row in found] == [*expected, None]
    assert [row.get("id") for row in found] == [*range(30), None] and found[-1]["text"] == "broken"
    assert "31 of 31 rows are done already" in done.stderr
    (told,) = [
        line for line in done.stdout.splitlines() if line.startswith("[{")
    ]  # Ray may say something too
    own = {row["id"]: row["translation"] for row in json.loads(told)}
    assert own == {0: Translator.load(run, max_len_a=0.1, max_len_b=9).translate("eins"), 1: None}
    assert rays() <= before  # agents and actors have ended with it
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.splitlines()[-1].startswith("bytenmt: --precision int8 is for --engine numba")
