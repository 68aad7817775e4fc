"""Read and write weights files: a model's tensors, with its configuration and facts.

The format is safetensors. Tensors are NumPy arrays by the names of parameters, so that nothing here
needs PyTorch. Matrices are float32, or int8 with a scale for each output; `restore_weights` makes
float32 of both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bytenmt.architectures.model_program import NGRAM_TABLES
from bytenmt.architectures.parameters import is_matrix, parameter_shapes
from bytenmt.atomic_file import write_atomically
from bytenmt.checkpoints.facts import Facts, SearchDefaults, parse_facts
from bytenmt.config.fields import shorten
from bytenmt.config.schema import Config, config_tree, parse_stored_config
from bytenmt.errors import CheckpointError, ConfigError

FORMAT = "bytenmt 2"
# The weights file in the folder of a published model, which has no run beside it.
PUBLISHED = "model.safetensors"
# The files of a run folder: configuration, log, weights, and what a resume needs besides.
CONFIG = "config.toml"
METRICS = "metrics.jsonl"
BEST = "best.safetensors"
LAST = "last.safetensors"
TRAINER = "trainer.pt"
WEIGHTS_FILES = (PUBLISHED, BEST, LAST)  # of a folder, the first that exists is used
SEARCH = "search.json"  # search defaults that were tuned for a model, beside its weights
PRECISIONS = {"fp32": "float32", "int8": "int8"}  # the type of the matrices
SCALE = ":scale"  # suffix of the tensor with the scales of an int8 matrix
# Suffix of the tensor that tells which rows of n-gram tables are stored, one bit per row, packed as
# by numpy.packbits. All other rows are zero.
ROWS = ":rows"

Array = npt.NDArray[Any]
Kinds = dict[str, tuple[str, tuple[int, ...]]]  # type and shape of tensors by name
Which = Literal["best", "last"]


class StoredWeights(NamedTuple):
    """The contents of a weights file: tensors, configuration, facts of the training, precision."""

    # as they are stored, maybe int8; `restore_weights` makes float32 of them
    arrays: dict[str, Array]
    config: Config
    facts: Facts
    precision: str  # of the matrices: "fp32" or "int8"


def is_weights_file(path: Path) -> bool:
    """Return whether a path, existing or not, ends in .safetensors and is not a folder."""
    return path.suffix == ".safetensors" and not path.is_dir()


def resolve_path(path: Path) -> Path:
    """Return path/model.safetensors if there is such a file (a published model), else the path."""
    published = path / PUBLISHED
    return published if published.is_file() else path


def has_checkpoint(run: Path) -> bool:
    """Return whether a run folder has a checkpoint from which training can be resumed."""
    return (run / TRAINER).is_file()


def weights_path(path: Path, which: Which = "best") -> Path:
    """Return the weights file for a path: the file itself, or that of a folder.

    Of a folder it is the first that exists of model.safetensors, best.safetensors and
    last.safetensors; with `which` "last" the first of last.safetensors and model.safetensors.
    Raises CheckpointError where there is none.
    """
    if is_weights_file(path):
        return path
    for name in (LAST, PUBLISHED) if which == "last" else WEIGHTS_FILES:
        if (path / name).is_file():
            return path / name
    if not path.exists():
        raise CheckpointError(f"{path} does not exist: give a run folder or a weights file")
    raise CheckpointError(f"{path} holds no weights: give a run folder or a weights file")


def read_run(path: Path, which: Which = "best") -> tuple[Path, StoredWeights]:
    """Read a weights file, or one of a folder; return its path and contents.

    which: of a folder, the "best" or the "last" weights of its training, or those published in it.
    Search defaults beside the weights, in search.json, replace those in the file. Raises
    CheckpointError where it cannot be read, does not fit its configuration, or has values that are
    not finite.
    """
    file = weights_path(path, which)
    config, facts, precision = read_header(file)
    arrays = _read_arrays(file)
    if problem := describe_misfit(arrays, config, precision):
        raise CheckpointError(f"{file} {problem}")
    if (search := read_search(file)) is not None:
        facts = msgspec.structs.replace(facts, search=search)
    return file, StoredWeights(arrays, config, facts, precision)


def read_config(path: Path) -> Config:
    """Return the configuration in a weights file, or in that of the last update in a run folder.

    Raises CheckpointError if there is no such file or it cannot be read.
    """
    return read_header(weights_path(path, "last"))[0]


def read_header(file: Path) -> tuple[Config, Facts, str]:
    """Return the configuration, facts and precision ("fp32" or "int8") in a weights file's header.

    Facts tell about the training, such as its number of pairs. Raises CheckpointError if they
    cannot be read.
    """
    try:
        with safe_open(file, framework="np") as opened:
            metadata = opened.metadata() or {}
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing") from None
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read ({error.strerror or error})") from None
    except SafetensorError as error:
        raise CheckpointError(f"{file} is damaged or cut off ({error})") from None
    return parse_metadata(metadata, file)


def metadata_of(config: Config, facts: Facts, precision: str = "fp32") -> dict[str, str]:
    """Return a weights file's metadata, texts by name: configuration, facts, precision, format.

    facts: about the training; precision: of the matrices, "fp32" or "int8".
    """
    trees = {"config": config_tree(config), "facts": msgspec.to_builtins(facts, enc_hook=str)}
    texts = {name: json.dumps(tree) for name, tree in trees.items()}
    return {"format": FORMAT, "precision": precision, **texts}


def parse_metadata(metadata: Mapping[str, str], file: Path) -> tuple[Config, Facts, str]:
    """Return the configuration, facts and precision that are in the metadata of a weights file.

    It is the inverse of metadata_of; facts tell about the training. file: its path, for messages.
    Raises CheckpointError.
    """
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{file} does not hold the weights of a model of this version of bytenmt"
        )
    try:
        config = parse_stored_config(json.loads(metadata["config"]))
        facts = parse_facts(json.loads(metadata["facts"]))
    except (ConfigError, KeyError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{file}: its configuration or facts cannot be read: {error}"
        ) from None
    precision = metadata.get("precision", "fp32")
    if precision not in PRECISIONS:
        raise CheckpointError(
            f"{file} is in the precision {shorten(precision)}: expected fp32 or int8"
        )
    return config, facts, precision


def _read_arrays(file: Path) -> dict[str, Array]:
    """Return the tensors of a file whose header has been read."""
    with safe_open(file, framework="np") as opened:
        try:
            names = opened.keys()  # `opened` is not a dictionary: it cannot be iterated over
            return {name: opened.get_tensor(name) for name in names}
        except (SafetensorError, AttributeError, KeyError, TypeError):
            raise CheckpointError(f"{file} has tensors of a type that NumPy lacks") from None


def write_weights_file(
    path: Path, arrays: Mapping[str, Array], config: Config, facts: Facts, precision: str = "fp32"
) -> None:
    """Write a weights file: arrays by name, exactly as given, configuration, facts and precision.

    The arrays come from without_zero_rows or quantize.round_arrays; precision: of their matrices.
    Equal contents give equal bytes. Raises CheckpointError if the file cannot be written.
    """
    data = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    # The library does not keep the order of metadata: they are written into the header here.
    end = 8 + int.from_bytes(data[:8], "little")
    metadata = metadata_of(config, facts, precision)
    text = json.dumps({"__metadata__": metadata, **json.loads(data[8:end])}).encode()
    text += b" " * (-len(text) % 8)
    write_atomically(path, len(text).to_bytes(8, "little") + text, memoryview(data)[end:])


def restore_weights(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Convert the arrays of a weights file to a model's float32 weights by name.

    int8 matrices are multiplied by their scales, and n-gram tables get back their rows of zeros.
    """
    whole: dict[str, Array] = {}
    for name, array in arrays.items():
        if name + SCALE in arrays:
            scales = arrays[name + SCALE].reshape(-1, *[1] * (array.ndim - 1))
            whole[name] = array * scales  # int8 * float32 is float32
        elif not name.endswith((SCALE, ROWS)):
            whole[name] = array
    bits = arrays.get(NGRAM_TABLES + ROWS)
    if bits is not None:
        stored = whole[NGRAM_TABLES]
        whole[NGRAM_TABLES] = np.zeros((8 * bits.size, stored.shape[1]), stored.dtype)
        whole[NGRAM_TABLES][np.unpackbits(bits).view(bool)] = stored
    return whole


def without_zero_rows(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return a copy of a model's arrays, by name, without all-zero rows of its n-gram tables.

    An added array, a packed bit mask, tells which rows are kept. `restore_weights` undoes it.
    """
    table = arrays.get(NGRAM_TABLES)
    if table is None:
        return dict(arrays)
    is_stored = table.any(axis=1)
    return {**arrays, NGRAM_TABLES: table[is_stored], NGRAM_TABLES + ROWS: np.packbits(is_stored)}


def describe_misfit(arrays: Mapping[str, Array], config: Config, precision: str) -> str | None:
    """Return a message about what is wrong with a model's stored tensors; None if they are right.

    It continues a sentence that begins with the file's name. Names, types and shapes must fit
    the configuration, and all values must be finite. arrays: all tensors of the file by name,
    scales included. precision: of the matrices in it, "fp32" or "int8".
    """
    stored: Kinds = {name: (array.dtype.name, array.shape) for name, array in arrays.items()}
    expected: Kinds = {}
    for name, shape in parameter_shapes(config.model).items():
        if name == NGRAM_TABLES and name + ROWS in arrays:
            expected[name + ROWS] = "uint8", (shape[0] // 8,)
            bits = arrays[name + ROWS].reshape(-1).view(np.uint8)
            shape = int(np.unpackbits(bits).sum()), shape[1]
        kind = PRECISIONS[precision] if is_matrix(name, shape) else "float32"
        expected[name] = kind, shape
        if kind == "int8":
            expected[name + SCALE] = "float32", shape[:1]
    wrong = sorted(
        name for name in stored.keys() | expected.keys() if stored.get(name) != expected.get(name)
    )
    if wrong:
        first = wrong[0]
        return (
            f"does not fit the model that it describes: {len(wrong)} tensors differ, first"
            f" {shorten(first)}, which is {_describe_kind(stored.get(first))}, expected"
            f" {_describe_kind(expected.get(first))}"
        )
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return (
                f"is not usable: {shorten(name)} contains something other than a number, its"
                " training has diverged"
            )
    return None


def _describe_kind(kind: tuple[str, tuple[int, ...]] | None) -> str:
    """Write a type and a shape for people."""
    if kind is None:
        return "missing"
    return f"{kind[0]} {' x '.join(map(str, kind[1])) or 'of one number'}"


def read_search(file: Path) -> SearchDefaults | None:
    """Return the search settings in search.json beside a folder's weights file, None without it.

    Raises CheckpointError where it is damaged.
    """
    path = file.with_name(SEARCH)
    if file.name not in WEIGHTS_FILES or not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=SearchDefaults)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): delete it") from None


def has_weights(path: Path) -> bool:
    """Return whether a path is a weights file, or a folder with one."""
    if is_weights_file(path):
        return path.is_file()
    return any((path / name).is_file() for name in WEIGHTS_FILES)


def reverse_path(path: Path) -> Path | None:
    """Return the folder of the model of the opposite direction that a model's search.json names.

    None if it names none; the folder may be missing. path: a run folder or a weights file. Raises
    CheckpointError for a damaged search.json.
    """
    if not has_weights(path):
        return None
    file = weights_path(path)
    search = read_search(file)
    if search is None or search.reverse is None:
        return None
    return file.absolute().parent.parent / search.reverse


def prepare_output(output: Path, inputs: Sequence[Path]) -> None:
    """Check the path of a weights file that is to be written, and create its folder.

    Raises CheckpointError where `output` does not end in .safetensors, is one of the `inputs`, or
    is a weights file of a training run.
    """
    if not is_weights_file(output):
        raise CheckpointError(f"-o {output}: give a name that ends in .safetensors")
    if output.exists() and any(output.samefile(path) for path in inputs):
        raise CheckpointError(f"-o {output} is an input too: give another name")
    if output.name in WEIGHTS_FILES and has_checkpoint(output.parent):
        raise CheckpointError(f"-o {output}: a run is in that folder: give another name")
    output.parent.mkdir(parents=True, exist_ok=True)
