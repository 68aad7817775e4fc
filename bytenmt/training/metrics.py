"""Write metrics while a run trains: JSON lines, TensorBoard, and translations."""

from __future__ import annotations

import errno
import importlib.util
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import Tensor

from bytenmt.atomic_file import write_atomically
from bytenmt.checkpoints.weights import METRICS
from bytenmt.config.untrusted import printable
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.prometheus import NAMESPACE
from bytenmt.reporter import SILENT, Reporter
from bytenmt.training.task import Sample

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

SAMPLES, TENSORBOARD = "samples.txt", "tensorboard"
Record = Mapping[str, float | str]
GAUGES = {
    "update": "Updates that were made.",
    "epoch": "The epoch, from 0.",
    "seconds": "Of training in all, resumed or not.",
    "cpu_seconds": "Of all processes and threads.",
    "lr": "The learning rate.",
    "train_bits_per_byte": "The loss since the record before.",
    "gradient_norm": "Of the last update, before it is clipped.",
    "bytes_per_second": "Source and target bytes, ends of sentences counted, since the record before.",
    "waiting_for_data": "The share of the time that was waited for batches.",
    "valid_bits_per_byte": "Of the validation text.",
    "valid_chrf": "Of its first lines, decoded.",
    "valid_bleu": "The same.",
    "valid_exact_match": "The same.",
    "resident_bytes": "Memory of the leading process.",
    "gpu_bytes": "Of its tensors on the GPU.",
}


class Meter:
    """Sums since the last log record, read from the device only when they are logged."""

    def __init__(self) -> None:
        self.nats: list[Tensor] = []
        self.norm = torch.zeros(())
        self.target_bytes = self.all_bytes = 0
        self.waited = 0.0  # seconds, for batches
        self.started = time.monotonic()

    def read(self, nats: float) -> dict[str, float]:
        """The record; nats: those of all processes."""
        seconds = time.monotonic() - self.started
        return {
            "train_bits_per_byte": nats / math.log(2) / max(1, self.target_bytes),
            "gradient_norm": float(self.norm),
            "bytes_per_second": self.all_bytes / seconds,
            "waiting_for_data": self.waited / seconds,
        }


class LatestMetrics:
    """The newest value of every metric of a run, and its memory, as a collector for Prometheus."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}

    def update(self, record: Record) -> None:
        """Take the values of a record; those that it does not have stay."""
        numbers = {name: value for name, value in record.items() if isinstance(value, (int, float))}
        self._values = {**self._values, **numbers}  # another thread may be reading the old one

    def registry(self) -> CollectorRegistry:
        """Return a registry with this collector alone."""
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return registry

    def collect(self) -> Iterator[Metric]:
        """Yield a gauge for every metric of GAUGES that has a value."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        values = self._values | _memory()
        for name, text in GAUGES.items():
            if name in values:
                yield GaugeMetricFamily(f"{NAMESPACE}_training_{name}", text, value=values[name])


def _memory() -> dict[str, float]:
    """Bytes, as far as the system tells."""
    found: dict[str, float] = {}
    with suppress(OSError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        found["resident_bytes"] = int(pages) * os.sysconf("SC_PAGE_SIZE")
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found["gpu_bytes"] = torch.cuda.memory_allocated()
    return found


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

        watch: is told every record too.
        """
        self.run, self.watch = run, watch
        self.reporter = reporter
        cut_metrics(run, update)
        cut_samples(run, update)
        self.board = None
        if tensorboard:
            require_tensorboard()
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(run / TENSORBOARD), purge_step=update + 1)

    def write(self, record: Record) -> None:
        """One record; it has its `update`. A disk that is full costs the record, not the run."""
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

    def show(self, update: int, samples: Sequence[Sample]) -> None:
        """A few translations as they are now, for a person to read in the run folder.

        A disk that is full costs them, not the run.
        """
        blocks = [
            "".join(f"  {name:<13}{printable(text)}\n" for name, text in sample._asdict().items())
            for sample in samples
        ]
        if blocks:
            try:
                with open(self.run / SAMPLES, "a", encoding="utf-8") as file:
                    file.write(f"update {update}\n" + "\n".join(blocks) + "\n")
            except OSError as error:
                self.reporter.warn(f"cannot write {self.run / SAMPLES}: {error.strerror}")


def require_tensorboard() -> None:
    """Raise BytenmtError where TensorBoard's writer is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise BytenmtError("--tensorboard needs a missing package: pip install tensorboard")


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


def cut_samples(run: Path, update: int) -> None:
    """Keep the translations up to an update: a resumed run writes the later ones again."""
    path = run / SAMPLES
    if path.is_file():
        kept: list[bytes] = []
        for line in path.read_bytes().splitlines(keepends=True):
            name, _, number = line.partition(b" ")
            if name == b"update" and (not number.strip().isdigit() or int(number) > update):
                break
            kept.append(line)
        write_atomically(path, b"".join(kept))
