"""Write the metrics of a training: JSON lines, and TensorBoard."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bytenmt.atomic_file import write_atomically
from bytenmt.checkpoints.weights import METRICS
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.reporter import SILENT, Reporter

TENSORBOARD = "tensorboard"
Record = Mapping[str, Any]


class Log:
    """The records of a run: one JSON line each, with TensorBoard beside it where that is wanted."""

    def __init__(
        self,
        run: Path,
        update: int,
        tensorboard: bool,
        reporter: Reporter = SILENT,
        watch: Callable[[Record], None] | None = None,
    ) -> None:
        """update: where the run goes on; later records of a killed run are forgotten.

        watch: is called with every record too.
        """
        self.run, self.watch, self.reporter = run, watch, reporter
        cut_metrics(run, update)
        self.board = None
        if tensorboard:
            require_tensorboard()
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(run / TENSORBOARD), purge_step=update + 1)

    def write(self, record: Record) -> None:
        """Write a record, which has its `update`. A disk that is full costs the record, not the run."""
        if self.watch is not None:
            self.watch(record)
        try:
            append_metrics(self.run, record)
        except CheckpointError as error:
            self.reporter.warn(f"{error}")
        if self.board is not None:
            for name, value in record.items():
                if name != "update" and isinstance(value, float):
                    self.board.add_scalar(name, value, int(record["update"]))
            self.board.flush()


def require_tensorboard() -> None:
    """Raise BytenmtError where TensorBoard's writer is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise BytenmtError("--tensorboard needs a missing package: pip install tensorboard")


def append_metrics(run: Path, record: Record) -> None:
    """Write one JSON line at the end of metrics.jsonl, whole or not at all. Raises CheckpointError."""
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
