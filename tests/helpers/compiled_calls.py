"""Call functions that only compiled code can call, since calling them from Python would crash."""

from typing import Any

import numba


def from_python(function: Any) -> Any:
    """Return the function with a wrapper that Python can call."""
    return numba.njit(lambda *arguments: function(*arguments))
