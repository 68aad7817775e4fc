"""The command `translate-dataset`. Heavy modules are imported inside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bytenmt.cli.console import CONSOLE
from bytenmt.cli.files import output_lock
from bytenmt.cli.options import command, models, settings
from bytenmt.config.fields import Positive, option
from bytenmt.decoding.interface import EngineSpec
from bytenmt.errors import BytenmtError, DataError

# A packed file has another suffix before that of the packing.
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
PACKED = (".gz", ".zst")


@dataclass(frozen=True)
class DatasetOptions:
    """The options of `bytenmt translate-dataset` on the data set and the number of engines."""

    column: str = option("text", "Column of IN with the source texts.")
    to: str = option("translation", "New column for the translations.", metavar="COLUMN")
    actors: Positive | None = option(
        None, "Number of engines, each with --threads threads (default: the CPUs of the cluster)."
    )


@command(
    "translate-dataset",
    models("MODEL IN OUT", "Several models decode as an ensemble."),
    settings("search", "sampling"),
)
def translate_dataset(
    runs: tuple[Path, ...],
    files: tuple[Path, Path],
    columns: DatasetOptions,
    settings: dict[str, Any],
    engine: EngineSpec,
) -> None:
    """Translate a column of a data set with Ray Data.

    IN is a file or folder of Parquet (.parquet, .pq) and JSON lines (.jsonl, .ndjson). For each
    file OUT gets a folder of the same name, whose files have all rows in order and in the same
    format, with the column of translations. The folder appears when it is complete; files that have
    one already are skipped, so the same command continues an interrupted job. Uses the Ray cluster
    of RAY_ADDRESS or `ray start`, otherwise this machine; all machines of a cluster must see IN,
    OUT and the models under the same paths. With --device cuda each actor takes a GPU.
    \f
    files: IN and OUT. settings: the given options of search, sampling and kept spans, by name, such
    as {"beam": 4}. engine: the engine, device, precision and threads of each actor.
    """
    from bytenmt.cli import inputs
    from bytenmt.datasets import Translate, ray_job

    source, out = (path.resolve() for path in files)
    # Actors have folders of their own.
    if "glossary" in settings:
        settings["glossary"] = settings["glossary"].resolve()
    engine = replace(engine, threads=engine.threads or 1)
    if engine.reverse is not None:
        engine = replace(engine, reverse=Path(engine.reverse).resolve())
    inputs.check_settings(settings)
    folders = _output_folders(source, out)
    if not folders:
        raise DataError(f"{source} is neither a file nor a folder of files")
    if source in (out, *out.parents):
        raise BytenmtError(f"{out} is inside the folder of the input: give another one")
    to_do = {path: _format_of(path) for path, folder in folders.items() if not folder.exists()}
    run_names = [str(run.resolve()) for run in runs]
    keywords = {"column": columns.column, "to": columns.to, **vars(engine), **settings}
    if to_do:
        # Compiles the kernels once; what it raises is one line here.
        Translate(*run_names, **keywords)
        ray_job.connect()
    for path, form in to_do.items():
        folders[path].parent.mkdir(parents=True, exist_ok=True)
        with output_lock(folders[path]):
            if folders[path].exists():  # another command was quicker
                continue
            ray_job.translate_file(path, folders[path], form, run_names, keywords, columns.actors)
        CONSOLE.say(f"bytenmt: translated {path} to {folders[path]}")
    n_done = len(folders) - len(to_do)
    CONSOLE.say(f"bytenmt: {len(to_do)} files translated, {n_done} were already there")


def _output_folders(source: Path, out: Path) -> dict[Path, Path]:
    """Return the output folder of each file of the input, which is a file or a folder."""
    is_file = source.is_file()
    root = source.parent if is_file else source
    paths = [source] if is_file else sorted(filter(Path.is_file, source.rglob("*")))
    folders = {}
    for path in paths:
        name = path.relative_to(root)
        if not any(part[0] in "._" for part in name.parts):  # hidden
            folders[path] = out / name
    return folders


def _format_of(path: Path) -> str:
    """Return the format of a file by its suffix: parquet or jsonl. Raises DataError."""
    unpacked = path.with_suffix("") if path.suffix in PACKED else path
    form = FORMATS.get(unpacked.suffix)
    if form is None:
        raise DataError(
            f"{path}: expected {', '.join(FORMATS)}, also packed ({', '.join(PACKED)}); for tables"
            " of CSV use translate-file --column, for lines of text translate --workers N"
        )
    return form
