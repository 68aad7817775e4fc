"""Read JSON and TOML that anybody may have written.

No file is trusted: what cannot be read, has another type or is nested without end is a ValueError
of one line.
"""

from __future__ import annotations

import json
import tomllib
from typing import Annotated, Any

from msgspec import Meta

Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
LONGEST_NUMBER = 100  # digits; what is longer is no number of anything


def printable(text: str, longest: int = 300) -> str:
    """A foreign text in a message: on one line, without control characters, and not too long."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in cut)


def shown(text: str | None) -> str:
    """Quote and shorten a foreign name or value for a message; None stays "None"."""
    return "None" if text is None else f"'{printable(text, 60)}'"


def parse_json(text: str | bytes, unique: bool = False) -> Any:
    """A JSON text; unique: no object has a key twice.

    Raises ValueError, also where it is nested without end.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique if unique else None, parse_int=_whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML text. Raises ValueError, of one line, also where it is nested without end."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(printable(str(error))) from None
    except ValueError:  # Python's own limit on digits
        raise ValueError("it holds a number of thousands of digits") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for key, value in pairs:
        if key in whole:
            raise ValueError(f"it has {shown(key)} twice")
        whole[key] = value
    return whole


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"it holds a number of {len(digits)} digits")
    return int(digits)
