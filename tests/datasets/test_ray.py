"""The command `translate-dataset` on Ray itself, in its local mode."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from made_up_engine import make_run

from bytenmt.translation.translator import Translator

pytestmark = pytest.mark.slow

pytest.importorskip("ray")
# One start of Ray for all; in a process of its own, because Ray ends what it has started by its
# group.
PROGRAM = """
from bytenmt.cli.main import main

def call(*more):
    options = ["--actors", "1", "--max-len-a", "0.1", "--max-len-b", "9"]
    main(["translate-dataset", "run", *more, *options], standalone_mode=False)

call("in", "out")
call("in", "out")

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
print(rows.take_all())
for wrong in (
    "in/sub --column id2", "in/sub --to text", "bad", "in/0.parquet --column id2", "text"
):
    name, *more = wrong.split()
    try:
        call(name, "wrong", *more)
    except SystemExit:
        pass
"""
SECONDS = 900  # until it counts as hanging
JSON = (
    '{"id": 1.50, "n": 12345678901234567890, "text": "eins", "day": "2024-01-01"}\n\n'
    '{"text": null}\n'
)
# Lines without a final line end.
OTHER = '{"text":"zw\u2028ei","x":"'.encode() + b'\xff"}' + b'\n{"text":""}' * 4


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the files of a folder."""
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".parquet":
            rows += pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
        else:
            rows += map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1])
    return rows


def test_data_sets_on_ray(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    run = make_run(tmp_path / "run")
    for folder in ("in/sub", "bad", "text"):
        (tmp_path / folder).mkdir(parents=True)
    texts = ["eins", None, "zwei\ndrei", ""] * 3
    table = pa.table({"id": pa.array(range(12), pa.int16()), "text": texts, "z": [[1]] * 12})
    parquet.write_table(table, tmp_path / "in" / "0.parquet", row_group_size=5)
    parquet.write_table(table[:0], tmp_path / "in" / "none.parquet")
    files = {"sub/1.jsonl": JSON.encode(), "2.ndjson.gz": gzip.compress(OTHER), ".x": b"x"}
    for name, content in files.items():
        (tmp_path / "in" / name).write_bytes(content)
    (tmp_path / "text" / "a.txt").write_bytes(b"eins\n")
    (tmp_path / "bad" / "a.jsonl").write_bytes(b'{"text": "a"}\nbroken\n')
    apart: dict[str, Any] = {"cwd": tmp_path, "timeout": SECONDS, "start_new_session": True}
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, **apart)
    assert "4 files translated, 0 were already there" in done.stderr, done.stderr
    assert "0 files translated, 4 were already there" in done.stderr
    translator = Translator.load(run, max_len_a=0.1, max_len_b=9)
    said = {text: translator.translate(text) for text in ("eins", "zwei", "drei", "zw\u2028ei")}
    out = tmp_path / "out"
    assert rows_of(out / "none.parquet") == []
    rows = rows_of(out / "0.parquet")
    expected = [said["eins"], None, f"{said['zwei']}\n{said['drei']}", ""] * 3
    assert [row.pop("translation") for row in rows] == expected
    assert rows == table.to_pylist()
    assert rows_of(out / "2.ndjson.gz") == [
        {"text": "zw\u2028ei", "x": "\ufffd", "translation": said["zw\u2028ei"]},
        *[{"text": "", "translation": ""}] * 4,
    ]
    (path,) = (out / "sub" / "1.jsonl").iterdir()
    objects = path.read_text(encoding="utf-8").split("\n")
    assert objects[0] == JSON.split("\n")[0].replace(": ", ":").replace(", ", ",")[:-1] + (
        f',"translation":{json.dumps(said["eins"], ensure_ascii=False)}}}'
    )
    assert objects[1:] == ['{"text":null,"translation":null}', ""]
    assert repr({"id": 0, "text": "eins", "translation": said["eins"]}) in done.stdout
    last = [line for line in done.stderr.splitlines() if line.startswith("bytenmt: /")][-3:]
    assert "the columns are day, id, n, text: expected a column id2" in done.stderr
    assert "expected a column text, and no text yet" in done.stderr
    assert "a.jsonl: " in last[0] and "malformed" in last[0], done.stderr
    assert "a.txt: expected .parquet, .pq, .jsonl" in last[2] and "translate --workers" in last[2]
    assert "the columns are id, text, z" in last[1] and done.stderr.count("Traceback") == 0
    assert not (tmp_path / "wrong" / "a.jsonl").exists()
