"""What tools share: the parser of a command line, and packages that only some of them need."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from importlib import import_module
from typing import Any

from bytenmt.errors import BytenmtError


def tool_parser(description: str | None) -> ArgumentParser:
    """Return a parser whose --help shows the docstring of the tool as it is."""
    return ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)


def import_package(name: str, extra: str) -> Any:
    """Import a package that `pip install 'bytenmt[extra]'` installs.

    Raises BytenmtError if it is missing.
    """
    try:
        return import_module(name)
    except ImportError:
        raise BytenmtError(
            f"this needs the package {name}: pip install 'bytenmt[{extra}]'"
        ) from None
