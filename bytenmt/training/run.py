"""A training run from its files to its end: text, trainer, resume, and the loop of updates.

Prints nothing: it calls a reporter, and returns how the run ended. All processes of a group go
through the loop together and agree on every number that decides something.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor

from bytenmt.architectures.parameters import decoder_weights
from bytenmt.architectures.section import architecture
from bytenmt.atomic_file import write_atomically
from bytenmt.checkpoints.checkpoint import read_initial_weights, training_lock
from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.metrics import MetricsLog, Record
from bytenmt.checkpoints.weights import CONFIG, has_checkpoint, read_config
from bytenmt.config.fields import MAX_THREADS
from bytenmt.config.schema import Config, config_toml, fingerprint
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.pair_files import PairFiles
from bytenmt.decoding.engine_selection import n_cores
from bytenmt.decoding.program_check import check_program
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.reporter import SILENT, Bar, Reporter
from bytenmt.training.language_model import LanguageModelObjective
from bytenmt.training.optim import fraction_done, stopped_early
from bytenmt.training.precision import precision_of
from bytenmt.training.trainer import Objective, Trainer
from bytenmt.training.translation import BatchShare, TranslationObjective

MOST_BITS, MOST_UPDATES = 16.0, 50  # of a byte, after so many updates: worse than any start


def train(
    run: Path,
    config: Config,
    *,
    files: Sequence[PairFiles],
    valid: PairFiles,
    device: torch.device,
    resume: bool = False,
    init_from: Path | None = None,
    group: Group = SINGLE_PROCESS,
    reporter: Reporter = SILENT,
    watch: Callable[[Record], None] | None = None,
    threads: int | None = None,
) -> int:
    """Train a model into the folder `run`, as one process of `group`; return the number of the
    signal that stopped it, as SIGINT, or 0 where it has come to its end.

    files, valid: the training and the validation text, all with a source, or all targets alone for
    a language model. resume: continue from the run's checkpoint if it has one, else begin a new
    run. init_from: a run whose weights a new run begins with; ignored for a resumed one. watch:
    called with each record of metrics.jsonl, in the leading process. threads: of the CPU; None: as
    many as the resumed run had, for a new one PyTorch's number. Raises BytenmtError before anything
    is written where an input cannot be used.
    """
    _check(config, files)
    leader_reporter = reporter if group.is_leader else SILENT
    unread = [*config.data.augmentations, *["weight"] * any(text.weight != 1 for text in files)]
    if unread and not config.model.source:
        leader_reporter.warn(f"without effect on a language model: {', '.join(unread)}")
    with preserve_thread_count(), ExitStack() as stack:
        is_resumed = resume and group.broadcast(has_checkpoint(run))
        # 1) the configuration, with the precision of this machine, and the text
        if config.train.precision == "auto":  # a run keeps it on another machine
            model = config.model
            precision = group.on_leader(
                lambda: (
                    read_config(run).train.precision if is_resumed else precision_of(device, model)
                )
            )
            config = replace(config, train=replace(config.train, precision=precision))
        objective = _open_texts(config, files, valid, device, group)
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
        progress = trainer.progress
        # Batches differ in shape: with 1,024 entries, as it has by default, oneDNN's cache of
        # compiled matrix products takes 800 MB and saves no time. Other programs that the caller
        # starts are as fast with it.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
        if threads is not None or device.type == "cpu":
            most = min(progress.threads or torch.get_num_threads(), n_cores(), MAX_THREADS)
            progress.threads = threads or most
            torch.set_num_threads(progress.threads)
        # 3) the run folder, and the loop
        log = None
        group.on_leader(lambda: stack.enter_context(training_lock(run)))
        if group.is_leader:
            objective.report(reporter)
            if facts.multi_sentence_share is not None:
                share = f"{facts.multi_sentence_share:.1%}"
                reporter.say(f"{share} of the training lines contain several sentences")
            write_atomically(run / CONFIG, config_toml(config).encode())
            log = MetricsLog(run, progress.update, watch)
        loop = TrainingLoop(run, trainer, facts, log, leader_reporter)
        if is_resumed and loop.has_ended():
            leader_reporter.say(
                f"{_describe_end(run, trainer)}: raise its limits or --patience to go on"
            )
            return 0
        if is_resumed:
            leader_reporter.say(f"resuming {run} at update {progress.update}")
        elif resume:
            leader_reporter.warn(
                f"--resume: {run} holds nothing to resume: the run starts at update 0"
            )
        leader_reporter.say(_describe(trainer))
        number = loop.go()
        stopped = f"stopped at update {progress.update}, saved; continue with --resume"
        leader_reporter.say(stopped if number else _describe_end(run, trainer))
        return number


def _check(config: Config, files: Sequence[PairFiles]) -> None:
    """Raise BytenmtError for settings that do not go together."""
    train, model, has_source = config.train, config.model, files[0].has_source
    if model.source != has_source:
        raise ConfigError(
            f"model.source is {str(model.source).lower()}, but the text has {'a' if has_source else 'no'}"
            " source: change the text or the key"
        )
    limits = (train.max_updates, train.max_epochs, train.max_minutes)
    if train.schedule in ("cosine", "linear", "wsd") and not any(limits):
        raise ConfigError(
            f"train.schedule = {train.schedule} needs an end: give --max-minutes, --max-epochs or"
            " --max-updates, or set train.schedule=inverse_sqrt"
        )
    if train.metric != "bits_per_byte" and not (has_source and train.valid_lines):
        raise ConfigError(
            f"train.metric = {train.metric} needs a source, and train.valid_lines above 0"
        )
    if train.teacher_forcing < 1 and not has_source:
        raise ConfigError("train.teacher_forcing below 1 needs a source: leave it at 1")


def _open_texts(
    config: Config, files: Sequence[PairFiles], valid: PairFiles, device: torch.device, group: Group
) -> Objective:
    """Open the texts of a run. Raises BytenmtError where they cannot be used."""
    if not config.model.source:
        texts = [pair.tgt for pair in files if pair.tgt is not None]
        return LanguageModelObjective(config, texts, valid.tgt, device, group)
    limits = config.data.max_source_bytes, config.data.max_target_bytes
    corpus, valid_corpus = (
        ParallelCorpus.open_all(corpus_files, *limits) for corpus_files in (files, [valid])
    )
    corpus.require_pairs()
    valid_corpus.require_pairs()
    return TranslationObjective(config, corpus, valid_corpus, device, group)


def _check_same_text(run: Path, saved: Facts, now: Facts) -> None:
    """Raise BytenmtError where a run was trained on another amount of text."""

    def size(facts: Facts) -> str:
        if facts.texts:
            return ", ".join(f"{text.bytes:,} bytes" for text in facts.texts)
        return f"{facts.pairs:,} pairs, {facts.source_bytes or 0:,} and {facts.target_bytes or 0:,} bytes"

    is_told = (
        bool(saved.texts) or saved.pairs is not None
    )  # not by a program with a loop of its own
    if is_told and size(saved) != size(now):
        raise BytenmtError(
            f"{run} was trained on other text: {size(saved)}, now {size(now)}; give the files that it was"
            " started with, in their order, or another folder as -o"
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
    n_parameters = sum(p.numel() for p in trainer.model.parameters())
    processes = f", {trainer.group.size} processes" if trainer.group.size > 1 else ""
    n_threads = torch.get_num_threads()
    threads = (
        f", {n_threads} CPU thread{'s' * (n_threads > 1)}" if trainer.device.type == "cpu" else ""
    )
    return (
        f"{architecture(trainer.config.model)}, {n_parameters:,} parameters"
        f" ({decoder_weights(trainer.config.model):,} in the decoder), {trainer.device}{threads}{processes},"
        f" {trainer.config.train.precision}, configuration {fingerprint(trainer.config)}"
    )


def _describe_end(run: Path, trainer: Trainer) -> str:
    progress, train = trainer.progress, trainer.config.train
    reason = stopped_early(train, progress)
    why = f" ({reason})" if reason else ""
    finished, metric = f"finished at update {progress.update}{why}", train.metric.replace("_", " ")
    if progress.best is None:
        return f"{finished}; every validation's {metric} was NaN: {run}"
    return f"{finished}; best validation {metric} {progress.best:.4f} at update {progress.best_update}: {run}"


class Meter:
    """Loss, bytes, waiting and time of one process since the last log record, for the next one."""

    def __init__(self) -> None:
        self.nats: list[Tensor] = []  # loss of each update; on the device until it is logged
        self.norm = torch.zeros(())  # of the last gradient
        self.target_bytes = self.all_bytes = 0
        self.waited = 0.0  # seconds, for batches
        self.started = time.monotonic()


class TrainingLoop:
    """The training loop: updates, validations, log records and checkpoints until a limit is
    reached, early stopping, or a signal. Call `go` once. A full disk ends it with a
    CheckpointError; --resume goes on.

    facts: of the training text, for checkpoints; log: None in all processes but the leading one;
    reporter: silent in these.
    """

    def __init__(
        self, run: Path, trainer: Trainer, facts: Facts, log: MetricsLog | None, reporter: Reporter
    ) -> None:
        self.run, self.trainer, self.facts, self.log, self.reporter = (
            run,
            trainer,
            facts,
            log,
            reporter,
        )
        self.group, self.progress, self.objective = (
            trainer.group,
            trainer.progress,
            trainer.objective,
        )
        self.settings = trainer.config.train
        self.bar = Bar()
        self.validated = -1  # the update of the last validation
        self.n_wrong = 0  # updates of late with a loss above MOST_BITS

    def go(self) -> int:
        """Train until the end, and save; return the number of the signal that stopped it, or 0. All
        processes must call it together."""
        progress, settings = self.progress, self.settings
        check_program(self.trainer.model, self.trainer.config.model, self.reporter)
        self.trainer.start_clock()  # not before: check_program may have compiled for a minute
        self.meter = Meter()
        shares = self.objective.shares(progress.epoch, progress.batch)
        self.trainer.model.train()
        begun = fraction_done(settings, progress)
        signals = _signals(self.group.size > 1, self.reporter)
        with signals as received, self.reporter.bar(1.0, "", begun) as self.bar:
            end = signalled = False
            while not end:
                signalled = self._update(shares, received)
                end = signalled or self.has_ended()
                valid_due = progress.update % settings.valid_every == 0 or (end and not signalled)
                valid_due = valid_due and self.validated != progress.update
                save_due = progress.update % settings.save_every == 0 or end
                if self.meter.nats and (
                    valid_due or save_due or progress.update % settings.log_every == 0
                ):
                    self._write_record()
                better = valid_due and self._validate()
                end = end or (valid_due and self.has_ended())
                if better or save_due or end:
                    self.trainer.save(self.run, better, self.facts)
            if not signalled:
                self.bar.show(1.0, f"update {progress.update}")
            return received[0] if received else int(signal.SIGTERM) * signalled

    def has_ended(self) -> bool:
        """Return whether a limit is reached, or training stops early; see optim.stopped_early."""
        place = self.settings, self.progress
        return fraction_done(*place) >= 1 or bool(stopped_early(*place))

    def _update(self, shares: Iterator[BatchShare], received: list[int]) -> bool:
        """Do one update; return whether any process has received a signal, after which none is
        done."""
        meter, begun = self.meter, time.monotonic()
        step_shares = list(islice(shares, self.settings.update_freq))
        meter.waited += time.monotonic() - begun
        (n_signals,) = self.trainer.sum_over_processes(len(received))
        if n_signals and self.progress.update:
            return True
        nats, meter.norm = self.trainer.learn(step_shares)
        meter.nats.append(nats)
        for share in step_shares:
            n_ends, target_bytes, source_bytes = share.data.counts
            meter.target_bytes += target_bytes - n_ends
            meter.all_bytes += target_bytes + source_bytes
        return n_signals > 0

    def _write_record(self) -> None:
        """Log what happened since the last record. Raises BytenmtError where training has diverged."""
        meter, own_nats = self.meter, float(torch.stack(self.meter.nats).double().sum())
        sums = self.trainer.sum_over_processes(own_nats, meter.target_bytes, meter.all_bytes)
        (nats, target_bytes, all_bytes), seconds = sums, time.monotonic() - meter.started
        bits, rate = nats / math.log(2) / max(1, target_bytes), all_bytes / seconds
        self.n_wrong = (self.n_wrong + len(meter.nats)) * (bits > MOST_BITS)
        if not math.isfinite(nats) or self.n_wrong >= MOST_UPDATES:
            kept = (
                "the last checkpoint is kept"
                if has_checkpoint(self.run)
                else "nothing has been saved"
            )
            raise BytenmtError(
                f"training has diverged ({bits:g} bits a byte): lower train.lr or raise"
                f" train.warmup_updates, or check your plugins; {kept}"
            )
        self._log(
            {
                "train_bits_per_byte": bits,
                "gradient_norm": float(meter.norm),
                "bytes_per_second": rate,
                "waiting_for_data": meter.waited / seconds,
            }
        )
        text = f"update {self.progress.update}, {bits:.3f} bits/byte, {rate / 1000:.1f} kB/s"
        self.bar.show(fraction_done(self.settings, self.progress), text)
        self.meter = Meter()

    def _log(self, values: Mapping[str, Any]) -> None:
        progress, lr = self.progress, self.trainer.lr
        if self.log is not None:
            now = {
                "update": progress.update,
                "epoch": progress.epoch,
                "seconds": round(progress.seconds, 3),
            }
            self.log.write({**now, "lr": lr, **values})

    def _validate(self) -> bool:
        """Score the validation text; return whether the weights are the best so far."""
        progress, settings = self.progress, self.settings
        self.bar.show(fraction_done(settings, progress), f"update {progress.update}, validating …")
        self.trainer.sum_over_processes()
        with self.trainer.averaged():
            model = self.trainer.model.eval()
            record = self.group.broadcast(
                self.objective.score(model) | self.objective.decode(model)
            )
            model.train()
        better = self._is_best(record)
        self.trainer.sum_over_processes()
        self._log(record)
        self.validated = progress.update
        scores = ", ".join(
            f"{name.removeprefix('valid_').replace('_', ' ')} {value:.4g}"
            for name, value in record.items()
            if isinstance(value, float)
        )
        self.reporter.say(f"update {progress.update}, {progress.seconds / 60:.1f} min: {scores}")
        self.meter = Meter()
        return better

    def _is_best(self, record: Mapping[str, Any]) -> bool:
        """Return whether a validation is the best so far, and note it in the progress. NaN never
        is."""
        progress, metric = self.progress, self.settings.metric
        value, best = float(record[f"valid_{metric}"]), self.progress.best
        is_higher = metric == "chrf"
        better = not math.isnan(value) and (
            best is None or (value > best if is_higher else value < best)
        )
        if better:
            progress.best, progress.best_update, progress.waited = value, progress.update, 0
        else:
            progress.waited += 1
            progress.standstills += 1
        return better


@contextmanager
def _signals(patient: bool, reporter: Reporter) -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM, so that no update is cut in half; the second one raises
    KeyboardInterrupt, but not if `patient`: torchrun passes on what the terminal has sent already.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield received
        return

    def hold(number: int, frame: FrameType | None) -> None:
        if received and not patient:
            raise KeyboardInterrupt(number)
        received.append(number)
        with suppress(RuntimeError):  # where it interrupts the writing of another line
            hint = "" if patient else "; another Ctrl-C stops at once and saves nothing"
            reporter.say(f"stopping at the end of this update{hint}")

    before = {number: signal.signal(number, hold) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
