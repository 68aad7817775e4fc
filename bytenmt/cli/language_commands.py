"""The commands for language models: predict and generate.

Heavy modules are imported inside the commands.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
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
    DRAWN,
    ENGINE,
    FILE,
    MACHINE,
    ONLY_ENGINE,
    RUNTIME,
    SAMPLING,
    models,
    one_model,
)
from bytenmt.cli.progress import Console
from bytenmt.errors import BytenmtError, DataError

if TYPE_CHECKING:
    from bytenmt.decoding.reading import Reader
    from bytenmt.language.surprisal import Surprise

PIECE = 1 << 16  # bytes of stdin that are read at once
STDIN = "standard input"


@click.command(cls=Command)
@models("Several models predict as an ensemble.", "MODEL [FILE]", n_files=(0, 1))
@click.option("--src", type=FILE, help="Source text, parallel to FILE; needed by a translation model.")
@click.option("--per-byte", is_flag=True, help="Print bits and rank of every byte on stdout, as JSON lines.")
@click.option("--html", "page", type=FILE, help="Write an HTML page that colours the text by bits per byte.")
@click.option(
    "--reference/--no-reference",
    default=True,
    help="Also print the bits per byte of an n-gram of the training text of a language model (default: yes).",
)
@ONLY_ENGINE
@RUNTIME
def predict(
    runs: tuple[Path, ...],
    files: tuple[Path, ...],
    src: Path | None,
    per_byte: bool,
    page: Path | None,
    reference: bool,
    errors: str,
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
    from bytenmt.language import html_report
    from bytenmt.language.ngram import NGramBaseline
    from bytenmt.language.summary import Characters, Figures, WholeCharacters, json_lines

    file = None if files in ((), (Path("-"),)) else files[0]
    if file is not None:
        check_file(file)
    check_output(page, file, src)
    for written in {page, None}:
        check_streams(file, written)
    began = time.monotonic()
    runtime = load_runs(runs, EngineSpec(engine, device, "fp32", threads), Console(), at_once=True)
    for line in decoding_args.described(runtime, time.monotonic() - began):
        detail(line)
    inputs.check_source(runs[0], runtime.has_source, src)
    baseline, missing = None, ""
    if reference and not runtime.has_source:
        try:
            baseline = NGramBaseline(inputs.training_text(runtime.runs[0].facts.texts))
        except DataError as error:
            missing = f"no n-gram beside it: {error}"
    reader = runtime.reader()
    costs = _stream(reader, file) if src is None else _translations(reader, file, src, errors)
    figures, whole, shown = Figures(line_ends=runtime.has_source), WholeCharacters(), list[Characters]()
    n_bytes = 0
    for surprise in chain(costs, [None]):
        characters = whole.add(surprise)
        figures.add(characters)
        if page is not None and n_bytes < html_report.SHOWN:
            shown.append(characters)
        if surprise is not None:
            if baseline is not None:
                baseline.add(surprise.data.tobytes())
            if per_byte:
                sys.stdout.buffer.write(json_lines(surprise, n_bytes))
            n_bytes += len(surprise.data)
    lines = [*figures.lines(), *([] if baseline is None else [baseline.line()])]
    if page is not None:
        title = f"{file or STDIN} by {', '.join(map(str, runs))}"
        with writer(page) as out:
            out.write(html_report.page(title, shown, lines, runtime.has_source))
    click.echo("\n".join(lines), err=per_byte)
    if missing:
        say(missing)


def _stream(reader: Reader, file: Path | None) -> Iterator[Surprise]:
    """Yield the cost of the bytes of a file or of stdin under a model without a source.

    Shows a progress bar on a terminal.
    """
    from bytenmt.cli.progress import progress
    from bytenmt.data.text_file import is_packed, pieces_of
    from bytenmt.language.surprisal import stream

    if file is None:
        size = standard_input_size()
    else:
        size = None if is_packed(file) or not file.is_file() else file.stat().st_size
    empty = True
    with progress(size, "B") as (bar, _):
        pieces = pieces_of(file) if file else _stdin()
        for surprise in stream(reader, pieces):
            yield surprise
            bar.advance(len(surprise.data))
            empty = False
    if empty:
        raise DataError(f"{file or STDIN} is empty: give a text to score")


def _translations(reader: Reader, file: Path | None, src: Path, errors: str) -> Iterator[Surprise]:
    """Yield the cost of the lines of a file or of stdin under a translation model."""
    from bytenmt.cli import inputs
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.data.text_file import TextFile
    from bytenmt.language.surprisal import translations

    source = inputs.text_file(src, errors)
    if file is None:
        target = inputs.checked(TextFile.from_bytes(b"".join(_stdin()), STDIN, errors))
    else:
        target = inputs.text_file(file, errors)
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
    from bytenmt.cli import decoding_args
    from bytenmt.decoding.interface import EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.language.generate import generate as drawn

    begins = decoding_args.utf8(prompt, "--prompt")
    began = time.monotonic()
    spec = EngineSpec(engine, device, precision, threads)
    runtime = load_runs([run], spec, Console(), at_once=True)
    if runtime.has_source:
        raise BytenmtError(f"{run} is a translation model: use `bytenmt translate`, or give a language model")
    for line in decoding_args.described(runtime, time.monotonic() - began):
        detail(line)
    given = {name: value for name, value in sampling.items() if value is not None}
    last = b""
    for last in drawn(runtime, begins, n_bytes, **given):
        sys.stdout.buffer.write(last)
        sys.stdout.buffer.flush()
    if sys.stdout.isatty() and not last.endswith(b"\n"):
        click.echo()
