"""The manifest of a job: which blocks of a data set are finished, so that a stopped job can resume.

    OUT/part-000012.jsonl           the rows of a block, whole or not there
    OUT/_bytenmt/job.json           all that the rows depend on
    OUT/_bytenmt/finished.jsonl     a line for each block that is written, added behind its file
    OUT/_bytenmt/12.tries           a byte for each process that began the block

A block is finished if it has a line and its file has the size that the line states.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bytenmt.atomic_file import SUFFIX, replace_synced
from bytenmt.errors import BytenmtError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.resume_check import check_same_job
from bytenmt.storage.lock import lock

FOLDER, JOB, FINISHED, LOCK = "_bytenmt", "job.json", "finished.jsonl", "lock"
TRIES = ".tries"
ANEW = "or give another OUT"


class FinishedBlock(Struct, frozen=True):
    """A block that was written.

    bytes: of its file. rows: their number. failed: rows without a translation. text_bytes: of the texts.
    """

    number: int
    bytes: int
    rows: int
    failed: int
    text_bytes: int


class Manifest:
    """The finished blocks of a job. finished: by their numbers."""

    def __init__(self, out: Path, suffix: str) -> None:
        """Read the manifest, drop incomplete blocks and remove temporary files. suffix: of the parts."""
        self.out, self.suffix = out, suffix
        self._path = out / FOLDER / FINISHED
        self.finished = {one.number: one for one in self._read() if self._is_whole(one)}
        _remove_temporary(out)
        replace_synced(self._path, [_line(one) for one in self.finished.values()])
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def add(self, one: FinishedBlock) -> None:
        """Record a block whose file is written. Raises OSError."""
        os.write(self._file, _line(one))
        (self.out / FOLDER / f"{one.number}{TRIES}").unlink(missing_ok=True)
        self.finished[one.number] = one

    def close(self) -> None:
        os.close(self._file)

    def part(self, number: int) -> Path:
        return part_path(self.out, number, self.suffix)

    def _read(self) -> Iterator[FinishedBlock]:
        with suppress(FileNotFoundError):
            for line in self._path.read_bytes().split(b"\n"):
                with suppress(msgspec.MsgspecError):  # the last line of a process that was killed
                    yield msgspec.json.decode(line, type=FinishedBlock)

    def _is_whole(self, one: FinishedBlock) -> bool:
        try:
            return self.part(one.number).stat().st_size == one.bytes
        except OSError:
            return False


def part_path(out: Path, number: int, suffix: str) -> Path:
    """Return the path of a block's file; the names sort in the order of the rows."""
    return out / f"part-{number:08}{suffix}"


def count_try(out: Path, number: int) -> int:
    """Count one more try of a block and return the number of tries. Raises OSError."""
    with open(out / FOLDER / f"{number}{TRIES}", "ab") as file:
        file.write(b".")
        return file.tell()


@contextmanager
def open_manifest(
    out: Path, suffix: str, job_description: Mapping[str, Any], resume: bool, reporter: Reporter = SILENT
) -> Iterator[Manifest]:
    """Open or create the manifest of a folder.

    job_description: JSON values of everything that the output depends on. Raises BytenmtError if another
    process writes there, if there is an unfinished job and `resume` is false, and if that job is another one.
    """
    try:
        (out / FOLDER).mkdir(parents=True, exist_ok=True)
        file = lock(out / FOLDER / LOCK, reporter)
    except OSError as error:
        raise BytenmtError(f"cannot write into {out}: {error.strerror}") from None
    if file is None:
        raise BytenmtError(f"another job is writing {out}: wait for it, {ANEW}")
    try:
        _check(out, msgspec.json.decode(msgspec.json.encode(job_description)), resume)
        manifest = Manifest(out, suffix)
        try:
            yield manifest
        finally:
            manifest.close()
            _remove_temporary(out)
    finally:
        os.close(file)


def _check(out: Path, job_description: Mapping[str, Any], resume: bool) -> None:
    """Store the description of a new job. Raises BytenmtError if it cannot begin or resume there."""
    job = out / FOLDER / JOB
    try:
        before = msgspec.json.decode(job.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        if any(not one.name.startswith(("_", ".")) for one in out.iterdir()):
            raise BytenmtError(
                f"{out} has files of something else: give an empty folder, or a new one"
            ) from None
        replace_synced(job, [msgspec.json.encode(job_description)])
        return
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise BytenmtError(f"{job} cannot be read ({error}): remove {out}, {ANEW}") from None
    if not resume:
        raise BytenmtError(f"{out} has been begun: --resume goes on with it; else remove it, {ANEW}")
    check_same_job(out, before, job_description, ANEW)


def _line(one: FinishedBlock) -> bytes:
    return msgspec.json.encode(one) + b"\n"


def _remove_temporary(out: Path) -> None:
    """Remove files that a killed process was writing, and the counts of tries."""
    for path in chain(out.glob(f".part-*{SUFFIX}"), (out / FOLDER).glob(f"*{TRIES}")):
        with suppress(OSError):
            path.unlink()
