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
        self,
        run: Path,
        update: int,
        validated: int | None = None,
        watch: Callable[[Record], None] | None = None,
    ) -> None:
        """Open the log of a run folder; remove records that a resumed run will write again.

        update: the last update of the checkpoint, 0 for a new run: records of later updates are
        removed. validated: update of its last validation: records of later validations are removed;
        None: also up to `update`. watch: called with every record that is written.
        """
        self.path = run / METRICS
        self.watch = watch
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.is_file() else []
        kept = []
        for line in lines:
            with suppress(ValueError, KeyError):  # the last line of a killed run
                record = json.loads(line)
                is_validation = validated is not None and "valid_bits_per_byte" in record
                last = validated if is_validation else update
                if line.endswith(b"\n") and record["update"] <= last:
                    kept.append(line)
        write_atomically(self.path, b"".join(kept))

    def write(self, record: Record) -> None:
        """Append a record, values by name, as a line of JSON; its "update" is the update's number.

        Raises CheckpointError if the file cannot be written.
        """
        if self.watch is not None:
            self.watch(record)
        try:
            with open(self.path, "ab") as file:
                file.write(msgspec.json.encode(record) + b"\n")
        except OSError as error:
            raise CheckpointError(f"cannot write {self.path}: {error.strerror}") from None
