"""The interface of engines: their choice, the options of a search, requests and hypotheses.

Imports nothing heavy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from bytenmt.decoding.setting_table import AUTO as AUTO
from bytenmt.decoding.setting_table import EngineSpec as EngineSpec
from bytenmt.decoding.setting_table import Options as Options

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # as of Python 3.13

    TextT = TypeVarWithDefault("TextT", bytes, str, default=bytes)
else:
    TextT = TypeVar("TextT")


class Request(NamedTuple):
    """A request to an engine: one sentence to translate, or, without a source, one text to
    generate.

    source: valid UTF-8 without EOS; None for a language model. Its sentinels (bytes 0xF5 to 0xFC
    that stand for spans to be copied, see sentinels.py) are all different; the output gets each of
    them exactly once.
    limit: maximum length of the output in bytes, EOS not counted.
    prefix: valid UTF-8 that the output must begin with, at most `limit` bytes. It may contain
    sentinels of the source, and line ends if Options.endless; its log-probability is part of the
    hypothesis'.
    number: identifies the text for sampling: the random numbers depend on it, not on the batch.
    pairs: pairs of sentinel numbers, from 0 (an opening and its closing tag); the first of a pair
    must be written before the second.
    """

    source: bytes | None
    limit: int
    prefix: bytes = b""
    number: int = 0
    pairs: tuple[tuple[int, int], ...] = ()


class Hypothesis(NamedTuple, Generic[TextT]):
    """One output text of a search, with its scores.

    text: without EOS; bytes, or str where the caller gave a str.
    log_probability: natural logarithm of the probability of the text and EOS, by the model itself,
    without mask or temperature.
    score: ranks hypotheses, the highest first: log_probability / (bytes + 1) ** length_penalty,
    except that a sentinel written instead of a likelier EOS costs only as much as EOS. A Reranker
    changes it.
    flags: names of suspected faults, such as "placement" (see line_batch and confidence); None
    where nothing was checked.
    is_past_end: whether the model would have ended the text while sentinels of the source were
    missing.
    """

    text: TextT
    log_probability: float
    score: float
    flags: tuple[str, ...] | None = None
    is_past_end: bool = False

    @property
    def bits_per_byte(self) -> float | None:
        """Bits (-log2 of the probability) of the text and EOS, per byte of the text; None if it is
        empty."""
        n_bytes = len(self.text.encode() if isinstance(self.text, str) else self.text)
        return -self.log_probability / math.log(2) / n_bytes if n_bytes else None
