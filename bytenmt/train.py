"""A training run from its files to its end: corpora, trainer, resume, and the loop.

Does not know architectures.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from bytenmt.checkpoint import has_checkpoint, load_embedding, write_atomically
from bytenmt.config import CONVOLUTIONAL, Config, architecture, config_toml, fingerprint
from bytenmt.corpus import PairFiles, ParallelCorpus
from bytenmt.distributed import ALONE, Group
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.inventory import inventory
from bytenmt.loop import Loop
from bytenmt.optimise import stopped_early
from bytenmt.pointer import CONFIG
from bytenmt.report import Log, require_tensorboard
from bytenmt.trainer import Trainer

WIDTHS_TO_COMPILE = 16  # the least train.round_to with which train.compile makes sense
CACHE, LEFT_OUT = "cache", "left_out.tsv"  # in the run folder: unpacked texts, pairs that are not used


def train(
    run: Path,
    config: Config,
    *,
    files: Sequence[PairFiles],
    valid: PairFiles,
    device: torch.device,
    errors: str = "replace",
    resume: bool = False,
    resume_from: int | None = None,
    init_embedding: Path | None = None,
    tensorboard: bool = False,
    group: Group = ALONE,
) -> None:
    """Train a model into the folder `run`, as one process of `group`.

    files, valid: all with a source or all without. resume: go on from the run's last checkpoint where
    there is one, or from that of update resume_from. Raises BytenmtError before anything is written where
    an input cannot be used; exits with 128 + the signal where one has stopped it.
    """
    _check(config, files, tensorboard)
    corpus, valid_corpus = _open(run, config, files, valid, errors, group)
    saved = resume and group.broadcast(has_checkpoint(run))
    if saved and init_embedding is not None:
        raise BytenmtError(f"--init-embedding would be ignored: {run} goes on from its own weights")
    trainer = Trainer(config, device, group)
    if init_embedding is not None:
        load_embedding(trainer.model, init_embedding)
    facts = _facts(corpus)
    if saved:
        _check_facts(run, trainer.load(run, resume_from), facts)
    log = None
    if group.leads:
        run.mkdir(parents=True, exist_ok=True)
        write_atomically(run / CONFIG, config_toml(config).encode())
        log = Log(run, trainer.progress.update, tensorboard)
    loop = Loop(run, trainer, corpus, valid_corpus, log, facts)
    progress = trainer.progress
    if saved and loop.ended():
        _say(group, f"{run} is finished at update {progress.update}")
        return
    if saved:
        _say(group, f"resuming {run} at update {progress.update}")
    _say(group, _describe(trainer))
    number = loop.go()
    if number:
        _say(group, f"stopped at update {progress.update}, saved; --resume goes on")
        sys.exit(128 + number)
    reason = stopped_early(config.train, progress)
    why = f" ({reason})" if reason else ""
    best = f"{config.train.metric.replace('_', ' ')} {progress.best:.4f}"
    where = f"at update {progress.best_update}: {run}"
    _say(group, f"finished at update {progress.update}{why}; best validation {best} {where}")


def _check(config: Config, files: Sequence[PairFiles], tensorboard: bool) -> None:
    """Settings that do not go together. Raises BytenmtError."""
    train = config.train
    arch = architecture(config.model)
    if train.compile and arch not in CONVOLUTIONAL:
        raise ConfigError(f"train.compile would unroll the steps of {arch}: leave it off")
    if train.compile and train.round_to < WIDTHS_TO_COMPILE:
        raise ConfigError(
            f"train.compile compiles for every width of a batch: set train.round_to={4 * WIDTHS_TO_COMPILE}"
            " or so, that they are few"
        )
    if train.schedule == "cosine" and not (train.max_updates or train.max_minutes):
        raise ConfigError(
            "train.schedule = cosine needs an end: give --max-minutes or train.max_updates,"
            " or set train.schedule=inverse_sqrt"
        )
    if train.metric == "chrf" and not (files[0].has_source and train.valid_lines):
        raise ConfigError("train.metric = chrf needs a source, and train.valid_lines above 0")
    if tensorboard:
        require_tensorboard()


def _open(
    run: Path, config: Config, files: Sequence[PairFiles], valid: PairFiles, errors: str, group: Group
) -> tuple[ParallelCorpus, ParallelCorpus]:
    """The corpora, with a report. The leading process opens them first: it unpacks what is packed."""
    limits = config.data.max_source_bytes, config.data.max_target_bytes
    if not group.leads:
        group.barrier()
    corpus = ParallelCorpus.open_all(files, errors, *limits, cache=run / CACHE)
    valid_corpus = ParallelCorpus.open_all([valid], errors, *limits, cache=run / CACHE)
    for part in (corpus, valid_corpus):
        part.require_pairs()
    if group.leads:
        for line in [*inventory(corpus, run / LEFT_OUT), *inventory(valid_corpus)]:
            print(line, file=sys.stderr)
        group.barrier()
    return corpus, valid_corpus


def _facts(corpus: ParallelCorpus) -> dict[str, object]:
    """What a resume must find again: the same text."""
    source, target = (
        int(lengths.sum(dtype="int64")) for lengths in (corpus.source_lengths, corpus.target_lengths)
    )
    return {"pairs": len(corpus), "source_bytes": source, "target_bytes": target}


def _check_facts(run: Path, saved: Mapping[str, object], facts: Mapping[str, object]) -> None:
    for name, value in facts.items():
        if saved[name] != value:
            raise BytenmtError(
                f"{run} was trained on other text: {saved[name]} {name.replace('_', ' ')}, now {value};"
                " give the files that it began with, or -o another folder"
            )


def _describe(trainer: Trainer) -> str:
    n_parameters = sum(p.numel() for p in trainer.parameters)
    processes = f", {trainer.group.size} processes" if trainer.group.size > 1 else ""
    return (
        f"{architecture(trainer.config.model)}, {n_parameters:,} parameters"
        f" ({trainer.model.decoder_weights():,} in the decoder), {trainer.device}{processes},"
        f" configuration {fingerprint(trainer.config)}"
    )


def _say(group: Group, text: str) -> None:
    if group.leads:
        print(text, file=sys.stderr)
