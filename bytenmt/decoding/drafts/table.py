"""Drafts: bytes that a text probably goes on with, looked up in a table or copied from the source.

A convolutional decoder verifies several drafted bytes in about the time of one step; a draft may hold any
bytes at all, one that is not accepted costs only time. The table is direct mapped: the chains of bytes that
most often followed a context in the training text, where contexts that hash to one slot compete for it.
`Table.draft` is the reference of the engines, which look up as it does; lookup.py is the same compiled. Knows
bytes and the table's file; knows no models, compiles nothing, and does not know how a table is counted.
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
from bytenmt.config.facts import TEXT_COUNTS, Facts
from bytenmt.config.fingerprint import distinguishing_values
from bytenmt.config.schema import PARALLEL, Config, ModelConfig
from bytenmt.config.untrusted import shown
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.kernel_constants import LONGEST_MATCH as LONGEST_MATCH
from bytenmt.kernel_constants import MOST_DRAFTED
from bytenmt.kernel_constants import ORDERS as ORDERS
from bytenmt.ngram_hash import hash_ngram
from bytenmt.storage.tensor_file import entry, read_arrays, serialised

CHAIN = MOST_DRAFTED  # bytes of a draft at most
FILE, FORMAT = "draft.safetensors", f"bytenmt draft 1, orders {ORDERS}"  # in the run folder
STORED_NAMES = {"chain": "guess", "accepted": "gain"}  # of arrays in the file; the others have their own
# What a run may change between its beginning and its end.
CHANGEABLE = ("max_updates", "max_epochs", "max_minutes", "max_cpu_minutes", "patience", "draft")
# Keys that do not count: tables of older versions do not know them, and a table depends on the text alone.
# This is never extended: a new key goes into config.fingerprint.NEUTRAL.
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


class Draft(NamedTuple):
    """text: the bytes; reach: the chance in 255ths that each of them and all before it are accepted."""

    text: bytes
    reach: tuple[int, ...]


NOTHING = Draft(b"", ())


class DraftTable(NamedTuple):
    """What is drafted after which context. slots: a power of two.

    tag (slots,) uint32: of the context that owns a slot, 0: nobody. chain (slots,) uint64: the drafted
    bytes, the first one lowest, 0 behind the last one. reach (slots, CHAIN) uint8: the chance in 255ths that
    the first j + 1 of them are all right, not growing with j, 0 where nothing is drafted. copy
    (LONGEST_MATCH + 1, CHAIN) uint8: [L, j] the same of what follows in the source a match of L bytes
    (copy[0] = 0; zeros for a run without a source). accepted (CHAIN,) float32: the share of
    held-out positions at which the first j + 1 drafted bytes are right. In the file two of the arrays have
    older names, see STORED_NAMES.
    """

    tag: Array
    chain: Array
    reach: Array
    copy: Array
    accepted: Array

    def draft(self, word: int, source: bytes | None = None) -> Draft:
        """Return what is drafted after a text: the table's chain, or the source's where the sum of its reach
        is larger. word: see ngram_hash.word_of; source: without EOS, None where there is none."""
        own = self.continued(word)
        copied = self.copied(word, source) if source is not None else NOTHING
        return copied if sum(copied.reach) > sum(own.reach) else own

    def continued(self, word: int) -> Draft:
        """The chain of the longest context that has a slot."""
        shift = 64 - (len(self.tag).bit_length() - 1)
        for order in ORDERS:
            h = hash_ngram(word, order)
            slot = h >> shift
            if int(self.tag[slot]) == tag_of(h):
                reach = [value for value in self.reach[slot].tolist() if value]
                chain = int(self.chain[slot]).to_bytes(CHAIN, "little")
                return Draft(chain[: len(reach)], tuple(reach))
        return NOTHING

    def copied(self, word: int, source: bytes) -> Draft:
        """What follows in the source its longest match with the text's end, of equal ones the last; a match
        has a byte behind it."""
        last = word.to_bytes(8, "big")
        length, at = 0, 0
        for end in range(1, len(source)):
            matched = 0
            while matched < min(end, LONGEST_MATCH) and source[end - 1 - matched] == last[7 - matched]:
                matched += 1
            if matched and matched >= length:
                length, at = matched, end
        reach = [value for value in self.copy[length].tolist() if value]
        text = source[at : at + len(reach)] if length else b""
        return Draft(text, tuple(reach[: len(text)]))


@dataclass(frozen=True)
class Speculation:
    """table: of drafts. most: drafted bytes a pass at most, 1 to CHAIN, taken whatever their chance; None: as
    many as pay."""

    table: DraftTable
    most: int | None = None

    def __post_init__(self) -> None:
        if self.most is not None and not 1 <= self.most <= CHAIN:
            raise ValueError(f"most is {self.most}, expected 1 to {CHAIN}")


def tag_of(h: int) -> int:
    """What a slot tells of its owner, never 0."""
    return h & 0xFFFFFFFF | 1


def empty_table(slots: int = 2) -> DraftTable:
    """A table that drafts nothing."""
    return DraftTable(
        np.zeros(slots, np.uint32),
        np.zeros(slots, np.uint64),
        np.zeros((slots, CHAIN), np.uint8),
        np.zeros((LONGEST_MATCH + 1, CHAIN), np.uint8),
        np.zeros(CHAIN, np.float32),
    )


def check_supports_drafts(config: ModelConfig, what: str) -> None:
    """Raise BytenmtError, which begins with `what`, for a model that cannot verify several bytes at once."""
    if config.is_serial:
        raise BytenmtError(
            f"{what}: the steps of {config.full_name} are serial; drafts are for"
            f" {', '.join(PARALLEL[:-1])} and {PARALLEL[-1]}: drop it"
        )


def run_identity(config: Config, facts: Facts) -> str:
    """What tells a run from others, resumed or not: its configuration and its text. facts: what is saved
    beside its weights."""
    tree = distinguishing_values(config)
    for section, added in ADDED.items():
        left_out = added | set(CHANGEABLE if section == "train" else ())
        tree[section] = {key: value for key, value in tree[section].items() if key not in left_out}
    text = [getattr(facts, name) for name in TEXT_COUNTS]
    text += [one.sha256 for one in facts.texts]
    return hashlib.sha256(json.dumps([tree, text], sort_keys=True).encode()).hexdigest()[:16]


def write_table(run: Path, table: DraftTable, config: Config, facts: Facts) -> Path:
    """Into the run folder; returns the file. Raises CheckpointError."""
    path = run / FILE
    told = {"format": FORMAT, "holds": "draft", "run": run_identity(config, facts), "sha256": _digest(table)}
    try:
        replace_synced(
            path, serialised({name: entry(part) for name, part in stored_arrays(table).items()}, told)
        )
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None
    return path


def read_table(run: Path, config: Config, facts: Facts) -> DraftTable:
    """That of the run folder, checked. Raises CheckpointError, which names the file."""
    path = run / FILE
    advice = f"make it anew by `bytenmt draft {run}`"
    try:
        arrays, told = read_arrays(path)
    except OSError as error:
        raise CheckpointError(
            f"{path} is damaged or cut off ({error.strerror or 'it is missing'}): {advice}"
        ) from None
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged or cut off ({error}): {advice}") from None
    if told.get("holds") != "draft" or told.get("format") != FORMAT:
        what = "holds {} in the format {}".format(*(shown(told.get(key)) for key in ("holds", "format")))
        raise CheckpointError(f"{path} {what}, expected a draft table of this version: {advice}")
    if told.get("run") != run_identity(config, facts):
        raise CheckpointError(f"{path} is the draft table of another run: {advice}")
    slots = max(1, arrays["tag"].size if "tag" in arrays else 0)
    shapes = {name: (part.dtype, part.shape) for name, part in stored_arrays(empty_table(slots)).items()}
    if {n: (a.dtype, a.shape) for n, a in arrays.items()} != shapes or slots & (slots - 1):
        raise CheckpointError(f"{path} does not hold the arrays of a draft table: {advice}")
    table = DraftTable(**{field: arrays[STORED_NAMES.get(field, field)] for field in DraftTable._fields})
    if told.get("sha256") != _digest(table):
        raise CheckpointError(f"{path} is damaged (its SHA-256 differs): {advice}")
    if any((part[:, 1:] > part[:, :-1]).any() for part in (table.reach, table.copy)):
        raise CheckpointError(f"{path} holds chances that grow along a draft: {advice}")
    if not ((table.accepted >= 0) & (table.accepted <= 1)).all():
        raise CheckpointError(f"{path} tells shares of accepted bytes that are no shares: {advice}")
    return table


def stored_arrays(table: DraftTable) -> dict[str, Array]:
    """The arrays of a table by their names in its file."""
    return {STORED_NAMES.get(field, field): part for field, part in table._asdict().items()}


def _digest(table: DraftTable) -> str:
    digest = hashlib.sha256()
    for part in table:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()
