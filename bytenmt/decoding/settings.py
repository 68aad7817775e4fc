"""The settings of a translation, checked in one place for commands, server and Python: options of the search,
limits of lines, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bytenmt.config import bounds
from bytenmt.config.facts import SearchDefaults
from bytenmt.decoding.interface import Options
from bytenmt.decoding.kept_spans import KeepSpec
from bytenmt.decoding.setting_table import BOUNDS, LINES, SEARCH, TABLE, LineSettings
from bytenmt.errors import DataError, SettingError
from bytenmt.utf8 import first_invalid

KEEP_SETTINGS = {"keep", "keep_pattern", "glossary"}
BEAM_OF_SENTINELS = 4  # the default beam size of models that were trained with sentinels


@dataclass(frozen=True)
class Settings(LineSettings):
    """Settings of lines, of the search, and what is kept.

    search: options of the search. keep: what models that were trained with sentinels keep. needs_sentinels:
    whether that was asked for, so that other models are refused. left_to_runs: names of settings for which
    those of the runs, where they have some, replace search's. Raises SettingError for a value outside its
    bounds.
    """

    search: Options = field(default_factory=Options)
    keep: KeepSpec = field(default_factory=KeepSpec)
    needs_sentinels: bool = False
    left_to_runs: frozenset[str] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        values = dict(vars(self))
        if self.max_source_bytes is None:
            del values["max_source_bytes"]
        bounds.check(values, BOUNDS)
        for name, row in TABLE.items():
            if row.choices and name in values and values[name] not in row.choices:
                raise SettingError(f"{name} is {values[name]!r}, expected one of {', '.join(row.choices)}")
        if not isinstance(self.prefix, bytes) or first_invalid(self.prefix) >= 0:
            raise SettingError(f"the prefix {self.prefix!r} is not valid UTF-8")
        if b"\n" in self.prefix or b"\r" in self.prefix:
            raise SettingError(f"the prefix {self.prefix!r} contains a line break: give a single line")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], shown: Callable[[str], str] = str) -> Settings:
        """Return settings from values by name: the fields of Settings and of interface.Options, and keep,
        keep_pattern and glossary as KeepSpec.from_settings takes them.

        shown: returns a name as messages write it. Raises SettingError for an unknown name or a wrong value.
        """
        of_search = {*SEARCH, "byte_scores"}
        for name in values:
            if name not in of_search | LINES.keys() | KEEP_SETTINGS:
                known = ", ".join(sorted(of_search | LINES.keys() | KEEP_SETTINGS))
                raise SettingError(f"unknown setting {name}: expected one of {known}")
        _check_together(values, shown)
        lines = {name: value for name, value in values.items() if name in LINES}
        if not isinstance(lines.get("prefix", b""), bytes):
            lines["prefix"] = encode_line(lines["prefix"], "the prefix")
        of_keep = {name: value for name, value in values.items() if name in KEEP_SETTINGS}
        keep, is_wanted = (
            KeepSpec.from_settings(**of_keep),
            any(value not in (None, "", (), "none") for value in of_keep.values()),
        )
        search = Options(**{name: value for name, value in values.items() if name in of_search})
        # What is sampled is what the model says, repetitions and all.
        of_runs = {"length_penalty"} | ({"no_repeat_ngram_size", "beam"} if not search.sample else set())
        left_to_runs = frozenset(of_runs - values.keys())
        return cls(search=search, **lines, keep=keep, needs_sentinels=is_wanted, left_to_runs=left_to_runs)

    def max_target_bytes(self, n_source_bytes: int) -> int:
        """Return the most bytes of a translation of so many bytes; a longer prefix extends it."""
        return int(self.max_len_a * n_source_bytes) + self.max_len_b

    def check_ranks_hypotheses(self) -> None:
        """Raise SettingError if a reverse model would be ignored, because the search ranks no hypotheses."""
        if self.search.beam == 1 or self.search.sample:
            raise SettingError(
                "the reverse model would be ignored: it ranks hypotheses of beam search; give a beam size of"
                " 2 or more, and do not sample"
            )

    def with_defaults(self, defaults: SearchDefaults | None, has_sentinels: bool) -> Settings:
        """Return these settings with the defaults of the runs where they were left to the runs.

        has_sentinels: whether the runs were trained with sentinels.
        """
        named = (
            {}
            if defaults is None
            else {name: getattr(defaults, name) for name in self.left_to_runs - {"beam"}}
        )
        if has_sentinels and "beam" in self.left_to_runs:
            named["beam"] = BEAM_OF_SENTINELS
        return replace(self, search=replace(self.search, **named)) if named else self


def _check_together(values: Mapping[str, Any], shown: Callable[[str], str]) -> None:
    """Raise SettingError for settings that contradict each other, or would be ignored."""
    beam, n_best, sample = values.get("beam", 1), values.get("n_best", 1), values.get("sample", False)
    numbers = {name: values[name] for name in ("beam", "n_best") if name in values}
    bounds.check(numbers, BOUNDS)
    if not isinstance(sample, bool):
        raise SettingError(f"{shown('sample')} is {sample!r}, expected True or False")
    if n_best > beam:
        raise SettingError(
            f"{shown('n_best')} {n_best} of {shown('beam')} {beam}: give {shown('beam')} {n_best} or more"
        )
    for name, row in SEARCH.items():
        if row.needs_sample and name in values and not sample:
            raise SettingError(f"{shown(name)} would be ignored: give {shown('sample')} with it")


def encode_line(line: str | bytes, name: str) -> bytes:
    """Return a line as bytes. Raises DataError, which names it, where it is not a line of valid UTF-8."""
    if not isinstance(line, str | bytes):
        raise DataError(f"{name} is of type {type(line).__name__}: expected str or bytes")
    try:
        data = line.encode() if isinstance(line, str) else line
    except UnicodeEncodeError:
        raise DataError(f"{name} contains an unpaired surrogate: give valid text") from None
    if first_invalid(data) >= 0:
        raise DataError(f"{name} is not valid UTF-8: convert it, or repair it by .decode('utf-8', 'replace')")
    if b"\n" in data:
        raise DataError(f"{name} contains a line break: give each line as a separate text")
    return data
