"""Packages that only some tools need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bytenmt.errors import BytenmtError


def package(name: str, extra: str) -> Any:
    """The package, which `pip install 'bytenmt[extra]'` brings. Raises BytenmtError where it is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise BytenmtError(f"this needs the package {name}: pip install 'bytenmt[{extra}]'") from None
