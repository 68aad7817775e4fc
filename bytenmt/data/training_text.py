"""The text that a run was trained on, found again by what the run tells of it, and checked.

Knows files and the facts of a run; knows no models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bytenmt.data.text_file import read_bytes, restored_path
from bytenmt.errors import DataError

Bytes = npt.NDArray[np.uint8]


def training_text(facts: Mapping[str, Any]) -> list[Bytes]:
    """The streams that a run was trained on, by its facts. Raises DataError where they are not told, or not
    there any more as they were."""
    texts = facts.get("texts")
    if not texts:
        raise DataError("the run does not tell its training text")
    return [_as_it_was(restored_path(text["path"]), text["bytes"], text["sha256"]) for text in texts]


def _as_it_was(path: Path, n_bytes: int, sha256: str) -> Bytes:
    """A file's bytes, checked."""
    data = read_bytes(path)
    if len(data) != n_bytes or hashlib.sha256(data.data).hexdigest() != sha256:
        raise DataError(f"the training text {path} is not what it was")
    return data
