"""Read the weights of a run folder or a weights file without PyTorch, as NumPy arrays by parameter names.

A weights file may be a checkpoint of a run, or a converted file whose matrices are bfloat16, or int8 with a
scale for each output; `restored` converts both to float32.
"""

from __future__ import annotations

import contextlib
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
from bytenmt.checkpoints.manifest import (
    CONFIG,
    FOLDER,
    FORMAT,
    MOST_CONFIG,
    POINTER,
    Pointer,
    nearest_update,
    read_pointer,
)
from bytenmt.checkpoints.tensor_file import Array, Stored, describe_damage, read_arrays
from bytenmt.config.facts import Facts, facts_tree, parse_facts
from bytenmt.config.schema import Config, architecture, config_tree, parse_config
from bytenmt.config.untrusted import parse_json, parse_toml, printable, shown
from bytenmt.errors import BytenmtError, CheckpointError, ConfigError

PUBLISHED = "model.safetensors"
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


def read_file(path: Path, holds: str, stored: Stored | None, advice: str) -> StoredWeights:
    """Read and check a file of weights or trainer state. Raises CheckpointError.

    holds: "weights" or "trainer". stored: the expected size and digest, None if unknown. advice: what the
    user can do if the file cannot be used.
    """
    problem = describe_damage(path, stored) if stored else None if path.is_file() else "is missing"
    if problem:
        raise CheckpointError(f"{path} {problem}: {advice}")
    try:
        arrays, header = read_arrays(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror or error}): {advice}") from None
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged or cut off ({error}): {advice}") from None
    if header.get("format") == "bytenmt 1":
        raise CheckpointError(f"{path} was written by an older version of bytenmt: train it again")
    if header.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a bytenmt checkpoint: its format is {shown(header.get('format'))}"
        )
    if header.get("holds") != holds:
        raise CheckpointError(
            f"{path} holds {printable(header.get('holds', 'nothing'), 60)}, expected {holds}: {advice}"
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
    if holds == "weights":
        problem = describe_misfit(arrays, config.model, precision)
        if problem:
            raise CheckpointError(f"{path} {problem}: {advice}")
    return StoredWeights(arrays, config, facts, precision)


def is_weights_file(path: Path) -> bool:
    """Return whether a path names a weights file, existing or not, and not a run folder."""
    return path.suffix == ".safetensors" and not path.is_dir()


def resolve_path(path: Path) -> Path:
    """Return the path of model.safetensors for a folder that holds it and is no run folder; else the path."""
    published = path / PUBLISHED
    return published if published.is_file() and not (path / POINTER).exists() else path


def check_output(output: Path, files: Sequence[Path]) -> None:
    """Create the folder of a weights file to be written. Raises CheckpointError if it cannot be written.

    files: the inputs, of which it may not be one.
    """
    if not is_weights_file(output):
        raise CheckpointError(f"-o {output}: give a name that ends in .safetensors")
    if any(output.exists() and path.exists() and output.samefile(path) for path in files):
        raise CheckpointError(f"-o {output} is an input too: give another name")
    if output.resolve().parent.name == FOLDER and output.name.startswith("update-"):
        raise CheckpointError(f"-o {output} is the name of a checkpoint of a run: give another name")
    try:
        make_folder_of(output)
    except BytenmtError as error:
        raise CheckpointError(str(error)) from None


def read_weights(path: Path, which: Which = "best") -> tuple[Path, StoredWeights]:
    """Read the weights of a run folder or of a weights file; return its path and contents.

    which: if no checkpoint was validated yet, the best one is the last one. The digest of a file is checked
    if its run's index names it. Raises CheckpointError.
    """
    path = resolve_path(path)
    if is_weights_file(path):
        contents = read_file(path, "weights", _stored(path), "use another checkpoint")
        folder = path.resolve().parent
        if folder.name == FOLDER:
            return path, _with_search(contents, folder.parent)
        return path, _with_search(contents, folder) if path.name == PUBLISHED else contents
    pointer = read_pointer(path)
    while True:
        try:
            file, contents = _read_kept(path, pointer, which)
            return file, _with_search(contents, path)
        except CheckpointError:
            now = read_pointer(path)
            if now == pointer:
                raise
            pointer = now  # training has saved in the meantime, and deleted the older file


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


def _read_kept(run: Path, pointer: Pointer, which: Which) -> tuple[Path, StoredWeights]:
    """Read the best or last weights that an index names."""
    update = pointer.last if which == "last" or pointer.best is None else pointer.best
    names = {kept.update: kept.weights_name() for kept in pointer.checkpoints}
    stored = next(kept.weights for kept in pointer.checkpoints if kept.update == update)
    path = run / FOLDER / names.pop(update)
    advice = "no other checkpoint is kept: train again"
    if names:
        advice = f"give -m {run / FOLDER / names[nearest_update(list(names), update)]}"
    return path, read_file(path, "weights", stored, advice)


def _with_search(contents: StoredWeights, run: Path) -> StoredWeights:
    """Add the search defaults of the run folder, if it has any. Raises CheckpointError."""
    search = search_defaults.read(run)
    if search is None:
        return contents
    return contents._replace(facts=msgspec.structs.replace(contents.facts, search=search))


def _stored(path: Path) -> Stored | None:
    """Return size and digest of a weights file from its run's index; None if there is none."""
    file = path.resolve()
    with contextlib.suppress(CheckpointError):  # a damaged index is no reason to refuse a file
        for kept in read_pointer(file.parent.parent).checkpoints if file.parent.name == FOLDER else []:
            if kept.weights_name() == file.name:
                return kept.weights
    return None
