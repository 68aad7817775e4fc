"""Read the weights of a run folder or a weights file without PyTorch, as NumPy arrays by parameter names.

A weights file may be a checkpoint of a run, or a converted file whose matrices are bfloat16, or int8 with a
scale for each output; `restored` converts both to float32.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from bytenmt.architectures.parameters import NGRAM_TABLES
from bytenmt.atomic_file import make_folder_of, read_limited
from bytenmt.checkpoints import search_defaults
from bytenmt.checkpoints.admission import ROWS, SCALE, STORED, describe_misfit
from bytenmt.checkpoints.tensor_file import Array, read_arrays
from bytenmt.config.facts import Facts, facts_tree, parse_facts
from bytenmt.config.schema import Config, architecture, config_tree, parse_config
from bytenmt.config.untrusted import parse_json, parse_toml, printable, shown
from bytenmt.errors import BytenmtError, CheckpointError, ConfigError

FORMAT = "bytenmt 2"
PUBLISHED = "model.safetensors"
CONFIG, METRICS = "config.toml", "metrics.jsonl"  # of a run folder, and the next three
BEST, LAST, TRAINER = "best.safetensors", "last.safetensors", "trainer.safetensors"
OLDER, FOLDER = "checkpoints.json", "checkpoints"  # of run folders of version 0.1
MOST_CONFIG, MOST_OLDER = 1 << 20, 1 << 24  # bytes of a configuration, and of OLDER
Which = Literal["best", "last"]


class StoredWeights(NamedTuple):
    """The contents of a weights file.

    arrays: as they are stored. precision: of the matrices, "fp32", "bf16" or "int8".
    """

    arrays: dict[str, Array]
    config: Config
    facts: Facts
    precision: str


def metadata(config: Config, facts: Facts, holds: str, precision: str = "fp32") -> dict[str, str]:
    """Return the metadata of a file; holds: "weights" or "trainer"."""
    header = {"format": FORMAT, "holds": holds}
    header |= {"config": json.dumps(config_tree(config)), "facts": json.dumps(facts_tree(facts))}
    return header if precision == "fp32" else header | {"precision": precision}


def restored(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Convert stored arrays to those of a model: bfloat16 (bits in uint16), int8 and float64 become
    float32."""
    whole: dict[str, Array] = {}
    for name, array in arrays.items():
        if name.endswith((SCALE, ROWS)):
            continue
        if name + SCALE in arrays:
            scales = arrays[name + SCALE].reshape(-1, *[1] * (array.ndim - 1))
            with np.errstate(over="ignore"):  # a huge scale gives infinity, which is detected later
                array = array * scales  # int8 * float32 is float32
        elif array.dtype == np.float64:
            array = array.astype(np.float32)
        elif array.dtype == np.uint16:
            array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        whole[name] = array
    return with_all_rows(whole | {name: array for name, array in arrays.items() if name.endswith(ROWS)})


def with_all_rows(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return stored arrays with the rows of n-gram tables that are not stored, which are zeros."""
    whole = {name: array for name, array in arrays.items() if not name.endswith(ROWS)}
    bits = arrays.get(NGRAM_TABLES + ROWS)
    if bits is not None:
        stored = whole[NGRAM_TABLES]
        table = np.zeros((8 * bits.size, stored.shape[1]), stored.dtype)
        table[np.unpackbits(bits).view(bool)] = stored
        whole[NGRAM_TABLES] = table
    return whole


def without_zero_rows(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return a model's arrays as they are stored: without the rows of n-gram tables that are all zeros."""
    table = arrays.get(NGRAM_TABLES)
    if table is None:
        return dict(arrays)
    is_stored = table.any(axis=1)
    return {**arrays, NGRAM_TABLES: table[is_stored], NGRAM_TABLES + ROWS: np.packbits(is_stored)}


def read_file(path: Path, holds: str = "weights") -> StoredWeights:
    """Read and check a file of weights or trainer state. Raises CheckpointError.

    holds: "weights" or "trainer".
    """
    if not path.is_file():
        raise CheckpointError(f"{path} is missing")
    try:
        arrays, header = read_arrays(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged or cut off ({error})") from None
    if header.get("format") == "bytenmt 1":
        raise CheckpointError(f"{path} was written by an older version of bytenmt: train it again")
    if header.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a bytenmt checkpoint: its format is {shown(header.get('format'))}"
        )
    if header.get("holds") != holds:
        raise CheckpointError(
            f"{path} holds {printable(header.get('holds', 'nothing'), 60)}, expected {holds}"
        )
    try:
        config = parse_config(parse_json(header["config"]))
    except (ConfigError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: its configuration cannot be read: {error}") from None
    try:
        facts = parse_facts(parse_json(header["facts"]))
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: its facts cannot be read: {error}") from None
    precision = header.get("precision", "fp32")
    if precision not in STORED:
        raise CheckpointError(f"{path} is in the precision {shown(precision)}: expected {', '.join(STORED)}")
    problem = describe_misfit(arrays, config.model, precision) if holds == "weights" else None
    if problem:
        raise CheckpointError(f"{path} {problem}")
    return StoredWeights(arrays, config, facts, precision)


def has_checkpoint(run: Path) -> bool:
    """Return whether a training has saved anything in a folder."""
    return (run / TRAINER).is_file() or (run / OLDER).is_file()


def weights_path(run: Path, which: Which) -> Path:
    """Return the weights file of a run folder: before its first validation the best is the last one.

    Raises CheckpointError where there is none.
    """
    if (run / OLDER).is_file():
        return _older_path(run, which)
    for name in (BEST, LAST) if which == "best" else (LAST,):
        if (run / name).is_file():
            return run / name
    if not run.exists():
        raise CheckpointError(f"{run} does not exist: give a run folder or a weights file")
    if not (run / CONFIG).is_file():
        raise CheckpointError(f"{run} is not a run folder: it has no {CONFIG}{_runs_inside(run)}")
    raise CheckpointError(f"{run} has no checkpoint yet: training has not saved anything there")


def _older_path(run: Path, which: Which) -> Path:
    """Return the weights file of a run folder of version 0.1. Raises CheckpointError."""
    try:
        index = parse_json(read_limited(run / OLDER, MOST_OLDER))
        update = index["last"] if which == "last" or index["best"] is None else index["best"]
        slots = {one["update"]: one["slot"] for one in index["kept"]}
        return run / FOLDER / f"update-{update:08d}{'-2' if slots[update] == 2 else ''}.safetensors"
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise CheckpointError(f"{run / OLDER} cannot be read ({printable(str(error))})") from None


def _runs_inside(folder: Path) -> str:
    """Name a run in a folder that is not a run itself, for a message."""
    runs = sorted(path.parent for path in folder.glob(f"*/{CONFIG}")) if folder.is_dir() else []
    return f"; did you mean {runs[0]}?" if runs else ""


def is_weights_file(path: Path) -> bool:
    """Return whether a path names a weights file, existing or not, and not a run folder."""
    return path.suffix == ".safetensors" and not path.is_dir()


def resolve_path(path: Path) -> Path:
    """Return the path of model.safetensors for a folder that holds it; else the path."""
    published = path / PUBLISHED
    return published if published.is_file() else path


def check_output(output: Path, files: Sequence[Path]) -> None:
    """Create the folder of a weights file to be written. Raises CheckpointError if it cannot be written.

    files: the inputs, of which it may not be one.
    """
    if not is_weights_file(output):
        raise CheckpointError(f"-o {output}: give a name that ends in .safetensors")
    if any(output.exists() and path.exists() and output.samefile(path) for path in files):
        raise CheckpointError(f"-o {output} is an input too: give another name")
    if output.name in (BEST, LAST, TRAINER) and (output.parent / CONFIG).is_file():
        raise CheckpointError(f"-o {output} is a file of a run: give another name")
    try:
        make_folder_of(output)
    except BytenmtError as error:
        raise CheckpointError(str(error)) from None


def read_weights(path: Path, which: Which = "best") -> tuple[Path, StoredWeights]:
    """Read the weights of a run folder or of a weights file, with the search defaults beside it; return its
    path and contents. Raises CheckpointError.

    which: see weights_path.
    """
    path = resolve_path(path)
    file = path if is_weights_file(path) else weights_path(path, which)
    contents = read_file(file)
    folder = file.resolve().parent
    search = search_defaults.read(folder.parent if folder.name == FOLDER else folder)
    if search is None or file.name not in (PUBLISHED, BEST, LAST) and folder.name != FOLDER:
        return file, contents
    return file, contents._replace(facts=msgspec.structs.replace(contents.facts, search=search))


def read_run(path: Path, which: Which = "best") -> tuple[Path, StoredWeights]:
    """Read weights, with the configuration of the run folder if it has one. Raises CheckpointError."""
    config = read_config(path) if (path / CONFIG).is_file() and not is_weights_file(path) else None
    file, contents = read_weights(path, which)
    if config is None:
        return file, contents
    if contents.config.model != config.model:
        arch, expected = (architecture(c.model) for c in (contents.config, config))
        raise CheckpointError(
            f"{file} holds another model ({arch}) than {path / CONFIG} describes ({expected}):"
            " put the file back where it came from"
        )
    return file, contents._replace(config=config)


def read_config(run: Path) -> Config:
    """Read the configuration of a run folder, or that of its last checkpoint if the file is missing.

    Raises CheckpointError.
    """
    path = run / CONFIG
    if not path.is_file():
        return read_weights(run, "last")[1].config
    try:
        return parse_config(parse_toml(read_limited(path, MOST_CONFIG).decode()))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, ConfigError) as error:  # neither UTF-8 nor TOML, or no configuration
        raise CheckpointError(f"{path}: {error}") from None
