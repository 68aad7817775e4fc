"""The settings of a translation, checked in one place for commands, server and Python.

They are options of the search, limits of lines, and what is kept. How to add a setting: see
decoding/interface.py. Imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from bytenmt.config.fields import Positive, check_values, option, options_of
from bytenmt.decoding.interface import AUTO, SEARCH_SETTINGS, SPEED_HEADING, SearchOptions
from bytenmt.errors import DataError, SettingError
from bytenmt.span_classes import CLASSES

if TYPE_CHECKING:  # they import NumPy
    from bytenmt.translation.kept_spans import KeepSpec
    from bytenmt.translation.reranking import Reranker

# Values of split_sentences beside AUTO.
ALWAYS = "always"
NEVER = "never"
MAX_TOKENS = 16_000  # source bytes of a batch, padding included, times the beam size
CONSTRAINTS_HEADING = "Constraints"  # a heading of --help

keep_option = partial(option, heading=CONSTRAINTS_HEADING)
length_option = partial(option, group="search", heading="Sentences and lengths")


@dataclass(frozen=True)
class LineSettings:
    """Settings of lines, apart from the search.

    They say how lines are split and batched, how long a translation may be, and with which text it
    begins.
    """

    # Every translation begins with it, except that of an empty line, even if it is longer than the
    # length limit of max_len_a * source bytes + max_len_b bytes.
    prefix: bytes = option(
        b"",
        "Forced decoding: text with which every translation begins.",
        group="output",
        heading=CONSTRAINTS_HEADING,
    )
    max_len_a: Annotated[float, Meta(ge=0.0, le=1000.0)] = length_option(
        3.0, "Length limit of a translation: A * source bytes + --max-len-b bytes."
    )
    max_len_b: Annotated[int, Meta(ge=0, le=10**6)] = length_option(
        100, "Length limit of a translation: --max-len-a * source bytes + B bytes."
    )
    max_source_bytes: Annotated[int, Meta(ge=4, le=10**9)] | None = length_option(
        None,
        "Maximum source length in bytes; longer lines are split at spaces and translated in parts"
        " (default: the maximum length of the model's training pairs).",
    )
    max_tokens: Positive = length_option(
        MAX_TOKENS,
        "Batch size in source bytes, padding included, times the beam size.",
        heading=SPEED_HEADING,
    )
    split_sentences: str = length_option(
        AUTO,
        "Split lines into sentences and translate them one by one; auto does so if the model was"
        " trained on single sentences.",
        choices=(AUTO, ALWAYS, NEVER),
    )


@dataclass(frozen=True)
class KeepSettings:
    """Settings of the spans that a translation copies unchanged, and of the glossary."""

    keep: str | None = keep_option(
        None,
        "Classes of spans that are copied unchanged from the source to the translation, separated"
        " by commas; none keeps nothing (default: all, if the model was trained with sentinels).",
        metavar=",".join(CLASSES),
    )
    keep_pattern: tuple[str, ...] = keep_option(
        (),
        "Copy every match of this regular expression, in Python's syntax, unchanged to the"
        " translation; may be repeated.",
        metavar="REGEX",
    )
    glossary: Path | None = keep_option(
        None,
        "Glossary file of lines `term TAB target`: the translation has the target where the source"
        " has the term, also with the ending of a plural or case.",
    )


# The descriptions of settings, by name.
LINE_SETTINGS = options_of(LineSettings)
KEEP_SETTINGS = options_of(KeepSettings)
# The settings of all models; KEEP_SETTINGS need sentinels.
TRANSLATION_SETTINGS = SEARCH_SETTINGS | LINE_SETTINGS


def option_name(setting: str) -> str:
    """Return the command-line option of a setting for messages: "--beam-size" for "beam"."""
    return (TRANSLATION_SETTINGS | KEEP_SETTINGS)[setting].long


@dataclass(frozen=True)
class Settings(LineSettings):
    """All settings of a translation: of lines (LineSettings), of the search, and of kept spans."""

    max_source_bytes: int = 1000  # of a chunk, the part of a line that is translated by itself
    search: SearchOptions = field(default_factory=SearchOptions)
    keep: KeepSpec | None = None  # spans to copy, with sentinels in their place; None: no span
    # Whether the user asked for kept spans or terms, so that a model that has not learned to copy
    # sentinels (bytes that stand for spans) is refused; otherwise such a model keeps no spans.
    needs_sentinels: bool = False
    # Names of settings that the user did not set, so that a model's own defaults replace them.
    left_to_runs: frozenset[str] = frozenset()
    languages: Sequence[str] = ()  # by whose rules lines are split into sentences; (): none
    # Ranks all hypotheses of a beam anew, of which the first n_best stay; None: no reranking.
    reranker: Reranker | None = None
    target_language: str = ""  # code, by which numbers are checked; empty: not known

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], shown: Callable[[str], str] = str) -> Settings:
        """Return checked settings from values by name; defaults stand for names that are missing.

        values: fields of SearchOptions (except endless), LineSettings and KeepSettings. shown:
        returns the name by which messages call a setting, such as "--beam-size" for "beam". Raises
        SettingError for a wrong name or value, DataError for a wrong prefix or glossary file.
        """
        from bytenmt.translation.kept_spans import KeepSpec  # here: --help does without NumPy

        known = TRANSLATION_SETTINGS | KEEP_SETTINGS
        for name in values:
            if name not in known:
                raise SettingError(
                    f"unknown setting {name}: expected one of {', '.join(sorted(known))}"
                )
        values = dict(values)
        if "prefix" in values:
            values["prefix"] = encode_line(values["prefix"], "the prefix")
        values = check_values(values, TRANSLATION_SETTINGS, shown)
        n_best = values.get("n_best", 1)
        beam = values.get("beam", n_best)
        if n_best > beam:
            beam_name = shown("beam")
            raise SettingError(
                f"{shown('n_best')} {n_best} of {beam_name} {beam}:"
                f" give {beam_name} {n_best} or more"
            )
        search_values = {name: value for name, value in values.items() if name in SEARCH_SETTINGS}
        search = SearchOptions(**{"beam": beam} | search_values)
        keep_values = {name: value for name, value in values.items() if name in KEEP_SETTINGS}
        values = {name: value for name, value in values.items() if value is not None}
        line_values = {name: value for name, value in values.items() if name in LINE_SETTINGS}
        left_to_runs = {"length_penalty", "max_source_bytes"}
        if not search.sample:  # what is sampled is what the model says, repetitions and all
            left_to_runs |= {"no_repeat_ngram_size", "beam"}
        return cls(
            search=search,
            **line_values,
            keep=KeepSpec.from_settings(**keep_values),
            needs_sentinels=any(value and value != "none" for value in keep_values.values()),
            left_to_runs=frozenset(left_to_runs - values.keys()),
        )

    def max_target_bytes(self, n_source_bytes: int) -> int:
        """Return a translation's length limit in bytes: max_len_a * n_source_bytes + max_len_b."""
        return int(self.max_len_a * n_source_bytes) + self.max_len_b


def encode_line(line: str | bytes, name: str) -> bytes:
    """Return a line as UTF-8 bytes. Raises DataError if it is not valid text or has line breaks.

    name: what messages call it, such as "line 3".
    """
    from bytenmt.utf8 import first_invalid  # here: --help does without NumPy

    if not isinstance(line, str | bytes):
        raise DataError(f"{name} is of type {type(line).__name__}: expected str or bytes")
    try:
        data = line.encode() if isinstance(line, str) else line
    except UnicodeEncodeError:
        raise DataError(f"{name} contains an unpaired surrogate: give valid text") from None
    if first_invalid(data) >= 0:
        raise DataError(
            f"{name} is not valid UTF-8: convert it, or repair it by .decode('utf-8', 'replace')"
        )
    if b"\n" in data or b"\r" in data and name == "the prefix":
        raise DataError(f"{name} contains a line break: give each line as a separate text")
    return data
