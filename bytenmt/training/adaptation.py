"""Adapt a model to the pairs of a translation memory, without its former training text.

1. Some of the pairs are held out. The model is trained on the others until it gets no better on
  these; if
   they are too few to tell, for a fixed number of updates. Only the tables of long n-grams and of
   words
   learn: other text has others and hardly reads the rows that change, so that little of it is
   forgotten. Of a model without such tables all weights learn, at a low rate.
2. Of a small memory the held-out pairs are learned too: the model is trained on all pairs for as
  many
   updates.
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
from bytenmt.config.schema import Config
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.pair_files import PairFiles
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.errors import BytenmtError, DataError
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.evaluation.scores import text_scores
from bytenmt.reporter import SILENT, Reporter
from bytenmt.training.optim import fraction_done, stopped_early
from bytenmt.training.run import preserve_thread_count
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import CPU, TranslationObjective
from bytenmt.translation.settings import Settings
from bytenmt.translation.translator import Translator

FEWEST_PAIRS = 20
HELD_OUT_SHARE, MOST_HELD_OUT = 0.2, 200  # of the pairs; pairs
SMALL_MEMORY = 1000  # pairs; of a larger memory the held-out pairs are not missed
FEWEST_TO_STOP_BY = 30  # held-out pairs
FIXED_UPDATES = 120  # if there are fewer
PASSES, PATIENCE = 28, 6  # over the pairs at most; validations without a better one
LONG = 4  # bytes: the tables of n-grams from this n on learn, and that of words
NGRAM_LEARNING_RATE = 2e-2  # of their rows
LEARNING_RATE = 6e-5  # of AdamW, of a model without such tables
BATCHES, FEWEST_BYTES = 4, 1000  # of a pass, at least, as long as a batch has so many bytes
MOST_UPDATES = 200  # of each of the two trainings: about half a minute of one core
LEAST_GAIN = 1e-3  # bits per byte of the held-out pairs, below which nothing is written
Pair = tuple[str, str]


class Measurement(NamedTuple):
    """The quality of a model on some pairs: likelihood of the references, and chrF of its
    translations."""

    bits: float  # per byte of the references given their sources, EOS included
    chrf: float  # 0 to 100


class AdaptationReport(NamedTuple):
    """The result of `adapt`, with measurements of the model before and after it."""

    n_pairs: int  # pairs of the memory, one for each source
    n_held_out: int  # pairs that the model was tested on, and did not learn before
    n_updates: int  # of the training
    held_out: tuple[Measurement, Measurement]  # on the held-out pairs, before and after


def adapt(
    model: Path,
    pairs: Sequence[Pair],
    output: Path,
    *,
    names: Sequence[str],
    seed: int = 1,
    reporter: Reporter = SILENT,
) -> AdaptationReport:
    """Fine-tune a translation model on (source, target) pairs, as of a translation memory, and lose
    little on other text; write it as output/model.safetensors, in the precision of the model's
    file.

    model: a run folder or a weights file; names: of the memories, recorded in the new file. Raises
    BytenmtError, and writes no model, where the pairs are too few or do not help.
    """
    stored = read_run(model)[1]
    config = stored.config
    if not config.model.source:
        raise BytenmtError(
            f"{model} was trained without a source: it cannot be adapted to translations"
        )
    unique = list(dict(pairs).items())  # the later translation of a source
    if len(unique) < FEWEST_PAIRS:
        raise DataError(
            f"{len(unique)} different pairs: a model is adapted to {FEWEST_PAIRS} or more"
        )
    random.Random(seed).shuffle(unique)
    n_held_out = min(MOST_HELD_OUT, math.ceil(HELD_OUT_SHARE * len(unique)))
    held_out, learned = unique[:n_held_out], unique[n_held_out:]
    place = output if output.is_dir() else output.parent  # a failure leaves no empty `output`
    place.mkdir(parents=True, exist_ok=True)
    _, old = read_initial_weights(model, config.model)
    with preserve_thread_count(), tempfile.TemporaryDirectory(dir=place) as folder:
        torch.set_num_threads(1)  # the same weights on every machine load
        fixed = FIXED_UPDATES * (n_held_out < FEWEST_TO_STOP_BY)
        new, n_updates = _train(config, old, learned, held_out, seed, fixed)
        facts = _facts(stored.facts, unique, names, n_updates)
        tested = Path(folder) / PUBLISHED
        _write(tested, new, stored, facts)
        before, after = _measure(model, held_out, reporter), _measure(tested, held_out)
        if after.bits > before.bits - LEAST_GAIN:
            raise BytenmtError(
                f"the {len(held_out)} held-out pairs of {len(unique)} get no better: nothing was written;"
                " give more pairs, or pairs that are more like each other"
            )
        if len(unique) < SMALL_MEMORY:
            new, _ = _train(config, old, unique, held_out, seed, n_updates)
        output.mkdir(exist_ok=True)
        _write(output / PUBLISHED, new, stored, facts)
    return AdaptationReport(len(unique), n_held_out, n_updates, (before, after))


def _train(
    config: Config,
    start: Mapping[str, Tensor],
    pairs: Sequence[Pair],
    held_out: Sequence[Pair],
    seed: int,
    n_updates: int = 0,
) -> tuple[Mapping[str, Tensor], int]:
    """Train from some weights; return those that are best on the held-out pairs, and their update.

    n_updates: make so many updates instead, and return the last weights.
    """
    model = config.model
    n_short = sum(n < LONG for n in model.ngrams) * model.n_ngram_rows
    has_long = len(model.ngrams) > 0 and n_short < len(start[NGRAM_TABLES])
    n_bytes = sum(len(text.encode()) for pair in pairs for text in pair)
    max_tokens = min(config.train.max_tokens, max(FEWEST_BYTES, n_bytes // BATCHES))
    settings = msgspec.structs.replace(
        config.train,
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
        max_tokens=max_tokens,
        max_updates=n_updates or MOST_UPDATES,
        max_epochs=0.0 if n_updates else float(PASSES),
        max_minutes=0.0,
        patience=0 if n_updates else PATIENCE,
    )
    valid_every = n_updates or min(25, 2 * math.ceil(n_bytes / max_tokens))
    limits = config.data.max_source_bytes, config.data.max_target_bytes
    learned, valid = (_corpus(some, limits) for some in (pairs, held_out))
    objective = TranslationObjective(
        msgspec.structs.replace(config, train=settings), learned, valid
    )
    trainer = Trainer(objective.config, CPU, objective=objective)
    trainer.begin_with(dict(start), Path("the model"))
    progress, best = trainer.progress, start
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
            if n_updates or bits < (math.inf if progress.best is None else progress.best):
                progress.best, progress.best_update, progress.waited = bits, progress.update, 0
                best = {
                    name: tensor.detach().clone()
                    for name, tensor in model_tensors(trainer.model).items()
                }
        if is_last or stopped_early(settings, progress):
            break
    return best, progress.best_update


def _corpus(
    pairs: Sequence[Pair], limits: tuple[int | None, int | None] = (None, None)
) -> ParallelCorpus:
    contents = ("".join(f"{pair[side]}\n" for pair in pairs).encode() for side in (0, 1))
    source, target = (TextFile.from_bytes(content, "the pairs") for content in contents)
    return ParallelCorpus.from_texts(source, target, *limits)


def _measure(model: Path, pairs: Sequence[Pair], reporter: Reporter = SILENT) -> Measurement:
    """Measure a model as it is used: its weights file, by the engine that translates."""
    runtime = load_runs([model], EngineSpec(AUTO, "cpu", AUTO, 1), reporter)
    translator = Translator.from_runtime(runtime, Settings.from_dict({}))
    texts = [
        text.decode() for text in translator.translate([source.encode() for source, _ in pairs])
    ]
    chrf = text_scores(texts, [target for _, target in pairs]).chrf
    corpus = _corpus(pairs)
    bits = bits_per_byte(log_probabilities(runtime.make_scorer(), corpus), corpus.target_lengths)
    return Measurement(bits, chrf)


def _write(path: Path, weights: Mapping[str, Tensor], stored: StoredWeights, facts: Facts) -> None:
    arrays = {name: tensor.numpy() for name, tensor in weights.items()}
    write_rounded(path, arrays, stored.config, facts, stored.precision)


def _facts(old: Facts, pairs: Sequence[Pair], names: Sequence[str], n_updates: int) -> Facts:
    """Return the facts of the adapted model: it has learned the former text and the pairs."""
    n_bytes = [sum(len(pair[side].encode()) for pair in pairs) for side in (0, 1)]
    return msgspec.structs.replace(
        old.for_other_weights(),
        update=n_updates,
        pairs=(old.pairs or 0) + len(pairs),
        source_bytes=(old.source_bytes or 0) + n_bytes[0],
        target_bytes=(old.target_bytes or 0) + n_bytes[1],
        corpora=(*old.without_folders().corpora, *(PairFiles(tsv=Path(name)) for name in names)),
    )
