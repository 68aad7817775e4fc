"""Mutate single tensor files: bytes, headers and values; and build valid files of models with extreme sizes.

Some mutations give a file that cannot be read; others keep all sizes consistent, so that only the content is
wrong.
"""

from __future__ import annotations

import json
import math
import random
from typing import Any

import numpy as np

from bytenmt.architectures.parameters import n_parameters, parameter_shapes
from bytenmt.checkpoints.weights import Array
from bytenmt.config.schema import parse_config
from bytenmt.errors import ConfigError

TYPES: dict[str, type[np.generic]] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}
DEEP = 5_000  # levels of nesting
LETTERS = ["", "x", "\0", "\x1b[2J", "a\nb", "é" * 100, "\ud800", "\u202e", "y" * 5_000]
SIZES = [-1, 0, 1, 2, 3, 7, 255, 256, 257, 4096, 65_535, 65_536, 10**6, 10**9]
LIMITS = [2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), 10**400]
REALS = [0.5, 1.5, -0.0, 1e-320, 1e16, 1e308, -1e308, math.nan, math.inf, -math.inf]
PARTS: list[Any] = [None, True, False, [], {}, [[]], [1], [1] * 300, [[8, 3]] * 300, [[8, 10**9]], {"a": {}}]
TYPE_NAMES = [*TYPES, "F8_E4M3", "F8_E5M2", "F4", "U16", "I4", "C64", "", "f32", 5, None]
WORDS = [
    "start",
    "every_step",
    "before",
    "after",
    "dot",
    "concat",
    "general",
    "current",
    "previous",
    "multiplicative",
    "relu",
]
MOST_PARAMETERS = 200_000  # limit for resized models


def hostile_value(chance: random.Random) -> Any:
    """Return an extreme or ill-typed value."""
    kinds: list[list[Any]] = [LETTERS, SIZES, LIMITS, REALS, PARTS]
    return chance.choice(chance.choice(kinds))


def mutate_bytes(data: bytes, chance: random.Random, first: int = 0, last: int | None = None) -> bytes:
    """Flip, delete, insert or repeat one to three pieces between two positions, or cut the end off."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        end = min(len(changed), len(changed) if last is None else last)
        at = chance.randrange(first, end) if end > first else len(changed)
        length = chance.choice([1, 1, 2, 4, 8, 64])
        kind = chance.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[at : at + length]
        elif kind == 2:
            changed[at:at] = chance.randbytes(length)
        elif kind == 3:
            changed[at:at] = changed[at : at + length]
        elif kind == 4:
            changed[at : at + length] = chance.choice([b"\0", b"\xff", b"9", b"[", b'"']) * length
        elif chance.random() < 0.3:
            del changed[at:]
    return bytes(changed)


def parse_tensor_file(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data of a valid safetensors file."""
    n = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + n]), data[8 + n :]


def build_tensor_file(header: Any, data: bytes, length: int | None = None) -> bytes:
    """Return a safetensors file. length: the header length to declare, by default the true one."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode("utf-8", "surrogatepass")
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def read_arrays(data: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the tensors and the metadata of a valid file."""
    header, rest = parse_tensor_file(data)
    metadata = header.pop("__metadata__")
    arrays = {}
    for name, one in header.items():
        start, end = one["data_offsets"]
        arrays[name] = np.frombuffer(rest[start:end], TYPES[one["dtype"]]).reshape(one["shape"]).copy()
    return arrays, metadata


def write_arrays(arrays: dict[str, Array], metadata: Any) -> bytes:
    """Return a valid file with these tensors and this metadata."""
    header: dict[str, Any] = {"__metadata__": metadata}
    start, parts = 0, []
    for name, array in arrays.items():
        part = np.ascontiguousarray(array).tobytes()
        where = [start, start + len(part)]
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": where}
        start += len(part)
        parts.append(part)
    return build_tensor_file(header, b"".join(parts))


def mutate_header(data: bytes, chance: random.Random) -> bytes:
    """Make types, shapes, offsets, names or lengths in the header inconsistent."""
    header, rest = parse_tensor_file(data)
    names = [name for name in header if name != "__metadata__"]
    name = chance.choice(names)
    one = header[name]
    kind = chance.randrange(9)
    if kind == 0:
        one["dtype"] = chance.choice(TYPE_NAMES)
    elif kind == 1:
        one["shape"] = chance.choice(
            [[], one["shape"][::-1], [*one["shape"], 1], [hostile_value(chance)], hostile_value(chance)]
        )
    elif kind == 2:
        one["data_offsets"][chance.randrange(2)] = hostile_value(chance)
    elif kind == 3:
        one["data_offsets"] = header[chance.choice(names)]["data_offsets"]
    elif kind == 4:
        header[chance.choice(names + LETTERS)] = header.pop(name)
    elif kind == 5:
        one[chance.choice(["dtype", "shape", "data_offsets", "more"])] = hostile_value(chance)
    elif kind == 6:
        text = json.dumps(header)
        return build_tensor_file(f"{text[:-1]}, {json.dumps({name: one})[1:]}".encode(), rest)
    elif kind == 7:
        length = chance.choice([0, 1, 7, 2**31, 2**63, 2**64 - 1, 100_000_001, len(json.dumps(header)) - 1])
        return build_tensor_file(header, rest, length)
    else:
        return build_tensor_file(
            chance.choice([b"[" * DEEP + b"]" * DEEP, b"{}", b"", b"9" * DEEP, b"\xff" * 64]), rest
        )
    return build_tensor_file(header, rest)


def mutate_tensors(data: bytes, chance: random.Random) -> bytes:
    """Return a valid file whose tensors do not match its model, are not finite, or are far too large."""
    arrays, metadata = read_arrays(data)
    name = chance.choice(list(arrays))
    array = arrays[name]
    kind = chance.randrange(9)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[chance.choice(list(arrays) + LETTERS[:5] + [name + ":scale"])] = array
    elif kind == 2:
        arrays[name] = array[: chance.randrange(len(array) + 1)] if array.ndim else array[None]
    elif kind == 3:
        arrays[name] = np.concatenate([array, array]) if array.ndim else array.repeat(9)
    elif kind == 4:
        arrays[name] = chance.choice([array.T, array.reshape(-1), array[None], array[..., None]])
    elif kind == 5:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(chance.choice(list(TYPES.values())))
    elif kind == 6:
        flat = array.reshape(-1)
        bad = (
            [math.nan, math.inf, -math.inf]
            if array.dtype.kind == "f"
            else [0, 255 if array.itemsize == 1 else 0x7F80]
        )
        flat[chance.randrange(max(1, flat.size)) :][: chance.choice([1, 5, 10**6])] = (
            np.array(bad[0]).astype(array.dtype)
            if chance.random() < 0.5
            else np.array(chance.choice(bad)).astype(array.dtype)
        )
    else:  # shapes stay valid, but activations overflow or vanish
        for one in [array] if kind == 7 else arrays.values():
            if one.dtype.kind == "f":
                one[...] = chance.choice([0.0, 1e-40, 3e38, -3e38, 1e30]) if kind == 7 else one * 1e20
    return write_arrays(arrays, metadata)


def resize_model(data: bytes, chance: random.Random) -> bytes:
    """Return a valid file of a random model with extreme sizes, or the original where none is found."""
    header, rest = parse_tensor_file(data)
    metadata = header["__metadata__"]
    for _ in range(9):
        tree = json.loads(metadata["config"])
        for _ in range(chance.choice([1, 2, 3])):
            _set_extreme_size(tree["model"], chance)
        tree["data"]["max_source_bytes"] = chance.choice([1, 2, 3, 5, 1000, 2**31 - 1])
        try:
            config = parse_config(tree).model
        except ConfigError:
            continue
        if n_parameters(config) <= MOST_PARAMETERS:
            numbers = np.random.default_rng(chance.randrange(2**32))
            arrays = {
                name: numbers.normal(0, 0.5, shape).astype(np.float32)
                for name, shape in parameter_shapes(config).items()
            }
            kept = {key: value for key, value in metadata.items() if key != "precision"}
            return write_arrays(arrays, kept | {"config": json.dumps(tree)})
    return data


def _set_extreme_size(model: dict[str, Any], chance: random.Random) -> None:
    """Set one value of a model's configuration to an extreme."""
    key = chance.choice([key for key in model if key != "arch"])
    size = chance.choice([1, 1, 2, 3, 7, 16, 63, 64, 65, 127, 129, 256, 1024, 4096, 65_536])
    if isinstance(model[key], bool):
        model[key] = not model[key]
    elif isinstance(model[key], int):
        model[key] = size
    elif isinstance(model[key], float):
        model[key] = chance.choice([0.0, 1e-9, 0.1, 0.5, 0.99, 1.0, 3.7, 16.0])
    elif key.endswith("_layers"):
        widths = [chance.choice([1, 2, 63, 65, size % 300 + 1]) for _ in range(chance.choice([1, 2, 9]))]
        model[key] = [[width, chance.choice([1, 2, 3, 8, 1024])] for width in widths]
    elif key.endswith("dilations"):
        model[key] = [chance.choice([1, 2, 5, 64, 4096]) for _ in range(chance.choice([1, 3, 30]))]
    else:
        model[key] = chance.choice(WORDS)
