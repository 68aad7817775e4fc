"""The interface of engines: their choice, the options of a search, requests and hypotheses.

The options of the commands, the keyword arguments of the Python API and the options of the server
are made from the fields of SearchOptions and EngineSpec, and from those of LineSettings and
KeepSettings in translation/settings.py: a field has its type, bounds, default and help in one
place. To add a setting, add its field and read it where it has an effect. `group` says which
commands have it: "search" all commands that translate and the server, "sampling" all commands that
sample, "output" only `translate`. The server names fields of KeepSettings and EngineSpec itself
(cli/serve.py, serve/loading.py). Imports nothing heavy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, NamedTuple, TypeVar

from msgspec import Meta

from bytenmt.config.fields import (
    Beam,
    Count,
    LengthPenalty,
    Seed,
    Threads,
    check_values,
    option,
    options_of,
)
from bytenmt.decoding.engine_kinds import (
    DEVICES,
    ENGINES,
    PRECISIONS,
    engine_help,
    precision_help,
)

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # in typing from Python 3.13 on

    TextT = TypeVarWithDefault("TextT", bytes, str, default=bytes)
else:
    TextT = TypeVar("TextT")

AUTO = "auto"
# Headings of --help.
SEARCH_HEADING = "Search"
SPEED_HEADING = "Speed and memory"

search_option = partial(option, group="search", heading=SEARCH_HEADING)
sampling_option = partial(option, group="sampling", heading="Sampling")
engine_option = partial(option, heading=SPEED_HEADING)


@dataclass(frozen=True)
class SearchOptions:
    """Options of the search for output texts: beam search, its penalties, and sampling.

    Each field holds its default, bounds and help, from which the options of the commands are made;
    `endless` is set by commands themselves. Settings.from_dict checks the values.
    """

    beam: Beam = search_option(
        1,
        "Beam size; 1 is greedy search (default: 4 for models that were trained with sentinels,"
        " otherwise 1). With --sample, the number of samples per line (default: 1).",
        *("-b", "--beam-size", "--beam"),
    )
    n_best: Beam = search_option(
        1, "Number of translations printed per line, at most --beam-size.", group="output"
    )
    length_penalty: LengthPenalty = search_option(
        1.0,
        "Exponent A of the length penalty: hypotheses are ranked by log-probability /"
        " (bytes + 1)**A. Needs beam search (default: the value tuned for the model, otherwise 1).",
        *("--length-penalty", "--lenpen"),
    )
    no_repeat_ngram_size: Count = search_option(
        0,
        "Forbid repeated n-grams of N characters within a translation, unless nothing else is"
        " possible; 0 allows them (default: the value tuned for the model, otherwise 0).",
        metavar="N",
    )
    sample: bool = sampling_option(
        False,
        "Sample translations instead of searching; --beam-size is then the number of samples.",
    )
    temperature: Annotated[float, Meta(ge=0.001, le=1000.0)] = sampling_option(
        1.0, "Sampling temperature; values below 1 favour likely bytes."
    )
    top_k: Annotated[int, Meta(ge=0, le=256)] = sampling_option(
        0, "Sample from the K most likely bytes only; 0 means no limit."
    )
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)] = sampling_option(
        1.0, "Nucleus sampling: sample from the fewest bytes whose probabilities sum to P."
    )
    # A random number depends on the seed and the numbers of line, sample and byte alone.
    seed: Seed = sampling_option(0, "Random seed of sampling; the same seed gives the same text.")
    # The output is a text, not a line: line ends are allowed, and only its limit ends it.
    endless: bool = False


@dataclass(frozen=True)
class EngineSpec:
    """The engine, device, precision and number of threads that decode, and a model that reranks.

    load_runs replaces AUTO ("auto") by the engine and the device that suit best. precision stays
    AUTO where the weights files decide on it, threads None where the engine does. Raises
    SettingError for a value that is not a choice.
    """

    engine: str = engine_option(AUTO, engine_help(), choices=(AUTO, *ENGINES))
    device: str = engine_option(
        AUTO,
        "Device to run on; auto is the GPU if there is one, otherwise the CPU.",
        choices=(AUTO, *DEVICES),
    )
    precision: str = engine_option(AUTO, precision_help(), choices=(AUTO, *PRECISIONS))
    threads: Threads | None = engine_option(
        None, "Number of CPU threads (default: chosen by the number of cores)."
    )
    reverse: Path | None = engine_option(
        None,
        "A model of the opposite direction, which ranks the hypotheses of a beam search, too:"
        " better translations in two to three times the time. No effect without a beam.",
        metavar="MODEL",
        heading=SEARCH_HEADING,
    )

    def __post_init__(self) -> None:
        values = dict(vars(self))
        del values["reverse"]
        check_values(values, ENGINE_SETTINGS)


# The descriptions of settings, by name: of the search, and of the engine.
SEARCH_SETTINGS = options_of(SearchOptions)
# Options without effect where `sample` is false.
SAMPLING_SETTINGS = {
    name: option
    for name, option in SEARCH_SETTINGS.items()
    if option.group == "sampling" and name != "sample"
}
ENGINE_SETTINGS = options_of(EngineSpec)


class Request(NamedTuple):
    """A request to an engine: a sentence to translate, or, without a source, a text to generate."""

    # Valid UTF-8 without EOS; None for a language model. Its sentinels (bytes 0xF5 to 0xFC that
    # stand for spans to be copied, see sentinels.py) are all different; the output gets each of
    # them exactly once.
    source: bytes | None
    limit: int  # maximum length of the output in bytes, EOS not counted
    # Valid UTF-8 that the output must begin with, at most `limit` bytes. It may contain sentinels
    # of the source, and line ends if SearchOptions.endless. The log-probability of the output
    # includes it.
    prefix: bytes = b""
    # Identifies the text for sampling: the random numbers depend on it, not on the batch.
    number: int = 0
    # Numbers of sentinels (0 for byte 0xF5) that stand for an opening and its closing tag: the
    # first of a pair must be written before the second.
    pairs: tuple[tuple[int, int], ...] = ()
    # Whether all hypotheses that the search has finished are returned, not the n_best alone.
    returns_all: bool = False


class Hypothesis(NamedTuple, Generic[TextT]):
    """One output text of a search, with its scores."""

    text: TextT  # without EOS; bytes, or str where the caller gave a str
    # Natural logarithm of the probability of the text and EOS, by the model itself, without mask or
    # temperature.
    log_probability: float
    # Ranks hypotheses, the highest first: log_probability / (bytes + 1) ** length_penalty, except
    # that a sentinel (a byte that stands for a copied span) written instead of a likelier EOS costs
    # only as much as EOS. A Reranker changes the score.
    score: float
    # Names of suspected faults, such as "loop", or "placement" for is_past_end; () if none has been
    # found, None where nothing was checked.
    flags: tuple[str, ...] | None = None
    # Whether the model would have ended the text while sentinels of the source were missing.
    is_past_end: bool = False
    # Natural logarithm of the probability of the source and EOS given the text, by a model of the
    # opposite direction; None where none ranks the hypotheses.
    source_log_probability: float | None = None

    @property
    def bits_per_byte(self) -> float | None:
        """Bits (-log2 of the probability) of text and EOS per byte of the text; None if empty."""
        data = self.text.encode() if isinstance(self.text, str) else self.text
        return -self.log_probability / math.log(2) / len(data) if data else None
