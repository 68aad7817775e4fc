"""What a run learns from and is validated on: pairs of lines, or texts as streams.

Each opens its files, yields the batches of a trainer's progress, scores the validation text, and knows what a
resume must find again. Does not know architectures, nor when to validate or stop.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bytenmt.config.schema import CONVOLUTIONAL, Config, architecture
from bytenmt.data.batches import batches
from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.data.corpus_report import inventory
from bytenmt.data.epoch_plan import epoch_plan
from bytenmt.data.text_file import check_whole, read_bytes, stored_path
from bytenmt.data.windows import Streams, contiguous, windows
from bytenmt.decoding.loading import of_models
from bytenmt.decoding.translator import Translator
from bytenmt.distributed import ALONE, Group
from bytenmt.errors import BytenmtError, ConfigError, DataError, printable
from bytenmt.evaluation.scores import bits_per_byte, log_probabilities, text_scores
from bytenmt.speculative.build import of_corpus, of_streams
from bytenmt.speculative.table import TEXT_FACTS, Table
from bytenmt.training.language_model_trainer import text_bits
from bytenmt.training.trainer import Trainer

SIDES = "src", "tgt", "tsv"  # of PairFiles
CACHE, LEFT_OUT = "cache", "left_out.tsv"  # in the run folder: unpacked texts, pairs that are not used


class Task(Protocol):
    """See TranslationTask and LanguageModelTask."""

    def shares(self, trainer: Trainer) -> Iterator[Any]:
        """This process' shares of the batches from the run's position on, epoch after epoch; moves the
        position along."""

    def validate(self, trainer: Trainer) -> dict[str, float | str]:
        """Scores of the validation text, by the names of the log; the model is in evaluation mode."""

    def facts(self) -> dict[str, Any]:
        """What is saved beside the progress."""

    def drafts(self) -> Table:
        """Those of the training text."""

    def check(self, run: Path, saved: Mapping[str, Any]) -> None:
        """Raise BytenmtError where a run with these facts was trained on other text."""


def open_task(
    run: Path, config: Config, files: Sequence[PairFiles], valid: PairFiles, errors: str, group: Group
) -> Task:
    """Those of a run's files, with a report on stderr. The leading process opens them first: it unpacks what
    is packed."""
    if not group.leads:
        group.barrier()
    task: Task
    if files[0].has_source:
        limits = config.data.max_source_bytes, config.data.max_target_bytes
        corpus = ParallelCorpus.open_all(files, errors, *limits, cache=run / CACHE)
        valid_corpus = ParallelCorpus.open_all([valid], errors, *limits, cache=run / CACHE)
        for part in (corpus, valid_corpus):
            part.require_pairs()
        task = TranslationTask(corpus, valid_corpus, files)
        if group.leads:
            report = [*inventory(corpus, run / LEFT_OUT), *inventory(valid_corpus)]
    else:
        paths = [pair.tgt for pair in (*files, valid) if pair.tgt is not None]
        texts = [Text(path, run / CACHE) for path in paths]
        task = LanguageModelTask(config, texts[:-1], texts[-1], group)
        report = [f"{text.path}: {len(text.data):,} bytes" for text in texts]
    if group.leads:
        print("\n".join(map(printable, report)), file=sys.stderr)
        group.barrier()
    return task


class TranslationTask:
    """Pairs of lines."""

    def __init__(
        self, corpus: ParallelCorpus, valid: ParallelCorpus, files: Sequence[PairFiles] = ()
    ) -> None:
        """files: what the corpus was read from."""
        self.corpus, self.valid, self._files = corpus, valid, files

    def shares(self, trainer: Trainer) -> Iterator[Any]:
        """See Task."""
        settings, progress, corpus = trainer.config.train, trainer.progress, self.corpus
        while True:
            plan = epoch_plan(
                corpus.source_lengths,
                corpus.target_lengths,
                settings.max_tokens,
                settings.seed,
                progress.epoch,
                round_to=settings.round_to,
                bounds=corpus.bounds,
                weights=[part.weight for part in corpus.parts],
                short_first=settings.short_first and progress.epoch == 0,
            )
            for batch in batches(
                corpus,
                plan,
                progress.batch,
                share=(trainer.group.rank, trainer.group.size),
                round_to=settings.round_to,
                pin=trainer.device.type == "cuda",
            ):
                progress.batch += 1
                yield batch
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def validate(self, trainer: Trainer) -> dict[str, float | str]:
        """Bits per byte of the validation set; chrF, BLEU and exact match of its first lines, decoded."""
        model, device, group, valid = trainer.model, trainer.device, trainer.group, self.valid
        log_p = log_probabilities(model, valid, device, group=group)
        record: dict[str, float | str] = {"valid_bits_per_byte": bits_per_byte(log_p, valid.target_lengths)}
        n_lines = min(trainer.config.train.valid_lines, len(valid))
        if n_lines:
            translator = Translator.of_runtime(of_models([model], device), group=group)
            lines = [valid.source(i) for i in range(n_lines)]
            texts = [text.decode() for text in translator.translate(lines)]
            scores = text_scores(texts, [valid.target(i).decode() for i in range(n_lines)])
            record |= {
                "valid_chrf": scores.chrf,
                "valid_bleu": scores.bleu,
                "valid_exact_match": scores.exact_match,
                "chrf_signature": scores.chrf_signature,
                "bleu_signature": scores.bleu_signature,
            }
        return record

    def facts(self) -> dict[str, Any]:
        """The pairs and their bytes, where they lie, and the digest of each file."""
        source, target = (
            int(lengths.sum(dtype="int64"))
            for lengths in (self.corpus.source_lengths, self.corpus.target_lengths)
        )
        corpora = [
            {side: stored_path(path) for side, path in zip(SIDES, pair[:3], strict=True) if path}
            for pair in self._files
        ]
        counts = len(self.corpus), source, target
        digests = [text.digest for part in self.corpus.parts for text in part.files]
        return dict(zip(TEXT_FACTS, counts, strict=True)) | {"corpora": corpora, "digests": digests}

    def drafts(self) -> Table:
        """See Task."""
        return of_corpus(self.corpus)

    def check(self, run: Path, saved: Mapping[str, Any]) -> None:
        """See Task."""
        now = self.facts()
        before = saved.get("digests", now["digests"])  # older runs have none
        if len(before) != len(now["digests"]):
            raise _other_text(run, f"{len(before)} files, now {len(now['digests'])}")
        files = [text.path for part in self.corpus.parts for text in part.files]
        for path, old, new in zip(files, before, now["digests"], strict=True):
            if old != new:
                raise _changed(run, path)
        for name in TEXT_FACTS:
            if saved[name] != now[name]:
                raise _other_text(run, f"{saved[name]} {name.replace('_', ' ')}, now {now[name]}")


class Text:
    """A file as bytes. data (size,) uint8, mapped where it is plain or unpacked into the cache."""

    def __init__(self, path: Path, cache: Path) -> None:
        self.path, self.data = path, read_bytes(path, cache)

    def facts(self) -> dict[str, Any]:
        """Where it lies, and what it is."""
        digest = hashlib.sha256(self.data.data).hexdigest()
        return {"path": stored_path(self.path), "bytes": len(self.data), "sha256": digest}

    def check_whole(self) -> None:
        """See text_file.check_whole."""
        check_whole(self.path, self.data)


class LanguageModelTask:
    """Texts as streams, for models without a source."""

    def __init__(self, config: Config, texts: Sequence[Text], valid: Text, group: Group = ALONE) -> None:
        """Raises DataError for a text that is too short, ConfigError for batches that are too small."""
        train = config.train
        self._memory = architecture(config.model) not in CONVOLUTIONAL
        if self._memory and train.context:
            raise ConfigError(
                f"train.context would be ignored: {architecture(config.model)} carries its state from window"
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
            raise DataError(f"{valid.path} is empty: expected text to validate on")
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

    def shares(self, trainer: Trainer) -> Iterator[Any]:
        """See Task."""
        train, progress, group = trainer.config.train, trainer.progress, trainer.group
        rows = group.share(self._n_rows)
        while True:
            place = train.seed, progress.epoch, progress.batch
            found = (
                contiguous(self._streams, self._n_rows, rows, train.window, *place)
                if self._memory
                else windows(self._streams, self._n_rows, rows, train.context, train.window, *place)
            )
            while True:
                for text in self._training:
                    text.check_whole()
                window = next(found, None)
                if window is None:
                    break
                progress.batch += 1
                yield window
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def validate(self, trainer: Trainer) -> dict[str, float | str]:
        """Bits per byte of the validation text's first bytes."""
        self._valid.check_whole()
        text = self._valid.data[: trainer.config.train.valid_bytes]
        bits = text_bits(trainer.model, text, trainer.device, trainer.group)
        return {"valid_bits_per_byte": bits / len(text)}

    def facts(self) -> dict[str, Any]:
        """The texts."""
        return {"texts": self._texts}

    def drafts(self) -> Table:
        """See Task."""
        return of_streams([text.data for text in self._training])

    def check(self, run: Path, saved: Mapping[str, Any]) -> None:
        """See Task."""
        before, now = saved["texts"], self._texts
        if len(before) != len(now):
            told = ", ".join(f"{text['path']} of {text['bytes']} bytes" for text in before)
            raise _other_text(run, told)
        for text, old, new in zip(self._training, before, now, strict=True):
            if old["sha256"] != new["sha256"]:
                raise _changed(run, text.path)


def _changed(run: Path, path: Path) -> BytenmtError:
    return BytenmtError(
        f"{path} is not the text that {run} was trained on, or has changed since: give the files that it"
        " began with, in their order, or -o another folder"
    )


def _other_text(run: Path, told: str) -> BytenmtError:
    return BytenmtError(
        f"{run} was trained on other text: {told}; give the files that it began with, or -o another folder"
    )
