"""The commands for language models: predict and generate.

Heavy modules are imported inside the commands.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bytenmt.cli.console import (
    Command,
    check_output,
    check_streams,
    detail,
    say,
    standard_input,
    standard_input_size,
    writer,
)
from bytenmt.cli.options import (
    COUNT,
    DRAWN,
    ENGINE,
    FILE,
    MACHINE,
    ONLY_ENGINE,
    SAMPLING,
    WINDOW,
    models,
    one_model,
)
from bytenmt.cli.progress import Console
from bytenmt.errors import BytenmtError, DataError

if TYPE_CHECKING:
    from bytenmt.decoding.reading import Reader
    from bytenmt.language.baselines import Reference
    from bytenmt.language.surprisal import Surprise

PIECE = 1 << 16  # bytes of stdin that are read at once
STDIN = "standard input"


@click.command(cls=Command)
@models("Several models predict as an ensemble.", "MODEL [FILE]", n_files=(0, 1))
@click.option("--src", type=FILE, help="Source text, parallel to FILE; needed by a translation model.")
@click.option("--per-byte", is_flag=True, help="Print bits and rank of every byte on stdout, as JSON lines.")
@click.option("--html", "page", type=FILE, help="Write an HTML page that colours the text by bits per byte.")
@click.option("--chunk", type=COUNT, help="Number of bytes the model reads per call (default: 1024).")
@click.option(
    "--window",
    type=WINDOW,
    metavar="N",
    help="Also print the bits per byte of windows of N bytes that are read independently of each other.",
)
@click.option(
    "--reference/--no-reference",
    default=True,
    help="Also print the bits per byte of n-gram models of the training text and of xz (default: yes).",
)
@click.option(
    "--errors",
    type=click.Choice(["replace", "strict"]),
    help="Invalid UTF-8 in the texts of a translation model: replace it by U+FFFD, or stop with an error"
    " (default: replace).",
)
@ONLY_ENGINE
@MACHINE
def predict(
    runs: tuple[Path, ...],
    files: tuple[Path, ...],
    src: Path | None,
    per_byte: bool,
    page: Path | None,
    chunk: int | None,
    window: int | None,
    reference: bool,
    errors: str | None,
    engine: str,
    device: str,
    threads: int | None,
) -> None:
    """Print the bits per byte of a text under a model.

    The text is FILE, or stdin. A language model reads any bytes of any length as one stream, in constant
    memory. A translation model scores the lines of FILE given those of --src, line ends included. With
    --per-byte the summary goes to stderr.
    """
    from bytenmt.cli import decoding_args, inputs
    from bytenmt.data.text_file import check_file
    from bytenmt.decoding.interface import EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.language.baselines import references
    from bytenmt.language.html_report import Page
    from bytenmt.language.summary import Figures, WholeCharacters, json_lines
    from bytenmt.language.surprisal import Windowed

    file = None if files in ((), (Path("-"),)) else files[0]
    if file is not None:
        check_file(file)
    check_output(page, file, src)
    for written in {page, None}:
        check_streams(file, written)
    began = time.monotonic()
    loaded = load_runs(runs, EngineSpec(engine, device, "fp32", threads), Console(), at_once=True)
    for line in decoding_args.described(loaded, time.monotonic() - began):
        detail(line)
    source, run = loaded.has_source, runs[0]
    inputs.check_source(run, source, src)
    if source and chunk is not None:
        raise BytenmtError("--chunk would be ignored: a translation model reads line by line")
    if source and window is not None:
        raise BytenmtError("--window would be ignored: a translation model reads line by line")
    if not source and errors is not None:
        raise BytenmtError(f"--errors would be ignored: the language model {run} reads any bytes")
    beside, missing = references(loaded.runs[0].facts, source) if reference else ([], [])
    reader = loaded.reader()
    if window is not None:
        beside = [Windowed(reader, window), *beside]
    if src is None:
        costs = _stream(reader, file, chunk, beside)
    else:
        costs = _translations(reader, file, src, errors, beside)
    figures, whole = Figures(line_ends=source), WholeCharacters()
    with ExitStack() as stack:
        title = f"{file or STDIN} by {', '.join(map(str, runs))}"
        shown = Page(stack.enter_context(writer(page)), title, source) if page else None
        n_told = 0
        for found in chain(costs, [None]):
            ready = whole.add(found)
            figures.add(ready)
            if shown is not None:
                shown.add(ready)
            if per_byte and found is not None:
                sys.stdout.buffer.write(json_lines(found, n_told))
                n_told += len(found.data)
        lines = [*figures.lines(), *(line for one in beside for line in one.lines())]
        if shown is not None:
            shown.finish(lines)
    click.echo("\n".join(lines), err=per_byte)
    for line in missing:
        say(line)


def _stream(
    reader: Reader, file: Path | None, chunk: int | None, baselines: Sequence[Reference]
) -> Iterator[Surprise]:
    """Yield the cost of the bytes of a file or of stdin under a model without a source; `beside` reads them
    too.

    Shows a progress bar on a terminal.
    """
    from bytenmt.cli.progress import progress
    from bytenmt.data.text_file import is_packed, pieces_of
    from bytenmt.language.surprisal import CHUNK, stream

    if file is None:
        size = standard_input_size()
    else:
        size = None if is_packed(file) or not file.is_file() else file.stat().st_size
    empty = True
    with progress(size, "B") as (bar, _):
        pieces = pieces_of(file) if file else _stdin()
        for found in stream(reader, pieces, chunk or CHUNK):
            for one in baselines:
                one.add(found.data.tobytes())
            yield found
            bar.advance(len(found.data))
            empty = False
    if empty:
        raise DataError(f"{file or STDIN} is empty: give a text to score")


def _translations(
    reader: Reader,
    file: Path | None,
    src: Path,
    errors: str | None,
    baselines: Sequence[Reference],
) -> Iterator[Surprise]:
    """Yield the cost of the lines of a file or of stdin under a translation model; `beside` reads the
    same bytes.
    """
    from bytenmt.cli import inputs
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.data.text_file import TextFile
    from bytenmt.language.surprisal import translations

    source = inputs.text_file(src, errors or "replace")
    if file is None:
        target = inputs.checked(TextFile.from_bytes(b"".join(_stdin()), STDIN, errors or "replace"))
    else:
        target = inputs.text_file(file, errors or "replace")
    for one in baselines:
        one.add(target.data.tobytes())
    yield from translations(reader, ParallelCorpus.from_texts(source, target, keep_empty=True))


def _stdin() -> Iterator[bytes]:
    """Yield standard input in the pieces in which it arrives."""
    with standard_input() as input:
        while piece := input.read1(PIECE):
            yield piece


@click.command(cls=Command)
@one_model
@click.option("--prompt", default="", help="Beginning of the text.")
@click.option(
    "--bytes",
    "n_bytes",
    type=DRAWN,
    default=1000,
    show_default=True,
    help="Maximum number of bytes generated after the prompt.",
)
@SAMPLING
@ENGINE
@MACHINE
def generate(
    run: Path,
    prompt: str,
    n_bytes: int,
    engine: str,
    precision: str,
    device: str,
    threads: int | None,
    **sampling: Any,
) -> None:
    """Sample text from a language model.

    Prints valid UTF-8 while it is sampled. The same --seed gives the same text.
    """
    from bytenmt.checkpoints.weights import read_run
    from bytenmt.cli import decoding_args
    from bytenmt.decoding.engine_selection import choose
    from bytenmt.decoding.interface import EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.language.generate import generate as drawn

    begins = decoding_args.utf8(prompt, "--prompt")
    wanted = EngineSpec(engine, device, precision, threads)
    choose(wanted)
    if read_run(run)[1].config.model.source:
        raise BytenmtError(f"{run} is a translation model: use `bytenmt translate`, or give a language model")
    began = time.monotonic()
    runtime = load_runs([run], wanted, Console(), at_once=True)
    for line in decoding_args.described(runtime, time.monotonic() - began):
        detail(line)
    given = {name: value for name, value in sampling.items() if value is not None}
    last = b""
    for last in drawn(runtime, begins, n_bytes, **given):
        sys.stdout.buffer.write(last)
        sys.stdout.buffer.flush()
    if sys.stdout.isatty() and not last.endswith(b"\n"):
        click.echo()
