"""What given texts cost a model: the words that readers and those who ask them share.

A reader is the counterpart of an engine: it takes bytes as they are instead of searching for better ones.
Knows no models and no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]


class Reading(NamedTuple):
    """log_p (n,) float64: each byte's natural log-probability after those before it; rank (n,) int64: how
    many bytes were likelier, or as likely and of lower value."""

    log_p: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int64]


class Stream(Protocol):
    """One text without a source and without an end, from its start on; all 256 bytes are data."""

    def read(self, data: bytes) -> Reading:
        """What the next bytes cost, at least one. How a text is cut changes nothing but the rounding."""
        ...


class Reader(Protocol):
    """One model, or several that decide together by the mean of their probabilities."""

    def stream(self) -> Stream:
        """A stream's beginning."""
        ...

    def texts(self, sources: Sequence[bytes] | None, texts: Sequence[bytes]) -> list[Reading]:
        """What texts cost, each from its start on, with EOS where it is one of the bytes in question; none is
        empty. sources: a text's own without EOS; None for models without a source."""
        ...


class Attention(Protocol):
    """What one model attends to while it reads translations."""

    def layers(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[dict[int, Weights]]:
        """(source, text) without EOS, no text empty -> of each layer that attends, by its number counted from
        1, (bytes of the text, bytes of the source + 1): how much each byte's prediction attends to each
        source byte and to its EOS."""
        ...
