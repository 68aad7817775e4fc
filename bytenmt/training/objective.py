"""The values that objectives give to the training loop.

There are two objectives: pairs to translate (translation.py), and texts as streams of bytes
(language_model.py). They have the same methods, and all processes of a group call every one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Share(NamedTuple):
    """A process' share of a batch, and the position behind it, from which a resumed run goes on."""

    data: Any
    epoch: int
    batch: int  # the next one of the epoch
    epoch_batches: int = 0  # batches of the epoch


class Decoded(NamedTuple):
    """Scores of the decoded validation lines."""

    scores: Mapping[str, Any] = {}  # noqa: RUF012 (never changed); by the names of the log
    n_left_out: int = 0  # lines for which there was no time
    seconds: float = 0.0  # that decoding took
