"""The command `translate`.

Heavy modules are imported inside the command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from bytenmt.cli.console import (
    Command,
    check_output,
    check_streams,
    dash,
    detail,
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
    from bytenmt.checkpoints.resumable import ResumableFile
    from bytenmt.decoding.interface import EngineSpec
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
        help="Continue an interrupted translation to the file of -o; all other options must be the same.",
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
    from bytenmt.datasets.recipe import TranslatorSpec
    from bytenmt.datasets.workers import threads_per_process, worker_processes
    from bytenmt.decoding.engine_selection import choose, processes
    from bytenmt.decoding.translator import Translator
    from bytenmt.evaluation.judge import Judge

    answers = decoding_args.Answers(form, alignment, with_source, character_bits, flag_above, stream)
    settings = decoding_args.settings(decoding, answers)
    wanted = decoding_args.engine_spec(decoding, device, threads_per_process(workers, threads))
    with processes(choose(wanted).device) as group:
        leads = group is None or group.is_leader
        shape = decoding_args.output_format(answers, settings, group)
        if workers > 1 and (group is not None or stream):
            other = "--stream" if stream else "torchrun"
            raise BytenmtError(f"--workers {workers} cannot be combined with {other}: drop one of the two")
        _check_files(input, output, resume)
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
        made_with = decoding_args.made_with(loaded, translator, shape, buffer_size, errors, flag_above)
        judge = Judge.from_runtime(loaded, flag_above, beam=translator.options.beam)
        recipe = TranslatorSpec(
            tuple(map(str, runs)), wanted, decoding_args.named_settings(decoding, answers)
        )
        with (
            _output(output, made_with, resume) as (out, resumable),
            worker_processes(recipe, workers) as pool,
        ):
            shape = decoding_args.judged(shape, answers, judge)
            lines = Filter(translator, out, shape, buffer_size, resumable, pool)
            if text is None:
                lines.stream(standard_input(), errors=errors, size=standard_input_size())
            elif isinstance(text, BufferedReader):
                with text:
                    lines.stream(text, errors=errors, name=str(input))
            else:
                lines.file(text)


def _check_files(input: Path | None, output: Path | None, resume: bool) -> None:
    """Raise BytenmtError for files that cannot be written, or that --resume cannot continue."""
    check_output(output, input)
    check_streams(input, output)
    if resume and not _is_file(output):
        raise BytenmtError("--resume needs an output file: add -o FILE")


@contextmanager
def _output(
    output: Path | None, made_with: Callable[[], Mapping[str, Any]], resume: bool
) -> Iterator[tuple[BinaryIO, ResumableFile | None]]:
    """Open the output; yield the file and, for a regular file, the object that records its progress."""
    from bytenmt.checkpoints.resumable import open_resumable_file

    if output is None or not _is_file(output):
        with writer(output) as file:
            yield file, None
        return
    with open_resumable_file(output, made_with, resume, Console()) as resumable:
        yield resumable.file, resumable


def _is_file(output: Path | None) -> bool:
    """Return whether the output is or will be a regular file, not a device or standard output."""
    return output is not None and (output.is_file() or not output.exists())


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
