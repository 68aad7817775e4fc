"""Adapt a model to the pairs of a translation memory, without its former training text.

1. Some of the pairs are held out. The model is trained on the others until the held-out pairs get
   no better, or, if they are too few to judge by, for a fixed number of updates. Only the tables of
   long n-grams and of words learn: other text has other n-grams and hardly reads the rows that
   change, so that little of it is forgotten. All weights of a model without such tables learn, at a
   low rate.
2. With a small memory, the held-out pairs are learned as well: the model is trained on all pairs
   for as many updates.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
from torch import Tensor

from bytenmt.architectures.model_program import NGRAM_TABLES
from bytenmt.checkpoints.checkpoint import model_tensors, read_initial_weights
from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.quantize import write_rounded
from bytenmt.checkpoints.weights import PUBLISHED, StoredWeights, read_run
from bytenmt.config.schedules import fraction_done, stopped_early
from bytenmt.config.schema import Config
from bytenmt.config.train_section import TrainConfig
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.pair_files import PairFiles
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.errors import BytenmtError, DataError
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.evaluation.scores import text_scores
from bytenmt.reporter import SILENT, Reporter
from bytenmt.training.run import preserve_thread_count
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import CPU, TranslationObjective
from bytenmt.translation.settings import Settings
from bytenmt.translation.source_words import WordCounts
from bytenmt.translation.translator import Translator

MIN_PAIRS = 20
HELD_OUT_SHARE = 0.2  # of the pairs
MAX_HELD_OUT_PAIRS = 200
MAX_SMALL_MEMORY_PAIRS = 1000  # a larger memory does not need its held-out pairs
MIN_STOPPING_PAIRS = 30  # held-out pairs by which training can be stopped
N_FIXED_UPDATES = 120  # if there are fewer
MAX_PASSES = 28  # over the pairs
PATIENCE_VALIDATIONS = 6  # validations without a better one, after which training stops
MIN_NGRAM_BYTES = 4  # the tables of n-grams from this n on learn, and that of words
NGRAM_LEARNING_RATE = 2e-2  # of their rows
LEARNING_RATE = 6e-5  # of AdamW, for a model without such tables
# A pass over the pairs has at least so many batches, as long as a batch has so many bytes.
MIN_PASS_BATCHES = 4
MIN_BATCH_BYTES = 1000
MAX_UPDATES = 200  # of each of the two trainings: about half a minute of one core
MAX_UPDATES_BETWEEN_VALIDATIONS = 25
MIN_GAIN_BITS = 1e-3  # per byte of the held-out pairs, below which nothing is written
SentencePair = tuple[str, str]  # source and translation


class Measurement(NamedTuple):
    """The quality of a model on some sentence pairs: bits per byte of the references, and chrF."""

    bits: float  # per byte of the references given their sources, EOS included
    chrf: float  # of its translations, 0 to 100


class AdaptationReport(NamedTuple):
    """The result of `adapt`, with measurements of the model before and after it."""

    n_pairs: int  # pairs of the memory, one for each source
    n_held_out: int  # pairs for the measurements, not trained on before these
    n_updates: int  # of the training
    held_out: tuple[Measurement, Measurement]  # on the held-out pairs, before and after


def adapt(
    model: Path,
    pairs: Sequence[SentencePair],
    output: Path,
    *,
    names: Sequence[str],
    seed: int = 1,
    reporter: Reporter = SILENT,
) -> AdaptationReport:
    """Fine-tune a translation model on the (source, target) pairs of a translation memory.

    model: a run folder or a weights file; output: a folder, where the adapted model is written as
    model.safetensors, in the precision of the model's file; names: the memories' file names, which
    the new file records; seed: of the random choice of held-out pairs, and of the training. Raises
    BytenmtError, and writes no model, where the pairs are too few or do not help.
    """
    stored = read_run(model)[1]
    config = stored.config
    if not config.model.source:
        raise BytenmtError(
            f"{model} was trained without a source: it cannot be adapted to translations"
        )
    unique = list(dict(pairs).items())  # the later translation of a source
    if len(unique) < MIN_PAIRS:
        raise DataError(f"{len(unique)} different pairs: a model is adapted to {MIN_PAIRS} or more")
    random.Random(seed).shuffle(unique)
    n_held_out = min(MAX_HELD_OUT_PAIRS, math.ceil(HELD_OUT_SHARE * len(unique)))
    held_out = unique[:n_held_out]
    learned = unique[n_held_out:]
    place = output if output.is_dir() else output.parent  # a failure leaves no empty `output`
    place.mkdir(parents=True, exist_ok=True)
    _, old = read_initial_weights(model, config.model)
    with preserve_thread_count(), tempfile.TemporaryDirectory(dir=place) as folder:
        torch.set_num_threads(1)  # the same weights on every machine load
        n_fixed_updates = N_FIXED_UPDATES if n_held_out < MIN_STOPPING_PAIRS else 0
        new, n_updates = _train(config, old, learned, held_out, seed, n_fixed_updates)
        facts = _facts(stored.facts, unique, names, n_updates)
        tested = Path(folder) / PUBLISHED
        _write(tested, new, stored, facts)
        before = _measure(model, held_out, reporter)
        after = _measure(tested, held_out)
        if after.bits > before.bits - MIN_GAIN_BITS:
            raise BytenmtError(
                f"the {len(held_out)} held-out pairs of {len(unique)} get no better: nothing was"
                " written; give more pairs, or pairs that are more like each other"
            )
        if len(unique) < MAX_SMALL_MEMORY_PAIRS:
            new, _ = _train(config, old, unique, held_out, seed, n_updates)
        output.mkdir(exist_ok=True)
        _write(output / PUBLISHED, new, stored, facts)
    return AdaptationReport(len(unique), n_held_out, n_updates, (before, after))


def _train(
    config: Config,
    start: Mapping[str, Tensor],
    pairs: Sequence[SentencePair],
    held_out: Sequence[SentencePair],
    seed: int,
    n_updates: int = 0,
) -> tuple[Mapping[str, Tensor], int]:
    """Train from some weights; return those that are best on the held-out pairs, and their update.

    n_updates: make so many updates instead, and return the last weights.
    """
    model = config.model
    n_short = sum(n < MIN_NGRAM_BYTES for n in model.ngrams) * model.n_ngram_rows  # rows
    has_long = len(model.ngrams) > 0 and n_short < len(start[NGRAM_TABLES])
    n_bytes = sum(len(text.encode()) for pair in pairs for text in pair)
    settings = _training_settings(config.train, seed, n_bytes, n_updates, has_long)
    valid_every = n_updates or min(
        MAX_UPDATES_BETWEEN_VALIDATIONS, 2 * math.ceil(n_bytes / settings.max_tokens)
    )
    limits = config.data.max_source_bytes, config.data.max_target_bytes
    objective = TranslationObjective(
        msgspec.structs.replace(config, train=settings),
        _corpus(pairs, limits),
        _corpus(held_out, limits),
    )
    trainer = Trainer(objective.config, CPU, objective=objective)
    trainer.begin_with(dict(start), Path("the model"))
    progress = trainer.progress
    best = start
    for share in objective.shares(0, 0):
        trainer.learn([share])
        if has_long:
            with torch.no_grad():
                model_tensors(trainer.model)[NGRAM_TABLES][:n_short] = start[NGRAM_TABLES][:n_short]
        is_last = fraction_done(settings, progress) >= 1
        if is_last or progress.update % valid_every == 0:
            bits = objective.score(trainer.model.eval())["valid_bits_per_byte"]
            trainer.model.train()
            progress.waited += 1
            if n_updates or progress.best is None or bits < progress.best:
                progress.best = bits
                progress.best_update = progress.update
                progress.waited = 0
                weights = model_tensors(trainer.model)
                best = {name: tensor.detach().clone() for name, tensor in weights.items()}
        if is_last or stopped_early(settings, progress):
            break
    return best, progress.best_update


def _training_settings(
    train: TrainConfig, seed: int, n_bytes: int, n_updates: int, has_long: bool
) -> TrainConfig:
    """Return the settings of an adaptation.

    n_bytes: of the pairs; n_updates: 0 to stop by the held-out pairs; has_long: whether the model
    has tables of long n-grams, which then learn alone.
    """
    return msgspec.structs.replace(
        train,
        seed=seed,
        optimizer="adamw",
        lr=0.0 if has_long else LEARNING_RATE,
        ngram_lr=NGRAM_LEARNING_RATE,
        schedule="constant",
        warmup_updates=0,
        weight_decay=0.0,
        ema=0.0,
        loss_terms={},
        precision="fp32",
        max_tokens=min(train.max_tokens, max(MIN_BATCH_BYTES, n_bytes // MIN_PASS_BATCHES)),
        max_updates=n_updates or MAX_UPDATES,
        max_epochs=0.0 if n_updates else float(MAX_PASSES),
        max_minutes=0.0,
        patience=0 if n_updates else PATIENCE_VALIDATIONS,
    )


def _corpus(
    pairs: Sequence[SentencePair], limits: tuple[int | None, int | None] = (None, None)
) -> ParallelCorpus:
    """Return pairs as a corpus."""
    sources = "".join(f"{source}\n" for source, _ in pairs)
    targets = "".join(f"{target}\n" for _, target in pairs)
    return ParallelCorpus.from_texts(
        TextFile.from_bytes(sources.encode(), "the pairs"),
        TextFile.from_bytes(targets.encode(), "the pairs"),
        *limits,
    )


def _measure(
    model: Path, pairs: Sequence[SentencePair], reporter: Reporter = SILENT
) -> Measurement:
    """Measure a model as it is used: its weights file, by the engine that translates."""
    runtime = load_runs([model], EngineSpec(AUTO, "cpu", AUTO, 1), reporter)
    translator = Translator.from_runtime(runtime, Settings.from_dict({}))
    sources = [source.encode() for source, _ in pairs]
    texts = [text.decode() for text in translator.translate(sources)]
    chrf = text_scores(texts, [target for _, target in pairs]).chrf
    corpus = _corpus(pairs)
    bits = bits_per_byte(log_probabilities(runtime.make_scorer(), corpus), corpus.target_lengths)
    return Measurement(bits, chrf)


def _write(path: Path, weights: Mapping[str, Tensor], stored: StoredWeights, facts: Facts) -> None:
    arrays = {name: tensor.numpy() for name, tensor in weights.items()}
    write_rounded(path, arrays, stored.config, facts, stored.precision)


def _facts(
    old: Facts, pairs: Sequence[SentencePair], names: Sequence[str], n_updates: int
) -> Facts:
    """Return the facts of the adapted model: it has learned the former text and the pairs."""
    source_bytes = sum(len(source.encode()) for source, _ in pairs)
    target_bytes = sum(len(target.encode()) for _, target in pairs)
    words = old.words  # None if they are not known
    if words is not None:
        counts = WordCounts(words.language)
        for source, target in pairs:
            counts.add(source, target)
        words = counts.add_to(words)
    return msgspec.structs.replace(
        old.for_other_weights(),
        update=n_updates,
        pairs=(old.pairs or 0) + len(pairs),
        source_bytes=(old.source_bytes or 0) + source_bytes,
        target_bytes=(old.target_bytes or 0) + target_bytes,
        corpora=(*old.without_folders().corpora, *(PairFiles(tsv=Path(name)) for name in names)),
        words=words,
    )
