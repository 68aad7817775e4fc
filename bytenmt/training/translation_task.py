"""Learning to translate: pairs of lines, batch by batch, and validation by bits per byte and decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace

from bytenmt.architectures.base import Model
from bytenmt.config.facts import TEXT_COUNTS, Facts
from bytenmt.config.schema import Config
from bytenmt.data.augment.augmenter import Augmenter
from bytenmt.data.batches import batches
from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.data.corpus_report import (
    inventory,
    language_profiles,
    multi_sentence_share,
    warnings_of_pairs,
)
from bytenmt.data.epoch_plan import epoch_plan
from bytenmt.decoding.pytorch.reader import TorchReader
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.evaluation.scores import text_scores
from bytenmt.reporter import Reporter
from bytenmt.training.task import Decoded, Sample, Share, corpus_fact, other_text
from bytenmt.training.validation import LiveDecoder

CPU = torch.device("cpu")
SAMPLES = 3  # lines whose translations the run folder shows: the first ones


def open_pairs(
    config: Config,
    files: Sequence[PairFiles],
    valid: PairFiles,
    errors: str,
    device: torch.device,
    group: Group,
    reporter: Reporter,
) -> TranslationTask:
    """Open the training pairs of a run, and report their size and possible mistakes. Raises BytenmtError."""
    limits = config.data.max_source_bytes, config.data.max_target_bytes
    corpus = ParallelCorpus.open_all(files, errors, *limits)
    valid_corpus = ParallelCorpus.open_all([valid], errors, *limits)
    for part in (corpus, valid_corpus):
        part.require_pairs()
    if group.is_leader:
        for line in [*inventory(corpus), *inventory(valid_corpus)]:
            reporter.say(line)
        for line in warnings_of_pairs(corpus, valid_corpus):
            reporter.warn(line)
    config = _fit(config, corpus, reporter)
    task = TranslationTask(config, corpus, valid_corpus, files, device, group, valid)
    if group.is_leader:
        reporter.say(f"{task.multi_sentence_share:.1%} of the training lines contain several sentences")
    return task


def _fit(config: Config, corpus: ParallelCorpus, reporter: Reporter) -> Config:
    """Return the configuration with the options of the model that are found in the training pairs."""
    if not config.model.needs_fit:
        return config
    model, line = config.model.fit(corpus.source_lengths, corpus.target_lengths)
    reporter.say(line)
    return replace(config, model=model)


class TranslationTask:
    """Training on sentence pairs: the data, the objective and the validation of a translation model."""

    def __init__(
        self,
        config: Config,
        corpus: ParallelCorpus,
        valid: ParallelCorpus,
        files: Sequence[PairFiles] = (),
        device: torch.device = CPU,
        group: Group = SINGLE_PROCESS,
        valid_files: PairFiles | None = None,
    ) -> None:
        """config: nothing left to be found in the pairs; files, valid_files: what the corpora were read from;
        device: where the model is."""
        self.config, self._settings = config, config.train
        self.corpus, self.valid, self._files = corpus, valid, files
        self._device, self._group = device, group
        self._valid_files = valid_files
        data, train = config.data, config.train
        self._augmenter = Augmenter(corpus, data, train.seed, train.round_to) if data.augmentations else None
        self._decoder: LiveDecoder | None = None

    @cached_property
    def _profiles(self) -> tuple[str, str]:
        """See facts.Facts.source_profile and target_profile."""
        return language_profiles(self.corpus)

    @cached_property
    def multi_sentence_share(self) -> float:
        """The share of the training pairs with several sentences; see data.corpus_report."""
        return multi_sentence_share(self.corpus)

    def shares(self, epoch: int, batch: int) -> Iterator[Share]:
        """See Task."""
        settings, share = self._settings, (self._group.rank, self._group.size)
        for number in count(epoch):
            corpus, change = self.corpus, None
            if self._augmenter is not None:
                corpus = self._augmenter.corpus(number)
                change = partial(self._augmenter.change, epoch=number, share=share)
            plan = epoch_plan(
                corpus.source_lengths,
                corpus.target_lengths,
                settings.max_tokens,
                settings.seed,
                number,
                round_to=settings.round_to,
                bounds=corpus.bounds,
                weights=[part.weight for part in corpus.parts],
                short_first=settings.short_first and number == 0,
            )
            found = batches(
                corpus,
                plan,
                batch,
                share=share,
                round_to=settings.round_to,
                pin=self._device.type == "cuda",
                change=change,
            )
            for behind, data in enumerate(found, batch + 1):
                yield Share(data, number, behind, plan.n_batches)
            batch = 0

    @contextmanager
    def preparing(self, model: Model[Any, Any]) -> Iterator[None]:
        """See Task."""
        decoder = None
        if self._settings.valid_lines:
            self._decoder = decoder = LiveDecoder(
                model,
                self.config,
                self._device,
                self._group,
            )
        try:
            yield
        finally:
            if decoder is not None:
                decoder.stop()

    def score(self, model: Model[Any, Any]) -> dict[str, float | str]:
        """Return the bits per byte of the validation set."""
        log_p = log_probabilities(TorchReader([model], self._device), self.valid, self._group)
        return {"valid_bits_per_byte": bits_per_byte(log_p, self.valid.target_lengths)}

    def decode(self, model: Model[Any, Any], seconds: float, at_least_some: bool = False) -> Decoded:
        """Decode the first lines of the validation set; return their chrF, BLEU and exact match.

        The live decoder is the one that `preparing` has made.
        """
        valid = self.valid
        n_lines = min(self._settings.valid_lines, len(valid))
        if not n_lines:
            return Decoded()
        assert self._decoder is not None
        lines = [valid.source(i) for i in range(n_lines)]
        texts, decoding = self._decoder.translate(lines, seconds, at_least_some)
        truth = [valid.target(i).decode() for i in range(len(texts))]
        record: dict[str, float | str] = {}
        if texts:
            scores = text_scores(texts, truth)
            record = {f"valid_{name}": value for name, value in scores.metrics.items()}
            record |= {
                "valid_chrf": scores.chrf,
                "valid_bleu": scores.bleu,
                "valid_exact_match": scores.exact_match,
                "chrf_signature": scores.chrf_signature,
                "bleu_signature": scores.bleu_signature,
            }
        record["valid_lines"] = len(texts)
        note = f"{len(texts)} of {n_lines} lines decoded" if len(texts) < n_lines else ""
        shown = zip([line.decode() for line in lines[:SAMPLES]], truth, texts, strict=False)
        return Decoded(len(texts), record, decoding, note, tuple(Sample(*one) for one in shown))

    def facts(self) -> Facts:
        """The pairs and their bytes, and where they lie."""
        source, target = (
            int(lengths.sum(dtype="int64"))
            for lengths in (self.corpus.source_lengths, self.corpus.target_lengths)
        )
        return Facts(
            pairs=len(self.corpus),
            source_bytes=source,
            target_bytes=target,
            corpora=tuple(map(corpus_fact, self._files)),
            valid=None if self._valid_files is None else corpus_fact(self._valid_files),
            multi_sentence_share=round(self.multi_sentence_share, 6),
            source_profile=self._profiles[0],
            target_profile=self._profiles[1],
        )

    def check(self, run: Path, saved: Facts) -> None:
        """See Task."""
        now = self.facts()
        for name in TEXT_COUNTS:
            old, new = getattr(saved, name), getattr(now, name)
            if old not in (None, new):  # a program with a loop of its own may have saved no facts
                raise other_text(run, f"{old} {name.replace('_', ' ')}, now {new}")
