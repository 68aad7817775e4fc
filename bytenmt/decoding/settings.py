"""What a translation may be told: the search's options and the limits of lines, checked in one place for the
commands and for Python.

Knows names and numbers; knows no engines and no lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bytenmt.config import bounds
from bytenmt.config.facts import SearchDefaults
from bytenmt.decoding.constraints.rules import Rules
from bytenmt.decoding.interface import Options
from bytenmt.decoding.setting_table import BOUNDS, LINES, SEARCH, LineSettings
from bytenmt.errors import DataError, SettingError
from bytenmt.utf8 import first_invalid

OF_RULES = {"keep", "keep_pattern", "glossary"}


@dataclass(frozen=True)
class Settings(LineSettings):
    """How lines are translated: the settings of lines, and the search with its own.

    search: how the search chooses. rules: what must stand in a translation, as search.tracker reads it; None:
    nothing. left_to_runs: the length penalty is that of the runs where they have one, in place of search's.
    Raises SettingError for a value outside its bounds.
    """

    search: Options = field(default_factory=Options)
    rules: Rules | None = None
    left_to_runs: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        given = dict(vars(self))
        if self.max_source_bytes is None:
            del given["max_source_bytes"]
        bounds.check(given, BOUNDS)
        if not isinstance(self.prefix, bytes) or first_invalid(self.prefix) >= 0:
            raise SettingError(f"the prefix {self.prefix!r} is not valid UTF-8")
        if b"\n" in self.prefix or b"\r" in self.prefix:
            raise SettingError(f"the prefix {self.prefix!r} holds a line end: a translation is one line")

    @classmethod
    def of(cls, given: Mapping[str, Any], shown: Callable[[str], str] = str) -> Settings:
        """Settings by their names, those of `search` among them, and keep, keep_pattern and glossary, see
        Rules.of; what is left out has its default.

        shown: how a name is written in a message. Raises SettingError for an unknown name, a wrong value, and
        what would be ignored.
        """
        of_search = {*SEARCH, "byte_scores"}
        for name in given:
            if name not in of_search | LINES.keys() | OF_RULES:
                known = ", ".join(sorted(of_search | LINES.keys() | OF_RULES))
                raise SettingError(f"unknown setting {name}: expected one of {known}")
        _check_together(given, shown)
        lines = {name: value for name, value in given.items() if name in LINES}
        if not isinstance(lines.get("prefix", b""), bytes):
            lines["prefix"] = encoded(lines["prefix"], "the prefix")
        rules = Rules.of(**{name: value for name, value in given.items() if name in OF_RULES})
        search = Options(
            **{name: value for name, value in given.items() if name in of_search},
            tracker=None if rules is None else rules.tracker,
        )
        return cls(search=search, **lines, rules=rules, left_to_runs="length_penalty" not in given)

    def with_defaults(self, defaults: SearchDefaults | None) -> Settings:
        """The same with what was left to runs that have these defaults."""
        if defaults is None or not self.left_to_runs:
            return self
        return replace(self, search=replace(self.search, length_penalty=defaults.length_penalty))


def _check_together(given: Mapping[str, Any], shown: Callable[[str], str]) -> None:
    """Raise SettingError for what does not go together, or would be ignored."""
    beam, n_best, sample = given.get("beam", 1), given.get("n_best", 1), given.get("sample", False)
    numbers = {name: given[name] for name in ("beam", "n_best") if name in given}
    bounds.check(numbers, BOUNDS)
    if not isinstance(sample, bool):
        raise SettingError(f"{shown('sample')} is {sample!r}, expected True or False")
    if beam == 1 and "length_penalty" in given:
        raise SettingError(
            f"{shown('length_penalty')} would be ignored by greedy search:"
            f" give {shown('beam')} 2 or more with it"
        )
    if n_best > beam:
        raise SettingError(
            f"{shown('n_best')} {n_best} of {shown('beam')} {beam}: give {shown('beam')} {n_best} or more"
        )
    for name, row in SEARCH.items():
        if row.needs_sample and name in given and not sample:
            raise SettingError(f"{shown(name)} would be ignored: give {shown('sample')} with it")


def encoded(line: str | bytes, name: str) -> bytes:
    """A line as bytes. Raises DataError where it is not a line of valid UTF-8."""
    if not isinstance(line, str | bytes):
        raise DataError(f"{name} is of type {type(line).__name__}: expected str or bytes")
    try:
        data = line.encode() if isinstance(line, str) else line
    except UnicodeEncodeError:
        raise DataError(f"{name} holds a half of a surrogate pair: expected text") from None
    if first_invalid(data) >= 0:
        raise DataError(f"{name} is not valid UTF-8: convert it, or repair it by .decode('utf-8', 'replace')")
    if b"\n" in data:
        raise DataError(f"{name} holds a line end: give each line alone")
    return data
