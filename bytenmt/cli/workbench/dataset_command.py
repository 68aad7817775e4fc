"""The command `translate-dataset`. Heavy modules are imported inside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bytenmt.cli.console import Command, say
from bytenmt.cli.options import CONSTRAINTS, COUNT, DECODING, RUNTIME, models
from bytenmt.cli.progress import Console
from bytenmt.errors import BytenmtError

ROWS_FAILED = 3  # exit code: all rows were done, and some have no translation
FORMATS = ("parquet", "jsonl", "csv", "text")


@click.command("translate-dataset", cls=Command)
@models("Several models decode as an ensemble.", "MODEL IN OUT", n_files=(2, 2))
@click.option("--column", default="text", show_default=True, help="Column of IN with the source texts.")
@click.option(
    "--to",
    default="translation",
    show_default=True,
    metavar="COLUMN",
    help="New column for the translations; COLUMN_error states why a row has none.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Format of IN (default: by the suffixes of its files).",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted job in OUT.")
@click.option(
    "--actors",
    type=COUNT,
    help="Number of engines, each with --threads threads (default: the CPUs of the cluster).",
)
@click.option(
    "--block-bytes",
    type=COUNT,
    default=1 << 20,
    show_default=True,
    help="Bytes of IN per part of OUT; an interrupted job repeats the unfinished parts, at most two per"
    " actor.",
)
@CONSTRAINTS
@DECODING
@RUNTIME
def translate_dataset(
    runs: tuple[Path, ...],
    files: tuple[Path, Path],
    column: str,
    to: str,
    form: str | None,
    resume: bool,
    actors: int | None,
    block_bytes: int,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Translate a column of a data set with Ray.

    IN is a file or folder of Parquet, JSON lines, CSV or text. OUT is a folder of parts in the same order and
    format (JSON lines for text) with all columns of IN and two more: the translation and, for a row that
    failed, the error. OUT/_SUCCESS is there once all parts are written. Exits with 3 if rows have no
    translation. --resume continues an interrupted job. Uses the Ray cluster of RAY_ADDRESS or `ray start`,
    otherwise this machine; all machines of a cluster must see IN, OUT and the models under the same paths.
    With --device cuda each actor takes a GPU.
    """
    from bytenmt.checkpoints import resumable
    from bytenmt.cli import decoding_args
    from bytenmt.datasets import Translate, blocks, formats, job, ray_data

    input, output = files
    for name in ("glossary", "reverse"):
        if decoding[name] is not None:
            decoding[name] = decoding[name].resolve()  # actors have folders of their own
    decoding_args.settings(decoding)  # reports options that contradict each other by their names
    ray_data.check_packages()
    translate = Translate(
        *(run.resolve() for run in runs),
        column=column,
        to=to,
        errors=errors,
        device=device,
        threads=threads or 1,
        **{name: decoding[name] for name in decoding_args.OF_THE_ENGINE},
        **decoding_args.named_settings(decoding),
    )
    parts = blocks.files_of(input.resolve())
    name = blocks.format_of(parts, form)
    out = output.resolve()
    if any(file.is_relative_to(out) for file in parts):
        raise BytenmtError(f"{output} holds the input: give another folder for the output")
    steps = job.BlockSteps(name, str(out), translate)
    of = formats.FORMATS[name]
    cut = [*blocks.blocks_of(parts, of, column, to, block_bytes)]
    description = job.job_description(steps, cut, parts, block_bytes)
    with resumable.open_manifest(out, of.suffix, description, resume, Console()) as done:
        result = job.run(steps, cut, done, ray_data.runner(actors, block_bytes), Console())
    say(f"bytenmt: {result.summary}")
    if result.n_failed:
        raise SystemExit(ROWS_FAILED)
