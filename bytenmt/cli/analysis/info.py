"""The command `info`: cost, configuration and properties of a model."""

from __future__ import annotations

import click

from bytenmt.cli.console import Command, completing
from bytenmt.cli.options import ARCHITECTURES, preset_option


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
@click.option(
    "--properties",
    is_flag=True,
    help="Print a table of complexity, path lengths and receptive fields of several ARCH (default: all).",
)
def info(named: tuple[str, ...], preset: str | None, settings: tuple[str, ...], properties: bool) -> None:
    """Print the size, cost and configuration of a model.

    MODEL is a run folder or a weights file, ARCH the name of an architecture. The output is TOML, a valid
    file for `bytenmt train --config`.
    """
    from bytenmt.decoding.model_summary import config_of, model_description

    if properties:
        from bytenmt.evaluation.properties import table

        models = [(what, config_of(what, preset, settings).model) for what in named or ARCHITECTURES]
        click.echo(table(models))
        return
    if len(named) != 1:
        raise click.UsageError(f"{len(named)} models: expected one MODEL or ARCH, or --properties.")
    click.echo(model_description(named[0], preset, settings))
