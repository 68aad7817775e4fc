"""The interface of scorers, which score fixed texts: log-probability and rank of every byte.

A scorer is the counterpart of an engine, which searches for the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]


class TextScores(NamedTuple):
    """The scores of a fixed text of n bytes by a model."""

    # (n,): natural log-probability of each byte given those before it.
    log_p: npt.NDArray[np.float64]
    # (n,): how many of the 256 bytes the model found likelier (or as likely and of lower value); 0
    # for its first choice.
    rank: npt.NDArray[np.int64]


class Stream(Protocol):
    """Protocol: scores one text piece by piece as it arrives, by language models (no source).

    There is no EOS: all 256 byte values are data.
    """

    def read(self, data: bytes) -> TextScores:
        """Return the scores of `data`, the next bytes of the text, given those of earlier calls.

        data: at least one byte. How a text is split over calls only changes the rounding.
        """
        ...


class Scorer(Protocol):
    """Protocol: scores fixed texts by one model, or by the mean probabilities of several."""

    def open_stream(self) -> Stream:
        """Return a new stream, which scores one text without a source from its beginning."""
        ...

    def score_texts(
        self, sources: Sequence[bytes] | None, texts: Sequence[bytes]
    ) -> list[TextScores]:
        """Return the scores of each text, in their order.

        texts: none empty; EOS is scored only where a text ends with it. sources: the source of each
        text, without EOS; None for models without a source.
        """
        ...

    def attention_weights(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[dict[int, Weights]]:
        """Return the attention weights of each pair (source, text), by layer number from 1.

        Weights are float32 (bytes of the text, bytes of the source + 1): how much the prediction of
        each byte attends to each source byte and, last, to its EOS. pairs: without EOS, no text
        empty. Only for a scorer of a single model that has attention.
        """
        ...
