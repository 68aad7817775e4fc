"""Weights files that were mutated: a model of the same shapes, or an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_engine import make_run

from bytenmt.checkpoints.weights import describe_misfit, read_run, restored
from bytenmt.errors import CheckpointError

NUMBERS = st.sampled_from([-1, 0, 1, 7, 255, 2**31, 2**63, -(2**63), 1e308])
VALUES = st.one_of(
    NUMBERS, st.sampled_from(["", "x" * 3000, "\x1b[31m", "fp32", [], {}, None, True, "[" * 900])
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A weights file of a few thousand numbers, to be mutated."""
    return make_run(tmp_path_factory.mktemp("made") / "run", "bytenet") / "last.safetensors"


def read_mutated(path: Path, data: bytes) -> None:
    """Read a weights file; fail unless it is refused, with its name, or fits its configuration."""
    path.write_bytes(data)
    try:
        _, stored = read_run(path)
    except CheckpointError as error:
        assert str(error).isprintable() and str(error).startswith(str(path))
        return
    assert describe_misfit(stored.arrays, stored.config, stored.precision) is None
    assert restored(stored.arrays)


def with_header(data: bytes, header: object) -> bytes:
    """Return the file with another header."""
    text = json.dumps(header).encode()
    n_bytes = int.from_bytes(data[:8], "little")
    return len(text).to_bytes(8, "little") + text + data[8 + n_bytes :]


@given(draw=st.data())
def test_bytes_are_changed_or_missing(file: Path, draw: st.DataObject) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    end = draw.draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
    read_mutated(file.with_name("bytes.safetensors"), bytes(data[:end]))


@given(draw=st.data())
def test_fields_are_changed_or_missing(file: Path, draw: st.DataObject) -> None:
    """A tensor's type, shape or place, or a value of the configuration or the facts."""
    data = file.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    name = draw.draw(st.sampled_from(sorted(header)))
    entry = header[name]
    if name == "__metadata__" and draw.draw(st.booleans()):
        part = draw.draw(st.sampled_from(["config", "facts"]))
        tree = json.loads(entry[part])
        section = draw.draw(st.sampled_from(sorted(tree)))
        inner = tree[section] if isinstance(tree[section], dict) and tree[section] else tree
        inner[draw.draw(st.sampled_from(sorted(inner)))] = draw.draw(VALUES)
        entry[part] = json.dumps(tree)
    else:
        key = draw.draw(st.sampled_from(sorted(entry)))
        entry[key] = draw.draw(st.one_of(VALUES, st.lists(NUMBERS, max_size=3)))
    read_mutated(file.with_name("fields.safetensors"), with_header(data, header))
