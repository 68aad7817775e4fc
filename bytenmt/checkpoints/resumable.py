"""Outputs that a later command can continue: a file of translated lines, and a folder of translated blocks.

A file (`ResumableFile`) is written beside its final place, and renamed when it is complete:

    .NAME.part          translations of complete blocks of lines, and perhaps a part of the next
    .NAME.part.json     how many lines and bytes are complete, digests of both, and what made them

The complete file has that note as an extended attribute, where the file system has them: resumed, nothing of
it is done again.

A folder (`Manifest`) has a file for each block:

    OUT/part-000012.jsonl           the rows of a block, complete or not there
    OUT/_bytenmt/job.json           everything that the rows depend on
    OUT/_bytenmt/finished.jsonl     a line for each block that is written, added after its file
    OUT/_bytenmt/12.tries           a byte for each process that began the block
    OUT/_SUCCESS                    empty; is there as soon as, and as long as, all blocks are written

A note is replaced atomically after the bytes that it describes are on the disk, so at any moment of a crash
it describes bytes that are there. Both outputs are locked, and continued only by the job that began them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
from msgspec import Meta, Struct

from bytenmt.atomic_file import SUFFIX, keep_mode, read_limited, replace_synced
from bytenmt.checkpoints.lock import lock
from bytenmt.errors import BytenmtError
from bytenmt.reporter import SILENT, Reporter

NOTE_FORMAT = "bytenmt part 1"
MAX_NOTE_BYTES = 1 << 20
SYNC_SECONDS = 1.0  # of work, besides the last block, that a kill may cost: a sync takes milliseconds
FILE_ALTERNATIVE = "or leave out --resume to start again"
FOLDER, JOB, FINISHED, LOCK = "_bytenmt", "job.json", "finished.jsonl", "lock"
TRIES = ".tries"
SUCCESS = "_SUCCESS"  # as Hadoop and Spark name it; readers of data sets skip names that begin with _
ATTRIBUTE = "user.bytenmt.note"  # of a complete file: its note
FOLDER_ALTERNATIVE = "or give another OUT"
Count = Annotated[int, Meta(ge=0)]


def check_same_job(out: Path, begun: Mapping[str, Any], now: Mapping[str, Any], alternative: str) -> None:
    """Raise BytenmtError, which names the first difference, where a resumed job is another than was begun.

    out: the output, for the message; begun, now: JSON values of everything that the output depends on, by
    name; alternative: what to do instead of giving the same again.

    >>> check_same_job(Path("out"), {"beam": 1}, {"beam": 2}, "or anew")
    Traceback (most recent call last):
    bytenmt.errors.BytenmtError: --resume: out was started with beam 1, not 2: give the same again, or anew
    """
    for name in sorted(begun.keys() | now.keys()):
        before, after = begun.get(name), now.get(name)
        if before != after:
            is_long = isinstance(before, list | dict)  # as the digests of models
            what = f"another {name.removesuffix('s')}" if is_long else f"{name} {before}, not {after}"
            raise BytenmtError(f"--resume: {out} was started with {what}: give the same again, {alternative}")


def _as_json_values(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description as it is read back from a JSON file."""
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(description))
    return values


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


class ResumableFile:
    """The output of a translation that a later command can continue.

    file: where the next translations are written; n_answered: lines that were done when it was opened.
    """

    def __init__(
        self,
        path: Path,
        file: BinaryIO,
        made_with: Mapping[str, Any],
        note: Note | None,
        reporter: Reporter,
        is_finished: bool = False,
    ) -> None:
        """Open the output.

        path: of the complete file; file: the part, positioned after what the note describes. is_finished:
        whether the part is a copy of a complete file.
        """
        self._is_finished = is_finished
        self.path, self.file, self._reporter = path, file, reporter
        self.n_answered = note.lines if note else 0
        self._begun = self._whole = self._safe = note  # at the beginning, now, and as the disk has it
        self._made_with = dict(made_with)
        self._digest = _new_digest()
        self._written, self._n_digested = _new_digest(), 0  # of the file's first bytes, whose number is known
        self._lines, self._synced = 0, time.monotonic()

    def skip(self, lines: Sequence[bytes]) -> None:
        """Check lines that were done before.

        Raises BytenmtError if they differ from those of the earlier command.
        """
        self._count(lines)
        begun = self._begun
        if begun is not None and self._lines == begun.lines and self._digest.hexdigest() != begun.read:
            raise BytenmtError(
                f"--resume: the first {self._lines:,} lines of the input differ from those that {self.path}"
                f" was started with: give the same input, {FILE_ALTERNATIVE}"
            )

    def add(self, lines: Sequence[bytes]) -> None:
        """Record lines whose translations are all written to the file. Raises OSError."""
        self._count(lines)
        self._whole = Note(
            NOTE_FORMAT, self._lines, self.file.tell(), self._digest.hexdigest(), self._made_with
        )
        if time.monotonic() - self._synced >= SYNC_SECONDS:
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
        """Rename the part to the complete file.

        Raises BytenmtError if the input ended too early, and OSError.
        """
        if self._lines < self.n_answered:
            raise BytenmtError(
                f"--resume: the input has {self._lines:,} lines, fewer than when {self.path} was started:"
                f" give the same input, {FILE_ALTERNATIVE}"
            )
        if self._is_finished and self._whole is self._begun:
            self._delete_part()
            self._reporter.say(
                f"bytenmt: {self.path} is complete: its {self.n_answered:,} lines are not translated again"
            )
            return
        self.sync()
        self.file.flush()
        if self._whole is not None:
            _store_note(self.file, self._whole)
        keep_mode(self.file.fileno(), self.path)
        os.replace(part_path(self.path), self.path)
        note_path(self.path).unlink(missing_ok=True)

    def leave(self) -> None:
        """After an error, keep the complete part and say so, or leave nothing."""
        with suppress(OSError):
            self.sync()
        if self._safe is None or (self._is_finished and self._safe is self._begun):
            with suppress(OSError):
                self._delete_part()
        else:
            self._reporter.say(
                f"bytenmt: {self._safe.lines:,} translated lines are saved beside {self.path}: continue"
                f" with --resume"
            )

    def _delete_part(self) -> None:
        note_path(self.path).unlink(missing_ok=True)
        part_path(self.path).unlink(missing_ok=True)

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
    """Return the path of the unfinished output beside a file, .NAME.part."""
    return path.with_name(f".{path.name}.part")


def note_path(path: Path) -> Path:
    """Return the path of the note about the part of a file."""
    return path.with_name(f".{path.name}.part.json")


@contextmanager
def open_resumable_file(
    path: Path, made_with: Callable[[], Mapping[str, Any]], resume: bool, reporter: Reporter = SILENT
) -> Iterator[ResumableFile]:
    """Open the part of a file, which becomes the file if everything goes well.

    made_with: returns everything that the output depends on, as JSON values. Raises BytenmtError if another
    process writes the same file, or if `resume` is true and the part cannot be continued.
    """
    path = path.resolve()  # a link stays one
    try:
        descriptor = lock(part_path(path), reporter)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise BytenmtError(
            f"{part_path(path)} is a symbolic link, which could point to any file: delete it"
        ) from None
    if descriptor is None:
        raise BytenmtError(f"another process is writing {path}: wait for it, or give another -o")
    with open(descriptor, "r+b") as file:
        size = os.fstat(descriptor).st_size
        job_description = _as_json_values(made_with())
        note, is_finished = None, False
        if resume and size:
            note = _note_to_continue(path, part_path(path), file, _read_note(path), job_description)
        elif resume and path.is_file():
            try:
                note = _take_up_finished(path, file, job_description, reporter)
            except BaseException:
                part_path(path).unlink(missing_ok=True)
                raise
            is_finished = note is not None
        if note is None:
            _begin_anew(path, size, reporter)
        os.truncate(descriptor, note.bytes if note else 0)
        file.seek(0, os.SEEK_END)
        output = ResumableFile(path, file, job_description, note, reporter, is_finished)
        try:
            yield output
            output.finish()
        except BaseException:
            output.leave()
            raise


def _begin_anew(path: Path, size: int, reporter: Reporter) -> None:
    """Delete the part that an earlier command left, with a message if it is not empty."""
    try:
        note = _read_note(path)
    except BytenmtError:
        note = None
    if size and note is not None and note.lines:
        reporter.say(
            f"bytenmt: starting again: the {note.lines:,} lines that an interrupted translation left beside"
            f" {path} are discarded; --resume would have continued it"
        )
    note_path(path).unlink(missing_ok=True)


def _store_note(file: BinaryIO, note: Note) -> None:
    """Store the note of a complete file as an attribute of it, where the system can."""
    with suppress(OSError, AttributeError):
        os.setxattr(file.fileno(), ATTRIBUTE, msgspec.json.encode(note))


def _take_up_finished(
    path: Path, part: BinaryIO, made_with: Mapping[str, Any], reporter: Reporter
) -> Note | None:
    """Copy a complete file to its part, so that lines that were added to the input are translated, too.

    Returns its note, None if it has none: then it is written anew. Raises BytenmtError if the note does not
    fit the options or the file.
    """
    with open(path, "rb") as file:
        try:
            stored = msgspec.json.decode(os.getxattr(file.fileno(), ATTRIBUTE), type=Note)
        except (OSError, AttributeError, msgspec.MsgspecError):
            reporter.say(f"bytenmt: {path} exists, but not how it was made: all lines are translated again")
            return None
        note = _note_to_continue(path, path, file, stored, made_with)
        shutil.copyfileobj(file, part)
        part.flush()
    return note


def _note_to_continue(
    path: Path, written: Path, file: BinaryIO, note: Note | None, made_with: Mapping[str, Any]
) -> Note | None:
    """Return the note to continue from, or None if nothing is complete yet.

    path: of the output; written, file: of its part, or of itself. Raises BytenmtError if the note does not
    fit the options, or the bytes of the file.
    """
    if note is None:
        return None
    size = os.fstat(file.fileno()).st_size
    if size < note.bytes:
        raise BytenmtError(
            f"--resume: {written} has {size:,} bytes instead of {note.bytes:,} and is damaged: leave out"
            f" --resume to start again"
        )
    check_same_job(path, note.made_with, made_with, FILE_ALTERNATIVE)
    if note.written:
        digest = _new_digest()
        _digest_file(digest, file, 0, note.bytes)
        if digest.hexdigest() != note.written:
            raise BytenmtError(
                f"--resume: {written} was changed since it was written (its digest differs): leave"
                f" out --resume to start again"
            )
    return note


def _read_note(path: Path) -> Note | None:
    """Return the note of a file's part, or None. Raises BytenmtError if it is damaged."""
    try:
        note = msgspec.json.decode(read_limited(note_path(path), MAX_NOTE_BYTES), type=Note)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise BytenmtError(
            f"--resume: {note_path(path)} cannot be read ({error}): leave out --resume to start again"
        ) from None
    if note.format != NOTE_FORMAT:
        raise BytenmtError(
            f"--resume: {note_path(path)} was written by another version: leave out --resume to start again"
        )
    return note


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

    def mark_complete(self, is_complete: bool) -> None:
        """Create or remove the file that tells other programs that no part is missing. Raises OSError."""
        marker = self.out / SUCCESS
        if is_complete:
            marker.touch()
        else:
            marker.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._file)

    def part(self, number: int) -> Path:
        return block_path(self.out, number, self.suffix)

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


def block_path(out: Path, number: int, suffix: str) -> Path:
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
    process writes there, if there is a job and `resume` is false, and if that job is another one.
    """
    try:
        (out / FOLDER).mkdir(parents=True, exist_ok=True)
        file = lock(out / FOLDER / LOCK, reporter)
    except OSError as error:
        raise BytenmtError(f"cannot write into {out}: {error.strerror}") from None
    if file is None:
        raise BytenmtError(f"another job is writing {out}: wait for it, {FOLDER_ALTERNATIVE}")
    try:
        _check_job(out, _as_json_values(job_description), resume)
        manifest = Manifest(out, suffix)
        try:
            yield manifest
        finally:
            manifest.close()
            _remove_temporary(out)
    finally:
        os.close(file)


def _check_job(out: Path, job_description: Mapping[str, Any], resume: bool) -> None:
    """Store the description of a new job. Raises BytenmtError if it cannot begin or resume there."""
    job = out / FOLDER / JOB
    try:
        before = msgspec.json.decode(job.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        if any(not one.name.startswith(("_", ".")) for one in out.iterdir()):
            raise BytenmtError(f"{out} contains other files: give an empty folder, or a new one") from None
        replace_synced(job, [msgspec.json.encode(job_description)])
        return
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise BytenmtError(f"{job} cannot be read ({error}): remove {out}, {FOLDER_ALTERNATIVE}") from None
    if not resume:
        raise BytenmtError(
            f"{out} holds a job already: continue it with --resume, which repeats nothing that is finished,"
            f" remove it, {FOLDER_ALTERNATIVE}"
        )
    check_same_job(out, before, job_description, FOLDER_ALTERNATIVE)


def _line(one: FinishedBlock) -> bytes:
    return msgspec.json.encode(one) + b"\n"


def _remove_temporary(out: Path) -> None:
    """Remove files that a killed process was writing, and the counts of tries."""
    for path in chain(out.glob(f".part-*{SUFFIX}"), (out / FOLDER).glob(f"*{TRIES}")):
        with suppress(OSError):
            path.unlink()
