"""The CPU engine's program as text: every instruction, register and weight of it, by names."""

from __future__ import annotations

import re
from itertools import cycle
from pathlib import Path

import pytest
from click.testing import CliRunner
from cpu_engines import ALL, model, packed

from bytenmt.cli.main import main
from bytenmt.decoding.cpu.program.instructions import Column, Op
from bytenmt.decoding.cpu.program.listing import listing
from bytenmt.decoding.interface import PRECISIONS


@pytest.mark.parametrize(("name", "precision"), list(zip(ALL, cycle(PRECISIONS), strict=False)))
def test_every_instruction_has_its_line(name: str, precision: str) -> None:
    """In order, with its registers; and every parameter is read somewhere."""
    one = packed(model(name), precision)
    text = listing(one)
    lines = re.findall(r"^ *\d+ ([A-Z_]+) +(.*)$", text, re.MULTILINE)
    table = [row for program in (one.encode, one.step) for row in program.instructions]
    assert [op for op, _ in lines] == [Op(int(row[Column.OP])).name for row in table]
    for row, (_, told) in zip(table, lines, strict=True):
        for side in "dab":
            assert bool(row[Column[f"{side.upper()}_STRIDE"]]) == bool(re.search(rf"\b{side}=r\d", told))
        assert f"n={row[Column.N]}" in told.split()
    assert set(re.findall(r"\b[wvst]=([a-z]\S+)", text)) == set(one.names.values())
    assert f"{one.weights.size:,} bytes in {precision}" in text and "byte " not in text.split("\n", 1)[1]


def test_where_attention_looks_is_told() -> None:
    """A window and what its Gaussian is of; nothing where it looks everywhere."""
    told = {name: listing(packed(model(name))) for name in ("luong", "luong-local-m", "luong-local-p")}
    assert "window" not in told["luong"] and "CENTRE" not in told["luong"]
    assert "window=2 bell=none" in told["luong-local-m"] and "window=3 bell=after" in told["luong-local-p"]


def test_it_is_printed(tmp_path: Path) -> None:
    """Of a run or a file; an architecture has no weights to name."""
    result = CliRunner().invoke(main, ["info", "luong", "--program"])
    assert result.exit_code == 1 and "--program is of a run folder" in result.stderr
