"""The interface of engines: their choice, the options of a search, requests and hypotheses.

Imports nothing heavy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from bytenmt.decoding.setting_table import AUTO as AUTO
from bytenmt.decoding.setting_table import EngineSpec as EngineSpec
from bytenmt.decoding.setting_table import Options as Options

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # as of Python 3.13

    TextT = TypeVarWithDefault("TextT", bytes, str, default=bytes)
else:
    TextT = TypeVar("TextT")


class Request(NamedTuple):
    """One sentence to decode.

    source: valid UTF-8 without EOS, None for a model without a source; each sentinel in it is written once.
    limit: bytes of output at most, EOS not counted. prefix: valid UTF-8 that the output begins with, at most
    `limit` bytes, with sentinels of the source, a line end only where Options.endless; its log-probability is
    part of the hypothesis'.
    number: the random draws depend on it. pairs: numbers of sentinels, the first of which is written before
    the second.
    """

    source: bytes | None
    limit: int
    prefix: bytes = b""
    number: int = 0
    pairs: tuple[tuple[int, int], ...] = ()


class Hypothesis(NamedTuple, Generic[TextT]):
    """A translation and its scores.

    text: without EOS; bytes, or str where a program gave a str. log_probability: natural, EOS included, the
    model's own without mask or temperature. score: for ranking, log_probability / (bytes + 1) **
    length_penalty, where a sentinel in place of EOS costs no more than EOS. byte_scores: the natural
    log-probability of each byte and of EOS, which sum to log_probability, where Options.byte_scores asks for
    them. flags: see line_batch and confidence; None where nothing was checked. is_past_end: whether the model
    would have ended the text earlier, while sentinels were pending.
    """

    text: TextT
    log_probability: float
    score: float
    byte_scores: tuple[float, ...] = ()
    flags: tuple[str, ...] | None = None
    is_past_end: bool = False

    @property
    def bits_per_byte(self) -> float | None:
        """Bits per byte of the text, with those of EOS; None for an empty text."""
        n_bytes = len(self.text.encode() if isinstance(self.text, str) else self.text)
        return -self.log_probability / math.log(2) / n_bytes if n_bytes else None


class Engine(Protocol):
    """Decodes sentences side by side, each in a slot.

    The output of a sentence does not depend on the others.
    """

    capacity: int  # sentences at most

    def room(self) -> int:
        """Return the number of sentences that `admit` would take now."""
        ...

    def admit(self, requests: list[Request]) -> list[int]:
        """Encode the sources of at most room() requests and begin to decode. Return a handle for each."""
        ...

    def advance(self, n_steps: int) -> None:
        """Decode n steps of all sentences that are not done."""
        ...

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        """Return handles and hypotheses, best first, of the sentences done since the last call, whose slots
        are free again. Waits for the device."""
        ...

    def drop(self, handle: int) -> None:
        """Abandon a sentence that `finished` has not returned; its slot is free again."""
        ...

    def so_far(self, handle: int) -> bytes:
        """Return the bytes of a running sentence so far; for beam 1."""
        ...
