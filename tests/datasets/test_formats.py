"""Rows as they lie in files: cut anywhere, read and written again, with nothing of them changed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from bytenmt.datasets.blocks import blocks_of, files_of, format_of
from bytenmt.datasets.formats import FORMATS
from bytenmt.datasets.translate import RowError
from bytenmt.errors import BytenmtError

# What is in a file, and its rows' texts; a str is why there is none.
FILES: dict[str, tuple[bytes, list[bytes | str]]] = {
    "text": (
        b"\xef\xbb\xbfone\r\n\ntwo \xff\nthree",
        [b"one", b"", b"two \xff", b"three"],
    ),
    "jsonl": (
        b'\xef\xbb\xbf{"id": 1.50, "text": "a\\u00e4\\nb", "z": {"k": [1, "x"]}}\n\n'
        b'{"text": null}\n{"other": 1}\nbroken\n[1]\n{"text": 5}\n'
        b'{"text": "\xff", "id": 2}\r\n{"text": "end"}',
        [
            "aä\nb".encode(),
            "no text",
            "no column text",
            "malformed",
            "Expected `object`",
            "Expected `str | null`",
            "\ufffd".encode(),
            b"end",
        ],
    ),
    "csv": (
        b'\xef\xbb\xbfid,text,"more ""x"""\r\n1,"a, ""b""\nc",\xff\r\n\n2,5" disk,\r\n3,short\n'
        b'4,x,y,z\n5,"",\n6,"open',
        [b'a, "b"\nc', b'5" disk', "2 cells, expected 3", "4 cells, expected 3", b"", "2 cells, expected 3"],
    ),
}


def cut(path: Path, name: str, block_bytes: int) -> tuple[list[Any], list[bytes]]:
    """The texts of a file's rows, and the parts that are written for its blocks, with a number for each row
    as its translation."""
    form, texts, parts = FORMATS[name], [], []
    for block in blocks_of([path], form, "text", "to", block_bytes):
        assert block.first == len(texts) and block.number == len(parts)
        data = form.read(Path(block.path), block.begin, block.end, block.base)
        here = form.texts(data, "text", "replace")
        assert len(here) == block.rows
        found = [f'"{at}",\n' for at in range(block.first, block.first + block.rows)]
        parts.append(form.write(data, "text", "to", found))
        texts += here
    return texts, parts


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("block_bytes", [1, 12, 10_000])
def test_rows_are_the_same_however_they_are_cut(name: str, block_bytes: int, tmp_path: Path) -> None:
    content, expected = FILES[name]
    path = tmp_path / "in"
    path.write_bytes(content)
    texts, parts = cut(path, name, block_bytes)
    assert len(texts) == len(expected)
    for text, wanted in zip(texts, expected, strict=True):
        if isinstance(wanted, str):
            assert isinstance(text, RowError) and wanted in text.message
        else:
            assert text == wanted
    assert (len(parts) == 1) == (block_bytes == 10_000)
    rows = [row for part in parts for row in read(name, part)]
    assert [row["to"] for row in rows] == [f'"{at}",\n' for at in range(len(expected))]


def read(name: str, part: bytes) -> list[dict[str, Any]]:
    """Read a file with Python's own readers."""
    text = part.decode("utf-8", "surrogateescape")
    if name == "csv":
        return [*csv.DictReader(io.StringIO(text, newline=""))]
    return [json.loads(line) for line in text.splitlines()]


def test_columns_of_json_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(FILES["jsonl"][0])
    lines = b"".join(cut(tmp_path / "in", "jsonl", 40)[1]).splitlines()
    assert lines[0].startswith(b'{"id":1.50,"text":"a\\u00e4\\nb","z":{"k": [1, "x"]},"to":')
    assert json.loads(lines[3]) == {"text": "broken", "to": '"3",\n', "to_error": None}
    assert json.loads(lines[6])["id"] == 2


def test_columns_of_a_table_stay_as_they_are(tmp_path: Path) -> None:
    """Byte for byte, where a row has as many cells as there are names."""
    (tmp_path / "in").write_bytes(FILES["csv"][0])
    table = b"".join(cut(tmp_path / "in", "csv", 10_000)[1])
    assert table.startswith(
        b'id,text,"more ""x""",to,to_error\r\n1,"a, ""b""\nc",\xff,"""0"",\n",\r\n2,"5"" disk",,"""1"",'
    )
    rows = read("csv", table)
    assert [row["id"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert [row["text"] for row in rows[2:]] == ["short", "x", "", "open"]
    assert None not in rows[3]  # the fourth cell had no name


def test_a_null_is_no_empty_text() -> None:
    data = b"text\na\nb\n"
    written = FORMATS["csv"].write(data, "text", "to", ["", RowError("why, so")])
    assert written == b'text,to,to_error\na,"",\nb,,"why, so"\n'


def test_invalid_bytes_may_be_a_failure(tmp_path: Path) -> None:
    data = b'{"text": "a\xff"}\n'
    assert FORMATS["jsonl"].texts(data, "text", "strict") == [RowError("not UTF-8: byte 11 is 0xFF")]


def test_columns_must_be_there(tmp_path: Path) -> None:
    for name in ("jsonl", "csv"):
        path = tmp_path / name
        path.write_bytes(FILES[name][0])
        for column, to, told in (
            ("nothing", "to", "no column nothing, expected one of id"),
            ("text", "id", "already"),
        ):
            with pytest.raises(BytenmtError, match=told):
                [*blocks_of([path], FORMATS[name], column, to)]
    for name, content in (("jsonl", b"[\n"), ("csv", b"")):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(BytenmtError, match="bad"):
            [*blocks_of([tmp_path / "bad"], FORMATS[name], "text", "to")]


def test_a_folder_is_of_one_format(tmp_path: Path) -> None:
    for name in ("b/2.jsonl", "a.jsonl", "_hidden/x.csv", ".part", "b/.x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    files = files_of(tmp_path)
    assert [str(file.relative_to(tmp_path)) for file in files] == ["a.jsonl", "b/2.jsonl"]
    assert format_of(files, None) == "jsonl" and format_of(files, "text") == "text"
    assert format_of([tmp_path / "train.ko"], None) == "text"
    (tmp_path / "c.csv").write_text("x")
    with pytest.raises(BytenmtError, match="c.csv is csv: give --format"):
        format_of(files_of(tmp_path), None)
    with pytest.raises(BytenmtError, match="is packed"):
        format_of([tmp_path / "a.jsonl.gz"], None)
    with pytest.raises(BytenmtError, match="does not exist"):
        files_of(tmp_path / "nothing")


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    """Row groups are cut, none is crossed; nulls and what is stored as a dictionary are rows like others."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    texts = ["eins", None, "drei\nvier", "", *["fünf"] * 46]
    table = pa.table(
        {"id": pa.array(range(50), pa.int16()), "text": pa.array(texts).dictionary_encode(), "z": [[1]] * 50}
    )
    path = tmp_path / "in.parquet"
    pq.write_table(table, path, row_group_size=30)
    form = FORMATS["parquet"]
    blocks = [*blocks_of([path], form, "text", "to", 200)]
    assert [(block.base, block.begin, block.end) for block in blocks] == [
        (0, 0, 10), (0, 10, 20), (0, 20, 30), (1, 0, 10), (1, 10, 20),
    ]  # fmt: skip
    parts, read_texts = [], []
    for block in blocks:
        data = form.read(path, block.begin, block.end, block.base)
        here = form.texts(data, "text", "replace")
        found = [RowError("why") if isinstance(text, RowError) else text.decode() for text in here]
        parts.append(pq.read_table(pa.BufferReader(form.write(data, "text", "to", found))))
        read_texts += here
    assert [None if isinstance(text, RowError) else text.decode() for text in read_texts] == texts
    whole = pa.concat_tables(parts)
    assert whole.select(["id", "text", "z"]).cast(table.schema).equals(table)
    assert whole["to"].to_pylist() == texts
    assert whole["to_error"].to_pylist() == ["why" if text is None else None for text in texts]
    with pytest.raises(BytenmtError, match="the column id is of type int16, expected text"):
        [*blocks_of([path], form, "id", "to")]
