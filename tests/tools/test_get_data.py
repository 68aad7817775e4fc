"""Corpora from addresses and folders: checked, unpacked, cut; what is another file is refused."""

import gzip
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tools import get_data

TEXT = bytes(range(256)) * 10


def corpus(address: str | None = None) -> dict[str, Any]:
    about = {"sha256": get_data.digest(TEXT), "there": "there.gz"}
    return {"licence": "none", "files": {"input.txt": about}} | ({"address": address} if address else {})


def test_a_file_of_an_address_is_unpacked_and_checked(tmp_path: Path) -> None:
    (tmp_path / "there.gz").write_bytes(gzip.compress(TEXT))
    at = corpus(tmp_path.as_uri() + "/{}")
    folder = get_data.fetch("tinyshakespeare", at, tmp_path / "out", None)
    assert (folder / "input.txt").read_bytes() == TEXT
    assert (folder / "train.txt").read_bytes() + (folder / "valid.txt").read_bytes() == TEXT
    assert len((folder / "valid.txt").read_bytes()) == 256
    (tmp_path / "there.gz").unlink()  # what is there is not asked for again
    get_data.fetch("tinyshakespeare", at, tmp_path / "out", None)


def test_a_folder_may_hold_it_packed_or_below_its_name(tmp_path: Path) -> None:
    """Another file is refused."""
    (tmp_path / "any").mkdir()
    packed = tmp_path / "any" / "input.txt.gz"
    packed.write_bytes(gzip.compress(TEXT[1:]))
    with pytest.raises(ValueError, match="is not the file"):
        get_data.fetch("any", corpus(), tmp_path / "out", tmp_path)
    assert not (tmp_path / "out" / "any" / "input.txt").exists()
    packed.write_bytes(gzip.compress(TEXT))
    folder = get_data.fetch("any", corpus(), tmp_path / "out", tmp_path)
    assert (folder / "input.txt").read_bytes() == TEXT
    with pytest.raises(FileNotFoundError, match="--from"):
        get_data.fetch("any", corpus(), tmp_path / "other", None)


def test_the_list_names_all_that_is_needed() -> None:
    corpora = tomllib.loads(get_data.CORPORA.read_text(encoding="utf-8"))
    public = {"multi30k", "tinyshakespeare", "war-and-peace"}
    ours = {"tatoeba-eng-deu", "tatoeba-eng-kor", "uistrings-eng-deu", "softdocs-eng-kor"}
    assert set(corpora) == public | ours | {"software-eng-deu", "software-eng-kor"}
    for one in corpora.values():
        assert one["licence"] and one["origin"]
        for about in one["files"].values():
            assert len(bytes.fromhex(about["sha256"])) == 32
            assert ("there" in about) == ("address" in one)
