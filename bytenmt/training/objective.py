"""The interface of a training objective: batches, their gradients, and scores of the validation text.

There are two: pairs to translate (translation.py), and texts as streams of bytes (language_model.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.config.facts import CorpusFact, Facts
from bytenmt.config.schema import Config
from bytenmt.data.corpus import PairFiles
from bytenmt.data.text_file import stored_path


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


class Objective(Protocol):
    """See TranslationObjective and LanguageModelObjective. All processes of a group call every method."""

    config: Config  # the run's, with what was to be found in its text

    def shares(self, epoch: int, batch: int) -> Iterator[Share]:
        """Yield this process' shares of the batches from a position on, epoch after epoch, without end."""

    def gradients(
        self, model: Model[Any, Any], batches: Sequence[Any], target_bytes: int, n_splits: int
    ) -> Tensor:
        """Run forward and backward on this process' batches; return the summed nats, float64 on the device.

        Rows go through the model in n_splits parts; the summed loss is divided by target_bytes.
        """

    def n_rows(self, batch: Any) -> int:
        """Return the number of rows of a batch."""

    def score(self, model: Model[Any, Any]) -> dict[str, Any]:
        """Return the scores of the validation text under a model in evaluation mode, without decoding."""

    def decode(self, model: Model[Any, Any], seconds: float) -> Decoded:
        """Decode lines of the validation text and score them. seconds: time limit, inf for all lines."""

    def facts(self) -> Facts:
        """Return the facts about the text that a checkpoint keeps."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps beside weights and optimiser."""

    def load_state_dict(self, model: Model[Any, Any], carried: Mapping[str, Tensor]) -> None:
        """Continue from the tensors that state_dict returned.

        Raises KeyError or ValueError where they do not fit.
        """


def corpus_fact(files: PairFiles) -> CorpusFact:
    """Return where the files of a corpus lie, as a checkpoint stores it."""
    src, tgt, tsv = (
        None if path is None else stored_path(path) for path in (files.src, files.tgt, files.tsv)
    )
    return CorpusFact(src, tgt, tsv, files.weight)
