"""The command `translate-dataset`. Heavy modules are imported inside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bytenmt.cli.console import Command, say
from bytenmt.cli.options import CONSTRAINTS, COUNT, DECODING, MACHINE, models
from bytenmt.errors import BytenmtError, DataError

SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
PACKED = (".gz", ".zst")
SAMPLE = 1 << 20  # bytes of a file whose encoding is checked


@click.command("translate-dataset", cls=Command)
@models("Several models decode as an ensemble.", "MODEL IN OUT", n_files=(2, 2))
@click.option("--column", default="text", show_default=True, help="Column of IN with the source texts.")
@click.option(
    "--to",
    default="translation",
    show_default=True,
    metavar="COLUMN",
    help="New column for the translations.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice((*dict.fromkeys(SUFFIXES.values()), "text")),
    help="Format of IN (default: by the suffix of each file, text for any other).",
)
@click.option(
    "--actors",
    type=COUNT,
    help="Number of engines, each with --threads threads (default: the CPUs of the cluster).",
)
@CONSTRAINTS
@DECODING
@MACHINE
def translate_dataset(
    runs: tuple[Path, ...],
    files: tuple[Path, Path],
    column: str,
    to: str,
    form: str | None,
    actors: int | None,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Translate a column of a data set with Ray Data.

    IN is a file or folder of Parquet, CSV, JSON lines or text. For each file OUT gets a folder of the same
    name, whose files have all rows in order and in the same format (JSON lines for text), with the column of
    translations. The folder appears when it is complete; files that have one already are skipped, so the
    same command continues an interrupted job. Uses the Ray cluster of RAY_ADDRESS or `ray start`, otherwise
    this machine; all machines of a cluster must see IN, OUT and the models under the same paths. With
    --device cuda each actor takes a GPU.
    """
    from bytenmt.cli import decoding_args
    from bytenmt.datasets import Translate, ray_job

    given, out = (path.resolve() for path in files)
    for name in ("glossary", "reverse"):
        if decoding[name] is not None:
            decoding[name] = decoding[name].resolve()  # actors have folders of their own
    decoding_args.settings(decoding)  # reports options that contradict each other by their names
    paths = [given] if given.is_file() else sorted(path for path in given.rglob("*") if path.is_file())
    root = given.parent if given.is_file() else given
    parts = {path: out / path.relative_to(root) for path in paths}
    hidden = [path for path in parts if any(name[0] in "._" for name in path.relative_to(root).parts)]
    left = [path for path, part in parts.items() if path not in hidden and not part.exists()]
    if len(hidden) == len(parts):
        raise DataError(f"{given} is no file, and no folder of files")
    if given in (out, *out.parents):
        raise BytenmtError(f"{out} is in the folder of the input: give another one")
    forms = {path: form or _format_of(path) for path in left}
    for path in left:
        if forms[path] != "parquet":
            _check_encoding(path)
    models = [str(run.resolve()) for run in runs]
    options = {
        "column": column,
        "to": to,
        "device": device,
        "threads": threads or 1,
        **{name: decoding[name] for name in decoding_args.OF_THE_ENGINE},
        **decoding_args.named_settings(decoding),
    }
    if left:
        Translate(*models, **options)  # compiles the kernels once; what it raises is one line here
        ray_job.connect()
    for path in left:
        parts[path].parent.mkdir(parents=True, exist_ok=True)
        ray_job.translate_file(path, parts[path], forms[path], models, options, actors)
        say(f"bytenmt: {path} is translated: {parts[path]}")
    say(f"bytenmt: {len(left)} files translated, {len(parts) - len(hidden) - len(left)} were there already")


def _format_of(path: Path) -> str:
    """Return the format of a file by its suffix."""
    name = path.with_suffix("") if path.suffix in PACKED else path
    return SUFFIXES.get(name.suffix, "text")


def _check_encoding(path: Path) -> None:
    """Raise DataError where a file does not begin with text in UTF-8."""
    from bytenmt.data.text_file import TextFile, pieces_of

    sample = next(pieces_of(path, SAMPLE), b"")
    TextFile.from_bytes(sample[: sample.rfind(b"\n") + 1 or None], path).require_lines()
