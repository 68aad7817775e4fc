"""Learning to translate: pairs of lines, batch by batch, and validation by bits per byte and decoding.

Does not know architectures, trainers, nor when to validate or stop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace

from bytenmt.config.facts import TEXT_COUNTS, CorpusFact, Facts
from bytenmt.config.schema import ByteNetConfig, Config
from bytenmt.data.augment.augmenter import Augmenter
from bytenmt.data.batches import batches
from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.data.corpus_report import inventory
from bytenmt.data.epoch_plan import epoch_plan
from bytenmt.data.suspicions import of_pairs
from bytenmt.data.text_file import stored_path
from bytenmt.decoding.pytorch.reader import TorchReader
from bytenmt.distributed import ALONE, Group
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.evaluation.scores import text_scores
from bytenmt.models.base import Model
from bytenmt.models.unfolding import fitted
from bytenmt.reporter import Reporter
from bytenmt.speculative.build import of_corpus
from bytenmt.speculative.table import Table
from bytenmt.training.task import CACHE, LEFT_OUT, Sample, Share, Validation, changed, other_text
from bytenmt.training.validation import LiveDecoder

CPU = torch.device("cpu")
SAMPLES = 3  # lines whose translations the run folder shows: the first ones


def open_pairs(
    run: Path,
    config: Config,
    files: Sequence[PairFiles],
    valid: PairFiles,
    errors: str,
    device: torch.device,
    group: Group,
    reporter: Reporter,
) -> TranslationTask:
    """The task of a run's files; what they hold, and what looks like a mistake, is told. Raises
    BytenmtError."""
    limits = config.data.max_source_bytes, config.data.max_target_bytes
    corpus = ParallelCorpus.open_all(files, errors, *limits, cache=run / CACHE, reporter=reporter)
    valid_corpus = ParallelCorpus.open_all([valid], errors, *limits, cache=run / CACHE, reporter=reporter)
    for part in (corpus, valid_corpus):
        part.require_pairs()
    if group.leads:
        for line in [*inventory(corpus, run / LEFT_OUT), *inventory(valid_corpus)]:
            reporter.say(line)
        for line in of_pairs(corpus, valid_corpus):
            reporter.warn(line)
    config = _unfolded(config, corpus, reporter)
    return TranslationTask(config, corpus, valid_corpus, files, device, group)


def _unfolded(config: Config, corpus: ParallelCorpus, reporter: Reporter) -> Config:
    """With the a and b that unfolding = "fit" stands for; what was found is told. They are written down as
    given ones, so that the run stays what it is whatever it is shown later."""
    model = config.model
    if not isinstance(model, ByteNetConfig) or model.unfolding != "fit":
        return config
    found = fitted(corpus.source_lengths, corpus.target_lengths)
    reporter.say(f"unfolding: {found}")
    given = {"unfolding": "given", "unfolding_factor": found.factor, "unfolding_offset": found.offset}
    return replace(config, model=replace(model, **given))


class TranslationTask:
    """Pairs of lines."""

    def __init__(
        self,
        config: Config,
        corpus: ParallelCorpus,
        valid: ParallelCorpus,
        files: Sequence[PairFiles] = (),
        device: torch.device = CPU,
        group: Group = ALONE,
    ) -> None:
        """config: nothing left to be found in the pairs; files: what the corpus was read from; device: where
        the model is."""
        self.config, self._settings = config, config.train
        self.corpus, self.valid, self._files = corpus, valid, files
        self._device, self._group = device, group
        data, self._augmenter = config.data, None
        if data.noise or data.copy:
            self._augmenter = Augmenter(corpus, data, config.train.seed, config.train.round_to)
        self._decoder: LiveDecoder | None = None

    def shares(self, epoch: int, batch: int) -> Iterator[Share]:
        """See Task."""
        settings, corpus = self._settings, self.corpus
        share = self._group.rank, self._group.size
        while True:
            plan = epoch_plan(
                corpus.source_lengths,
                corpus.target_lengths,
                settings.max_tokens,
                settings.seed,
                epoch,
                round_to=settings.round_to,
                bounds=corpus.bounds,
                weights=[part.weight for part in corpus.parts],
                short_first=settings.short_first and epoch == 0,
            )
            change = None
            if self._augmenter is not None:
                change = partial(self._augmenter.change, epoch=epoch, share=share)
            found = batches(
                corpus,
                plan,
                batch,
                share=share,
                round_to=settings.round_to,
                pin=self._device.type == "cuda",
                change=change,
            )
            for number, data in enumerate(found, batch + 1):
                yield Share(data, epoch, number)
            epoch, batch = epoch + 1, 0

    @contextmanager
    def preparing(self, model: Model[Any, Any]) -> Iterator[None]:
        """See Task."""
        decoder = None
        if self._settings.valid_lines:
            self._decoder = decoder = LiveDecoder(model, self.config, self._device, self._group)
        try:
            yield
        finally:
            if decoder is not None:
                decoder.stop()

    def validate(self, model: Model[Any, Any], seconds: float) -> Validation:
        """Bits per byte of the validation set; chrF, BLEU and exact match of its first lines, decoded by
        what `preparing` has made."""
        begun, valid = time.monotonic(), self.valid
        log_p = log_probabilities(TorchReader([model], self._device), valid, self._group)
        record: dict[str, float | str] = {"valid_bits_per_byte": bits_per_byte(log_p, valid.target_lengths)}
        scored = time.monotonic() - begun
        n_lines = min(self._settings.valid_lines, len(valid))
        if not n_lines:
            return Validation(record, scored)
        assert self._decoder is not None
        lines = [valid.source(i) for i in range(n_lines)]
        texts, decoding = self._decoder.translate(lines, self._group.broadcast(seconds - scored))
        truth = [valid.target(i).decode() for i in range(len(texts))]
        if texts:
            scores = text_scores(texts, truth)
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
        return Validation(record, scored + decoding, decoding, note, tuple(Sample(*one) for one in shown))

    def facts(self) -> Facts:
        """The pairs and their bytes, where they lie, and the digest of each file."""
        source, target = (
            int(lengths.sum(dtype="int64"))
            for lengths in (self.corpus.source_lengths, self.corpus.target_lengths)
        )
        corpora = [
            CorpusFact(
                *(None if path is None else stored_path(path) for path in (pair.src, pair.tgt, pair.tsv))
            )
            for pair in self._files
        ]
        digests = [text.digest for part in self.corpus.parts for text in part.files]
        return Facts(
            pairs=len(self.corpus),
            source_bytes=source,
            target_bytes=target,
            corpora=tuple(corpora),
            digests=tuple(digests),
        )

    def drafts(self) -> Table:
        """See Task."""
        return of_corpus(self.corpus)

    def check(self, run: Path, saved: Facts) -> None:
        """See Task."""
        now = self.facts()
        assert now.digests is not None
        before = now.digests if saved.digests is None else saved.digests  # older runs have none
        if len(before) != len(now.digests):
            raise other_text(run, f"{len(before)} files, now {len(now.digests)}")
        files = [text.path for part in self.corpus.parts for text in part.files]
        for path, old, new in zip(files, before, now.digests, strict=True):
            if old != new:
                raise changed(run, path)
        for name in TEXT_COUNTS:
            old, new = getattr(saved, name), getattr(now, name)
            if old != new:
                raise other_text(run, f"{old} {name.replace('_', ' ')}, now {new}")
