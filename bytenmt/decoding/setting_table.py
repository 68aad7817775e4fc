"""The settings of a translation: a field each, with type, bounds, default and help.

The options of the commands, the keyword arguments of the Python API and the options of the server
are made from these fields. To add a setting, add its field here and read it where it has an effect.
`group` says which commands have it: "search" all commands that translate and the server, "sampling"
all commands that sample, "output" only `translate`. The server names fields of KeepSettings and
EngineSpec itself (cli/serve.py, serve/loading.py). Imports nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from bytenmt.config.fields import (
    Beam,
    Count,
    LengthPenalty,
    Positive,
    Seed,
    Threads,
    check_values,
    option,
    options_of,
)
from bytenmt.sentinels import CLASSES

AUTO = "auto"
ENGINES = ("torch", "cuda-graph", "numba")
DEVICES = ("cpu", "cuda")
PRECISIONS = ("fp32", "bf16", "int8")  # bf16: of the engines in PyTorch; int8: of numba
ALWAYS, NEVER = "always", "never"
MAX_TOKENS = 16_000  # source bytes of a batch, padding included, times the beam size
SEARCH_HEADING, SPEED, CONSTRAINTS = (
    "Search",
    "Speed and memory",
    "Constraints",
)  # headings of --help

search_option = partial(option, group="search", heading=SEARCH_HEADING)
sampling_option = partial(option, group="sampling", heading="Sampling")
keep_option = partial(option, heading=CONSTRAINTS)
engine_option = partial(option, heading=SPEED)
length_option = partial(option, group="search", heading="Sentences and lengths")


@dataclass(frozen=True)
class Options:
    """Options of the search, which Settings.from_dict checks; its fields hold the help of the
    commands' options. Commands set the last one themselves."""

    beam: Beam = search_option(
        1,
        "Beam size; 1 is greedy search (default: 4 for models that were trained with sentinels, otherwise 1)."
        " With --sample, the number of samples per line (default: 1).",
        *("-b", "--beam-size", "--beam"),
    )
    n_best: Beam = search_option(
        1, "Number of translations printed per line, at most --beam-size.", group="output"
    )
    length_penalty: LengthPenalty = search_option(
        1.0,
        "Exponent A of the length penalty: hypotheses are ranked by log-probability / (bytes + 1)**A. Needs"
        " beam search (default: the value tuned for the model, otherwise 1).",
        *("--length-penalty", "--lenpen"),
    )
    no_repeat_ngram_size: Count = search_option(
        0,
        "Forbid repeated n-grams of N characters within a translation, unless nothing else is possible; 0"
        " allows them (default: the value tuned for the model, otherwise 0).",
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
        0, "Sample from the K most likely bytes only; 0 is no limit."
    )
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)] = sampling_option(
        1.0, "Nucleus sampling: sample from the fewest bytes whose probabilities sum to P."
    )
    # A random number depends on it, the line's number, the sample's number and the byte's position
    # alone.
    seed: Seed = sampling_option(0, "Random seed of sampling; the same seed gives the same text.")
    endless: bool = (
        False  # the output is a text, not a line: line ends are allowed, only its limit ends it
    )


@dataclass(frozen=True)
class LineSettings:
    """Settings of lines, independent of the search: how they are split, batched and limited in
    length.

    prefix: what every translation begins with, except that of an empty line; it may be longer than
    the length
    limit: max_len_a * source bytes + max_len_b bytes. max_tokens: source bytes of a batch, times
    the beam.
    """

    prefix: bytes = option(
        b"",
        "Forced decoding: text with which every translation begins.",
        group="output",
        heading=CONSTRAINTS,
    )
    max_len_a: Annotated[float, Meta(ge=0.0, le=1000.0)] = length_option(
        3.0, "Length limit of a translation: A * source bytes + --max-len-b bytes."
    )
    max_len_b: Annotated[int, Meta(ge=0, le=10**6)] = length_option(
        100, "Length limit of a translation: --max-len-a * source bytes + B bytes."
    )
    max_source_bytes: Annotated[int, Meta(ge=4, le=10**9)] | None = length_option(
        None,
        "Maximum source length in bytes; longer lines are split at spaces and translated in parts (default:"
        " the maximum length of the model's training pairs).",
    )
    max_tokens: Positive = length_option(
        MAX_TOKENS,
        "Batch size in source bytes, padding included, times the beam size.",
        heading=SPEED,
    )
    split_sentences: str = length_option(
        AUTO,
        "Split lines into sentences and translate them one by one; auto does so if the model was trained on"
        " single sentences.",
        choices=(AUTO, ALWAYS, NEVER),
    )


@dataclass(frozen=True)
class KeepSettings:
    """Settings of the spans of a line that its translation copies unchanged, and of the glossary.

    keep: classes of spans, such as "urls,numbers"; keep_pattern: regular expressions of further
    spans.
    glossary: a file of terms and their translations. KeepSpec.from_settings of kept_spans reads
    them.
    """

    keep: str | None = keep_option(
        None,
        "Classes of spans that are copied unchanged from the source to the translation, separated by commas;"
        " none keeps nothing (default: all, if the model was trained with sentinels).",
        metavar=",".join(CLASSES),
    )
    keep_pattern: tuple[str, ...] = keep_option(
        (),
        "Copy every match of this regular expression, in Python's syntax, unchanged to the translation; may"
        " be repeated.",
        metavar="REGEX",
    )
    glossary: Path | None = keep_option(
        None,
        "Glossary file of lines `term TAB target`: the translation has the target where the source has the"
        " term, also with the ending of a plural or case.",
    )


@dataclass(frozen=True)
class EngineSpec:
    """The engine, device, precision and threads that decode; load_runs replaces AUTO by what suits
    best.

    precision stays AUTO where the weights files decide, threads None where the engine does.
    reverse: a run folder or weights file of the opposite direction, whose model reranks hypotheses.
    Raises SettingError for a value that is not a choice.
    """

    engine: str = engine_option(
        AUTO,
        "Inference engine: numba (compiled CPU kernels), torch (PyTorch) or cuda-graph (PyTorch with CUDA"
        " graphs); auto takes the fastest one for the device.",
        choices=(AUTO, *ENGINES),
    )
    device: str = engine_option(
        AUTO,
        "Device to run on; auto is the GPU if there is one, otherwise the CPU.",
        choices=(AUTO, *DEVICES),
    )
    precision: str = engine_option(
        AUTO,
        "Precision of the weights; int8 is for numba and bf16 for the others."
        " auto is the file's precision with numba, bf16 with cuda-graph and fp32 with torch.",
        choices=(AUTO, *PRECISIONS),
    )
    threads: Threads | None = engine_option(
        None, "Number of CPU threads (default: chosen by the number of cores)."
    )
    reverse: Path | None = engine_option(
        None,
        "A model of the opposite direction, which ranks the hypotheses of a beam search, too: better"
        " translations in two to three times the time. No effect without a beam.",
        metavar="MODEL",
        heading=SEARCH_HEADING,
    )

    def __post_init__(self) -> None:
        check_values(
            {name: value for name, value in vars(self).items() if name != "reverse"}, ENGINE
        )


SEARCH, LINES, KEEP = options_of(Options), options_of(LineSettings), options_of(KeepSettings)
TABLE = SEARCH | LINES
# Options without effect where `sample` is false.
SAMPLING = {
    name: option
    for name, option in SEARCH.items()
    if option.group == "sampling" and name != "sample"
}
ENGINE = options_of(EngineSpec)


def option_name(setting: str) -> str:
    """Return the name of a setting's option, such as "--beam-size" for beam, for messages of
    commands."""
    return (TABLE | KEEP)[setting].long
