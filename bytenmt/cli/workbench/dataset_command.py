"""The command `translate-dataset`. Heavy modules are imported inside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bytenmt.cli.console import Command, say
from bytenmt.cli.options import CONSTRAINTS, COUNT, DECODING, FILE, MODELS, RUNTIME
from bytenmt.cli.progress import Console
from bytenmt.errors import BytenmtError

ROWS_FAILED = 3  # exit code: all rows were done, and some have no translation
FORMATS = ("parquet", "jsonl", "csv", "text")


@click.command("translate-dataset", cls=Command)
@click.argument("input", metavar="IN", type=FILE)
@click.argument("output", metavar="OUT", type=FILE)
@MODELS
@click.option("--column", default="text", show_default=True, help="Of the texts.")
@click.option(
    "--to",
    default="translation",
    show_default=True,
    metavar="COLUMN",
    help="Of the translations; COLUMN_error tells why there is none.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), help="Of IN; by its suffixes without.")
@click.option("--resume", is_flag=True, help="Go on in OUT with what a stopped job left to do.")
@click.option(
    "--actors",
    type=COUNT,
    help="Engines, of --threads threads each, 1 by default; as many as the cluster has CPUs without.",
)
@click.option(
    "--block-bytes",
    type=COUNT,
    default=1 << 20,
    show_default=True,
    help="Of IN for a part of OUT; a kill costs the parts that are under way, two an actor.",
)
@CONSTRAINTS
@DECODING
@RUNTIME
def translate_dataset(
    input: Path,
    output: Path,
    runs: tuple[Path, ...],
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
    """Translate a column of the data set IN into OUT, on Ray.

    IN is a file or a folder of parquet, JSON lines, CSV or text. OUT is a folder of parts in the same order
    and format, of text in JSON lines, with all columns and two more; a row that fails is null and says why.
    A job that was killed goes on by --resume. Exits with 3 where rows have no translation. Ray's cluster is
    that of RAY_ADDRESS or `ray start`, else one of this machine; on a cluster IN, OUT and the runs are in
    folders that all machines see. With --device cuda each actor takes a GPU.
    """
    from bytenmt.cli import decoding_args
    from bytenmt.scale import Translate, blocks, formats, job, ray_data
    from bytenmt.storage import resumable

    if decoding["glossary"] is not None:
        decoding["glossary"] = decoding["glossary"].resolve()  # actors have folders of their own
    decoding_args.settings(decoding)  # what does not go together, by its options' names
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
    files = blocks.files_of(input.resolve())
    name = blocks.format_of(files, form)
    out = output.resolve()
    if any(file.is_relative_to(out) for file in files):
        raise BytenmtError(f"{output} holds the input: give another folder for the output")
    steps = job.BlockSteps(name, str(out), translate)
    of = formats.FORMATS[name]
    cut = [*blocks.blocks_of(files, of, column, to, block_bytes)]
    description = job.job_description(steps, cut, files, block_bytes)
    with resumable.open_manifest(out, of.suffix, description, resume, Console()) as done:
        result = job.run(steps, cut, done, ray_data.runner(actors, block_bytes), Console())
    say(f"bytenmt: {result.summary}")
    if result.n_failed:
        raise SystemExit(ROWS_FAILED)
