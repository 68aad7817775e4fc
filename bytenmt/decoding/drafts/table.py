"""Draft tables: which bytes probably follow a context, in arrays and in a file of the run folder.

A convolutional decoder verifies several drafted bytes in about the time of one step; a wrong draft costs only
time. The table is direct mapped: contexts of the training text that hash to the same slot compete for it, and
the slot holds the chain of bytes that most often followed its context. lookup.py looks up drafts, counting.py
counts tables.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.atomic_file import replace_synced
from bytenmt.checkpoints.tensor_file import entry, read_arrays, serialise
from bytenmt.config.facts import TEXT_COUNTS, Facts
from bytenmt.config.fingerprint import distinguishing_values
from bytenmt.config.schema import PARALLEL, Config, ModelConfig
from bytenmt.config.untrusted import shown
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.kernel_constants import LONGEST_MATCH as LONGEST_MATCH
from bytenmt.kernel_constants import MOST_DRAFTED
from bytenmt.kernel_constants import ORDERS as ORDERS

CHAIN = MOST_DRAFTED  # bytes of a chain
FILE, FORMAT = "draft.safetensors", f"bytenmt draft 1, orders {ORDERS}"  # in the run folder
STORED_NAMES = {
    "chain": "guess",
    "accepted": "gain",
}  # names of arrays in the file that differ from those of the fields
# Settings that may change when a run is resumed.
CHANGEABLE = ("max_updates", "max_epochs", "max_minutes", "max_cpu_minutes", "patience", "draft")
# Keys that are not part of a run's identity: tables of older versions lack them, and a table depends on the
# text alone. Do not extend this: a new key belongs into config.fingerprint.NEUTRAL.
ADDED = {
    "model": {
        *("n_encoder_sets", "n_decoder_sets", "encoder_dilations", "stacking", "encoder_scale"),
        *("n_encoder_layers", "n_decoder_layers"),
        *("cell", "encoder_reset", "decoder_reset", "reset_context", "read_out_kind"),
        *("attention", "n_locations", "location_softmax", "attention_window", "gaussian"),
        *("encoder_dilations", "decoder_dilations", "encoder", "value_layers", "pooling_width"),
        *("positions", "attention_layers", "attention_scaling", "weight_norm", "unfolding", "recurrent"),
    },
    "data": {"noise", "copy", "stream_window"},
    "train": {
        *("adam_beta1", "adam_lr", "muon_momentum"),
        *("scheduled_sampling", "sampling_k", "sampling_slope", "sampling_floor", "own_bytes"),
    },
}

Array = npt.NDArray[Any]


class DraftTable(NamedTuple):
    """Drafts by context. The number of slots is a power of two.

    tag (slots,) uint32: identifies the context that owns a slot; 0 for an empty slot.
    chain (slots,) uint64: the drafted bytes, the first one lowest, 0 after the last one.
    reach (slots, CHAIN) uint8: the chance in 255ths that the first j + 1 bytes of the chain are all right. It
        does not grow with j, and is 0 after the last byte.
    copy (LONGEST_MATCH + 1, CHAIN) uint8: [n, j] is the chance in 255ths that the j + 1 bytes after a match
        of n bytes in the source are right; zeros for n = 0, and for a run without a source.
    accepted (CHAIN,) float32: the share of held-out positions at which the first j + 1 drafted bytes are
    right.

    In the file two of the arrays have older names, see STORED_NAMES.
    """

    tag: Array
    chain: Array
    reach: Array
    copy: Array
    accepted: Array


@dataclass(frozen=True)
class Speculation:
    """Settings of speculative decoding.

    table: of drafts. most: drafted bytes per pass, 1 to CHAIN, whatever their chance; None for as many as are
    worth their cost.
    """

    table: DraftTable
    most: int | None = None

    def __post_init__(self) -> None:
        if self.most is not None and not 1 <= self.most <= CHAIN:
            raise ValueError(f"most is {self.most}, expected 1 to {CHAIN}")


def empty_table(slots: int = 2) -> DraftTable:
    """Return a table that drafts nothing."""
    return DraftTable(
        np.zeros(slots, np.uint32),
        np.zeros(slots, np.uint64),
        np.zeros((slots, CHAIN), np.uint8),
        np.zeros((LONGEST_MATCH + 1, CHAIN), np.uint8),
        np.zeros(CHAIN, np.float32),
    )


def check_supports_drafts(config: ModelConfig, what: str) -> None:
    """Raise BytenmtError for a model that cannot verify several bytes at once. what: begins the message."""
    if config.is_serial:
        raise BytenmtError(
            f"{what}: {config.full_name} cannot verify drafts, only {', '.join(PARALLEL[:-1])} and"
            f" {PARALLEL[-1]} can: drop it"
        )


def run_identity(config: Config, facts: Facts) -> str:
    """Return a hash that identifies a run by its configuration and its training text, resumed or not. facts:
    those saved with its weights."""
    tree = distinguishing_values(config)
    for section, added in ADDED.items():
        left_out = added | set(CHANGEABLE if section == "train" else ())
        tree[section] = {key: value for key, value in tree[section].items() if key not in left_out}
    text = [getattr(facts, name) for name in TEXT_COUNTS]
    text += [source.sha256 for source in facts.texts]
    return hashlib.sha256(json.dumps([tree, text], sort_keys=True).encode()).hexdigest()[:16]


def write_table(run: Path, table: DraftTable, config: Config, facts: Facts) -> Path:
    """Write the draft table of a run folder; return its path. Raises CheckpointError."""
    path = run / FILE
    metadata = {"format": FORMAT, "holds": "draft"}
    metadata |= {"run": run_identity(config, facts), "sha256": _digest(table)}
    try:
        replace_synced(
            path, serialise({name: entry(part) for name, part in stored_arrays(table).items()}, metadata)
        )
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None
    return path


def read_table(run: Path, config: Config, facts: Facts) -> DraftTable:
    """Read and check the draft table of a run folder. Raises CheckpointError, which names the file."""
    path = run / FILE
    advice = f"make it anew by `bytenmt draft {run}`"
    try:
        arrays, metadata = read_arrays(path)
    except OSError as error:
        raise CheckpointError(
            f"{path} is damaged or cut off ({error.strerror or 'it is missing'}): {advice}"
        ) from None
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged or cut off ({error}): {advice}") from None
    if metadata.get("holds") != "draft" or metadata.get("format") != FORMAT:
        what = "holds {} in the format {}".format(*(shown(metadata.get(key)) for key in ("holds", "format")))
        raise CheckpointError(f"{path} {what}, expected a draft table of this version: {advice}")
    if metadata.get("run") != run_identity(config, facts):
        raise CheckpointError(f"{path} is the draft table of another run: {advice}")
    slots = max(1, arrays["tag"].size if "tag" in arrays else 0)
    shapes = {name: (part.dtype, part.shape) for name, part in stored_arrays(empty_table(slots)).items()}
    if {n: (a.dtype, a.shape) for n, a in arrays.items()} != shapes or slots & (slots - 1):
        raise CheckpointError(f"{path} does not hold the arrays of a draft table: {advice}")
    table = DraftTable(**{field: arrays[STORED_NAMES.get(field, field)] for field in DraftTable._fields})
    if metadata.get("sha256") != _digest(table):
        raise CheckpointError(f"{path} is damaged (its SHA-256 differs): {advice}")
    if any((part[:, 1:] > part[:, :-1]).any() for part in (table.reach, table.copy)):
        raise CheckpointError(f"{path} is damaged (its acceptance rates grow along a draft): {advice}")
    if not ((table.accepted >= 0) & (table.accepted <= 1)).all():
        raise CheckpointError(f"{path} is damaged (its acceptance rates are not between 0 and 1): {advice}")
    return table


def stored_arrays(table: DraftTable) -> dict[str, Array]:
    """Return the arrays of a table by their names in its file."""
    return {STORED_NAMES.get(field, field): part for field, part in table._asdict().items()}


def _digest(table: DraftTable) -> str:
    digest = hashlib.sha256()
    for part in table:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()
