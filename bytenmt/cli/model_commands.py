"""The commands for what training leaves: average, convert and info. Parse, call, print; main.py adds them.

The heavy imports stand inside the commands.
"""

from __future__ import annotations

from pathlib import Path

import click

from bytenmt.cli.console import check_output, say
from bytenmt.cli.options import CORPORA, COUNT, ERRORS, FILE
from bytenmt.config.presets import PRESETS
from bytenmt.errors import BytenmtError


@click.command()
@click.argument("paths", metavar="RUN|FILE...", type=FILE, nargs=-1, required=True)
@click.option("-o", "--output", type=FILE, required=True, help="The checkpoint file to write.")
@click.option("--last", type=COUNT, metavar="K", help="The last K checkpoints of a run.")
def average(paths: tuple[Path, ...], output: Path, last: int | None) -> None:
    """Write the mean of several checkpoints' weights, a file that -m takes.

    Give one run folder, or checkpoint files of one architecture and size.
    """
    from bytenmt.storage.average import average as write_average

    check_output(output, *paths)
    for line in write_average(paths, output, last):
        say(line)


@click.command()
@click.argument("run", type=FILE)
@click.option("-o", "--output", type=FILE, help="The weights file to write, .safetensors.")
@click.option(
    "--precision", type=click.Choice(["fp32", "bf16", "int8"]), help="Of the matrices; all else stays fp32."
)
@click.option("--draft", is_flag=True, help="Count the run's draft table instead, which stays in its folder.")
@CORPORA
@ERRORS
def convert(
    run: Path,
    output: Path | None,
    precision: str | None,
    draft: bool,
    src: tuple[Path, ...],
    tgt: tuple[Path, ...],
    tsv: tuple[Path, ...],
    text: tuple[Path, ...],
    errors: str,
) -> None:
    """Write the weights of a run in fewer bytes, a file that -m takes.

    RUN is a run folder, whose best checkpoint is taken, or a weights file. With --draft: count which bytes
    follow which in the text that the run was trained on, or in that of --src and --tgt, --tsv or --text; what
    translates with it drafts several bytes a step.
    """
    given = src + tgt + tsv + text
    if draft:
        from bytenmt.cli.training_args import training_files
        from bytenmt.speculative.build import write_table

        if output is not None or precision is not None:
            raise BytenmtError("--draft writes into the run folder: leave out -o and --precision")
        lines = write_table(run, training_files(src, tgt, tsv, text, ()) if given else [], errors)
    elif output is None or precision is None:
        raise BytenmtError("nothing to write: give -o FILE and --precision, or --draft")
    elif given:
        raise BytenmtError(f"{given[0]} would be ignored: give --draft with it")
    else:
        from bytenmt.storage.quantize import convert as write_converted

        lines = write_converted(run, output, precision)
    for line in lines:
        say(line)


@click.command()
@click.argument("what", metavar="RUN|FILE|ARCH")
@click.option("--preset", metavar="|".join(PRESETS), help="Of an architecture; small by default.")
@click.option("--no-source", is_flag=True, help="Of an architecture: as a byte language model.")
@click.option("--program", is_flag=True, help="Of a run or file: the instructions of the CPU engine instead.")
def info(what: str, preset: str | None, no_source: bool, program: bool) -> None:
    """Print what a model costs, and its configuration as TOML.

    RUN is a run folder, FILE a weights file, ARCH the name of an architecture. The output can be given to
    --config.
    """
    from bytenmt.cli.model_summary import information, program_of

    click.echo(program_of(what, preset, no_source) if program else information(what, preset, no_source))
