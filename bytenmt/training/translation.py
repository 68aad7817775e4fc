"""Learning to translate: the pairs, the cost of each target after its source, and validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, count, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.checkpoints.facts import Facts
from bytenmt.config.schema import Config
from bytenmt.data.augment.augmenter import Augmenter
from bytenmt.data.batches import Batch, batches
from bytenmt.data.corpus import CorpusPart, ParallelCorpus
from bytenmt.data.corpus_report import inventory, multi_sentence_share, warnings_of_pairs
from bytenmt.data.epoch_plan import EpochPlan, epoch_plan
from bytenmt.data.pair_files import PairFiles
from bytenmt.data.text_file import stored_path
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.evaluation.scores import text_values
from bytenmt.reporter import Reporter
from bytenmt.span_classes import PATTERNS_VERSION
from bytenmt.training.losses import LossInputs, batch_loss, draw_inputs, drop_bytes
from bytenmt.training.precision import autocast
from bytenmt.translation.translator import Translator

CPU = torch.device("cpu")
N_SAMPLES = 3  # first validation lines, whose translations are logged


class BatchShare(NamedTuple):
    """The rows of a batch that one process trains on, and the position in the data after it."""

    data: Any  # a data.batches.Batch, or of a language model a data.windows.WindowBatch
    epoch: int  # from 0
    batch: int  # the next batch of the epoch
    epoch_batches: int = 0  # the number of batches in the epoch


def to_device(batch: Batch, device: torch.device) -> Any:
    """Copy a Batch of NumPy arrays to a device, as tensors of the same shapes and types."""
    return Batch(*(torch.from_numpy(part).to(device) for part in batch))  # type: ignore[arg-type]


class TranslationObjective:
    """The task of translation: batches of sentence pairs, their gradients, validation.

    A batch is a data.batches.Batch. Trainer calls it; a LanguageModelObjective has the same
    methods. Without a corpus only `gradients` and what it calls can be used.
    """

    def __init__(
        self,
        config: Config,
        corpus: ParallelCorpus | None = None,
        valid: ParallelCorpus | None = None,
        device: torch.device = CPU,
        group: Group = SINGLE_PROCESS,
    ) -> None:
        """corpus, valid: the training and the validation pairs; device: where the model is."""
        self.config = config
        self.train = config.train
        self.device = device
        self.group = group
        self.corpus = corpus
        self.valid = valid
        self._augmenter = None
        if corpus is not None and config.data.augmentations:
            self._augmenter = Augmenter(corpus, config.data, self.train.seed)

    def report(self, reporter: Reporter) -> None:
        """Tell the reporter the sizes of the texts, and warn of possible mistakes in them."""
        assert self.corpus is not None and self.valid is not None
        for line in [*inventory(self.corpus), *inventory(self.valid)]:
            reporter.say(line)
        for line in warnings_of_pairs(self.corpus, self.valid):
            reporter.warn(line)

    # ---- batches and gradients

    def shares(self, epoch: int, batch: int) -> Iterator[BatchShare]:
        """Yield this process' part of each batch, from batch `batch` of epoch `epoch`, without end.

        Both count from 0. All processes see the same batches; each gets other rows of them.
        """
        share = self.group.rank, self.group.size
        change = None
        with ThreadPoolExecutor(1, "epochs") as thread:
            planned = thread.submit(self._plan, epoch)
            for number in count(epoch):
                corpus, plan = planned.result()
                planned = thread.submit(self._plan, number + 1)  # beside the training of this one
                if self._augmenter is not None:
                    change = partial(self._augmenter.change, epoch=number, share=share)
                assembled = batches(corpus, plan, batch, share=share, change=change)
                for behind, data in enumerate(assembled, batch + 1):
                    yield BatchShare(data, number, behind, plan.n_batches)
                batch = 0

    def _plan(self, epoch: int) -> tuple[ParallelCorpus, EpochPlan]:
        """Return the corpus of an epoch, with its sentinels, and the plan of its batches."""
        corpus = self.corpus
        assert corpus is not None
        if self._augmenter is not None:
            corpus = self._augmenter.corpus(epoch)
        plan = epoch_plan(
            corpus.source_lengths,
            corpus.target_lengths,
            self.train.max_tokens,
            self.train.seed,
            epoch,
            bounds=corpus.bounds,
            weights=[part.weight for part in corpus.parts],
        )
        return corpus, plan

    def gradients(
        self, model: Model[Any, Any], batches: Sequence[Batch], target_bytes: int
    ) -> Tensor:
        """Run forward and backward on this process' batches, which adds to the parameters' `.grad`.

        Return the summed negative log-likelihood in nats, a float64 scalar on the device. The loss
        whose gradient is taken is divided by target_bytes.
        """
        nats = torch.zeros((), dtype=torch.float64, device=self.device)
        for batch in (batch for batch in batches if len(batch.target_len)):
            tensors = to_device(batch, self.device)
            inputs = self.decoder_inputs(model, tensors)
            with autocast(self.train, self.device):
                loss, batch_nats = self.loss(model, tensors, inputs)
            (loss / target_bytes).backward()  # type: ignore[no-untyped-call]
            nats += batch_nats
        return nats

    def loss(self, model: Model[Any, Any], tensors: Any, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss for the gradient and the negative log-likelihood of a batch, in nats.

        Both are sums over the bytes; the first also has label smoothing and extra loss terms, and
        the second is detached. tensors: a Batch of tensors; inputs (n, t) uint8: what the decoder
        reads, from decoder_inputs.
        """
        memory = model.encode(tensors.source, tensors.source_len)
        logits, _ = model(inputs, memory, model.start(memory))
        target = tensors.target_out
        real = torch.arange(target.shape[1], device=target.device) < tensors.target_len[:, None]
        source = tensors.source, tensors.source_len, memory
        return batch_loss(LossInputs(model, self.train, logits, inputs, target, real, *source))

    def decoder_inputs(self, model: Model[Any, Any], tensors: Any) -> Tensor:
        """Return the bytes that the decoder reads in training, (n, t) uint8: BOS and the target.

        Predicted bytes replace some if train.teacher_forcing is below 1, and PAD replaces some if
        train.byte_dropout is above 0. tensors: a Batch of tensors on the device of the model.
        """
        train = self.train
        inputs: Tensor = tensors.target_in
        if train.teacher_forcing < 1:
            # Without dropout, as in use; in a context of its own: autocast would keep weights
            # without gradients for the loss.
            model.eval()
            with torch.no_grad(), autocast(train, self.device):
                memory = model.encode(tensors.source, tensors.source_len)
                inputs = draw_inputs(model, memory, inputs, train.teacher_forcing)
            model.train()
        if train.byte_dropout:
            inputs = drop_bytes(inputs, train.byte_dropout)
        return inputs

    def state_dict(self) -> dict[str, Tensor]:
        """Return an empty dictionary: translation has no state that a checkpoint must keep."""
        return {}

    def load_state_dict(self, model: Model[Any, Any], carried: Mapping[str, Tensor]) -> None:
        """Do nothing: translation has no state of its own to load; the arguments are ignored."""

    # ---- validation

    def score(self, model: Model[Any, Any]) -> dict[str, Any]:
        """Return {"valid_bits_per_byte": …}, of the validation targets given their sources.

        EOS is included. With several validation texts it is the mean over them. model: in
        evaluation mode. All processes must call it together and share the lines.
        """
        assert self.valid is not None
        log_p = log_probabilities(TorchScorer([model], self.device), self.valid, self.group)
        values = []
        for lines in self._validation_texts():
            own = slice(lines.start, lines.stop)
            bits = bits_per_byte(log_p[own], self.valid.target_lengths[own])
            values.append({"bits_per_byte": bits})
        return _validation_record(values)

    def decode(self, model: Model[Any, Any]) -> dict[str, Any]:
        """Translate the first train.valid_lines lines of each validation text and score them.

        Return the metrics of plugins.METRICS that need translations, and some samples, by their
        names in metrics.jsonl; an empty dictionary for no lines. All processes must call it
        together; each translates its share of the lines.
        """
        assert self.valid is not None
        texts = [text[: self.train.valid_lines] for text in self._validation_texts()]
        chosen = list(chain.from_iterable(texts))
        if not chosen:
            return {}
        lines = [self.valid.source(k) for k in chosen]
        translations = self._translate(model, lines)
        sources = [line.decode() for line in lines]
        references = [self.valid.target(k).decode() for k in chosen]
        samples = [
            {"source": sources[k], "reference": references[k], "translation": translations[k]}
            for k in range(min(N_SAMPLES, len(chosen)))
        ]
        values = []
        begin = 0
        for text in texts:
            own = slice(begin, begin + len(text))
            values.append(text_values(sources[own], translations[own], references[own]))
            begin += len(text)
        return {"valid_lines": len(chosen), **_validation_record(values), "samples": samples}

    def _validation_texts(self) -> list[range]:
        """Return the numbers of the pairs of each validation text."""
        assert self.valid is not None
        bounds = self.valid.bounds.tolist()
        return [range(begin, end) for begin, end in pairwise(bounds)]

    def _translate(self, model: Model[Any, Any], lines: Sequence[bytes]) -> list[str]:
        """Return the translations of lines, of which each process translates its share."""
        size = self.group.size
        runtime = runtime_from_models([model], self.device)
        runtime = replace(runtime, max_source_bytes=self.config.data.max_source_bytes)
        own_lines = list(lines[self.group.rank :: size])
        shares = self.group.gather_all(Translator.from_runtime(runtime).translate(own_lines))
        translations = [b""] * len(lines)
        for rank, share in enumerate(shares):
            translations[rank::size] = share
        return [translation.decode() for translation in translations]

    # ---- the text in a checkpoint

    def facts(self) -> Facts:
        """Return what a checkpoint stores about the texts: numbers of pairs and bytes, files."""
        assert self.corpus is not None
        corpus = self.corpus
        valid = [] if self.valid is None else [_files_of(part) for part in self.valid.parts]
        return Facts(
            pairs=len(corpus),
            source_bytes=int(corpus.source_lengths.sum(dtype="int64")),
            target_bytes=int(corpus.target_lengths.sum(dtype="int64")),
            corpora=tuple(map(_files_of, corpus.parts)),
            valid=next(iter(valid), None),
            more_valid=tuple(valid[1:]),
            multi_sentence_share=round(multi_sentence_share(corpus), 6),
            patterns=PATTERNS_VERSION if self.config.data.sentinels else None,
        )


def _validation_record(values: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the mean of each value over the validation texts, by its name in metrics.jsonl.

    values: of each text. With several texts the value of each one is recorded, too.
    """
    record: dict[str, Any] = {}
    for name in values[0]:
        of_texts = [by_name[name] for by_name in values]
        record[f"valid_{name}"] = fmean(of_texts)
        if len(of_texts) > 1:
            record[f"valid_{name}_of_texts"] = of_texts
    return record


def _files_of(part: CorpusPart) -> PairFiles:
    """Return where the files of a part of a corpus lie: both sides, or a table."""
    paths = [Path(stored_path(text.path)) for text in part.files]
    if len(paths) == 1:
        return PairFiles(tsv=paths[0], weight=part.weight)
    src, tgt = paths
    return PairFiles(src, tgt, weight=part.weight)
