"""Options that several commands share. Imports nothing heavy; checks types and ranges only."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from bytenmt.architectures.presets import PRESETS
from bytenmt.cli.console import completing, under_heading
from bytenmt.config.bounds import BEAM, MOST, N_BYTES, THREADS, WEIGHT, Bounds
from bytenmt.decoding.setting_table import (
    AUTO,
    DEVICES,
    ENGINES,
    KEPT,
    PRECISIONS,
    SPEED,
    TABLE,
    Setting,
)

Command = TypeVar("Command", bound=Callable[..., Any])


LONGEST_VALUE = 40  # characters of a value that messages show
FILES = "Input and output"  # headings of --help, besides those of setting_table
CONSTRAINED = "Constraints"


class WholeNumber(click.IntRange):
    """A click type for whole numbers within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        check_length(self, value, param, ctx)
        return super().convert(value, param, ctx)


class RealNumber(click.FloatRange):
    """A click type for numbers within bounds; refuses NaN, which click lets through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        check_length(self, value, param, ctx)
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


def check_length(
    kind: WholeNumber | RealNumber, value: Any, param: click.Parameter | None, ctx: click.Context | None
) -> None:
    """Fail if a value has more characters than any number in the range, and show only its beginning."""
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        beginning = f"{value[:LONGEST_VALUE]!r}… ({len(value)} characters)"
        kind.fail(f"{beginning} is not in the range {kind._describe_range()}.", param, ctx)


def within(bounds: Bounds) -> WholeNumber | RealNumber:
    """Return the click type for these bounds."""
    if bounds.whole:
        return WholeNumber(int(bounds.low), int(bounds.high), min_open=bounds.open)
    return RealNumber(bounds.low, bounds.high, min_open=bounds.open)


def options(*parts: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Combine several options into one decorator; --help shows them in this order."""

    def add(command: Command) -> Command:
        for part in reversed(parts):
            command = part(command)
        return command

    return add


def headed(heading: str, *parts: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Combine several options into one decorator; --help lists them under this heading."""

    def add(command: Command) -> Command:
        before = tuple(getattr(command, "__click_params__", ()))
        command = options(*parts)(command)
        added = [param for param in getattr(command, "__click_params__", ()) if param not in before]
        under_heading(heading, added)
        return command

    return add


ARCHITECTURES = tuple(PRESETS["small"])
FILE = click.Path(path_type=Path)
ARCH = click.option(
    "--arch",
    metavar="|".join(ARCHITECTURES),
    shell_complete=completing(ARCHITECTURES),
    help="Architecture of the model.",
)


def models(
    help: str = "",
    metavar: str = "MODEL...",
    *,
    least: int = 1,
    most: int = MOST,
    n_files: tuple[int, int] | None = None,
) -> Callable[[Command], Command]:
    """Return the argument MODEL..., which a command gets as `runs`, and its older form -m.

    help: what several models mean. least, most: the number of models. n_files: how many files stand behind
    the model, at least and at most, which a command gets as `files`; several models are then given by -m.
    """

    def add(command: Command) -> Command:
        @wraps(command)
        def call(*, runs: tuple[Path, ...], words: tuple[Path, ...], **more: Any) -> Any:
            if n_files is None:
                runs, words = runs + words, ()
            elif not runs:
                runs, words = words[:1], words[1:]
            if not least <= len(runs) <= most:
                raise click.UsageError(f"{len(runs)} models: expected {metavar}.")
            if n_files is not None:
                if not n_files[0] <= len(words) <= n_files[1]:
                    raise click.UsageError(f"{len(words)} files after the model: expected {metavar}.")
                more["files"] = words
            return command(runs=runs, **more)

        of_option = f"Run folder, checkpoint or weights file, instead of MODEL. {help}".rstrip()
        return options(
            click.option("-m", "--model", "runs", type=FILE, multiple=True, help=of_option),
            click.argument("words", metavar=metavar, type=FILE, nargs=-1),
        )(cast("Command", call))

    return add


def one_model(command: Command) -> Command:
    """Add the argument MODEL, which a command gets as `run`, and its older form -m."""

    @wraps(command)
    def call(*, runs: tuple[Path, ...], **more: Any) -> Any:
        return command(run=runs[0], **more)

    return models(metavar="MODEL", most=1)(cast("Command", call))


TOKENIZE = click.option(
    "--tokenize",
    type=click.Choice(("13a", "char", "intl", "zh", "none")),  # sacreBLEU's, those that need nothing else
    default="13a",
    show_default=True,
    help="Tokenizer of BLEU, by its sacreBLEU name; char suits Korean.",
)


def preset_option(help: str) -> Callable[[Command], Command]:
    """Return the option --preset with this help."""
    return click.option(
        "--preset", metavar="|".join(PRESETS), shell_complete=completing(tuple(PRESETS)), help=help
    )


MACHINE = headed(
    SPEED,
    click.option(
        "--device",
        type=click.Choice([AUTO, *DEVICES]),
        default=AUTO,
        help="Device to run on; auto is the GPU if there is one, otherwise the CPU (default: auto).",
    ),
    click.option(
        "--threads",
        type=within(THREADS),
        help="Number of CPU threads (default: chosen by the number of cores).",
    ),
)


def beam_option(of: str) -> Callable[[Command], Command]:
    """Return the option --beam-size. of: what is decoded with it, for the help text."""
    help = f"Beam size of the {of}; 1 is greedy search (default: 1)."
    return click.option("-b", "--beam-size", "--beam", "beam", type=within(BEAM), help=help)


def errors_option(hidden: bool = False, default: str = "replace") -> Callable[[Command], Command]:
    """Return the option --errors. hidden: leave it out of --help."""
    return click.option(
        "--errors",
        type=click.Choice(["replace", "strict"]),
        default=default,
        hidden=hidden,
        help=f"Invalid UTF-8 in the input: replace it by U+FFFD, or stop with an error (default: {default}).",
    )


RUNTIME = options(headed(FILES, errors_option()), MACHINE)


def corpora(*names: str) -> Callable[[Command], Command]:
    """Return the options of these names, of --src, --tgt, --tsv and --text."""
    help = {
        "--src": "Source text of the training pairs, one sentence per line; may be repeated.",
        "--tgt": "Target text of the training pairs, parallel to --src line by line; may be repeated.",
        "--tsv": "Training pairs as lines `source TAB target`; may be repeated.",
        "--text": "Monolingual training text of a language model, any bytes; may be repeated.",
    }
    return options(*(click.option(name, type=FILE, multiple=True, help=help[name]) for name in names))


TEXTS = headed(
    "Training data",
    corpora("--src", "--tgt", "--tsv", "--text"),
    click.option(
        "--weight",
        "weights",
        type=within(WEIGHT),
        multiple=True,
        help="How often the pairs of a corpus occur per epoch (default: 1). Give one weight per corpus, in"
        " the order --tgt, --tsv, --tmx, --xliff, --po.",
    ),
    click.option("--valid-src", type=FILE, help="Source text for validation."),
    click.option("--valid-tgt", type=FILE, help="Target text for validation, parallel to --valid-src."),
    click.option("--valid-tsv", type=FILE, help="Validation pairs as lines `source TAB target`."),
    click.option("--valid-text", type=FILE, help="Monolingual validation text of a language model."),
)


COUNT, COUNT_OR_NONE = within(Bounds(1, MOST)), within(Bounds(0, MOST))
DRAWN = within(N_BYTES)
ONLY_ENGINE = click.option(  # of commands that compute in fp32
    "--engine",
    type=click.Choice([AUTO, *ENGINES]),
    default=AUTO,
    help="Inference engine: numba (compiled CPU kernels), torch (PyTorch) or cuda-graph (PyTorch with CUDA"
    " graphs); auto takes the fastest one for the device (default: auto).",
)
ENGINE = headed(
    SPEED,
    ONLY_ENGINE,
    click.option(
        "--precision",
        type=click.Choice([AUTO, *PRECISIONS]),
        default=AUTO,
        help="Precision of the weights; w8a8 is int8 weights with 8-bit activations, the fastest for many"
        " lines."
        " auto is the file's precision with numba, bf16 with cuda-graph and fp32 with torch (default: auto).",
    ),
)


def setting_option(row: Setting) -> Callable[[Command], Command]:
    """Return the option of a setting. Its value is None if it is left out; the setting's default holds
    then."""
    names = *(row.flags or (row.option,)), row.name
    if row.is_flag:
        return headed(row.heading, click.option(*names, is_flag=True, help=row.help))
    kind: Any = str if row.bounds is None else within(row.bounds)
    if row.choices:
        kind = click.Choice(row.choices)
    return headed(row.heading, click.option(*names, type=kind, metavar=row.metavar, help=row.help))


def setting_options(*groups: str) -> Callable[[Command], Command]:
    """Return the options of the settings of these groups, see setting_table.Setting."""
    return options(*(setting_option(row) for row in TABLE.values() if row.group in groups))


SAMPLING = options(*(setting_option(row) for row in TABLE.values() if row.needs_sample))
REVERSE = headed(
    "Search",
    click.option(
        "--reverse",
        type=FILE,
        metavar="MODEL",
        help="A model of the opposite direction, which ranks the hypotheses of a beam search, too: better"
        " translations in two to three times the time.",
    ),
)
DECODING = options(setting_options("search", "sampling"), REVERSE, ENGINE)
ANSWERS = headed(  # how `translate` writes its results
    "Output format",
    click.option(
        "--format",
        "form",
        type=click.Choice(["text", "jsonl"]),
        default="text",
        help="text: one translation per line, or with --n-best lines `line ||| text ||| score` as Moses"
        " prints"
        " them, lines counted from 0. jsonl: one JSON object per line, with score, flags and alignment; its"
        " `line` counts from 1 and its `sentence` from 0 (default: text).",
    ),
    click.option("--with-source", is_flag=True, help="Include the source line in every object of jsonl."),
    click.option(
        "--alignment/--no-alignment",
        default=None,
        help="Include the character alignment with the source in jsonl (default: if the model has"
        " attention).",
    ),
    click.option(
        "--character-bits",
        is_flag=True,
        help="Include the bits of every character of a translation in jsonl.",
    ),
    click.option(
        "--flag-above",
        type=RealNumber(0.0, 64.0),
        metavar="BITS",
        help="Threshold of an unsure line in bits per byte (default: the model's own). Unsure and wrong"
        " lines are reported on stderr, or in jsonl by the field `verdict`.",
    ),
    click.option("--stream", is_flag=True, help="Print the bytes of a line while it is decoded."),
)
CONSTRAINTS = headed(
    CONSTRAINED,
    click.option(
        "--keep",
        metavar=",".join(KEPT),
        help="Classes of spans that are copied unchanged from the source to the translation, separated by"
        " commas; none keeps nothing (default: all, if the model was trained with sentinels).",
    ),
    click.option(
        "--keep-pattern",
        multiple=True,
        metavar="REGEX",
        help="Copy every match of this regular expression, in Python's syntax, unchanged to the translation;"
        " may be repeated.",
    ),
    click.option(
        "--glossary",
        type=FILE,
        help="Glossary file of lines `term TAB target`: the translation has the target where the source has"
        " the term, also with the ending of a plural or case.",
    ),
)
