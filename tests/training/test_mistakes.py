"""Mistakes in the choice of files: training goes through with them and says so; a folder begun by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from heard import Heard
from small_runs import CPU, config

from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.data.corpus_report import warnings_of_pairs, warnings_of_texts
from bytenmt.training.run import train

ENGLISH = [
    f"{a} {b} {c}" for a in ("red", "old", "big") for b in ("cat", "dog", "sun") for c in ("sat", "ran")
]
KOREAN = [
    f"{c} {a} {b}" for a in ("빨강", "헌", "큰") for b in ("고양이", "개", "해") for c in ("앉다", "뛰다")
]


@pytest.fixture
def pairs(tmp_path: Path) -> dict[str, Path]:
    """Twelve pairs to train on, six to validate."""
    found = {}
    for name, lines in (
        ("src", ENGLISH[:12]),
        ("tgt", KOREAN[:12]),
        ("vs", ENGLISH[12:]),
        ("vt", KOREAN[12:]),
    ):
        found[name] = tmp_path / name
        found[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return found


def warnings_of(pairs: dict[str, Path], training: str, valid: str) -> list[str]:
    opened = [
        ParallelCorpus.open_all([PairFiles(*(pairs[name] for name in names.split()))])
        for names in (training, valid)
    ]
    return list(warnings_of_pairs(*opened))


def test_pairs_that_look_wrong(pairs: dict[str, Path], tmp_path: Path) -> None:
    """Each mistake has its one line, and what is right has none."""
    assert warnings_of(pairs, "src tgt", "vs vt") == []
    (seen,) = warnings_of(pairs, "src tgt", "src tgt")
    assert seen.startswith("12 of 12 validation pairs")
    for side in ("src", "tgt"):  # among many others
        lines = pairs[side].read_text(encoding="utf-8").splitlines()
        valid = pairs["vs" if side == "src" else "vt"].read_text(encoding="utf-8").splitlines()
        pairs[f"more_{side}"] = tmp_path / f"more_{side}"
        pairs[f"more_{side}"].write_text("\n".join(lines * 9 + valid[2:3]) + "\n", encoding="utf-8")
    (repeated, seen) = warnings_of(pairs, "more_src more_tgt", "vs vt")
    assert repeated.startswith("88% of the first 109 training pairs repeat another one")
    assert seen.startswith("1 of 6 validation pairs")


def test_texts_that_look_wrong() -> None:
    """A validation text that was cut out of the training text, or is it."""
    text = np.random.default_rng(1).integers(0, 256, 4000, dtype=np.uint8)
    other = np.random.default_rng(2).integers(0, 256, 900, dtype=np.uint8)
    training, valid = [(Path("a"), other[:500]), (Path("b"), text)], Path("v")
    assert not list(warnings_of_texts(training, valid, other[500:]))
    (line,) = warnings_of_texts(training, valid, text[1000:2000].copy())
    assert "the validation text v stands in the training text b" in line
    assert list(warnings_of_texts(training, valid, other[3:4]))


def test_a_run_tells_of_them(pairs: dict[str, Path], tmp_path: Path) -> None:
    """Without a source and with one."""
    heard, wanted = Heard(), config("luong", "train.max_updates=1", "train.valid_lines=0")
    own = PairFiles(pairs["src"], pairs["tgt"])
    train(tmp_path / "run", wanted, files=[own], valid=own, device=CPU, reporter=heard)
    assert sum("warning: 12 of 12 validation pairs" in line for line in heard.lines) == 1
    text = PairFiles(tgt=pairs["tgt"])
    alone = ["model.source=false", "model.input_feeding=false", "train.window=20", "train.max_updates=1"]
    train(tmp_path / "alone", config("luong", *alone), files=[text], valid=text, device=CPU, reporter=heard)
    assert "warning: the validation text" in "\n".join(heard.lines)
