"""Suggested translations, appended to a file of two columns for each direction."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from pathlib import Path

from bytenmt.errors import BytenmtError
from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import Refusal

MAX_BYTES = 1 << 28  # of a file; more are refused
BLOCK_BYTES = 1 << 16  # in which the last line end of a file is looked for
BREAKS = re.compile(r"[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")  # what would end a column or a line somewhere


class Suggestions:
    """Appends suggested translations to files.

    folder: made if it is missing; has a file such as en-de.tsv for each direction, whose lines `train --tsv`
    takes: source TAB target. Raises BytenmtError where it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BytenmtError(f"--suggestions: {folder} cannot be created: {error.strerror}") from None
        self._folder = folder

    def add(self, direction: Direction, source: str, target: str) -> None:
        """Append a pair of texts.

        Raises Refusal: 400 if one is empty, 403 if the file is full, 507 if it cannot be written in full; the
        file then stays as it was.
        """
        pair = [BREAKS.sub(" ", side).strip() for side in (source, target)]
        if not all(pair):
            raise Refusal(400, "a suggestion needs a text (q) and its translation (s)")
        line = "\t".join(pair).encode() + b"\n"
        path = self._folder / f"{direction}.tsv"
        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)  # servers may share the folder
                _append(file, line)
            finally:
                os.close(file)
        except OSError as error:
            reason = error.strerror or str(error)
            raise Refusal(507, f"the suggestion could not be stored: {reason}") from None


def _append(file: int, line: bytes) -> None:
    """Append a line to a locked file, or leave the file as it was.

    A last line without its end, which a crash may leave, is cut off first. Raises OSError and Refusal (403).
    """
    size = _end_of_lines(file)
    if size + len(line) > MAX_BYTES:
        raise Refusal(403, "the storage for suggestions is full")
    os.ftruncate(file, size)
    try:
        # On a full disk only a part may be written, without an error.
        if os.write(file, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.ftruncate(file, size)
        raise


def _end_of_lines(file: int) -> int:
    """Return the number of bytes of a file up to the end of its last complete line."""
    end = os.fstat(file).st_size
    while end:
        begin = max(0, end - BLOCK_BYTES)
        n_complete = os.pread(file, end - begin, begin).rfind(b"\n") + 1
        if n_complete:
            return begin + n_complete
        end = begin
    return 0
