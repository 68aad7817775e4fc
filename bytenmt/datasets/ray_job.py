"""Translate files with Ray Data, whose readers and writers do the rest; this imports Ray."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import ray
import ray.data
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions
from ray.data.datasource import BlockBasedFileDatasink

from bytenmt.datasets.translate import Translate
from bytenmt.errors import BytenmtError
from bytenmt.utf8 import repair

BATCH_ROWS = 1000  # that are translated together
BLOCK_BYTES = 1 << 20  # of rows that Ray hands on together
MAX_ROW_BYTES = 1 << 24
CPUS_PER_THREAD = 0.75  # asked for by an engine
CPUS_PER_FILE = 0.1  # asked for by a task that reads or writes a file
LINE_COLUMN = "text"  # of tables of lines
UNUSED_SEPARATOR = "\x1f"  # which the lines do not have


def connect() -> None:
    """Connect to the Ray cluster of RAY_ADDRESS or `ray start`, else start one on this machine.

    Sets Ray Data to keep the order of rows and to print little. Raises BytenmtError where Ray does
    not start.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(ignore_reinit_error=True, **quiet)
    except Exception as error:  # of several kinds, such as one of its processes that is late
        raise BytenmtError(f"Ray did not start: {error}") from None
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    context.target_max_block_size = BLOCK_BYTES


def translate_file(
    path: Path,
    out: Path,
    form: str,
    runs: Sequence[str],
    options: Mapping[str, Any],
    actors: int | None,
) -> None:
    """Translate a file of rows with Ray Data, and write them, in order, into the new folder `out`.

    The folder appears when it is complete. Call `connect` first. form: format of the file and of
    the output, "parquet" or "jsonl" (a JSON object a line); runs: run folders or weights files,
    several for an ensemble; options: keyword arguments of Translate, such as column; actors: number
    of engines, None to use all CPUs (or GPUs) of the cluster. Raises BytenmtError where reading,
    translating or writing fails.
    """
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    threads = options.get("threads") or 1
    on_gpu = options.get("device") == "cuda"
    resources = ray.cluster_resources()
    n_engines = resources.get("GPU", 1) if on_gpu else resources.get("CPU", 1) // threads
    try:
        rows = _read(path, form).map_batches(
            Translate if form == "parquet" else TranslateObjects,
            fn_constructor_args=runs,
            fn_constructor_kwargs=options,
            batch_format="pyarrow",
            batch_size=BATCH_ROWS,
            compute=ray.data.ActorPoolStrategy(size=actors or max(1, int(n_engines))),
            num_cpus=CPUS_PER_THREAD * threads,
            num_gpus=int(on_gpu),
        )
        how = {"ray_remote_args": {"num_cpus": CPUS_PER_FILE}}
        if form == "parquet":
            rows.write_parquet(str(part), **how)
        else:
            rows.write_datasink(LineSink(str(part), file_format="jsonl"), **how)
    except (ray.exceptions.RayError, pa.ArrowException, ValueError, OSError) as error:
        message = str(error)
        if cause := re.search(r"^[\w.]+: .+", message, re.MULTILINE):  # after its stack trace
            message = cause[0]
        raise BytenmtError(f"{path}: {message}") from None
    part.mkdir(exist_ok=True)  # Ray writes no folder where there are no rows
    part.rename(out)


def _read(path: Path, form: str) -> Any:
    """Return the rows of a Parquet file, or the lines of one of JSON objects, as bytes."""
    if form == "parquet":
        return ray.data.read_parquet(str(path), num_cpus=CPUS_PER_FILE)
    return ray.data.read_csv(
        str(path),
        read_options=ReadOptions(block_size=MAX_ROW_BYTES, column_names=[LINE_COLUMN]),
        parse_options=ParseOptions(delimiter=UNUSED_SEPARATOR, quote_char=False),
        convert_options=ConvertOptions(column_types={LINE_COLUMN: pa.binary()}),
        num_cpus=CPUS_PER_FILE,
    )


class TranslateObjects(Translate):
    """Adds translations to JSON objects, one a line, in Ray Data: a Translate for JSON Lines.

    Its rows have one column "text": an object as bytes. In each object the value of the key
    `column` is translated and stored under the key `to`; other values stay as they are.
    """

    def __call__(self, batch: Any) -> Any:
        """Return a table of encoded objects, no empty lines. Raises MsgspecError, SettingError."""
        lines = filter(bytes.strip, map(repair, batch.column(LINE_COLUMN).to_pylist()))
        rows = [msgspec.json.decode(line, type=dict[str, msgspec.Raw]) for line in lines]
        if rows:
            self._check_columns(sorted(set[str]().union(*rows)))
        cells = [row.get(self.column, b"null") for row in rows]
        values = [msgspec.json.decode(cell, type=str | None) for cell in cells]
        texts = self.translate([None if value is None else value.encode() for value in values])
        translated = [{**row, self.to: text} for row, text in zip(rows, texts, strict=True)]
        done = list(map(msgspec.json.encode, translated))
        return pa.table({LINE_COLUMN: pa.array(done, pa.large_binary())})


class LineSink(BlockBasedFileDatasink):  # type: ignore[misc]
    """A Ray Data sink that writes the column "text" of rows, bytes, to files: a row a line.

    Made with the arguments of Ray's class, LineSink(folder, file_format="jsonl"), for
    Dataset.write_datasink.
    """

    def write_block_to_file(self, block: Any, file: Any) -> None:
        """Write the lines of a block (a part of the rows) to an open file; called by Ray Data."""
        file.write(b"".join(line + b"\n" for line in block.to_arrow()[LINE_COLUMN].to_pylist()))
