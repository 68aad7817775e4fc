"""Import of packages that only some tools need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bytenmt.errors import BytenmtError


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
