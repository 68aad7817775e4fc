"""Uploaded documents, and translated ones that are kept for a while until they are downloaded."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from pathlib import PurePosixPath

from bytenmt.documents.formats import FORMATS
from bytenmt.serve.document_worker import DocumentSource
from bytenmt.serve.limits import Refusal
from bytenmt.serve.service import AUTO

KEPT_SECONDS = 600.0
KEPT_BYTES = 1 << 26  # of all files; the oldest ones go first
MAX_NAME_CHARACTERS = 100  # characters


SUFFIXES = tuple(sorted(suffix for one in FORMATS.values() for suffix in one.suffixes))


def document_source(
    name: str, data: bytes, source: str, target: str, column: str = "", into: str = ""
) -> DocumentSource:
    """Return an uploaded file with the format of its suffix.

    source, target: languages. column, into: of a table, the name or number of the column to translate, and of
    the one to write, the same one if empty. Raises Refusal (400) for an unknown suffix, for a table without
    a column and for columns of other files.
    """
    form, suffix = _format_of(name)
    is_table = form in ("csv", "tsv")
    if is_table and not column:
        raise Refusal(
            400, "Invalid request: a table needs a column parameter, the name or number of a column"
        )
    if (column or into) and not is_table:
        raise Refusal(
            400, f"Invalid request: column and into are for CSV and TSV files, and this is a {suffix} file"
        )
    pair = None if source == AUTO else (source, target)
    return DocumentSource(data, form, f"the file{suffix}", pair, column if is_table else None, into or None)


def _format_of(name: str) -> tuple[str, str]:
    """Return the format of an uploaded file, and its suffix. Raises Refusal (400)."""
    suffix = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    if suffix not in SUFFIXES:
        raise Refusal(400, f"unsupported file format: expected one of {', '.join(SUFFIXES)}")
    return next(form for form, one in FORMATS.items() if suffix in one.suffixes), suffix


class DownloadStore:
    """Translated files, kept for ten minutes under names that cannot be guessed. For one thread."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, tuple[float, str, bytes]] = OrderedDict()  # when, name, bytes; by token
        self._n_bytes = 0

    def put(self, name: str, data: bytes) -> str:
        """Store a file and return its path below the server's address."""
        token = secrets.token_urlsafe(16)
        safe = "".join(c if c.isalnum() and c.isascii() or c in "._-" else "_" for c in name)[
            -MAX_NAME_CHARACTERS:
        ]
        self._files[token] = time.monotonic(), safe, data
        self._n_bytes += len(data)
        while self._n_bytes > KEPT_BYTES and len(self._files) > 1:
            self._forget(next(iter(self._files)))
        return f"download_file/{token}/{safe}"

    def get(self, token: str) -> tuple[str, bytes] | None:
        """Return name and bytes of a file, or None if there is none any more."""
        for old in [t for t, (when, _, _) in self._files.items() if when < time.monotonic() - KEPT_SECONDS]:
            self._forget(old)
        found = self._files.get(token)
        return found[1:] if found else None

    def _forget(self, token: str) -> None:
        self._n_bytes -= len(self._files.pop(token)[2])
