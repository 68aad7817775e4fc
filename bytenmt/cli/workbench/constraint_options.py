"""Options for constraints: kept spans and glossaries. Imports nothing heavy."""

from __future__ import annotations

import click

from bytenmt.cli.options import FILE, options
from bytenmt.decoding.names import KEPT

CONSTRAINTS = options(
    click.option(
        "--keep",
        metavar=",".join(KEPT),
        help="What every translation has exactly as its source: some of these, with commas; tags close in"
        " order.",
    ),
    click.option(
        "--keep-pattern",
        multiple=True,
        metavar="REGEX",
        help="The same of what a pattern finds; its regular part alone, ASCII in [ ]; may be repeated.",
    ),
    click.option(
        "--glossary",
        type=FILE,
        help="Lines `term TAB target`: where the source has the term, the target stands in the translation,"
        " one of several forms by |; of `!X` X does not.",
    ),
)
