"""Options that several commands share. Imports nothing heavy; checks types and ranges only."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bytenmt.architectures.presets import PRESETS
from bytenmt.cli.console import all_runs, any_runs, completing, one_run
from bytenmt.config.bounds import MOST, MOST_DRAFTED, N_BYTES, THREADS, WEIGHT, Bounds
from bytenmt.decoding.setting_table import (
    AUTO,
    DEVICES,
    ENGINES,
    GLOSSARY_MATCHES,
    KEPT,
    OFF,
    PRECISIONS,
    TABLE,
    Setting,
)

Command = TypeVar("Command", bound=Callable[..., Any])


LONGEST_VALUE = 40  # characters of a value that are told


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
        told = f"{value[:LONGEST_VALUE]!r}… ({len(value)} characters)"
        kind.fail(f"{told} is not in the range {kind._describe_range()}.", param, ctx)


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


ARCHITECTURES = tuple(PRESETS["small"])
FILE = click.Path(path_type=Path)
ARCH = click.option(
    "--arch",
    metavar="|".join(ARCHITECTURES),
    shell_complete=completing(ARCHITECTURES),
    help="The architecture.",
)
MODELS = click.option(  # of commands whose arguments are files or a text
    "-m",
    "--model",
    "runs",
    type=FILE,
    multiple=True,
    required=True,
    help="A run folder or a checkpoint file; several decide together.",
)
RUN = options(
    click.option("-m", "--model", "run", type=FILE, help="The same as RUN."),
    click.argument("named_run", metavar="RUN", type=FILE, required=False),
    one_run,
)
_RUNS = (
    click.option(
        "-m",
        "--model",
        "runs",
        type=FILE,
        multiple=True,
        help="The same as RUN, a run folder or a checkpoint file; several decide together.",
    ),
    click.argument("more_runs", metavar="RUN...", type=FILE, nargs=-1),
)
RUNS, ANY_RUNS = options(*_RUNS, all_runs), options(*_RUNS, any_runs)  # at least one, or none
TOKENIZE = click.option(
    "--tokenize",
    type=click.Choice(("13a", "char", "intl", "zh", "none")),  # sacreBLEU's, those that need nothing else
    default="13a",
    show_default=True,
    help="BLEU's tokenizer; char suits Korean.",
)


def preset_option(help: str) -> Callable[[Command], Command]:
    """Return the option --preset with this help."""
    return click.option(
        "--preset", metavar="|".join(PRESETS), shell_complete=completing(tuple(PRESETS)), help=help
    )


MACHINE = options(
    click.option(
        "--device",
        type=click.Choice([AUTO, *DEVICES]),
        default=AUTO,
        help="auto, the default, takes a GPU where there is one.",
    ),
    click.option("--threads", type=within(THREADS), help="CPU threads."),
)


def errors_option(hidden: bool = False) -> Callable[[Command], Command]:
    """Return the option --errors. hidden: leave it out of --help."""
    return click.option(
        "--errors",
        type=click.Choice(["replace", "strict"]),
        default="replace",
        hidden=hidden,
        help="Invalid UTF-8 becomes U+FFFD (replace, the default) or is an error (strict).",
    )


RUNTIME = options(errors_option(), MACHINE)


def corpora(hidden: bool = False) -> Callable[[Command], Command]:
    """Return the options --src, --tgt, --tsv and --text. hidden: leave them out of --help."""
    help = {
        "--src": "Source text.",
        "--tgt": "Target text, line by line with --src.",
        "--tsv": "Both in one file: source TAB target; to train, - is standard input, without an end.",
        "--text": "A text of any bytes to learn without a source.",
    }
    return options(
        *(click.option(name, type=FILE, multiple=True, hidden=hidden, help=help[name]) for name in help)
    )


TEXTS = options(
    corpora(),
    click.option(
        "--weight",
        "weights",
        type=within(WEIGHT),
        multiple=True,
        help="How often the pairs of a corpus come in an epoch; one for each --tgt, then each --tsv,"
        " --tmx, --xliff, --po, --parquet.",
    ),
    click.option("--valid-src", type=FILE, help="Source text to validate on."),
    click.option("--valid-tgt", type=FILE, help="Target text to validate on."),
    click.option("--valid-tsv", type=FILE, help="Both in one file."),
    click.option("--valid-text", type=FILE, help="A text to validate on, of --text."),
)


def draft_option(ctx: click.Context, param: click.Parameter, value: str) -> str | int:
    """Parse the value of --draft: "auto", "off" or a number from 1 to MOST_DRAFTED."""
    if value in (AUTO, OFF):
        return value
    if value not in map(str, range(1, MOST_DRAFTED + 1)):
        raise click.BadParameter(f"{value!r} is none of auto, off, 1 to {MOST_DRAFTED}.", ctx, param)
    return int(value)


COUNT, COUNT_OR_NONE = within(Bounds(1, MOST)), within(Bounds(0, MOST))
DRAWN, WINDOW = within(N_BYTES), within(Bounds(1, 1 << 16))
ONLY_ENGINE = click.option(  # of commands that compute in fp32
    "--engine",
    type=click.Choice([AUTO, *ENGINES]),
    default=AUTO,
    help="What computes; auto, the default, takes the quickest for the device.",
)
ENGINE = options(
    ONLY_ENGINE,
    click.option(
        "--precision",
        type=click.Choice([AUTO, *PRECISIONS]),
        default=AUTO,
        help="Of the weights; auto: fp32, bf16 by cuda-graph, what `convert` made by numba."
        " w8a8 is int8 with inputs of 8 bits too, the quickest for many lines.",
    ),
    click.option(
        "--draft",
        callback=draft_option,
        default=AUTO,
        metavar="auto|off|N",
        help="Draft N bytes a step by the run's draft table and verify them at once; auto, the default: as"
        " many as pay. The text stays the same.",
    ),
)


def setting_option(row: Setting) -> Callable[[Command], Command]:
    """Return the option of a setting. Left out it is None, and the setting's default holds."""
    names = *(row.flags or (row.option,)), row.name
    if row.is_flag:
        return click.option(*names, is_flag=True, help=row.help)
    kind: Any = str if row.bounds is None else within(row.bounds)
    if row.choices:
        kind = click.Choice(row.choices)
    return click.option(*names, type=kind, metavar=row.metavar, help=row.help)


def setting_options(*groups: str) -> Callable[[Command], Command]:
    """Return the options of the settings of these groups, see setting_table.Setting."""
    return options(*(setting_option(row) for row in TABLE.values() if row.group in groups))


SAMPLING = options(*(setting_option(row) for row in TABLE.values() if row.needs_sample))
DECODING = options(ENGINE, setting_options("search", "sampling"))
ANSWERS = options(
    setting_options("output"),
    click.option(
        "--format",
        "form",
        type=click.Choice(["text", "jsonl"]),
        default="text",
        help="text, the default: a line, or `sentence ||| text ||| score` with --n-best, sentences counted"
        " from 0 as Moses does; jsonl: an object a line, with scores and alignment, `line` counted from 1"
        " and `sentence` from 0.",
    ),
    click.option("--with-source", is_flag=True, help="The source of each line too, in jsonl."),
    click.option(
        "--alignment/--no-alignment",
        default=None,
        help="Which source character each character is of, in jsonl; by default where there is attention.",
    ),
    click.option("--character-bits", is_flag=True, help="What every character cost the model, in jsonl."),
    click.option(
        "--flag-above",
        type=RealNumber(0.0, 64.0),
        metavar="BITS",
        help="Bits per byte above which a line is unsure, instead of the model's own threshold. What is"
        " unsure or wrong is told on stderr; jsonl has it as the verdict.",
    ),
    click.option("--stream", is_flag=True, help="Show each line while it is decoded."),
)
CONSTRAINTS = options(
    click.option(
        "--keep",
        metavar=",".join(KEPT),
        help="What every translation has exactly as its source: some of these, with commas; tags close in"
        " order.",
    ),
    click.option(
        "--keep-pattern",
        multiple=True,
        metavar="REGEX",
        help="The same of what a pattern finds; its regular part alone, ASCII in [ ]; may be repeated.",
    ),
    click.option(
        "--glossary",
        type=FILE,
        help="Lines `term TAB target`: where the source has the term, the target stands in the translation,"
        " one of several forms by |; of `!X` X does not.",
    ),
    click.option(
        "--glossary-match",
        type=click.Choice(GLOSSARY_MATCHES),
        help="Terms match their plurals in the source, too (inflected, the default), or not (exact).",
    ),
)
