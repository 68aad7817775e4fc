"""The index of a run folder, checkpoints.json: which checkpoints are kept, and their rotation."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from bytenmt.atomic_file import read_limited, replace_synced
from bytenmt.checkpoints.tensor_file import Stored
from bytenmt.config.facts import Facts
from bytenmt.config.untrusted import printable, shown
from bytenmt.errors import CheckpointError

FORMAT = "bytenmt 2"
CONFIG, METRICS = "config.toml", "metrics.jsonl"
POINTER, FOLDER = "checkpoints.json", "checkpoints"
OLDER = ("best.safetensors", "last.safetensors", "trainer.safetensors")  # files of "bytenmt 1"
MOST_POINTER, MOST_CONFIG = 1 << 24, 1 << 20  # bytes of checkpoints.json, and of a configuration
OURS = re.compile(r"update-\d{8,}(-2)?(\.trainer)?\.safetensors|\.update-.*\.tmp")


class SavedCheckpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """One checkpoint of the index.

    trainer: None if only the weights are kept, as for the best one when it is older than the last few. slot:
    1, or 2 if an update is saved again while its older files still have the first names.
    """

    update: Annotated[int, Meta(ge=0)]
    weights: Stored
    trainer: Stored | None
    facts: Facts
    slot: Literal[1, 2] = 1

    def weights_name(self) -> str:
        """Return the name of the weights file."""
        return f"update-{self.update:08d}{'' if self.slot == 1 else '-2'}.safetensors"

    def trainer_name(self) -> str:
        """Return the name of the file with the trainer's state."""
        return self.weights_name().replace(".safetensors", ".trainer.safetensors")

    def names(self) -> set[str]:
        return {self.weights_name()} | ({self.trainer_name()} if self.trainer else set())


class Pointer(Struct, frozen=True, forbid_unknown_fields=True, rename={"checkpoints": "kept"}):
    """The contents of checkpoints.json: the kept checkpoints, sorted by update, the best and the last of
    them."""

    format: str
    checkpoints: list[SavedCheckpoint]
    best: int | None
    last: int

    def __post_init__(self) -> None:
        updates = [saved.update for saved in self.checkpoints]
        if not updates or updates != sorted(set(updates)) or self.last != updates[-1]:
            raise ValueError("its updates are out of order")
        if self.best is not None and self.best not in updates:
            raise ValueError("its best update is not kept")

    def find(self, update: int) -> SavedCheckpoint | None:
        return next((saved for saved in self.checkpoints if saved.update == update), None)

    def last_facts(self) -> Facts:
        return self.checkpoints[-1].facts

    def names(self) -> set[str]:
        return {name for saved in self.checkpoints for name in saved.names()}


def has_checkpoint(run: Path) -> bool:
    """Return whether a run has a checkpoint. Raises CheckpointError if an older version trained the run."""
    if (run / POINTER).is_file():
        return True
    if any((run / name).is_file() for name in OLDER):
        raise CheckpointError(f"{run} was written by an older version of bytenmt: train it again")
    return False


def _runs_inside(folder: Path) -> str:
    """Name the runs in a folder that is not a run itself, for a message."""
    with contextlib.suppress(OSError):
        runs = sorted(one for one in folder.iterdir() if (one / POINTER).is_file()) if folder.is_dir() else []
        if runs:
            more = f", or another of its {len(runs)} runs" if len(runs) > 1 else ""
            return f"; did you mean {runs[0]}{more}?"
    return ""


def read_pointer(run: Path) -> Pointer:
    """Read the index of a run folder. Raises CheckpointError."""
    if not has_checkpoint(run):
        if not run.exists():
            raise CheckpointError(f"{run} does not exist: give a run folder or a weights file")
        if not (run / CONFIG).is_file():
            raise CheckpointError(f"{run} is not a run folder: it has no {CONFIG}{_runs_inside(run)}")
        raise CheckpointError(f"{run} has no checkpoint yet: training has not saved anything there")
    path = run / POINTER
    try:
        pointer = msgspec.json.decode(read_limited(path, MOST_POINTER), type=Pointer)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # or neither UTF-8 nor an end
        raise CheckpointError(
            f"{path} is damaged ({printable(str(error))}):"
            f" give -m a weights file of {run / FOLDER}, or train again"
        ) from None
    if pointer.format != FORMAT:
        raise CheckpointError(f"{path} was written by another version: its format is {shown(pointer.format)}")
    return pointer


def write_pointer(run: Path, pointer: Pointer) -> None:
    """Write the index of a run folder atomically. Raises OSError."""
    replace_synced(run / POINTER, [msgspec.json.format(msgspec.json.encode(pointer), indent=1)])


def nearest_update(updates: list[int], update: int) -> int:
    """Return the last of the updates before an update, or else the first one after it."""
    return max((other for other in updates if other < update), default=updates[0])


def choose_slot(before: Pointer | None, new: SavedCheckpoint) -> SavedCheckpoint:
    """Return the checkpoint with a slot whose files the index does not name: the other slot if the same
    update was saved before with different contents."""
    old = before.find(new.update) if before else None
    if old is None:
        return new
    same = old.weights == new.weights and old.trainer in (None, new.trainer)
    other: Literal[1, 2] = 2 if old.slot == 1 else 1
    return msgspec.structs.replace(new, slot=old.slot if same else other)


def rotate(before: Pointer | None, new: SavedCheckpoint, keep: int, best: bool) -> Pointer:
    """Return the index with a new last checkpoint: the last `keep` stay, and the weights of the best one."""
    older = [saved for saved in before.checkpoints if saved.update < new.update] if before else []
    best_update = new.update if best else before.best if before else None
    if best_update is not None and best_update > new.update:
        best_update = None
    all_kept = [*older, new]
    stay = [kept for kept in all_kept[:-keep] if kept.update == best_update]
    stay = [msgspec.structs.replace(kept, trainer=None) for kept in stay]
    return Pointer(FORMAT, stay + all_kept[-keep:], best_update, new.update)


def delete_unlisted(run: Path, written: list[Path]) -> None:
    """Delete the files of a failed save, unless the index names them already."""
    named = read_pointer(run).names() if has_checkpoint(run) else set()
    for path in written:
        if path.name not in named:
            with contextlib.suppress(OSError):
                path.unlink()


def delete_stale(run: Path, pointer: Pointer) -> None:
    """Delete checkpoints that the index does not name, and temporary files of killed processes.

    Files with other names stay. A file that cannot be deleted is tried again by the next save.
    """
    gone = [path for path in (run / FOLDER).glob("*") if OURS.fullmatch(path.name)]
    gone += [path for name in (POINTER, CONFIG, METRICS) for path in run.glob(f".{name}.*.tmp")]
    for path in gone:
        if path.name not in pointer.names():
            with contextlib.suppress(OSError):
                path.unlink()
