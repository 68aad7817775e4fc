"""The command `translate`. Heavy modules are imported inside it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bytenmt import __version__
from bytenmt.cli.console import CONSOLE
from bytenmt.cli.files import check_output, resumable_writer, standard_input, stream_of, writer
from bytenmt.cli.options import FILES, command, models, settings
from bytenmt.config.fields import Doubt, Positive, option
from bytenmt.decoding.interface import SPEED_HEADING, EngineSpec
from bytenmt.errors import BytenmtError
from bytenmt.translation.settings import KEEP_SETTINGS, TRANSLATION_SETTINGS, Settings, option_name

if TYPE_CHECKING:
    from bytenmt.cli.line_filter import OutputFormat
    from bytenmt.decoding.loading import Runtime
    from bytenmt.translation.line_batch import TranslationResult


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """The options of `bytenmt translate` on its files, and on how their lines are shared out."""

    heading: ClassVar[str] = FILES
    input: Path | None = option(
        None,
        "Source text, plain or packed (.gz, .xz, .zst) (default: stdin).",
        *("-i", "--src", "--input"),
    )
    output: Path | None = option(
        None,
        "File for the translations; it appears when it is complete (default: stdout).",
        *("-o", "--output"),
    )
    resume: bool = option(
        False,
        "Continue an interrupted translation to the file of -o, after as many lines as it has; give"
        " the same input and options.",
    )
    buffer_size: Positive = option(
        1000,
        "Maximum number of lines that are read ahead, sorted by length and translated together.",
        heading=SPEED_HEADING,
    )
    workers: Positive = option(
        1,
        "Number of processes that share the lines, each with --threads threads; the output stays"
        " the same.",
        heading=SPEED_HEADING,
    )


@dataclass(frozen=True)
class OutputOptions:
    """The options of `bytenmt translate` on the output format."""

    heading: ClassVar[str] = "Output format"
    format: str = option(
        "text",
        "text: one translation per line, or with --n-best lines `line ||| text ||| score` as Moses"
        " prints them, lines counted from 0. jsonl: one JSON object per line, with source, score"
        " and flags; its `line` counts from 1.",
        choices=("text", "jsonl"),
    )
    alignment: bool = option(False, "Include the character alignment with the source in jsonl.")
    flag_above: Doubt | None = option(
        None,
        "Doubt above which a line is unsure (default: the model's own threshold). Unsure and wrong"
        " lines are reported on stderr, with their doubt, or in jsonl by the field `verdict`.",
        metavar="DOUBT",
    )


@command(
    "translate",
    models(help="Several models decode as an ensemble."),
    settings("search", "sampling", "output"),
)
def translate(
    runs: tuple[Path, ...],
    files: FileOptions,
    answers: OutputOptions,
    settings: dict[str, Any],
    engine: EngineSpec,
) -> None:
    """Translate lines of text, from stdin to stdout.

    One line is written for each line read, in order. A line that arrives alone is translated
    immediately; an empty line stays empty. An output file appears when it is complete; after an
    interruption the same command with --resume continues.
    \f
    runs: the paths MODEL. settings: the given options of search, sampling, output and kept spans,
    by name, such as {"beam": 4}. engine: the engine, device, precision and threads.
    """
    from bytenmt.cli import inputs
    from bytenmt.cli.line_filter import LineFilter
    from bytenmt.datasets.workers import Workers
    from bytenmt.decoding.engine_selection import n_cores
    from bytenmt.translation.translator import Translator

    input = stream_of(files.input)
    output = stream_of(files.output)
    checked = inputs.check_settings(settings)
    if files.workers > 1 and engine.threads is None:
        engine = replace(engine, threads=max(1, n_cores() // files.workers))
    check_output(output, input)
    is_file = output is not None and (output.is_file() or not output.exists())  # no device, no pipe
    is_list = checked.search.n_best > 1 and answers.format == "text"
    if files.resume and (not is_file or is_list):
        raise BytenmtError(
            "--resume needs an output file with one line per input line: give -o, without --n-best"
        )
    is_stream = input is None or input.is_fifo()  # lines of a pipe are translated as they come
    text = None if input is None or is_stream else inputs.open_text(input, may_be_empty=True)
    runtime = inputs.load_models(runs, engine)
    translator = Translator.from_runtime(runtime, checked)
    form = _output_format(answers, runtime, translator.settings)
    with ExitStack() as stack:
        if output is not None and is_file:
            shape = _shape(answers, runtime, translator.settings, settings)
            out, n_done = stack.enter_context(resumable_writer(output, files.resume, shape))
        else:
            out = stack.enter_context(writer(output))
            n_done = 0
        call: Callable[[Sequence[bytes], int], list[TranslationResult]] = translator.translate_lines
        if files.workers > 1:
            load = partial(Translator.load, *runs, **vars(engine), **settings)
            call = stack.enter_context(Workers(files.workers, load)).translate
        lines = LineFilter(call, out, form, files.buffer_size * files.workers, n_done)
        if text is not None:
            lines.file(text)
        elif input is not None:
            lines.stream(stack.enter_context(open(input, "rb")), name=str(input))
        else:
            lines.stream(standard_input())


def _shape(
    answers: OutputOptions, runtime: Runtime, settings: Settings, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the lines of an output depend on besides the input, by name."""
    from bytenmt.decoding.engine_selection import precision_of

    spec = runtime.spec
    precisions = [precision_of(run.precision, spec) for run in runtime.runs]
    shape: dict[str, Any] = {"bytenmt": __version__}
    shape["models"] = sorted(run.digest for run in runtime.runs)
    shape["engine"] = f"{spec.engine} {spec.device} {' '.join(precisions)}"
    for name in TRANSLATION_SETTINGS.keys() - {"max_tokens"}:  # which changes nothing but the speed
        shape[option_name(name)] = getattr(settings.search, name, getattr(settings, name, None))
    shape |= {option_name(name): given.get(name) for name in KEEP_SETTINGS}
    if (glossary := given.get("glossary")) is not None:
        shape["--glossary"] = hashlib.sha256(Path(glossary).read_bytes()).hexdigest()[:16]
    shape["--reverse"] = None if spec.reverse is None else Path(spec.reverse).resolve()
    answers_given = vars(answers).items()
    return shape | {f"--{name.replace('_', '-')}": value for name, value in answers_given}


def _output_format(answers: OutputOptions, runtime: Runtime, settings: Settings) -> OutputFormat:
    """Return how translations are written. Raises BytenmtError."""
    from bytenmt.cli.line_filter import format_plain
    from bytenmt.cli.output_formats import JsonRecords, describe_flags, n_best_list
    from bytenmt.evaluation.judge import Judge
    from bytenmt.translation.alignment import align_lines

    is_json = answers.format == "jsonl"
    n_best = settings.search.n_best
    if is_json and answers.alignment and not runtime.has_attention:
        raise BytenmtError(
            "--alignment needs a model with attention: leave it out, or use another model"
        )
    form: OutputFormat = format_plain
    if is_json:
        links = None
        if answers.alignment:
            links = partial(align_lines, runtime.make_attention_scorers())
        form = JsonRecords(n_best, links)
    elif n_best > 1:
        form = n_best_list
    if answers.flag_above is None and not is_json:
        return form
    judge = Judge.from_runtime(runtime, settings.search, answers.flag_above)
    CONSOLE.detail(judge.describe())

    def write(results: Sequence[TranslationResult], first: int, seconds: Sequence[float]) -> bytes:
        flagged = judge.flag(results)
        if not is_json:
            for line in describe_flags(flagged, first):
                CONSOLE.say(f"bytenmt: {line}")
        return form(flagged, first, seconds)

    return write
