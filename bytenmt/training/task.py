"""What a run learns: where its batches come from, and how its validation text is scored.

A task yields batches from a place on and tells the place behind each; who trains moves its progress along.
Does not know architectures, trainers, nor when to validate or stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from bytenmt.config.facts import Facts, StreamPlace
from bytenmt.config.schema import Config
from bytenmt.errors import BytenmtError
from bytenmt.models.base import Model
from bytenmt.speculative.table import Table

CACHE, LEFT_OUT = "cache", "left_out.tsv"  # in the run folder: unpacked texts, pairs that are not used


class Share(NamedTuple):
    """A process' share of a batch. epoch, batch: the place behind it, from which the next one comes. stream:
    where its window lies in the stream that is learnt."""

    data: Any
    epoch: int
    batch: int
    stream: StreamPlace | None = None


class Sample(NamedTuple):
    """A line that was decoded, beside what it should be."""

    source: str
    reference: str
    translation: str


class Validation(NamedTuple):
    """scores: by the names of the log. seconds, decoding_seconds: that it took, and of those that decoding
    took. note: what the scores are of, where that is not what was asked for. samples: a few lines, the same
    every time."""

    scores: dict[str, float | str]
    seconds: float = 0.0
    decoding_seconds: float = 0.0
    note: str = ""
    samples: tuple[Sample, ...] = ()


class Task(Protocol):
    """See TranslationTask and LanguageModelTask.

    config: the run's, with what was to be found in its text.
    """

    config: Config

    def shares(self, epoch: int, batch: int) -> Iterator[Share]:
        """This process' shares of the batches from a place on, epoch after epoch, without end; or to the end
        of a stream, in all processes the same batch."""

    def preparing(self, model: Model[Any, Any]) -> AbstractContextManager[None]:
        """Inside, what validations of the model will need is made ready beside other work."""

    def validate(self, model: Model[Any, Any], seconds: float) -> Validation:
        """Score the validation text by a model in evaluation mode. seconds: that it may take where less can
        be done, inf: all that is asked for. Called by all processes."""

    def facts(self) -> Facts:
        """What a checkpoint tells of the text."""

    def drafts(self) -> Table:
        """Those of the training text."""

    def check(self, run: Path, saved: Facts) -> None:
        """Raise BytenmtError where a run with these facts was trained on other text."""


def changed(run: Path, path: Path) -> BytenmtError:
    return BytenmtError(
        f"{path} is not the text that {run} was trained on, or has changed since: give the files that it"
        " began with, in their order, or -o another folder"
    )


def other_text(run: Path, told: str) -> BytenmtError:
    return BytenmtError(
        f"{run} was trained on other text: {told}; give the files that it began with, or -o another folder"
    )
