"""The Korean-English sample: the files as generated, and what a change of the generator must not lose."""

import unicodedata
from pathlib import Path

import pytest

from tools.sample import make

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
SIDES = {"train": 20_000, "valid": 500, "test": 500}


@pytest.fixture(scope="module")
def sample():
    return make.make_sample()


def read(name: str) -> list[str]:
    return (DATA / name).read_bytes().decode().removesuffix("\n").split("\n")


@pytest.mark.slow
def test_files_are_what_the_tool_writes(sample, tmp_path):
    make.write_sample(sample, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in DATA.iterdir()} - {"README.md", "models"}
    for name in names:
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes(), name


@pytest.mark.parametrize(("side", "count"), SIDES.items())
def test_lines_are_short_clean_unicode(side, count):
    suffixes = ("ko", "en") if side == "train" else ("ko", "en", "family")
    for suffix in suffixes:
        data = (DATA / f"{side}.{suffix}").read_bytes()
        assert data.endswith(b"\n") and data.count(b"\n") == count
        text = data.decode()
        assert unicodedata.is_normalized("NFC", text)
        for line in text.removesuffix("\n").split("\n"):
            assert line.isprintable() and line == line.strip() != ""
            assert len(line.encode()) <= 60


def test_one_to_one_over_all_sets():
    korean = [line for side in SIDES for line in read(f"{side}.ko")]
    english = [line for side in SIDES for line in read(f"{side}.en")]
    assert len(set(korean)) == len(set(english)) == len(korean) == len(english) == sum(SIDES.values())


@pytest.mark.slow
def test_no_value_of_a_held_out_set_occurs_in_training(sample):
    values = {side: {value for p in pairs for value in p.values} for side, pairs in sample.items()}
    assert sum(map(len, values.values())) == len(set.union(*values.values()))
    assert all(pair.values for pairs in sample.values() for pair in pairs)
