"""What a translation is asked for, of which engine, and what it yields: the words that the commands, the
decode loop, the engines and the Translator share. Knows no models, no tensors and no files; imports nothing
heavy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import NamedTuple, Protocol

from bytenmt.config import bounds
from bytenmt.decoding.constraints.constraint import NO_CONSTRAINT, Constraint
from bytenmt.decoding.constraints.span_tracker import SpanTracker
from bytenmt.decoding.names import AUTO as AUTO
from bytenmt.decoding.names import DEVICES as DEVICES
from bytenmt.decoding.names import ENGINES as ENGINES
from bytenmt.decoding.names import OFF as OFF
from bytenmt.decoding.names import PRECISIONS as PRECISIONS
from bytenmt.decoding.setting_table import BOUNDS, SearchSettings
from bytenmt.kernel_constants import CLOSING_COST as CLOSING_COST
from bytenmt.kernel_constants import LOOK_AHEAD as LOOK_AHEAD
from bytenmt.kernel_constants import MOST_DRAFTED as MOST_DRAFTED
from bytenmt.kernel_constants import OPEN_WITHIN as OPEN_WITHIN


@dataclass(frozen=True)
class EngineSpec:
    """The choice of an engine. AUTO stands for what suits the machine: loading.load_runs replaces it.

    engine: one of ENGINES; device: one of DEVICES; precision: one of PRECISIONS, AUTO where the weights files
    decide; threads: of the CPU, None where the engine decides; draft: bytes that are drafted a pass where a
    run has a draft table, AUTO where the engine decides, or OFF. Raises ValueError for anything else.
    """

    engine: str = AUTO
    device: str = AUTO
    precision: str = AUTO
    threads: int | None = None
    draft: str | int = AUTO

    def __post_init__(self) -> None:
        for value, known in ((self.engine, ENGINES), (self.device, DEVICES), (self.precision, PRECISIONS)):
            if value not in (AUTO, *known):
                raise ValueError(f"{value!r} is none of {', '.join((AUTO, *known))}")
        if self.draft not in (AUTO, OFF, *range(1, MOST_DRAFTED + 1)):
            raise ValueError(f"draft is {self.draft!r}, expected {AUTO}, {OFF} or 1 to {MOST_DRAFTED}")
        if self.threads is not None and not bounds.THREADS.hold(self.threads):
            raise ValueError(f"threads is {self.threads!r}, expected {bounds.THREADS}")


@dataclass(frozen=True)
class Options(SearchSettings):
    """What an engine is told of a search: the settings of a user, and what the program adds.

    endless: a text, not a line: line ends are allowed, and it goes on as long as its limit lets it.
    byte_scores: every byte's own log-probability is kept, for Hypothesis.byte_scores.
    tracker: of the spans that are kept, where requests carry constraints; None: they do not.
    Raises ValueError for a number outside its bounds.
    """

    endless: bool = False
    byte_scores: bool = False
    tracker: SpanTracker | None = None

    def __post_init__(self) -> None:
        bounds.check(vars(self), BOUNDS)
        if self.n_best > self.beam:
            raise ValueError(f"n_best {self.n_best}, beam {self.beam}: expected 1 <= n_best <= beam")


class Request(NamedTuple):
    """One sentence to decode.

    source: valid UTF-8 without EOS, None for a model without a source. limit: bytes of output at most, EOS
    not counted. prefix: valid UTF-8 that the output begins with, at most `limit` bytes, a line end only
    where Options.endless; its log-probability is part of the hypothesis'. number: tells its draws from
    those of other requests. constraint: what the output must hold; heeded where Options.tracker is there.
    """

    source: bytes | None
    limit: int
    prefix: bytes = b""
    number: int = 0
    constraint: Constraint = NO_CONSTRAINT


class Hypothesis(NamedTuple):
    """text: bytes without EOS; log_probability: natural log, EOS included, the model's own without mask or
    temperature; score: what it was ranked by, log_probability / (bytes + 1) ** length_penalty, where
    something is owed without the bytes that leave no choice; passes: of the decoder, where some of the bytes
    were drafted, else 0; byte_scores: the natural log-probability of each byte and of EOS, where
    Options.byte_scores asks for them, which sum to log_probability; flags: see constraints.rules, None where
    nothing was asked to be kept."""

    text: bytes
    log_probability: float
    score: float
    passes: int = 0
    byte_scores: tuple[float, ...] = ()
    flags: tuple[str, ...] | None = None


def shared_beginning(texts: Sequence[bytes]) -> bytes:
    """What all texts begin with; one or more."""
    if len(texts) == 1:
        return texts[0]  # which commonprefix would compare with itself, byte by byte
    return commonprefix(list(texts)) or b""


class Engine(Protocol):
    """Sentences decoded side by side, each at its own place. What a sentence yields does not depend on the
    others."""

    capacity: int  # sentences at most

    def room(self) -> int:
        """Sentences that `admit` would take now."""
        ...

    def admit(self, requests: list[Request]) -> list[int]:
        """Encode the sources and begin; at most room() of them. Returns a handle for each."""
        ...

    def advance(self, n_steps: int) -> None:
        """Carry out n steps of all sentences that are not done; with drafts n passes, or as many as probably
        give n bytes."""
        ...

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        """Handles and hypotheses, best first, of the sentences done since the last call; their places are
        free again. Waits for the device."""
        ...

    def drop(self, handle: int) -> None:
        """Let go of a sentence that has not been told by `finished`: its place is free again."""
        ...

    def so_far(self, handle: int) -> bytes:
        """The bytes that a running sentence will surely begin with (beam 1: all chosen ones)."""
        ...
