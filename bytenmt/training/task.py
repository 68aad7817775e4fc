"""The interface of a training task: its batches, and the scores of its validation text.

A task yields batches from a place on and tells the place behind each; the training loop moves its progress
there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from bytenmt.architectures.base import Model
from bytenmt.config.facts import CorpusFact, Facts
from bytenmt.config.schema import Config
from bytenmt.data.corpus import PairFiles
from bytenmt.data.text_file import stored_path
from bytenmt.errors import BytenmtError


class Share(NamedTuple):
    """A process' share of a batch.

    epoch, batch: the position after it, from which the next one comes. epoch_batches: batches of the epoch.
    """

    data: Any
    epoch: int
    batch: int
    epoch_batches: int = 0


class Sample(NamedTuple):
    """A line that was decoded, beside what it should be."""

    source: str
    reference: str
    translation: str


class Decoded(NamedTuple):
    """Scores of the decoded validation lines.

    n_lines: lines decoded. scores: by the names of the log. seconds: time that decoding took. note:
    which lines the scores cover, where not all. samples: a few lines, the same every time.
    """

    n_lines: int = 0
    scores: Mapping[str, float | str] = {}  # noqa: RUF012 (never changed)
    seconds: float = 0.0
    note: str = ""
    samples: tuple[Sample, ...] = ()


class Task(Protocol):
    """See TranslationTask and LanguageModelTask.

    config: the run's, with what was to be found in its text.
    """

    config: Config

    def shares(self, epoch: int, batch: int) -> Iterator[Share]:
        """Yield this process' shares of the batches from a position on, epoch after epoch, without end."""

    def preparing(self, model: Model[Any, Any]) -> AbstractContextManager[None]:
        """Inside, what validations of the model will need is made ready beside other work."""

    def score(self, model: Model[Any, Any]) -> dict[str, float | str]:
        """Return the scores of the validation text under a model in evaluation mode, without decoding.
        Called by all processes."""

    def decode(self, model: Model[Any, Any], seconds: float, at_least_some: bool = False) -> Decoded:
        """Decode lines of the validation text and score them. Called by all processes.

        seconds: time limit, inf for all lines. at_least_some: decode a few lines even if they take longer.
        """

    def facts(self) -> Facts:
        """Return the facts about the text that a checkpoint keeps."""

    def check(self, run: Path, saved: Facts) -> None:
        """Raise BytenmtError where a run with these facts was trained on other text."""


def corpus_fact(files: PairFiles) -> CorpusFact:
    """Return where the files of a corpus lie, as a checkpoint stores it."""
    src, tgt, tsv = (
        None if path is None else stored_path(path) for path in (files.src, files.tgt, files.tsv)
    )
    return CorpusFact(src, tgt, tsv, files.weight)


def changed(run: Path, path: Path) -> BytenmtError:
    return BytenmtError(
        f"{path} is not the text that {run} was trained on, or has changed since: give the files that it"
        f" was started with, in their order, or another folder as -o"
    )


def other_text(run: Path, told: str) -> BytenmtError:
    return BytenmtError(
        f"{run} was trained on other text: {told}; give the files that it was started with, or another"
        f" folder as -o"
    )
