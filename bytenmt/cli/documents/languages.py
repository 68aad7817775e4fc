"""The option --pair: two languages. Knows names alone."""

from __future__ import annotations

import click

from bytenmt.errors import BytenmtError

PAIR = click.option(
    "--pair",
    metavar="SRC-TGT",
    help="The languages, as en-de or en-US:pt-BR; of a TMX, which has several, and where a file tells none.",
)


def language_pair(given: str) -> tuple[str, str]:
    """en-de, en-US:de -> the two. Raises BytenmtError."""
    for separator in (":", "-"):
        source, found, target = given.partition(separator)
        if found and source and target and (separator == ":" or "-" not in target):
            return source, target
    raise BytenmtError(f"--pair {given}: expected two languages, as en-de, or en-US:pt-BR")
