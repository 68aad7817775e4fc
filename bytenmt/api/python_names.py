"""Rewrite messages of errors for Python callers: name arguments instead of options of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from bytenmt.errors import BytenmtError

P = ParamSpec("P")
R = TypeVar("R")

FLAGS = ("resume",)  # options without a value
OTHER_NAMES = {"output": "run", "set": "settings"}
OPTION = re.compile(r"(?<![\w-])(?:--([a-z][a-z-]*[a-z])|-o\b)")


def in_python_names(message: str) -> str:
    """Replace options by the arguments of bytenmt.train, as --max-minutes by max_minutes=; a command that is
    quoted in backticks stays.

    >>> in_python_names("raise --max-minutes and give --resume, or -o another folder")
    'raise max_minutes= and give resume=True, or run= another folder'
    """

    def argument(match: re.Match[str]) -> str:
        name = (match[1] or "output").replace("-", "_")
        return f"{OTHER_NAMES.get(name, name)}={'True' * (name in FLAGS)}"

    parts = message.split("`")
    parts[::2] = [OPTION.sub(argument, part) for part in parts[::2]]
    return "`".join(parts)


def python_names(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its BytenmtErrors name arguments instead of options.

    >>> @python_names
    ... def fail() -> None:
    ...     raise BytenmtError("give --resume")
    >>> fail()
    Traceback (most recent call last):
    bytenmt.errors.BytenmtError: give resume=True
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BytenmtError as error:
            error.args = tuple(in_python_names(one) if isinstance(one, str) else one for one in error.args)
            raise

    return call
