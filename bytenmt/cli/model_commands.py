"""The commands for what training leaves: average, convert, draft, info. Parse, call, print.

The heavy imports stand inside the commands.
"""

from __future__ import annotations

from pathlib import Path

import click

from bytenmt.cli.console import Command, check_output, completing, say
from bytenmt.cli.options import ARCHITECTURES, COUNT, FILE, corpora, errors_option, preset_option
from bytenmt.errors import BytenmtError


@click.command(cls=Command)
@click.argument("paths", metavar="RUN|FILE...", type=FILE, nargs=-1, required=True)
@click.option("-o", "--output", type=FILE, required=True, help="The checkpoint file to write.")
@click.option("--last", type=COUNT, metavar="K", help="The last K checkpoints of a run.")
def average(paths: tuple[Path, ...], output: Path, last: int | None) -> None:
    """Write the mean of several checkpoints' weights.

    It is a file that every command takes for a run. Give one run folder, or checkpoint files of one
    architecture and size.
    """
    from bytenmt.storage.average import average as write_average

    check_output(output, *paths)
    for line in write_average(paths, output, last):
        say(line)


PRECISIONS = ("fp32", "bf16", "int8")


@click.command(cls=Command)
@click.argument("run", type=FILE)
@click.option("-o", "--output", type=FILE, help="The weights file to write, .safetensors.")
@click.option("--precision", type=click.Choice(PRECISIONS), help="Of the matrices; all else stays fp32.")
@click.option("--draft", "drafts", is_flag=True, hidden=True)  # the older name of the command `draft`
@corpora(hidden=True)
@errors_option(hidden=True)
def convert(
    run: Path,
    output: Path | None,
    precision: str | None,
    drafts: bool,
    src: tuple[Path, ...],
    tgt: tuple[Path, ...],
    tsv: tuple[Path, ...],
    text: tuple[Path, ...],
    errors: str,
) -> None:
    """Write the weights of a run in fewer bytes.

    RUN is a run folder, whose best checkpoint is taken, or a weights file; what is written can be given as
    RUN to every command.
    """
    given = src + tgt + tsv + text
    if drafts:
        if output is not None or precision is not None:
            raise BytenmtError("--draft writes into the run folder: leave out -o and --precision")
        _count_drafts(run, src, tgt, tsv, text, errors)
        say(f"convert --draft has its own name now: bytenmt draft {run}")
        return
    if given:
        raise BytenmtError(f"{given[0]} would be ignored: it is for `bytenmt draft`")
    if output is None or precision is None:
        missing = [] if output is not None else ["-o FILE.safetensors"]
        missing += [] if precision is not None else [f"--precision, one of {', '.join(PRECISIONS)}"]
        raise BytenmtError(f"nothing to write: give {' and '.join(missing)}")
    from bytenmt.storage.quantize import convert as write_converted

    for line in write_converted(run, output, precision):
        say(line)


@click.command(cls=Command)
@click.argument("run", type=FILE)
@corpora()
@errors_option()
def draft(
    run: Path,
    src: tuple[Path, ...],
    tgt: tuple[Path, ...],
    tsv: tuple[Path, ...],
    text: tuple[Path, ...],
    errors: str,
) -> None:
    """Count a run's draft table, which makes translation quicker.

    It counts which bytes follow which in the text that RUN was trained on, or in that of --src and --tgt,
    --tsv or --text, and stays in the run's folder; what translates with it drafts several bytes a step. For
    bytenet and convs2s.
    """
    _count_drafts(run, src, tgt, tsv, text, errors)


def _count_drafts(
    run: Path,
    src: tuple[Path, ...],
    tgt: tuple[Path, ...],
    tsv: tuple[Path, ...],
    text: tuple[Path, ...],
    errors: str,
) -> None:
    """See draft."""
    from bytenmt.cli.training_args import training_files
    from bytenmt.speculative.build import write_table

    files = training_files(src, tgt, tsv, text, ()) if src + tgt + tsv + text else []
    for line in write_table(run, files, errors):
        say(line)


@click.command(cls=Command)
@click.argument("what", metavar="RUN|FILE|ARCH", shell_complete=completing(ARCHITECTURES, files=True))
@preset_option("Of an architecture; small by default.")
@click.option("--no-source", is_flag=True, help="Of an architecture: as a byte language model.")
@click.option("--program", is_flag=True, help="Of a run or file: the instructions of the CPU engine instead.")
def info(what: str, preset: str | None, no_source: bool, program: bool) -> None:
    """Print what a model costs, and its configuration as TOML.

    RUN is a run folder, FILE a weights file, ARCH the name of an architecture. The output can be given to
    --config.
    """
    from bytenmt.decoding.model_summary import information, program_of

    click.echo(program_of(what, preset, no_source) if program else information(what, preset, no_source))
