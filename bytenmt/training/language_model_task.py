"""Learning a text as a stream of bytes, without a source: windows of it, and validation by bits per byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from bytenmt.architectures.base import Model
from bytenmt.config.facts import Facts, TextFact
from bytenmt.config.schema import Config
from bytenmt.data.corpus import PairFiles
from bytenmt.data.corpus_report import warnings_of_texts
from bytenmt.data.text_file import read_bytes, stored_path
from bytenmt.data.windows import Streams, contiguous, windows
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.errors import ConfigError, DataError
from bytenmt.reporter import Reporter
from bytenmt.training.language_model_objective import text_bits
from bytenmt.training.task import Decoded, Share, changed, corpus_fact, other_text

CPU = torch.device("cpu")


def open_texts(
    config: Config,
    files: Sequence[PairFiles],
    valid: PairFiles,
    device: torch.device,
    group: Group,
    reporter: Reporter,
) -> LanguageModelTask:
    """The task of a run's texts; what they hold, and what looks like a mistake, is told.

    Raises BytenmtError.
    """
    paths = [pair.tgt for pair in (*files, valid) if pair.tgt is not None]
    texts = [Text(path) for path in paths]
    task = LanguageModelTask(config, texts[:-1], texts[-1], device, group)
    if group.is_leader:
        for text in texts:
            reporter.say(f"{text.path}: {len(text.data):,} bytes")
        training = [(text.path, text.data) for text in texts[:-1]]
        for line in warnings_of_texts(training, texts[-1].path, texts[-1].data):
            reporter.warn(line)
    return task


class Text:
    """A file as bytes. data (size,) uint8, mapped where the file is plain."""

    def __init__(self, path: Path) -> None:
        self.path, self.data = path, read_bytes(path)

    def facts(self) -> TextFact:
        """Return the path and the size of the text."""
        return TextFact(stored_path(self.path), len(self.data))


class LanguageModelTask:
    """Texts as streams, for models without a source."""

    def __init__(
        self,
        config: Config,
        texts: Sequence[Text],
        valid: Text,
        device: torch.device = CPU,
        group: Group = SINGLE_PROCESS,
    ) -> None:
        """device: where the model is.

        Raises DataError for a text that is too short, ConfigError for batches that are too small.
        """
        self.config = config
        train = self._settings = config.train
        self._device, self._group = device, group
        self._memory = config.model.is_serial
        if self._memory and train.context:
            raise ConfigError(
                f"train.context would be ignored: {config.model.full_name} carries its state from window"
                " to window; set it to 0"
            )
        if train.teacher_forcing < 1:
            raise ConfigError("train.teacher_forcing below 1 needs a source: leave it at 1")
        width = train.context + train.window
        for text in texts:
            if len(text.data) < width:
                raise DataError(
                    f"{text.path} has {len(text.data)} bytes, less than one window of {width}"
                    " (train.context + train.window): give more text, or lower them"
                )
        if not len(valid.data):
            raise DataError(f"{valid.path} is empty: give a validation text")
        self._streams, self._valid = Streams([text.data for text in texts]), valid
        self._n_rows = train.max_tokens // width
        if self._memory:
            self._n_rows = min(self._n_rows, self._streams.n_bytes // width)
        if self._n_rows < group.size:
            raise ConfigError(
                f"a batch holds {self._n_rows} windows of {width} bytes for {group.size} processes:"
                " raise train.max_tokens, or lower train.window"
            )
        self._training, self._texts = texts, [text.facts() for text in texts]

    def shares(self, epoch: int, batch: int) -> Iterator[Share]:
        """See Task."""
        train, rows = self._settings, self._group.own_indices(self._n_rows)
        while True:
            place = train.seed, epoch, batch
            found = (
                contiguous(self._streams, self._n_rows, rows, train.window, *place)
                if self._memory
                else windows(self._streams, self._n_rows, rows, train.context, train.window, *place)
            )
            for window in found:
                batch += 1
                yield Share(window, epoch, batch, window.epoch_batches)
            epoch, batch = epoch + 1, 0

    def preparing(self, model: Model[Any, Any]) -> AbstractContextManager[None]:
        """See Task: nothing."""
        return nullcontext()

    def score(self, model: Model[Any, Any]) -> dict[str, float | str]:
        """Return the bits per byte of the validation text's first bytes."""
        text = self._valid.data[: self._settings.valid_bytes]
        bits = text_bits(model, text, self._device, self._group)
        return {"valid_bits_per_byte": bits / len(text)}

    def decode(self, model: Model[Any, Any], seconds: float, at_least_some: bool = False) -> Decoded:
        """Decode nothing: there is no source to translate."""
        return Decoded()

    def facts(self) -> Facts:
        """The texts."""
        return Facts(texts=tuple(self._texts), valid=corpus_fact(PairFiles(tgt=self._valid.path)))

    def check(self, run: Path, saved: Facts) -> None:
        """See Task."""
        now = self._texts
        before = saved.texts or now  # a program with a loop of its own may have saved no facts
        if len(before) != len(now):
            told = ", ".join(f"{text.path} of {text.bytes} bytes" for text in before)
            raise other_text(run, told)
        for text, old, new in zip(self._training, before, now, strict=True):
            if old.bytes != new.bytes:
                raise changed(run, text.path)
