"""A training run from its files to its end: text, trainer, resume, and the loop of updates.

Prints nothing: it calls a reporter, and returns how the run ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from msgspec.structs import replace

from bytenmt.architectures.parameters import decoder_weights
from bytenmt.architectures.section import architecture
from bytenmt.atomic_file import write_atomically
from bytenmt.checkpoints.checkpoint import read_initial_weights, training_lock
from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.metrics import MetricsLog, Record
from bytenmt.checkpoints.weights import CONFIG, has_checkpoint, read_config
from bytenmt.config.fields import MAX_THREADS
from bytenmt.config.schedules import SCHEDULES_WITH_END, lr_factor, stopped_early
from bytenmt.config.schema import Config, config_toml, fingerprint
from bytenmt.config.train_section import TrainConfig
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.pair_files import PairFiles
from bytenmt.decoding.engine_selection import n_cores
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.plugins import METRICS
from bytenmt.reporter import SILENT, Reporter
from bytenmt.training.language_model import LanguageModelObjective
from bytenmt.training.loop import TrainingLoop
from bytenmt.training.precision import precision_of
from bytenmt.training.trainer import Objective, Trainer
from bytenmt.training.translation import TranslationObjective

MAX_JUMP = 1.2  # of the learning rate at a resumption, above which there is a warning


def train(
    run: Path,
    config: Config,
    *,
    files: Sequence[PairFiles],
    valid: PairFiles,
    more_valid: Sequence[PairFiles] = (),
    device: torch.device,
    resume: bool = False,
    init_from: Path | None = None,
    group: Group = SINGLE_PROCESS,
    reporter: Reporter = SILENT,
    watch: Callable[[Record], None] | None = None,
    threads: int | None = None,
) -> int:
    """Train a model into the folder `run`; return the number of the signal that stopped it, or 0.

    0 means that the run has come to its end. All processes of `group` must call this together.

    files, valid: the training and the validation text, all with a source, or all targets alone for
    a language model. more_valid: further validation texts: train.metric is the mean over all of
    them, so that one text does not choose alone. resume: continue from the run's checkpoint if it
    has one, else begin a new run. init_from: a run whose weights a new run begins with; ignored for
    a resumed one. watch: called with each record of metrics.jsonl, in the leading process. threads:
    of the CPU; None: as many as the resumed run had, for a new one PyTorch's number. Raises
    BytenmtError before anything is written where an input cannot be used.
    """
    _check(config, files)
    leader_reporter = reporter if group.is_leader else SILENT
    _warn_of_keys_without_effect(config, files, leader_reporter)
    with preserve_thread_count(), ExitStack() as stack:
        # 1) the configuration, with the precision of this machine, and the text
        is_resumed = resume and group.broadcast(has_checkpoint(run))
        config = _with_precision(config, run, device, group, is_resumed)
        objective = _open_texts(config, files, [valid, *more_valid], device, group)
        facts = objective.facts()
        # 2) model and optimiser, fresh or as they were
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # TF32
        torch.set_num_threads(threads or torch.get_num_threads())  # initial weights depend on them
        trainer = Trainer(config, device, group, objective)
        if is_resumed:
            _check_same_text(run, trainer.load(run), facts)
        elif init_from is not None:
            file, tensors = group.on_leader(lambda: read_initial_weights(init_from, config.model))
            trainer.begin_with(tensors, file)
            leader_reporter.say(f"starting from the weights of {file}")
        _set_threads(trainer, threads)
        # 3) the run folder, and the loop
        group.on_leader(lambda: stack.enter_context(training_lock(run)))
        log = None
        if group.is_leader:
            _report_text(objective, facts, reporter)
            write_atomically(run / CONFIG, config_toml(config).encode())
            log = MetricsLog(run, trainer.progress.update, trainer.progress.validated, watch)
        if resume and not is_resumed:
            leader_reporter.warn(
                f"--resume: {run} holds nothing to resume: the run starts at update 0"
            )
        return _run_loop(TrainingLoop(run, trainer, facts, log, leader_reporter), is_resumed)


def _run_loop(loop: TrainingLoop, is_resumed: bool) -> int:
    """Train until the end, and report beginning and end; return the number of a signal, or 0."""
    run = loop.run
    trainer = loop.trainer
    reporter = loop.reporter
    if is_resumed and loop.has_ended() and not loop.is_validation_missing():
        reporter.say(f"{_describe_end(run, trainer)}: raise its limits or --patience to go on")
        return 0
    if is_resumed:
        reporter.say(f"resuming {run} at update {trainer.progress.update}")
        _warn_of_jump(trainer, reporter)
    else:
        _warn_of_long_warmup(trainer.config.train, reporter)
    reporter.say(_describe(trainer))
    signal_number = loop.go()
    reporter.say(_describe_end(run, trainer, is_signalled=signal_number > 0))
    return signal_number


def _check(config: Config, files: Sequence[PairFiles]) -> None:
    """Raise BytenmtError for settings that do not go together."""
    train = config.train
    has_source = files[0].has_source
    if has_source != config.model.source:
        mistake = "false, but the text has a" if has_source else "true, but the text has no"
        raise ConfigError(f"model.source is {mistake} source: change the text or the key")
    has_limit = train.max_updates or train.max_epochs or train.max_minutes
    if train.schedule in SCHEDULES_WITH_END and not has_limit:
        raise ConfigError(
            f"train.schedule = {train.schedule} needs an end: give --max-minutes, --max-epochs or"
            " --max-updates, or set train.schedule=inverse_sqrt"
        )
    is_of_translations = METRICS[train.metric].line_values is not None
    if is_of_translations and not (has_source and train.valid_lines):
        raise ConfigError(
            f"train.metric = {train.metric} needs a source, and train.valid_lines above 0"
        )
    if train.teacher_forcing < 1 and not has_source:
        raise ConfigError("train.teacher_forcing below 1 needs a source: leave it at 1")


def _warn_of_keys_without_effect(
    config: Config, files: Sequence[PairFiles], reporter: Reporter
) -> None:
    """Warn of settings of the text that a language model does not read."""
    if config.model.source:
        return
    unread = list(config.data.augmentations)
    if any(text.weight != 1 for text in files):
        unread.append("weight")
    if unread:
        reporter.warn(f"without effect on a language model: {', '.join(unread)}")


def _warn_of_long_warmup(train: TrainConfig, reporter: Reporter) -> None:
    """Warn where a run ends in updates before its learning rate has reached its peak."""
    if 0 < train.max_updates <= train.warmup_updates:
        reporter.warn(
            f"train.warmup_updates is {train.warmup_updates:,}, and the run ends after"
            f" {train.max_updates:,} updates: the learning rate never reaches its peak; lower"
            " train.warmup_updates"
        )


def _warn_of_jump(trainer: Trainer, reporter: Reporter) -> None:
    """Warn where a run goes on with a much higher learning rate, because its end has moved."""
    train = trainer.config.train
    next_lr = train.lr * lr_factor(train, trainer.progress)
    is_warm = trainer.progress.update >= train.warmup_updates
    if train.schedule in SCHEDULES_WITH_END and is_warm and next_lr > MAX_JUMP * trainer.lr:
        reporter.warn(
            f"the learning rate jumps from {trainer.lr:.3g} to {next_lr:.3g}: train.schedule ="
            f" {train.schedule} depends on the end of the run, which has moved; for a run that may"
            " be extended choose wsd and extend it before its decay, or a schedule without an end"
        )


def _with_precision(
    config: Config, run: Path, device: torch.device, group: Group, is_resumed: bool
) -> Config:
    """Return the configuration with this machine's precision, or that of the resumed run."""
    if config.train.precision != "auto":
        return config
    precision = group.on_leader(
        lambda: (
            read_config(run).train.precision if is_resumed else precision_of(device, config.model)
        )
    )
    return replace(config, train=replace(config.train, precision=precision))


def _set_threads(trainer: Trainer, threads: int | None) -> None:
    """Set the number of CPU threads: those that are given, else those that the run had."""
    progress = trainer.progress
    # Batches differ in shape: with 1,024 entries, as it has by default, oneDNN's cache of compiled
    # matrix products takes 800 MB and saves no time. Other programs that the caller starts are as
    # fast with it.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    if threads is None and trainer.device.type != "cpu":
        return
    former_threads = progress.threads or torch.get_num_threads()
    progress.threads = threads or min(former_threads, n_cores(), MAX_THREADS)
    torch.set_num_threads(progress.threads)


def _report_text(objective: Objective, facts: Facts, reporter: Reporter) -> None:
    """Report the sizes of the texts, and how many lines have several sentences."""
    objective.report(reporter)
    if facts.multi_sentence_share is not None:
        reporter.say(
            f"{facts.multi_sentence_share:.1%} of the training lines contain several sentences"
        )


def _open_texts(
    config: Config,
    files: Sequence[PairFiles],
    valid: Sequence[PairFiles],
    device: torch.device,
    group: Group,
) -> Objective:
    """Open the texts of a run. Raises BytenmtError where they cannot be used."""
    if not config.model.source:
        texts = [pair.tgt for pair in files if pair.tgt is not None]
        return LanguageModelObjective(config, texts, valid[0].tgt, device, group)
    limits = config.data.max_source_bytes, config.data.max_target_bytes
    corpus, valid_corpus = (ParallelCorpus.open_all(text, *limits) for text in (files, valid))
    corpus.require_pairs()
    valid_corpus.require_pairs()
    return TranslationObjective(config, corpus, valid_corpus, device, group)


def _check_same_text(run: Path, saved: Facts, now: Facts) -> None:
    """Raise BytenmtError where a run was trained on another amount of text."""

    def size(facts: Facts) -> str:
        if facts.texts:
            return ", ".join(f"{text.bytes:,} bytes" for text in facts.texts)
        sides = f"{facts.source_bytes or 0:,} and {facts.target_bytes or 0:,} bytes"
        return f"{facts.pairs:,} pairs, {sides}"

    # A program with a loop of its own may not have recorded the text.
    is_recorded = bool(saved.texts) or saved.pairs is not None
    if is_recorded and size(saved) != size(now):
        raise BytenmtError(
            f"{run} was trained on other text: {size(saved)}, now {size(now)}; give the files that"
            " it was started with, in their order, or another folder as -o"
        )
    if saved.patterns != now.patterns and saved.patterns is not None:
        raise BytenmtError(
            f"{run} was trained with version {saved.patterns} of the patterns of spans, which is"
            f" {now.patterns} now: begin anew, with --init-from its weights"
        )


@contextmanager
def preserve_thread_count() -> Iterator[None]:
    """Restore PyTorch's number of CPU threads at the end of the context."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _describe(trainer: Trainer) -> str:
    """Return a line about the model, where it is trained, and the configuration."""
    config = trainer.config
    n_parameters = sum(p.numel() for p in trainer.model.parameters())
    place = str(trainer.device)
    if trainer.device.type == "cpu":
        n_threads = torch.get_num_threads()
        place += f", {n_threads} CPU thread{'s' * (n_threads > 1)}"
    if trainer.group.size > 1:
        place += f", {trainer.group.size} processes"
    return (
        f"{architecture(config.model)}, {n_parameters:,} parameters"
        f" ({decoder_weights(config.model):,} in the decoder), {place}, {config.train.precision},"
        f" configuration {fingerprint(config)}"
    )


def _describe_end(run: Path, trainer: Trainer, is_signalled: bool = False) -> str:
    """Return a line about the end of a run, or about its stop by a signal."""
    progress = trainer.progress
    if is_signalled:
        return f"stopped at update {progress.update}, saved; continue with --resume"
    train = trainer.config.train
    finished = f"finished at update {progress.update}"
    if reason := stopped_early(train, progress):
        finished += f" ({reason})"
    metric = train.metric.replace("_", " ")
    if progress.best is None:
        return f"{finished}; every validation's {metric} was NaN: {run}"
    return (
        f"{finished}; best validation {metric} {progress.best:.4f} at update"
        f" {progress.best_update}: {run}"
    )
