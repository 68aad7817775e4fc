"""Suggested translations, appended to a file of two columns for each direction."""

from __future__ import annotations

import os
import re
from pathlib import Path

from bytenmt.errors import BytenmtError
from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import Refusal

MAX_BYTES = 1 << 28  # of a file; more are refused
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
        """Append a pair of texts. Raises Refusal (400) if one is empty, (403) if the file is full."""
        pair = [BREAKS.sub(" ", side).strip() for side in (source, target)]
        if not all(pair):
            raise Refusal(400, "a suggestion needs a text (q) and its translation (s)")
        line = "\t".join(pair).encode() + b"\n"
        path = self._folder / f"{direction}.tsv"
        # One write at the end of the file: lines of several processes do not mix.
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            if os.fstat(file).st_size + len(line) > MAX_BYTES:
                raise Refusal(403, "the storage for suggestions is full")
            os.write(file, line)
        finally:
            os.close(file)
