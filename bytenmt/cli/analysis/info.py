"""The command `info`: cost, configuration, program and profile of a model."""

from __future__ import annotations

import click

from bytenmt.cli.console import Command, completing
from bytenmt.cli.options import ARCHITECTURES, preset_option, within
from bytenmt.config.bounds import BATCH
from bytenmt.decoding.setting_table import PRECISIONS
from bytenmt.errors import BytenmtError


@click.command(cls=Command)
@click.argument(
    "named", metavar="RUN|FILE|ARCH", nargs=-1, shell_complete=completing(ARCHITECTURES, files=True)
)
@preset_option("Of an architecture; small by default.")
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Of an architecture, as in train; model.source=false is a language model.",
)
@click.option("--program", is_flag=True, help="Of a run or file: the instructions of the CPU engine instead.")
@click.option(
    "--profile",
    is_flag=True,
    help="Of a run or file: where the time of a step goes, instruction by instruction.",
)
@click.option(
    "--batch-size", type=within(BATCH), help="With --profile: sentences side by side; 1 by default."
)
@click.option("--precision", type=click.Choice(PRECISIONS), help="With --profile: another than the file's.")
@click.option(
    "--properties",
    is_flag=True,
    help="A table instead, of several or of all architectures: time, paths of signals and receptive fields.",
)
def info(
    named: tuple[str, ...],
    preset: str | None,
    settings: tuple[str, ...],
    program: bool,
    profile: bool,
    batch_size: int | None,
    precision: str | None,
    properties: bool,
) -> None:
    """Print a model's costs, and its configuration as TOML.

    RUN is a run folder, FILE a weights file, ARCH the name of an architecture. The output can be given to
    --config.
    """
    from bytenmt.decoding.model_summary import config_of, model_description, profile_of, program_of

    asked = [
        option
        for option, given in (("--program", program), ("--profile", profile), ("--properties", properties))
        if given
    ]
    if len(asked) > 1:
        raise BytenmtError(f"{' and '.join(asked)}: give one of them")
    if not profile and (batch_size, precision) != (None, None):
        option = "--batch-size" if precision is None else "--precision"
        raise BytenmtError(f"{option} would be ignored: it is for --profile")
    if properties:
        from bytenmt.analysis.properties import table

        models = [(what, config_of(what, preset, settings).model) for what in named or ARCHITECTURES]
        click.echo(table(models))
        return
    if len(named) != 1:
        raise click.UsageError(f"{len(named)} models: expected one RUN, FILE or ARCH, or --properties.")
    (what,) = named
    if (program or profile) and (preset is not None or settings):
        option = "--set" if preset is None else "--preset"
        raise BytenmtError(f"{asked[0]} is of a run folder or a weights file: leave out {option}")
    if program:
        click.echo(program_of(what))
    elif profile:
        click.echo(profile_of(what, precision, batch_size or 1))
    else:
        click.echo(model_description(what, preset, settings))
