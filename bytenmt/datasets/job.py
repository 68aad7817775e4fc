"""Translate a data set block by block: read, translate, write.

A Runner, such as that of ray_data, carries out the steps in any process. A step that is repeated writes the
same file with the same bytes, so that nothing is lost or doubled.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bytenmt import __version__
from bytenmt.atomic_file import replacing
from bytenmt.checkpoints.resumable import FinishedBlock, Manifest, block_path
from bytenmt.checkpoints.weights import read_run
from bytenmt.datasets.blocks import RowBlock
from bytenmt.datasets.formats import FORMATS
from bytenmt.datasets.translate import RowError, Translate
from bytenmt.errors import BytenmtError
from bytenmt.reporter import SILENT, Reporter


class BlockSteps(NamedTuple):
    """The steps for a block. form: the name of the format. out: the folder of the parts."""

    form: str
    out: str
    translate: Translate

    def read(self, block: RowBlock) -> bytes:
        """Return the bytes of a block. Raises OSError."""
        return FORMATS[self.form].read(Path(block.path), block.begin, block.end, block.base)

    def translate_block(self, block: RowBlock, data: bytes) -> bytes:
        """Translate the rows of a block; return encoded results for `write`. Raises BytenmtError."""
        texts = FORMATS[self.form].texts(data, self.translate.column, self.translate.errors)
        if len(texts) != block.rows:
            raise BytenmtError(
                f"{block.path} changed while it was read: {len(texts)} rows instead of {block.rows}"
            )
        n_bytes = sum(len(text) for text in texts if not isinstance(text, RowError))
        return msgspec.msgpack.encode((n_bytes, self.translate.rows(texts, block.first)))

    def give_up(self, block: RowBlock, why: str) -> bytes:
        """Return the encoded results of a block whose rows cannot be translated."""
        return msgspec.msgpack.encode((0, [RowError(why)] * block.rows))

    def write(self, block: RowBlock, data: bytes, results: bytes) -> FinishedBlock:
        """Write the part of a block. results: as translate_block returns them. Raises OSError."""
        form = FORMATS[self.form]
        n_bytes, rows = msgspec.msgpack.decode(results, type=tuple[int, list[str | RowError]])
        part = form.write(data, self.translate.column, self.translate.to, rows)
        path = block_path(Path(self.out), block.number, form.suffix)
        with replacing(path, unique=f".{uuid.uuid4().hex}") as file:
            file.write(part)
        failed = sum(isinstance(one, RowError) for one in rows)
        return FinishedBlock(block.number, len(part), len(rows), failed, n_bytes)


class JobResult(NamedTuple):
    """n_failed: rows without a translation, also of the job that was resumed. summary: one line."""

    n_failed: int
    summary: str


Runner = Callable[[BlockSteps, Sequence[RowBlock]], Iterator[FinishedBlock]]


def run(
    steps: BlockSteps,
    blocks: Sequence[RowBlock],
    manifest: Manifest,
    runner: Runner,
    reporter: Reporter = SILENT,
) -> JobResult:
    """Run the blocks that are not finished yet; raises what the runner raises. reporter: shows progress."""
    left = [block for block in blocks if block.number not in manifest.finished]
    n_rows, n_left = (sum(block.rows for block in some) for some in (blocks, left))
    if manifest.finished:
        reporter.say(f"bytenmt: {n_rows - n_left:,} of {n_rows:,} rows are done already")
    manifest.mark_complete(is_complete=not left)
    begun, done, n_bytes = time.monotonic(), 0, 0
    with reporter.bar(1.0, "", (n_rows - n_left) / max(1, n_rows), "rows") as bar:
        for one in runner(steps, left) if left else ():
            if one.number not in manifest.finished:  # else it was done again: its file is the same
                manifest.add(one)
                done, n_bytes = done + one.rows, n_bytes + one.text_bytes
                bar.show((n_rows - n_left + done) / n_rows, _rates(done, n_bytes, time.monotonic() - begun))
    missing = [block.number for block in blocks if block.number not in manifest.finished]
    if missing:
        raise BytenmtError(f"{len(missing)} of {len(blocks)} parts were not finished: continue with --resume")
    manifest.mark_complete(is_complete=True)
    failed = sum(one.failed for one in manifest.finished.values())
    return JobResult(
        failed,
        f"{n_rows:,} rows in {len(blocks):,} parts, {failed:,} without a translation;"
        f" {_rates(done, n_bytes, time.monotonic() - begun)}",
    )


def _rates(rows: int, n_bytes: int, seconds: float) -> str:
    """Describe how many rows and bytes of text were translated in a time."""
    each = max(seconds, 1e-9)
    return f"{rows:,} rows in {seconds:,.0f} s, {rows / each:,.0f} rows/s, {n_bytes / each / 1e3:,.1f} kB/s"


def _sha256(file: Path) -> str:
    """Return the SHA-256 of a file as hex digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def job_description(
    steps: BlockSteps, blocks: Sequence[RowBlock], files: Sequence[Path], block_bytes: int
) -> dict[str, Any]:
    """Return everything that the output depends on, as JSON values by the names of options.

    Raises BytenmtError for a run that cannot translate.
    """
    recipe = steps.translate.recipe
    models = []
    for run in recipe.runs:
        file, contents = read_run(Path(run))
        if not contents.config.model.source:
            raise BytenmtError(f"{run} is a language model and cannot translate: give a translation model")
        models.append(_sha256(file))
    spec = recipe.spec
    settings = {name.replace("_", "-"): str(value) for name, value in recipe.settings.items()}
    glossary = recipe.settings.get("glossary")
    if glossary is not None:
        settings["glossary"] = _sha256(Path(glossary))
    return settings | {
        "version": __version__,
        "models": models,
        "engine": spec.engine,
        "precision": spec.precision,
        **({} if spec.reverse is None else {"reverse": _sha256(read_run(Path(spec.reverse))[0])}),
        "column": steps.translate.column,
        "to": steps.translate.to,
        "errors": steps.translate.errors,
        "format": steps.form,
        "block-bytes": block_bytes,
        "input": [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files],
        "rows": sum(block.rows for block in blocks),
    }
