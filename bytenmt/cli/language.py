"""The commands for language models: predict and generate."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bytenmt.cli.console import CONSOLE
from bytenmt.cli.files import standard_input, stream_of
from bytenmt.cli.options import command, dataclass_options, given_options, models
from bytenmt.config.fields import NBytes, option
from bytenmt.decoding.interface import SAMPLING_SETTINGS, EngineSpec
from bytenmt.errors import BytenmtError, DataError

if TYPE_CHECKING:
    from bytenmt.checkpoints.facts import TextFact
    from bytenmt.decoding.scorer import Scorer
    from bytenmt.language.ngram import NGramBaseline
    from bytenmt.language.surprisal import Surprisal

READ_BYTES = 1 << 16  # of stdin, which are read at once
STDIN_NAME = "standard input"


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """The options of `bytenmt predict`."""

    per_byte: bool = option(False, "Print bits and rank of every byte on stdout, as JSON lines.")
    reference: bool = option(
        True,
        "Also print the bits per byte of an n-gram model of the training text (default: yes).",
        "--reference/--no-reference",
    )


@dataclass(frozen=True)
class GenerateOptions:
    """The options of `bytenmt generate`: the text to begin with, and the length of what follows."""

    prompt: str = option("", "Beginning of the text.")
    n_bytes: NBytes = option(1000, "Maximum number of bytes generated after the prompt.", "--bytes")


@command(
    "predict",
    models("MODEL [FILE]", "Several models predict as an ensemble."),
    dataclass_options("engine", EngineSpec, ("engine", "device", "threads")),
)
def predict(
    runs: tuple[Path, ...], files: tuple[Path, ...], how: PredictOptions, engine: EngineSpec
) -> None:
    """Print the bits per byte of a text under a language model.

    The text is FILE, or stdin: any bytes of any length, which are read as one stream, in constant
    memory. With --per-byte the summary goes to stderr.
    \f
    runs: the paths MODEL. files: FILE, or (). engine: the engine, device and threads.
    """
    from bytenmt.cli import inputs
    from bytenmt.language.surprisal import PredictionSummary, json_lines

    file = stream_of(files[0]) if files else None
    if file is not None:
        file.stat()  # an OSError now, and not after the n-gram has been made
    runtime = inputs.load_models(runs, replace(engine, precision="fp32"))
    if runtime.has_source:
        raise BytenmtError(
            f"{runs[0]} is a translation model: use `bytenmt evaluate --log-probabilities`"
        )
    baseline = None
    if how.reference:
        try:
            baseline = _baseline(runtime.runs[0].facts.texts)
        except DataError as error:
            CONSOLE.say(f"no n-gram model to compare with: {error}")
    summary = PredictionSummary()
    for surprise in _stream(runtime.make_scorer(), file):
        if how.per_byte:
            sys.stdout.buffer.write(json_lines(surprise, summary.n_bytes))
        summary.add(surprise)
        if baseline is not None:
            baseline.add(surprise.data.tobytes())
    if not summary.n_bytes:
        raise DataError(f"{file or STDIN_NAME} is empty: give a text to score")
    lines = [*summary.lines()]
    if baseline is not None:
        lines.append(baseline.line())
    click.echo("\n".join(lines), err=how.per_byte)


def _baseline(texts: tuple[TextFact, ...]) -> NGramBaseline:
    """Return the n-gram model of the training texts. Raises DataError for none, or changed ones."""
    from bytenmt.data.text_file import read_bytes
    from bytenmt.language.ngram import NGramBaseline

    if not texts:
        raise DataError("the run does not record its training text")
    contents = [read_bytes(Path(text.path)) for text in texts]
    for text, data in zip(texts, contents, strict=True):
        if len(data) != text.bytes:
            raise DataError(f"the training text {text.path} has changed")
    return NGramBaseline(contents)


def _stream(scorer: Scorer, file: Path | None) -> Iterator[Surprisal]:
    """Yield the cost of the bytes of a file or of stdin; show a bar for a plain file."""
    from bytenmt.data.text_file import is_packed, pieces_of
    from bytenmt.language.surprisal import stream_surprisal

    pieces = _stdin() if file is None else pieces_of(file)
    size = file.stat().st_size if file and file.is_file() and not is_packed(file) else None
    with CONSOLE.bar(size, "B") as bar:
        for surprise in stream_surprisal(scorer, pieces):
            yield surprise
            bar.advance(len(surprise.data))


def _stdin() -> Iterator[bytes]:
    """Yield standard input in the pieces in which it arrives."""
    with standard_input() as input:
        while piece := input.read1(READ_BYTES):
            yield piece


@command(
    "generate",
    models("MODEL", most=1),
    given_options("sampling", SAMPLING_SETTINGS.values()),
    dataclass_options("engine", EngineSpec, ("engine", "device", "precision", "threads")),
)
def generate(
    runs: tuple[Path, ...], text: GenerateOptions, sampling: dict[str, Any], engine: EngineSpec
) -> None:
    """Sample text from a language model.

    Prints valid UTF-8 while it is sampled. The same --seed gives the same text.
    \f
    runs: MODEL alone. sampling: the given ones of temperature, top_k, top_p and seed, by name.
    """
    from bytenmt.cli import inputs
    from bytenmt.language.generate import generate as generate_text

    runtime = inputs.load_models(runs, engine)
    if runtime.has_source:
        raise BytenmtError(f"{runs[0]} is a translation model: use `bytenmt translate`")
    last = b""
    for last in generate_text(runtime, text.prompt.encode(), text.n_bytes, **sampling):
        sys.stdout.buffer.write(last)
        sys.stdout.buffer.flush()
    if sys.stdout.isatty() and not last.endswith(b"\n"):
        click.echo()
