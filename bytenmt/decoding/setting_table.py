"""The settings of a translation: one line each, with name, type, default, bounds and help.

The options of the commands, the keywords of the Python API and the options of the server are made from these
lines. To add a setting, add its line here and read the field where it has an effect. Imports nothing heavy.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Any, NamedTuple

from bytenmt.config.bounds import BEAM, LENGTH_PENALTY, MOST, MOST_SEED, Bounds, real
from bytenmt.kernel_constants import PRECISIONS as PRECISIONS

OFF = "off"
ENGINES = ("torch", "cuda-graph", "numba")
DEVICES = ("cpu", "cuda")
KEPT = ("placeholders", "tags", "urls", "emails", "numbers")  # classes of spans, see spans.grammar.CLASSES
KEPT_OF_DOCUMENTS = KEPT[:-1]  # the default of translate-file: spans that programs and browsers read
BEAM_OF_DOCUMENTS = 4  # the default of translate-file: greedy search places kept spans worse
KEPT_BY_SERVER = ("placeholders", "tags", "urls")  # the default of `serve`, whose clients are often programs
GLOSSARY_MATCHES = INFLECTED, EXACT = "inflected", "exact"  # which forms of a term in the source match
SPLIT_CHOICES = AUTO, ALWAYS, NEVER = "auto", "always", "never"
MAX_TOKENS = 16_000  # source bytes side by side, padding counted, each beam counted


class Setting(NamedTuple):
    """A setting as commands offer it.

    bounds: of a number, None for a flag or a text; choices: of a text, none: any text. flags: names of the
    option, `--name` where there are none. group: the commands that offer it: "search" all that translate, and
    the server, "sampling" all that draw texts, "output" only `translate`. needs_sample: it has no effect
    unless bytes are drawn.
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

    @property
    def is_flag(self) -> bool:
        """True if its option takes no value."""
        return isinstance(self.default, bool)

    @property
    def option(self) -> str:
        """The name of its option in messages."""
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
) -> Any:
    """Declare a field of one of the classes below; the arguments are the fields of Setting."""
    row: dict[str, Any] = {"bounds": bounds, "help": help, "flags": flags, "metavar": metavar, "group": group}
    row |= {"needs_sample": needs_sample, "choices": choices}
    return field(default=default, metadata={"setting": row})


def sampling_setting(default: Any, bounds: Bounds, help: str) -> Any:
    """Declare a setting of sampling."""
    return setting(default, bounds, help, group="sampling", needs_sample=True)


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search.

    beam: hypotheses kept of a sentence, 1 is greedy. n_best: how many are returned, at most `beam`.
    length_penalty: hypotheses are ranked by log_probability / (bytes + 1) ** length_penalty.
    sample: draw every byte instead; `beam` is then the number of independent texts. temperature divides the
    logits, then top_k keeps the likeliest bytes (0: all) and top_p the fewest whose probabilities, after
    the temperature, reach that sum. seed: of the draws, which depend on it, the request's number, the text's
    and the byte's, on nothing else.
    no_repeat_ngram_size: no n characters come twice in a text where that leaves a choice; 0 is off.
    """

    beam: int = setting(
        1, BEAM, "Hypotheses kept; 1, the default, is greedy search.", "-b", "--beam-size", "--beam"
    )
    n_best: int = setting(1, BEAM, "Translations of each line; at most --beam-size.", group="output")
    length_penalty: float = setting(
        1.0,
        LENGTH_PENALTY,
        "Hypotheses are ranked by log p / length ** this; default: as tuned for the run, else 1.",
        "--length-penalty",
        "--lenpen",
    )
    no_repeat_ngram_size: int = setting(
        0, Bounds(0, MOST), "No N characters come twice in a text; 0, the default, is off.", metavar="N"
    )
    sample: bool = setting(
        False, None, "Draw every byte; --beam-size is the number of independent texts.", group="sampling"
    )
    temperature: float = sampling_setting(
        1.0, real(0.001, 1000), "Of the draws; below 1 for likelier bytes, default 1."
    )
    top_k: int = sampling_setting(0, Bounds(0, 256), "Draw from the K likeliest bytes; 0: all.")
    top_p: float = sampling_setting(
        1.0,
        real(0, 1, open=True),
        "Draw from the fewest bytes of which the probabilities sum to it; default 1.",
    )
    seed: int = sampling_setting(0, Bounds(0, MOST_SEED), "Of the draws; default 0.")


@dataclass(frozen=True)
class LineSettings:
    """Settings of lines: how they are cut, batched and limited.

    The output has at most max_len_a * (source bytes) + max_len_b bytes. prefix: what it begins with, except
    where the line is empty; it may be longer than that. A line of more than max_source_bytes is translated in
    parts; None: as the runs were trained. max_tokens: source bytes side by side, EOS and padding counted,
    times the beam; a line that costs more is decoded alone.
    """

    prefix: bytes = setting(b"", None, "What every translation begins with.", group="output")
    max_len_a: float = setting(
        3.0, real(0, 1000), "Output of at most a * |source| + b bytes; a is 3 by default."
    )
    max_len_b: int = setting(100, Bounds(0, 10**6), "b of the same; 100 by default.")
    max_source_bytes: int | None = setting(
        None, Bounds(4, MOST), "A longer line is translated in pieces; default: as trained."
    )
    max_tokens: int = setting(
        MAX_TOKENS,
        Bounds(1, MOST),
        "Source bytes side by side, padding and each beam counted; default 16000.",
    )
    split_sentences: str = setting(
        AUTO,
        None,
        "Translate the sentences of a line one by one; auto, the default: if the model was trained on single"
        " ones.",
        choices=SPLIT_CHOICES,
    )


def _row(one: Field[Any]) -> Setting:
    return Setting(one.name, one.default, **one.metadata["setting"])


SEARCH: dict[str, Setting] = {one.name: _row(one) for one in fields(SearchSettings)}
LINES: dict[str, Setting] = {one.name: _row(one) for one in fields(LineSettings)}
TABLE = SEARCH | LINES
# The bounds of numbers, by name.
BOUNDS = {name: row.bounds for name, row in TABLE.items() if row.bounds is not None}
