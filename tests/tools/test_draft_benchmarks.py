"""The tools that measure drafts: whole sentences in turn, ratios of rounds, an engine beside itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_engine import MadeUpEngine, make_run

from bytenmt.checkpoints.weights import read_run
from bytenmt.decoding.drafts.table import CHAIN, FILE, DraftTable, Speculation, empty_table, write_table
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.errors import BytenmtError
from tools.bench import decode as bench_decode  # noqa: E402
from tools.bench import (
    draft_plot,  # noqa: E402
    drafts,  # noqa: E402
)
from tools.verify import engines as check_engines  # noqa: E402

LINES = [b"one line", b"", b"another", b"a longer line than the others"]


def any_table(seed: int = 0) -> DraftTable:
    """Chains of any bytes in every slot, some of which are right now and then; and a source worth copying."""
    draw = np.random.default_rng(seed)
    table = empty_table(1 << 10)
    table.chain[:] = draw.integers(0, 1 << 62, len(table.chain), np.uint64)
    table.reach[:] = np.sort(draw.integers(1, 255, table.reach.shape))[:, ::-1]
    table.copy[1:] = 200 - 20 * np.arange(CHAIN)
    table.accepted[:] = 0.5
    return table


def drafted_run(folder: Path, arch: str = "bytenet") -> Path:
    """A run folder with a draft table."""
    run = make_run(folder, arch, 1, ("model.kernel_width=3",) if arch == "bytenet" else ())
    _, contents = read_run(run)
    write_table(run, any_table(), contents.config, contents.facts)
    return run


def source(folder: Path) -> Path:
    path = folder / "test.en"
    path.write_bytes(b"\n".join(LINES) + b"\n")
    return path


def test_rounds_take_turns_sentence_by_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both variants alternate in small groups and in changing order; only decoding is timed."""
    off, on = (MadeUpEngine(1, Options(), []) for _ in range(2))
    asked = [Request(line, 100) for line in LINES if line] * 4
    order: list[tuple[str, int]] = []
    seconds = iter(range(1, 1000))

    def time_decode(engine: Any, group: list[Request]) -> drafts.TimedDecode:
        order.append(("off" if engine is off else "on", len(group)))
        found = [Hypothesis(request.source or b"", -1, -1) for request in group]
        return drafts.TimedDecode(next(seconds), found)

    monkeypatch.setattr(drafts, "time_decode", time_decode)
    pair = drafts.compare_engines(off, on, asked, 2)
    assert order[:2] == [("off", 4), ("on", 4)]  # not counted
    assert [name for name, _ in order[2:]] == ["off", "on", "on", "off", "off", "on"] + [
        "on",
        "off",
        "off",
        "on",
        "on",
        "off",
    ]
    assert (pair.off, pair.on) == ([3 + 6 + 7, 10 + 11 + 14], [4 + 5 + 8, 9 + 12 + 13])
    assert [one.text for one in pair.expected] == [one.text for one in pair.hypotheses]
    assert [one.text for one in pair.hypotheses] == [request.source for request in asked]


def test_sentences_are_found_in_the_order_of_asking() -> None:
    asked = [Request(line, 100) for line in LINES]
    turn = drafts.time_decode(MadeUpEngine(2, Options(), []), asked)
    assert [one.text for one in turn.hypotheses] == [(line or b"nothing").upper() + b"0" for line in LINES]
    assert turn.seconds > 0


def test_figures() -> None:
    """The median of the rounds' ratios, not the ratio of medians; bytes with EOS over passes."""
    plain = [Hypothesis(b"abc", -1, -1), Hypothesis(b"abcdefg", -1, -1)]
    drafted = [plain[0]._replace(passes=2), plain[1]._replace(passes=4)]
    pair = drafts.RoundTimes([1.0, 9.0, 2.0], [2.0, 3.0, 4.0], plain, drafted)
    fast, per_pass = drafts.comparison_records("case", pair)
    assert fast.ratio == 0.5 and "0.500 to 3.000" in fast.reference
    assert (fast.value, fast.reference_value) == (10 / 3, 10 / 2)
    assert per_pass.value == per_pass.ratio == (4 + 8) / 6
    assert "SLOWER" in fast.reference and "DIFFER" not in fast.reference
    other = pair._replace(hypotheses=[drafted[1], drafted[1]], on=[0.1, 0.1, 0.1])
    fast, _ = drafts.comparison_records("case", other)
    assert "1 of 2 TEXTS DIFFER" in fast.reference and "SLOWER" not in fast.reference
    assert drafts.bytes_per_pass(plain) == 1.0


@pytest.mark.slow
def test_a_run_is_measured_with_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    run, report = drafted_run(tmp_path / "run", "convs2s"), tmp_path / "found.json"
    line = f"--draft {run} --src {source(tmp_path)} --engine torch --batch 2 --rounds 1 --json {report}"
    make_engine, asked = drafts.make_engine, []
    monkeypatch.setattr(drafts, "make_engine", lambda *how: asked.append(how[2]) or make_engine(*how))
    bench_decode.main(line.split())
    off, on = asked
    assert off is None and on.most is None and np.array_equal(on.table.chain, any_table().chain)
    speed, per_pass = json.loads(report.read_text(encoding="utf-8"))
    assert speed["case"] == "run convs2s torch fp32 batch=2 draft" and speed["ratio"] > 0
    assert "DIFFER" not in speed["reference"] and per_pass["value"] >= 1
    assert "| run" in capsys.readouterr().out


def test_a_run_without_drafts_is_told_in_a_line(tmp_path: Path) -> None:
    for arch, line in (("luong", "whose steps are serial"), ("bytenet", "has no draft table: run `bytenmt")):
        with pytest.raises(BytenmtError, match=line):
            drafts.load_drafted_run(make_run(tmp_path / arch, arch), None)
    run = drafted_run(tmp_path / "run")
    weights, _ = read_run(run)
    assert (
        drafts.load_drafted_run(weights, None).table.tag.shape
        == drafts.load_drafted_run(run, "small").table.tag.shape
    )
    (run / FILE).write_bytes(b"no table")
    with pytest.raises(SystemExit, match="Error: .*damaged"):
        bench_decode.main(["--draft", str(run), "--src", str(source(tmp_path))])


@pytest.mark.slow
def test_an_engine_is_compared_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """An engine that goes astray with drafts fails; the one that there is does not."""
    run = drafted_run(tmp_path / "run")
    line = [str(run), "--src", str(source(tmp_path)), "--draft", "--precision", "fp32"]
    check_engines.main(line)
    table = capsys.readouterr().out.splitlines()[2:]
    assert len(table) == 8 and all(row.endswith("| 3 | 1 |") for row in table)
    make_engine = drafts.make_engine
    other = drafts.load_drafted_run(drafted_run(tmp_path / "other", "convs2s"), None)

    def astray(
        one: drafts.DraftedRun, how: drafts.DecodeSetup, speculation: Speculation | None, sample: bool
    ) -> Any:
        return make_engine(other if speculation else one, how, speculation, sample)

    monkeypatch.setattr(check_engines, "make_engine", astray)
    with pytest.raises(SystemExit) as error:
        check_engines.main(line)
    wrong = str(error.value)
    assert wrong.count("numba fp32") == 4 and wrong.count("torch fp32 greedy") == 2
    assert "torch fp32 drawn" not in wrong  # rounding may part draws: they are only counted


@pytest.mark.slow
def test_a_picture_is_drawn_from_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    points = [[1, 1.0], [2, 1.5]]
    figures = {"price": {"bytenet tiny fp32": points, "convs2s tiny fp32": points}}
    figures["bytes_per_pass"] = {"run bytenet, table": points, "run bytenet, table and source": points}
    path, picture = tmp_path / "draft.json", tmp_path / "draft.png"
    path.write_text(json.dumps(figures), encoding="utf-8")
    draft_plot.main(["--json", str(path), "--plot", str(picture)])
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit):
        draft_plot.main(["run", "--json", str(path)])
    with pytest.raises(SystemExit, match="Error: .*nothing.json"):
        draft_plot.main(["--json", str(tmp_path / "nothing.json"), "--plot", str(picture)])


def test_every_pass_of_a_price_is_as_wide_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafted bytes of a given text are all right, so that bytes over passes are the columns."""
    monkeypatch.setattr(draft_plot, "LIMIT", 40)
    monkeypatch.setattr(draft_plot, "TRIES", 2)
    for n, columns in ((1, 1), (2, CHAIN + 1)):
        passes = draft_plot.PassTimer("convs2s", "tiny", "fp32", n, columns, 1)
        assert passes() > 0
        engine = passes._engine
        engine.advance(40)
        found = [hypotheses[0] for _, hypotheses in engine.finished()]
        assert len(found) == n
        if columns > 1:
            assert all(one.passes == -(-(len(one.text) + 1) // columns) for one in found)
