"""What compiled code alone can call, for a test: it has no way in from Python, which would crash there."""

from __future__ import annotations

from typing import Any

import numba


def from_python(function: Any) -> Any:
    """The same function with a way in."""
    return numba.njit(lambda *arguments: function(*arguments))
