"""The command `translate`.

Heavy modules are imported inside the command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bytenmt.cli.console import (
    Command,
    check_output,
    check_streams,
    dash,
    detail,
    resumable_writer,
    say,
    standard_input,
    standard_input_size,
    writer,
)
from bytenmt.cli.options import (
    ANSWERS,
    CONSTRAINTS,
    COUNT,
    ENGINE,
    FILE,
    FILES,
    REVERSE,
    RUNTIME,
    headed,
    models,
    setting_options,
)
from bytenmt.cli.progress import Console
from bytenmt.decoding.setting_table import SPEED
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.decoding.interface import EngineSpec
    from bytenmt.decoding.line_batch import TranslationResult
    from bytenmt.decoding.loading import Runtime


@click.command(cls=Command)
@headed(
    FILES,
    models("Several models decode as an ensemble."),
    click.option(
        "-i",
        "--src",
        "--input",
        "input",
        type=FILE,
        callback=dash,
        help="Source text, plain or packed (.gz, .xz, .zst) (default: stdin).",
    ),
    click.option(
        "-o",
        "--output",
        type=FILE,
        callback=dash,
        help="File for the translations; it appears when it is complete (default: stdout).",
    ),
    click.option(
        "--resume",
        is_flag=True,
        help="Continue an interrupted translation to the file of -o, after as many lines as it has; give"
        " the same input and options.",
    ),
)
@ANSWERS
@CONSTRAINTS
@setting_options("search", "sampling", "output")
@REVERSE
@ENGINE
@headed(
    SPEED,
    click.option(
        "--buffer-size",
        type=COUNT,
        default=1000,
        show_default=True,
        help="Maximum number of lines that are read ahead, sorted by length and translated together.",
    ),
    click.option(
        "--workers",
        type=COUNT,
        default=1,
        help="Number of processes that share the lines, each with --threads threads; the output does not"
        " change (default: 1).",
    ),
)
@RUNTIME
def translate(
    runs: tuple[Path, ...],
    input: Path | None,
    output: Path | None,
    resume: bool,
    buffer_size: int,
    workers: int,
    form: str,
    alignment: bool | None,
    with_source: bool,
    character_bits: bool,
    flag_above: float | None,
    stream: bool,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Translate lines of text, from stdin to stdout.

    One line is written for each line read, in order. A line that arrives alone is translated immediately; an
    empty line stays empty. An output file appears when it is complete; after an interruption the same command
    with --resume continues. Under torchrun the processes share the lines.
    """
    from bytenmt.cli import decoding_args, inputs
    from bytenmt.cli.line_filter import Filter
    from bytenmt.datasets.workers import Workers
    from bytenmt.decoding.engine_selection import choose, n_cores, processes
    from bytenmt.decoding.translator import Translator
    from bytenmt.evaluation.judge import Judge

    answers = decoding_args.Answers(form, alignment, with_source, character_bits, flag_above, stream)
    settings = decoding_args.settings(decoding, answers)
    if workers > 1 and threads is None:
        threads = max(1, n_cores() // workers)
    wanted = decoding_args.engine_spec(decoding, device, threads)
    with processes(choose(wanted).device) as group:
        leads = group is None or group.is_leader
        shape = decoding_args.output_format(answers, settings, group)
        if workers > 1 and (group is not None or stream):
            other = "--stream" if stream else "torchrun"
            raise BytenmtError(f"--workers {workers} cannot be combined with {other}: drop one of the two")
        check_output(output, input)
        check_streams(input, output)
        is_file = output is not None and (output.is_file() or not output.exists())  # no device, no pipe
        if resume and (not is_file or (settings.search.n_best > 1 and form == "text")):
            raise BytenmtError("--resume needs a file with a line for each line: give -o, and no --n-best")
        text = inputs.to_translate(input, errors) if input is not None and leads else None
        loaded = loaded_runs(runs, wanted, leads, at_once=True)
        if not loaded.has_source:
            raise BytenmtError(
                f"{runs[0]} is a language model and cannot translate: give a translation model"
            )
        translator = Translator.from_runtime(loaded, settings, group=group)
        if not leads:
            translator.follow()
            return
        shape = decoding_args.with_alignment(shape, loaded, alignment)
        judge = Judge.from_runtime(loaded, flag_above, beam=translator.options.beam)
        with ExitStack() as stack:
            if output is not None and is_file:
                out, n_done = stack.enter_context(resumable_writer(output, resume))
            else:
                out, n_done = stack.enter_context(writer(output)), 0
            call: Callable[[Sequence[bytes], int], list[TranslationResult]] = translator.lead
            if workers > 1:
                named = decoding_args.named_settings(decoding, answers)
                load = partial(Translator.load, *runs, **vars(wanted), **named)
                call = stack.enter_context(Workers(workers, load)).translate
            shape = decoding_args.judged(shape, answers, judge)
            lines = Filter(translator, out, shape, buffer_size * workers, n_done, call)
            if text is None:
                lines.stream(standard_input(), errors=errors, size=standard_input_size())
            elif isinstance(text, BufferedReader):
                with text:
                    lines.stream(text, errors=errors, name=str(input))
            else:
                lines.file(text)


def loaded_runs(runs: tuple[Path, ...], spec: EngineSpec, is_leader: bool, at_once: bool = False) -> Runtime:
    """Load the models that decide together; warn if their translation directions differ.

    is_leader: whether this process prints; at_once: see loading.load_runs.
    """
    from bytenmt.cli import decoding_args
    from bytenmt.decoding.loading import load_runs

    began = time.monotonic()
    runtime = load_runs(runs, spec, Console(), at_once)
    if is_leader:
        for warning in decoding_args.opposed(runtime.runs):
            say(f"bytenmt: {warning}")
        for line in decoding_args.described(runtime, time.monotonic() - began):
            detail(line)
    return runtime
