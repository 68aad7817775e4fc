"""Check that a job that is resumed is the one that was begun: the same models, options and input."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bytenmt.errors import BytenmtError


def check_same_job(out: Path, begun: Mapping[str, Any], now: Mapping[str, Any], alternative: str) -> None:
    """Raise BytenmtError, which names the first difference, where a resumed job is another than was begun.

    out: the output, for the message; begun, now: JSON values of everything that the output depends on, by
    name; alternative: what to do instead of giving the same again.

    >>> check_same_job(Path("out"), {"beam": 1}, {"beam": 2}, "or anew")
    Traceback (most recent call last):
    bytenmt.errors.BytenmtError: --resume: out was begun with beam 1, not 2: give the same again, or anew
    """
    for name in sorted(begun.keys() | now.keys()):
        before, after = begun.get(name), now.get(name)
        if before != after:
            is_long = isinstance(before, list | dict)  # as the digests of models
            what = f"another {name.removesuffix('s')}" if is_long else f"{name} {before}, not {after}"
            raise BytenmtError(f"--resume: {out} was begun with {what}: give the same again, {alternative}")
