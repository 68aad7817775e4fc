"""Write the metrics of a training as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from bytenmt.atomic_file import write_atomically
from bytenmt.checkpoints.weights import METRICS
from bytenmt.errors import CheckpointError

Record = Mapping[str, Any]


class MetricsLog:
    """Writes the metrics of a training to metrics.jsonl in its run folder."""

    def __init__(
        self, run: Path, update: int, watch: Callable[[Record], None] | None = None
    ) -> None:
        """Remove the records after `update`, where the run begins or goes on: a killed run wrote
        them. watch: also called with every record."""
        self.path = run / METRICS
        self.watch = watch
        self._cut(update)

    def write(self, record: Record) -> None:
        """Append a record, values by name with the key "update", as one line of JSON.

        Raises CheckpointError where it cannot be written.
        """
        if self.watch is not None:
            self.watch(record)
        try:
            with open(self.path, "ab") as file:
                file.write(msgspec.json.encode(record) + b"\n")
        except OSError as error:
            raise CheckpointError(f"cannot write {self.path}: {error.strerror}") from None

    def _cut(self, update: int) -> None:
        """Keep the records up to an update: a resumed run writes the later ones again."""
        lines: list[bytes] = []
        if self.path.is_file():
            lines = self.path.read_bytes().splitlines(keepends=True)
        kept = []
        for line in lines:
            with suppress(ValueError, KeyError):  # the last line of a killed run
                if line.endswith(b"\n") and json.loads(line)["update"] <= update:
                    kept.append(line)
        write_atomically(self.path, b"".join(kept))
