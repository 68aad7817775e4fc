"""The settings of a translation: one line each, with name, type, default, bounds and help.

The options of the commands, the keyword arguments of the Python API and the options of the server are made
from these lines. To add a setting, add its line here and read the field where it has an effect. Imports
nothing heavy.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Any, NamedTuple

from bytenmt.config.bounds import BEAM, LENGTH_PENALTY, MOST, MOST_SEED, Bounds, real
from bytenmt.kernel_constants import PRECISIONS as PRECISIONS

ENGINES = ("torch", "cuda-graph", "numba")
DEVICES = ("cpu", "cuda")
# Classes of spans, see sentinels.PATTERNS.
KEPT = (
    *("tags", "placeholders", "urls", "emails", "paths", "options", "keys", "codes", "numbers", "signs"),
    "entities",
)
SPLIT_CHOICES = AUTO, ALWAYS, NEVER = "auto", "always", "never"
MAX_TOKENS = 16_000  # source bytes of a batch, padding included, times the beam size
SPEED = "Speed and memory"  # a heading of --help


class Setting(NamedTuple):
    """A setting as commands offer it.

    bounds: the range of a number, None for a flag or a text. help: text for --help; it stands by itself and
    states the default. flags: names of the option, `--name` where empty. group: which commands offer it:
    "search" all commands that translate and the server, "sampling" all commands that sample text, "output"
    only `translate`. needs_sample: the setting has no effect without --sample. choices: the allowed values of
    a text, empty for any text. heading: the heading of --help under which it is listed.
    """

    name: str
    default: Any
    bounds: Bounds | None
    help: str
    flags: tuple[str, ...]
    metavar: str | None
    group: str
    needs_sample: bool
    choices: tuple[str, ...]
    heading: str

    @property
    def is_flag(self) -> bool:
        """True if its option takes no value."""
        return isinstance(self.default, bool)

    @property
    def option(self) -> str:
        """The long name of its option, as messages write it."""
        long = [flag for flag in self.flags if flag.startswith("--")]
        return long[0] if long else f"--{self.name.replace('_', '-')}"


def setting(
    default: Any,
    bounds: Bounds | None,
    help: str,
    *flags: str,
    metavar: str | None = None,
    group: str = "search",
    needs_sample: bool = False,
    choices: tuple[str, ...] = (),
    heading: str = "Search",
) -> Any:
    """Declare a field of one of the classes below; the arguments are the fields of Setting."""
    row: dict[str, Any] = {"bounds": bounds, "help": help, "flags": flags, "metavar": metavar, "group": group}
    row |= {"needs_sample": needs_sample, "choices": choices, "heading": heading}
    return field(default=default, metadata={"setting": row})


def sampling_setting(default: Any, bounds: Bounds, help: str) -> Any:
    """Declare a setting of sampling."""
    return setting(default, bounds, help, group="sampling", needs_sample=True, heading="Sampling")


def line_setting(default: Any, bounds: Bounds | None, help: str, choices: tuple[str, ...] = ()) -> Any:
    """Declare a setting of how lines are split and limited."""
    return setting(default, bounds, help, choices=choices, heading="Sentences and lengths")


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search.

    beam: beam size, 1 is greedy search. n_best: number of hypotheses returned, at most `beam`.
    length_penalty: hypotheses are ranked by log_probability / (bytes + 1) ** length_penalty.
    no_repeat_ngram_size: n-grams of this many characters occur only once in a text, unless nothing else is
    possible; 0 is off. sample: sample instead of searching; `beam` is then the number of independent
    samples. temperature divides the logits; then top_k keeps the most likely bytes (0: all) and top_p the
    fewest bytes whose probabilities, after the temperature, sum to top_p. seed: random seed; a random number
    depends on the seed, the line's number, the sample's number and the byte's position alone.
    """

    beam: int = setting(
        1,
        BEAM,
        "Beam size; 1 is greedy search (default: 1). With --sample, the number of samples per line.",
        "-b",
        "--beam-size",
        "--beam",
    )
    n_best: int = setting(
        1, BEAM, "Number of translations printed per line, at most --beam-size (default: 1).", group="output"
    )
    length_penalty: float = setting(
        1.0,
        LENGTH_PENALTY,
        "Exponent A of the length penalty: hypotheses are ranked by log-probability / length**A. Needs beam"
        " search (default: the value tuned for the model, otherwise 1).",
        "--length-penalty",
        "--lenpen",
    )
    no_repeat_ngram_size: int = setting(
        0,
        Bounds(0, MOST),
        "Forbid repeated n-grams of N characters within a translation; 0 allows them (default: the value"
        " tuned for the model, otherwise 0).",
        metavar="N",
    )
    sample: bool = setting(
        False,
        None,
        "Sample translations instead of searching; --beam-size is then the number of samples.",
        group="sampling",
        heading="Sampling",
    )
    temperature: float = sampling_setting(
        1.0, real(0.001, 1000), "Sampling temperature; values below 1 favour likely bytes (default: 1)."
    )
    top_k: int = sampling_setting(
        0, Bounds(0, 256), "Sample from the K most likely bytes only; 0 is no limit (default: 0)."
    )
    top_p: float = sampling_setting(
        1.0,
        real(0, 1, open=True),
        "Nucleus sampling: sample from the fewest bytes whose probabilities sum to P (default: 1, all"
        " bytes).",
    )
    seed: int = sampling_setting(
        0, Bounds(0, MOST_SEED), "Random seed of sampling; the same seed gives the same text (default: 0)."
    )


@dataclass(frozen=True)
class LineSettings:
    """Settings of lines: how they are split, batched and limited.

    A translation has at most max_len_a * (source bytes) + max_len_b bytes. prefix: the beginning of every
    translation, except of empty lines; it may be longer than that limit. A line of more than
    max_source_bytes is translated in parts; None: the limit of the training pairs. max_tokens: source bytes
    in a batch, EOS and padding included, times the beam size; a line that needs more is decoded alone.
    """

    prefix: bytes = setting(
        b"",
        None,
        "Forced decoding: text with which every translation begins.",
        group="output",
        heading="Constraints",
    )
    max_len_a: float = line_setting(
        3.0,
        real(0, 1000),
        "Length limit of a translation: A * source bytes + --max-len-b bytes (default: 3).",
    )
    max_len_b: int = line_setting(
        100,
        Bounds(0, 10**6),
        "Length limit of a translation: --max-len-a * source bytes + B bytes (default: 100).",
    )
    max_source_bytes: int | None = line_setting(
        None,
        Bounds(4, MOST),
        "Maximum source length in bytes; longer lines are split at spaces and translated in parts (default:"
        " the maximum length of the model's training pairs).",
    )
    max_tokens: int = setting(
        MAX_TOKENS,
        Bounds(1, MOST),
        "Batch size in source bytes, padding included, times the beam size (default: 16000).",
        heading=SPEED,
    )
    split_sentences: str = line_setting(
        AUTO,
        None,
        "Split lines into sentences and translate them one by one; auto does so if the model was trained on"
        " single sentences (default: auto).",
        choices=SPLIT_CHOICES,
    )


def _row(declared: Field[Any]) -> Setting:
    return Setting(declared.name, declared.default, **declared.metadata["setting"])


SEARCH: dict[str, Setting] = {field.name: _row(field) for field in fields(SearchSettings)}
LINES: dict[str, Setting] = {field.name: _row(field) for field in fields(LineSettings)}
TABLE = SEARCH | LINES
# Bounds of the settings that are numbers, by name.
BOUNDS = {name: row.bounds for name, row in TABLE.items() if row.bounds is not None}
