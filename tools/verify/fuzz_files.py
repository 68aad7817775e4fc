"""Mutate run folders and weights files, reproducibly by seed and number.

A folder is a dictionary of names and bytes. Some mutations change single bytes; others keep sizes consistent,
so that only the content is wrong.
"""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable

import tomli_w

from tools.verify.fuzz_tensors import (
    DEEP,
    LETTERS,
    build_tensor_file,
    hostile_value,
    mutate_bytes,
    mutate_header,
    mutate_tensors,
    parse_tensor_file,
    resize_model,
)

Folder = dict[str, bytes]
WEIGHTS = "best.safetensors"
TRAINER = "trainer.safetensors"
CONFIG = "config.toml"


def mutate_config(files: Folder, name: str, chance: random.Random) -> None:
    """Change one or two values of the configuration in a tensor file."""
    header, rest = parse_tensor_file(files[name])
    tree = json.loads(header["__metadata__"]["config"])
    for _ in range(chance.choice([1, 1, 2])):
        section = tree[chance.choice(["model", "model", "model", "data", "train"])]
        key = chance.choice([*section, *LETTERS[:5]])
        section[key] = hostile_value(chance) if chance.random() < 0.8 else chance.randint(1, 40)
    header["__metadata__"]["config"] = json.dumps(tree)
    files[name] = build_tensor_file(header, rest)


def mutate_metadata(data: bytes, chance: random.Random) -> bytes:
    """Change the metadata of a tensor file."""
    header, rest = parse_tensor_file(data)
    metadata = header["__metadata__"]
    key = chance.choice([*metadata, "precision", "facts", "facts"])
    facts = [{"update": hostile_value(chance)}, {"texts": [{"path": "/dev/zero", "bytes": 1, "sha256": ""}]}]
    facts += [
        {chance.choice(["pairs", "texts", "corpora", "progress"]): hostile_value(chance)},
        hostile_value(chance),
    ]
    nested = chance.choice(["[", '{"a":']) * DEEP
    metadata[key] = chance.choice(
        [
            json.dumps(chance.choice(facts)),
            nested,
            "9" * DEEP,
            '{"update": ' + "9" * DEEP + "}",
            hostile_value(chance),
        ]
    )
    return build_tensor_file(header, rest)


def mutate_toml(data: bytes, chance: random.Random) -> bytes:
    """Replace a value of a configuration, or append an invalid line."""
    if chance.random() < 0.3:
        junk = [b"a = " + b"[" * DEEP, b"a = " + b"9" * DEEP, b'a = "\xff"', b"\0", b"a.b.c = 1", b"[model]"]
        return data + b"\n" + chance.choice(junk) + b"\n"
    tree = tomllib.loads(data.decode())
    section = tree[chance.choice(list(tree))]
    section[chance.choice(list(section))] = hostile_value(chance)
    try:
        return tomli_w.dumps(tree).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError):
        return mutate_bytes(data, chance)


def sync_config_file(files: Folder) -> None:
    """Copy the configuration of the weights file to config.toml, where both are valid."""
    try:
        tree = json.loads(parse_tensor_file(files[WEIGHTS])[0]["__metadata__"]["config"])
        files[CONFIG] = tomli_w.dumps(tree).encode("utf-8", "surrogatepass")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def mutate_file_bytes(files: Folder, name: str, chance: random.Random) -> None:
    """Change single bytes of a file, mostly of its header."""
    last = chance.choice([16, 4_000, None]) if name.endswith(".safetensors") else None
    files[name] = mutate_bytes(files[name], chance, last=last)


Change = Callable[[bytes, random.Random], bytes]
CHANGES: list[tuple[int, Change]] = [
    (4, mutate_header),
    (5, mutate_tensors),
    (3, mutate_metadata),
    (6, resize_model),
]


def mutate_weights(files: Folder, name: str, chance: random.Random) -> None:
    """Apply one mutation to a tensor file."""
    kind = chance.choices(
        ["bytes", "config", *(change for _, change in CHANGES)], [3, 5, *(n for n, _ in CHANGES)]
    )[0]
    if kind == "bytes":
        mutate_file_bytes(files, name, chance)
    elif kind == "config":
        mutate_config(files, name, chance)
    else:
        assert callable(kind)
        files[name] = kind(files[name], chance)


SEARCH = "search.json"
KINDS = ["weights", "trainer", "config", "search"]


def mutate_folder(original: Folder, chance: random.Random) -> Folder:
    """Return a run folder with one mutated file."""
    files = dict(original)
    what = chance.choices(KINDS, [10, 1, 2, 1])[0]
    if what == "search":
        files[SEARCH] = mutate_bytes(b'{"length_penalty":0.5,"beam":4}', chance)
    elif what == "config":
        change: Change = chance.choice([mutate_toml, mutate_bytes])
        files[CONFIG] = change(files[CONFIG], chance)
    else:
        name = TRAINER if what == "trainer" else WEIGHTS
        mutate_weights(files, name, chance)
        if name == WEIGHTS and chance.random() < 0.5:
            sync_config_file(files)
    return files
