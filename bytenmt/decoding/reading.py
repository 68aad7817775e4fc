"""The interface of readers, which score fixed texts: log-probability and rank of every byte.

A reader is the counterpart of an engine, which searches for the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]


class Reading(NamedTuple):
    """The scores of n bytes.

    log_p: (n,) float64, natural log-probability of each byte after those before it. rank: (n,) int64, the
    number of bytes that were likelier, or as likely and of lower value.
    """

    log_p: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int64]


class Stream(Protocol):
    """Scores one text without a source and without an end, from its start on; all 256 bytes are data."""

    def read(self, data: bytes) -> Reading:
        """Score the next bytes, at least one. How a text is split over calls only changes the rounding."""
        ...


class Reader(Protocol):
    """Scores texts by one model, or by the mean probabilities of several."""

    def stream(self) -> Stream:
        """Return a new stream."""
        ...

    def texts(self, sources: Sequence[bytes] | None, texts: Sequence[bytes]) -> list[Reading]:
        """Score texts, none of them empty, each from its start on.

        texts: with EOS where it is to be scored. sources: of each text, without EOS; None for models without
        a source.
        """
        ...

    def layers(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[dict[int, Weights]]:
        """Return the attention weights of each pair (source, text) without EOS, of which no text is empty; of
        a reader of one model that has attention.

        They are (bytes of the text, bytes of the source + 1) for each layer with attention, by its number
        from 1: how much the prediction of each byte attends to each source byte and to its EOS.
        """
        ...
