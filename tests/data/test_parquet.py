"""Pairs from Parquet files, where pyarrow is installed, and by the command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bytenmt.cli.main import main
from bytenmt.data.sources.parquet import pairs
from bytenmt.errors import BytenmtError, DataError
from bytenmt.training import run as training
from bytenmt.training.run import Outcome

EN, DE = ["one\ttwo\n", None, "", "\u3000three", "x"], [" eins  zwei", "a", "b", "drei", None]
PAIRS = [(b"one two", b"eins zwei"), ("\u3000three".encode(), b"drei")]


def write(path: Path, **columns: Any) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)
    return path


def test_columns_and_the_fields_of_a_struct(tmp_path: Path) -> None:
    """Whole rows alone, each side on one line; of any kind of string; a column goes before a field."""
    pyarrow = pytest.importorskip("pyarrow")
    structs = [{"en": en, "de": de} for en, de in zip(EN, DE, strict=True)]
    both = {"translation": [*structs[:3], structs[3], None], "n": range(5)}
    assert list(pairs(write(tmp_path / "a", en=EN, de=DE, n=range(5)), ("en", "de"))) == PAIRS
    assert list(pairs(write(tmp_path / "b", **both), ("en", "de"))) == PAIRS
    assert list(pairs(write(tmp_path / "b", **both), ("translation.de", "en"))) == [
        (target, source) for source, target in PAIRS
    ]
    assert list(pairs(write(tmp_path / "c", **both, en=EN, de=DE), ("en", "de"))) == PAIRS
    large = {"en": pyarrow.array(EN).dictionary_encode(), "de": pyarrow.array(DE, pyarrow.large_string())}
    assert list(pairs(write(tmp_path / "d", **large), ("en", "de"))) == PAIRS


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    struct = [{"en": "a"}]
    path = write(tmp_path / "a", n=[1], en=["a"], one=struct, other=struct, **{"de": ["b"]})
    for columns, message in (
        (("en", "n"), "a: the columns en and n must both contain text"),
        (("en", "fr"), "a: --columns fr matches 0 of its columns, n, en, one.en, other.en, de"),
    ):
        with pytest.raises(DataError, match=message):
            list(pairs(path, columns))
    with pytest.raises(DataError, match=r"--columns en matches 2 of its columns, one.en, other.en"):
        list(pairs(write(tmp_path / "b", one=struct, other=struct), ("en", "en")))
    (tmp_path / "text").write_text("no table")
    with pytest.raises(DataError, match="text cannot be read as Parquet"):
        list(pairs(tmp_path / "text", ("en", "de")))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BytenmtError, match=r"--parquet needs pyarrow: pip install 'bytenmt\[parquet\]'"):
        list(pairs(path, ("en", "de")))


def command(folder: Path, *words: str) -> Result:
    (folder / "valid.tsv").write_text("a\tb\n")
    given = f"train -o {folder}/run --arch luong --preset tiny --valid-tsv {folder}/valid.tsv".split()
    return CliRunner().invoke(main, [*given, *words])


def test_the_command_trains_on_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message: dict[str, Any] = {}
    monkeypatch.setattr(training, "train", lambda *_, **more: message.update(more) or Outcome(0))
    files = [str(write(tmp_path / name, en=EN, de=DE)) for name in "ab"]
    result = command(tmp_path, "--parquet", files[0], "--parquet", files[1], "--columns", "en,de")
    assert result.exit_code == 0, result.output
    assert f"{files[0]}: 2 pairs" in result.stderr
    tables = [pair.tsv for pair in message["files"]]
    assert len(set(tables)) == 2
    assert {table.read_bytes() for table in tables} == {b"".join(b"%b\t%b\n" % pair for pair in PAIRS)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--parquet a", "--parquet needs --columns SRC,TGT"),
        ("--columns en,de", "--columns would be ignored without --parquet"),
        ("--parquet a --columns en", "--columns en: expected two column names, such as en,de"),
    ],
)
def test_one_line_for_a_mistake(tmp_path: Path, words: str, message: str) -> None:
    result = command(tmp_path, *words.split())
    assert result.exit_code == 1 and message in result.stderr and result.stderr.count("\n") == 1
