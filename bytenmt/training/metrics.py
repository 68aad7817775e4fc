"""What a run tells while it trains: metrics as JSON lines, TensorBoard, a picture, and a person's bar.

Does not know how training works.
"""

from __future__ import annotations

import errno
import importlib.util
import io
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tqdm import tqdm

from bytenmt.errors import BytenmtError, CheckpointError, printable
from bytenmt.storage.manifest import METRICS
from bytenmt.storage.tensor_file import write_atomically

CURVE, TENSORBOARD = "curve.png", "tensorboard"
DRAW_SECONDS = 20.0


class Log:
    """The records of a run: one JSON line each, with TensorBoard beside it where that is wanted."""

    def __init__(self, run: Path, update: int, tensorboard: bool) -> None:
        """update: where the run goes on; later records of a killed run are forgotten."""
        self.run = run
        self.drawn = time.monotonic()
        cut_metrics(run, update)
        self.board = None
        if tensorboard:
            require_tensorboard()
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(run / TENSORBOARD), purge_step=update + 1)

    def write(self, record: Mapping[str, float | str]) -> None:
        """One record; it has its `update`. A disk that is full costs the record, not the run."""
        try:
            append_metrics(self.run, record)
        except CheckpointError as error:
            tqdm.write(f"bytenmt: warning: {error}", file=sys.stderr)
        if self.board is not None:
            for name, value in record.items():
                if name != "update" and isinstance(value, float):
                    self.board.add_scalar(name, value, int(record["update"]))
            self.board.flush()

    def draw(self, at_once: bool) -> None:
        """The learning curve as a picture in the run folder, where matplotlib is installed; not more
        than once in DRAW_SECONDS unless at_once."""
        since = time.monotonic() - self.drawn
        if importlib.util.find_spec("matplotlib") is None or not (at_once or since > DRAW_SECONDS):
            return
        self.drawn = time.monotonic()
        lines = (self.run / METRICS).read_text(encoding="utf-8").splitlines()
        try:
            write_atomically(self.run / CURVE, learning_curve([json.loads(line) for line in lines]))
        except (CheckpointError, ValueError) as error:  # a full disk, or a record that it has cut off
            tqdm.write(printable(f"bytenmt: warning: no {CURVE}: {error}"), file=sys.stderr)


def require_tensorboard() -> None:
    """Raise BytenmtError where TensorBoard's writer is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise BytenmtError("--tensorboard needs a package that is not here: pip install tensorboard")


def learning_curve(records: Sequence[Mapping[str, float]]) -> bytes:
    """A PNG of bits per byte, and chrF where it was measured, against updates."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    lines = []
    for name, label, style in (
        ("train_bits_per_byte", "training", "C0-"),
        ("valid_bits_per_byte", "validation", "C1o-"),
    ):
        points = [(r["update"], r[name]) for r in records if name in r]
        if points:
            lines += axes.plot(*zip(*points, strict=True), style, label=label, markersize=3, linewidth=1)
    axes.set(xlabel="update", ylabel="bits per byte")
    axes.set_ylim(bottom=0)
    points = [(r["update"], r["valid_chrf"]) for r in records if "valid_chrf" in r]
    if points:
        right = axes.twinx()
        lines += right.plot(*zip(*points, strict=True), "C2s--", label="chrF", markersize=3, linewidth=1)
        right.set(ylabel="chrF", ylim=(0, 100))
    if lines:
        axes.legend(handles=lines, loc="upper center", ncols=3, frameon=False)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    return file.getvalue()


class Bar:
    """What a person sees: a bar on a terminal, elsewhere a line every half minute; nothing where quiet."""

    QUIET_SECONDS = 30.0

    def __init__(self, fraction: float, quiet: bool) -> None:
        """fraction: of the run's limits that is used already."""
        layout = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
        self.quiet = quiet
        disable = quiet or not sys.stderr.isatty()
        self.bar = tqdm(total=1.0, initial=fraction, bar_format=layout, disable=disable, dynamic_ncols=True)
        self.said = time.monotonic()

    def show(self, fraction: float, text: str) -> None:
        """The share of the run's limits that is used, and a few words."""
        self.bar.n = fraction
        self.bar.set_postfix_str(text)
        if self.bar.disable and time.monotonic() - self.said > self.QUIET_SECONDS:
            self.write(f"{fraction:.0%}, {text}")

    def write(self, line: str) -> None:
        """A line above the bar."""
        if not self.quiet:
            self.bar.write(printable(line), file=sys.stderr)
        self.said = time.monotonic()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()


def append_metrics(run: Path, record: Mapping[str, Any]) -> None:
    """One JSON line at the end of metrics.jsonl, whole or not at all. Raises CheckpointError."""
    try:
        with open(run / METRICS, "ab", buffering=0) as file:
            line, start = msgspec.json.encode(record) + b"\n", file.tell()
            if file.write(line) != len(line):  # the disk is full
                file.truncate(start)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise CheckpointError(f"cannot write {run / METRICS}: {error.strerror}") from None


def cut_metrics(run: Path, update: int) -> None:
    """Keep the records up to an update: a resumed run writes the later ones again."""
    path = run / METRICS
    if path.is_file():
        kept = []
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                if line.endswith(b"\n") and json.loads(line)["update"] <= update:
                    kept.append(line)
            except (ValueError, KeyError):  # the last line of a killed run
                continue
        write_atomically(path, b"".join(kept))
