"""Write the metrics of a training as JSON lines."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from bytenmt.atomic_file import write_atomically
from bytenmt.checkpoints.weights import METRICS
from bytenmt.reporter import SILENT, Reporter

Record = Mapping[str, Any]


class MetricsLog:
    """Writes the metrics of a training to metrics.jsonl in its run folder."""

    def __init__(
        self,
        run: Path,
        update: int,
        reporter: Reporter = SILENT,
        watch: Callable[[Record], None] | None = None,
    ) -> None:
        """update: where the run begins or goes on; later records in the file, of a killed run, are removed.

        watch: called with every record, too; reporter: warned where a record cannot be written.
        """
        self.path, self.watch, self.reporter = run / METRICS, watch, reporter
        self._cut(update)

    def write(self, record: Record) -> None:
        """Append a record, values by name with the key "update", as one line of JSON, whole or not at all.

        If the disk is full the record is lost, with a warning; nothing is raised.
        """
        if self.watch is not None:
            self.watch(record)
        try:
            with open(self.path, "ab", buffering=0) as file:
                line, start = msgspec.json.encode(record) + b"\n", file.tell()
                if file.write(line) != len(line):  # the disk is full
                    file.truncate(start)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self.reporter.warn(f"cannot write {self.path}: {error.strerror}")

    def _cut(self, update: int) -> None:
        """Keep the records up to an update: a resumed run writes the later ones again."""
        kept = []
        for line in self.path.read_bytes().splitlines(keepends=True) if self.path.is_file() else ():
            with suppress(ValueError, KeyError):  # the last line of a killed run
                if line.endswith(b"\n") and json.loads(line)["update"] <= update:
                    kept.append(line)
        write_atomically(self.path, b"".join(kept))
