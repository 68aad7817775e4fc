"""Test the log of a training for programs: JSON records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from small_runs import SMALL

from bytenmt.checkpoints.weights import METRICS
from bytenmt.cli.main import main


def command(texts: dict[str, Any], folder: Path, *more: str) -> Result:
    (pair,), valid = texts["files"], texts["valid"]
    words = f"train -o {folder}/run --arch luong --preset tiny --device cpu --src {pair.src} --tgt {pair.tgt}"
    words += f" --valid-src {valid.src} --valid-tgt {valid.tgt} --max-updates 4 --max-tokens 300"
    for setting in (*SMALL["luong"], "train.valid_lines=0", "train.log_every=2", "train.precision=fp32"):
        words += f" --set {setting}"
    return CliRunner().invoke(main, [*words.split(), *more])


@pytest.mark.slow
def test_records(texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of stderr is one, an error too; the metrics are those of the run's folder."""
    monkeypatch.setattr("bytenmt.cli.progress.QUIET_SECONDS", -1.0)
    result = command(texts, tmp_path, "--log-format", "json", "-v", "--resume")
    assert result.exit_code == 0, result.stderr
    records = [json.loads(line) for line in result.stderr.splitlines()]
    assert {"time", "level", "event"} <= set.intersection(*map(set, records))
    metrics = [json.loads(line) for line in (tmp_path / "run" / METRICS).read_text().splitlines()]
    told = [record for record in records if record["event"] == "metrics"]
    assert [
        {key: one[key] for key in one if key not in ("time", "level", "event")} for one in told
    ] == metrics
    assert [record["event"] for record in records if record["level"] == "warning"][0].startswith("--resume:")
    assert [record["done"] for record in records if record["event"] == "progress"][0] == 0.5
    failed = command(texts, tmp_path, "--log-format", "json")
    (record,) = map(json.loads, failed.stderr.splitlines())
    assert failed.exit_code == 1 and record["level"] == "error" and "already holds a run" in record["event"]
