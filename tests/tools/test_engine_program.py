"""The CPU engine's program as text: every instruction, register and weight of it, by names."""

from __future__ import annotations

import re
from itertools import cycle
from pathlib import Path

import pytest
from cpu_engines import ALL, model, packed
from fast_variants import by_variant
from invariants import VARIANTS, build

from bytenmt.decoding.interface import PRECISIONS
from bytenmt.program.instructions import Column, Op
from tools.engine_program import format_profile, listing, main, profile


@by_variant(("name", "precision"), list(zip(ALL, cycle(PRECISIONS), strict=False)))
def test_every_instruction_has_its_line(name: str, precision: str) -> None:
    """Lines are in program order, with registers; every parameter is read by one of them."""
    one = packed(model(name), precision)
    text = listing(one)
    lines = re.findall(r"^ *\d+ ([A-Z_]+) +(.*)$", text, re.MULTILINE)
    table = [row for program in (one.program.encode, one.program.step) for row in program.instructions]
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


@pytest.mark.parametrize("name", ["luong", "bytenet", "bytenet-no-source"])
@pytest.mark.parametrize("n_sentences", [1, 3])
def test_a_step_is_timed_instruction_by_instruction(name: str, n_sentences: int) -> None:
    """A line each, in order; sums by operation, the greatest first; all shares make up the whole."""
    source = not name.endswith("no-source")
    one = packed(model(name) if source else build(VARIANTS["bytenet"] | {"source": False}, 0, 0.4), "fp32")
    found = profile(one, n_sentences, source)
    table = one.program.step.instructions
    assert len(found.instructions) == len(table) and min(found.instructions) >= 0 and found.rest >= 0
    assert sum(found.instructions) > 0
    head, *lines = format_profile(one, found)
    assert head.startswith(f"a step of {n_sentences} sentence")
    parts, sums = lines[: len(table)], lines[len(table) + 1 :]
    for row, line in zip(table, parts, strict=True):
        assert f" {Op(int(row[Column.OP])).name} " in line
        assert ("GFLOP/s" in line) <= (Op(int(row[Column.OP])) == Op.LINEAR)
    shares = [float(line.split("us")[1].split("%")[0]) for line in sums]
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))
    times = [float(line.split("us")[0]) for line in sums]
    assert times == sorted(times, reverse=True)
    assert {line.split("%")[1].strip() for line in sums} >= {"LINEAR", "search"}


def test_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The program of a shipped model and the time of its parts; an architecture has no weights to name."""
    shipped = str(Path(__file__).parents[2] / "data" / "models" / "en-de")
    assert main([shipped]) == 0 and "w=decoder.combine.weight" in capsys.readouterr().out
    assert main([shipped, "--profile", "--batch-size", "2", "--precision", "fp32"]) == 0
    assert capsys.readouterr().out.startswith("a step of 2 sentences in fp32: ")
    assert main(["luong"]) == 1 and "luong does not exist" in capsys.readouterr().err
