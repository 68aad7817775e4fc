"""Files: their texts translated, kept for a while under names that nobody guesses.

A format is a function; which ones there are is told by whoever makes the server, so that formats that know
documents can take the place of these. Knows bytes and suffixes; knows no HTTP.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from bytenmt.errors import BytenmtError
from bytenmt.serve.limits import Refusal

KEPT_SECONDS = 600.0
KEPT_BYTES = 1 << 26  # of all files; the oldest ones go first
LONGEST_NAME = 100  # characters


class Parsed(NamedTuple):
    """A file as its format read it. texts: to translate; html: whether they are; filled: the file's bytes
    with these translations (as many as texts) in their places."""

    texts: Sequence[str]
    html: bool
    filled: Callable[[Sequence[str]], bytes]


# Of the bytes, and the source and target languages; raises BytenmtError or UnicodeDecodeError for what it
# cannot read.
Format = Callable[[bytes, str, str], Parsed]


def plain_text(data: bytes, source: str, target: str) -> Parsed:
    """Each line is translated; all that is not text stays."""
    return Parsed([data.decode()], False, lambda texts: texts[0].encode())


def page(data: bytes, source: str, target: str) -> Parsed:
    """The text between the tags."""
    return Parsed([data.decode()], True, lambda texts: texts[0].encode())


FORMATS: Mapping[str, Format] = {".txt": plain_text, ".html": page, ".htm": page}


def parsed(name: str, data: bytes, source: str, target: str, formats: Mapping[str, Format]) -> Parsed:
    """A file by its suffix. Raises Refusal (400) for one that is not known, or whose bytes are not such."""
    suffix = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    if suffix not in formats:
        raise Refusal(400, f"files of this kind are not translated: {', '.join(sorted(formats))} are")
    try:
        return formats[suffix](data, source, target)
    except UnicodeDecodeError as error:
        raise Refusal(400, f"the file is not UTF-8: its byte {error.start}") from None
    except BytenmtError as error:
        raise Refusal(400, str(error)) from None


class Shelf:
    """Translated files until they are fetched, for ten minutes at most. For one thread."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, tuple[float, str, bytes]] = OrderedDict()  # when, name, bytes; by token
        self._n_bytes = 0

    def put(self, name: str, data: bytes) -> str:
        """The path, below the server's address, under which a file can be fetched."""
        token = secrets.token_urlsafe(16)
        safe = "".join(c if c.isalnum() and c.isascii() or c in "._-" else "_" for c in name)[-LONGEST_NAME:]
        self._files[token] = time.monotonic(), safe, data
        self._n_bytes += len(data)
        while self._n_bytes > KEPT_BYTES and len(self._files) > 1:
            self._forget(next(iter(self._files)))
        return f"download_file/{token}/{safe}"

    def get(self, token: str) -> tuple[str, bytes] | None:
        """Its name and bytes; None: there is none, or no more."""
        for old in [t for t, (when, _, _) in self._files.items() if when < time.monotonic() - KEPT_SECONDS]:
            self._forget(old)
        found = self._files.get(token)
        return found[1:] if found else None

    def _forget(self, token: str) -> None:
        self._n_bytes -= len(self._files.pop(token)[2])
