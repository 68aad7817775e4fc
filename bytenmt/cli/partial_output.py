"""An output file that survives a kill: its complete part is kept beside it, with a note about it.

    .NAME.part          translations of complete blocks of lines, and perhaps a part of the next
    .NAME.part.json     how many lines and bytes are complete, digests of both, and what made them

The note is replaced atomically after its bytes are on the disk, so at any moment of a crash it describes
bytes that are there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
from msgspec import Meta, Struct

from bytenmt.atomic_file import read_limited, replace_synced
from bytenmt.cli.console import writer
from bytenmt.cli.progress import Console
from bytenmt.errors import BytenmtError
from bytenmt.resume_check import check_same_job
from bytenmt.storage.lock import lock

FORMAT = "bytenmt part 1"
MOST_NOTE = 1 << 20  # bytes
EVERY = 1.0  # seconds of work, besides the last block, that a kill may cost: a sync takes milliseconds
ANEW = "or leave out --resume to begin anew"
Count = Annotated[int, Meta(ge=0)]


class Note(Struct, frozen=True, forbid_unknown_fields=True):
    """Description of the complete part of an output file.

    lines: input lines that are done, from the first one on. bytes: of their translations. read: digest of
    these lines. made_with: everything else that the output depends on. written: digest of the translations'
    bytes; empty in notes of versions that did not store it.
    """

    format: str
    lines: Count
    bytes: Count
    read: str
    made_with: dict[str, Any]
    written: str = ""


class Partial:
    """The output of a translation that a later command can continue.

    file: where the next translations are written; n_answered: lines that were done when it was opened.
    """

    def __init__(self, path: Path, file: BinaryIO, made_with: Mapping[str, Any], note: Note | None) -> None:
        """Open the output. path: of the complete file; file: the part, positioned after what the note
        describes.
        """
        self.path, self.file = path, file
        self.n_answered = note.lines if note else 0
        self._begun = self._whole = self._safe = note  # at the beginning, now, and as the disk has it
        self._made_with = dict(made_with)
        self._digest = _new_digest()
        self._written, self._n_digested = _new_digest(), 0  # of the file's first bytes, whose number is known
        self._lines, self._synced = 0, time.monotonic()

    def skip(self, lines: Sequence[bytes]) -> None:
        """Check lines that were done before. Raises BytenmtError if they differ from those of the
        earlier command.
        """
        self._count(lines)
        begun = self._begun
        if begun is not None and self._lines == begun.lines and self._digest.hexdigest() != begun.read:
            raise BytenmtError(
                f"--resume: the first {self._lines:,} lines of the input are not those that {self.path} was"
                f" begun with: give the same input, {ANEW}"
            )

    def add(self, lines: Sequence[bytes]) -> None:
        """Record lines whose translations are all written to the file. Raises OSError."""
        self._count(lines)
        self._whole = Note(FORMAT, self._lines, self.file.tell(), self._digest.hexdigest(), self._made_with)
        if time.monotonic() - self._synced >= EVERY:
            self.sync()

    def sync(self) -> None:
        """Make the complete part survive a crash from now on. Raises OSError."""
        if self._whole is not None and self._whole is not self._safe:
            self.file.flush()
            os.fsync(self.file.fileno())
            _digest_file(self._written, self.file, self._n_digested, self._whole.bytes)
            self._n_digested = self._whole.bytes
            self._whole = msgspec.structs.replace(self._whole, written=self._written.hexdigest())
            replace_synced(note_path(self.path), [msgspec.json.encode(self._whole)])
            self._safe, self._synced = self._whole, time.monotonic()

    def finish(self) -> None:
        """Rename the part to the complete file. Raises BytenmtError if the input ended too early, and
        OSError.
        """
        if self._lines < self.n_answered:
            raise BytenmtError(
                f"--resume: the input has {self._lines:,} lines, and {self.path} was begun with more: give"
                f" the same input, {ANEW}"
            )
        self.sync()
        self.file.flush()
        os.replace(part_path(self.path), self.path)
        note_path(self.path).unlink(missing_ok=True)

    def leave(self) -> None:
        """After an error, keep the complete part and say so, or leave nothing."""
        with suppress(OSError):
            self.sync()
        if self._safe is None:
            with suppress(OSError):
                part_path(self.path).unlink()
        else:
            _say(f"{self._safe.lines:,} translated lines are kept beside {self.path}: --resume goes on")

    def _count(self, lines: Sequence[bytes]) -> None:
        self._lines += len(lines)
        for line in lines:
            self._digest.update(line + b"\n")


def _new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _digest_file(digest: hashlib.blake2b, file: BinaryIO, begin: int, end: int) -> None:
    """Add the bytes from `begin` to `end` of a file to a digest; the file's own position stays."""
    while begin < end:
        data = os.pread(file.fileno(), min(end - begin, 1 << 20), begin)
        if not data:
            return
        digest.update(data)
        begin += len(data)


def part_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def note_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.part.json")


def check_resume(output: Path | None, resume: bool) -> None:
    """Raise BytenmtError if --resume is given without a file that could be continued."""
    if resume and not _is_file(output):
        raise BytenmtError("--resume goes on with a file: give it by -o FILE")


@contextmanager
def keeping_writer(
    output: Path | None, made_with: Callable[[], Mapping[str, Any]], resume: bool
) -> Iterator[tuple[BinaryIO, Partial | None]]:
    """Open the output; yield the file and, for a regular file, the Partial that records progress.

    The part becomes the file if everything went well. made_with: gives what the output depends on as JSON
    values. Raises BytenmtError if another process writes the same file, or if --resume cannot continue it.
    """
    if not _is_file(output):
        with writer(output) as file:
            yield file, None
        return
    assert output is not None
    path = output.resolve()  # a link stays one
    try:
        descriptor = lock(part_path(path), Console())
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise BytenmtError(
            f"{part_path(path)} is a symbolic link, which could lead to any file: delete it"
        ) from None
    if descriptor is None:
        raise BytenmtError(f"another process is writing {path}: wait for it, or give another -o")
    with open(descriptor, "r+b") as file:
        size = os.fstat(descriptor).st_size
        told = msgspec.json.decode(msgspec.json.encode(made_with()))
        note = _continued(path, file, size, told) if resume and size else None
        if note is None:
            _begin_anew(path, size)
        os.truncate(descriptor, note.bytes if note else 0)
        file.seek(0, os.SEEK_END)
        partial = Partial(path, file, told, note)
        try:
            yield file, partial
            partial.finish()
        except BaseException:
            partial.leave()
            raise


def _is_file(output: Path | None) -> bool:
    """Return whether the output is or will be a regular file, not a device or standard output."""
    return output is not None and (output.is_file() or not output.exists())


def _begin_anew(path: Path, size: int) -> None:
    """Delete the part that an earlier command left, with a message if it is not empty."""
    try:
        note = _read(path)
    except BytenmtError:
        note = None
    if size and note is not None and note.lines:
        _say(
            f"beginning anew: the {note.lines:,} lines that a stopped translation left beside {path} are"
            " given up; --resume would have gone on"
        )
    note_path(path).unlink(missing_ok=True)


def _continued(path: Path, file: BinaryIO, size: int, made_with: Mapping[str, Any]) -> Note | None:
    """Return the note to continue from, or None if nothing is complete yet.

    Raises BytenmtError if the note does not fit the options, or the bytes of the part, of which there are
    `size`.
    """
    note = _read(path)
    if note is None:
        return None
    if size < note.bytes:
        raise BytenmtError(
            f"--resume: {part_path(path)} has {size:,} bytes of {note.bytes:,}: it is damaged; leave out"
            " --resume to begin anew"
        )
    check_same_job(path, note.made_with, made_with, ANEW)
    if note.written:
        digest = _new_digest()
        _digest_file(digest, file, 0, note.bytes)
        if digest.hexdigest() != note.written:
            raise BytenmtError(
                f"--resume: {part_path(path)} does not hold what was written (its digest differs): leave out"
                " --resume to begin anew"
            )
    return note


def _read(path: Path) -> Note | None:
    """Return the note of a file's part, or None. Raises BytenmtError if it is damaged."""
    try:
        note = msgspec.json.decode(read_limited(note_path(path), MOST_NOTE), type=Note)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise BytenmtError(
            f"--resume: {note_path(path)} cannot be read ({error}): leave out --resume to begin anew"
        ) from None
    if note.format != FORMAT:
        raise BytenmtError(f"--resume: {note_path(path)} is of another version: leave out --resume")
    return note


def _say(text: str) -> None:
    print(f"bytenmt: {text}", file=sys.stderr, flush=True)
