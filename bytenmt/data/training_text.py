"""Find the text that a run was trained on again, and check that it has not changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bytenmt.config.facts import TextFact
from bytenmt.data.text_file import read_bytes, restored_path
from bytenmt.errors import DataError

Bytes = npt.NDArray[np.uint8]


def training_text(texts: Sequence[TextFact]) -> list[Bytes]:
    """Return the streams that a run was trained on.

    Raises DataError if the run names none, or they have changed.
    """
    if not texts:
        raise DataError("the run does not record its training text")
    return [_as_it_was(restored_path(text.path), text.bytes) for text in texts]


def _as_it_was(path: Path, n_bytes: int) -> Bytes:
    """Return a file's bytes after checking their number."""
    data = read_bytes(path)
    if len(data) != n_bytes:
        raise DataError(f"the training text {path} has changed")
    return data
