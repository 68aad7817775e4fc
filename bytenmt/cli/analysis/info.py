"""The command `info`: cost, configuration, program and profile of a model."""

from __future__ import annotations

import click

from bytenmt.cli.console import Command, completing
from bytenmt.cli.options import ARCHITECTURES, preset_option, within
from bytenmt.config.bounds import BATCH
from bytenmt.decoding.setting_table import PRECISIONS
from bytenmt.errors import BytenmtError


@click.command(cls=Command)
@click.argument("named", metavar="MODEL|ARCH", nargs=-1, shell_complete=completing(ARCHITECTURES, files=True))
@preset_option("Preset of the architecture ARCH (default: small).")
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a configuration key of the architecture ARCH; model.source=false describes a language model."
    " May be repeated.",
)
@click.option("--program", is_flag=True, help="Print the instructions of the CPU engine for RUN or FILE.")
@click.option(
    "--profile",
    is_flag=True,
    help="Measure a decode step of RUN or FILE and print the time of each instruction.",
)
@click.option(
    "--batch-size", type=within(BATCH), help="Number of sentences in the batch of --profile (default: 1)."
)
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    help="Precision of the weights in --profile (default: the file's).",
)
@click.option(
    "--properties",
    is_flag=True,
    help="Print a table of complexity, path lengths and receptive fields of several ARCH (default: all).",
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
    """Print the size, cost and configuration of a model.

    RUN is a run folder, FILE a weights file, ARCH the name of an architecture. The output is TOML, a valid
    file for `bytenmt train --config`.
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
        raise BytenmtError(f"{option} would be ignored without --profile: drop it")
    if properties:
        from bytenmt.evaluation.properties import table

        models = [(what, config_of(what, preset, settings).model) for what in named or ARCHITECTURES]
        click.echo(table(models))
        return
    if len(named) != 1:
        raise click.UsageError(f"{len(named)} models: expected one RUN, FILE or ARCH, or --properties.")
    (what,) = named
    if (program or profile) and (preset is not None or settings):
        option = "--set" if preset is None else "--preset"
        raise BytenmtError(f"{asked[0]} needs a run folder or a weights file: leave out {option}")
    if program:
        click.echo(program_of(what))
    elif profile:
        click.echo(profile_of(what, precision, batch_size or 1))
    else:
        click.echo(model_description(what, preset, settings))
