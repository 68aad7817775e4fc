"""The training loop: updates until a limit, a standstill or a signal, with validation and checkpoints.

All processes of a group go through it together and agree on every number that decides something. Does not
know architectures, nor what an update is.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from bytenmt.architectures.base import Model
from bytenmt.checkpoints.weights import has_checkpoint
from bytenmt.config.schema import TrainConfig
from bytenmt.config.spacing import AUTO, Spacing, Timer, spacing
from bytenmt.decoding.program_check import check_program
from bytenmt.errors import BytenmtError, CheckpointError, ConfigError
from bytenmt.plugins import METRICS, OPTIMIZERS
from bytenmt.reporter import Bar, Reporter
from bytenmt.training.metrics import Log, Meter
from bytenmt.training.optim import fraction_done, lr_factor, stopped_early
from bytenmt.training.task import Decoded, Share, Task
from bytenmt.training.trainer import Trainer
from bytenmt.training.validation import LAST, SHARE, seconds_left

BY_UPDATES = Spacing(updates=500)  # where train.valid_every and train.save_every are left to us
MOST_BITS, MOST_UPDATES = 16.0, 50  # of a byte, after so many updates: worse than any start
VALID_TIME, SAVE_TIME = Spacing(seconds=120.0), Spacing(seconds=300.0)


def spacings(train: TrainConfig) -> tuple[Spacing, Spacing]:
    """From one validation to the next, and from one checkpoint to the next.

    Left to us they are times where the run's own limit is one. A run that ends by updates stays the same to
    its best checkpoint however quick the machine is, and so does what is decided by counting validations.
    Raises ConfigError where those would be counted that come by the clock.
    """
    timed = bool(train.max_minutes)
    counting = "train.patience" if train.patience else "the plateau schedule"
    counted = train.patience > 0 or train.schedule == "plateau"
    valid = spacing(train.valid_every, VALID_TIME if timed and not counted else BY_UPDATES)
    if counted and not valid.updates:
        raise ConfigError(
            f"{counting} counts validations, whose interval must then be in updates, but train.valid_every"
            f" is {train.valid_every}: give --valid-every {BY_UPDATES.updates}, or leave it out"
        )
    return valid, spacing(train.save_every, SAVE_TIME if timed else BY_UPDATES)


class Loop:
    """One run of updates. log: None in all processes but the leading one; reporter: silent in them."""

    def __init__(
        self,
        run: Path,
        trainer: Trainer,
        task: Task,
        log: Log | None,
        reporter: Reporter,
    ) -> None:
        self.run = run
        self.trainer = trainer
        self.group = trainer.group
        self.progress = trainer.progress
        self.settings = trainer.config.train
        valid, save = spacings(self.settings)
        self.valid_timer = Timer(valid, self.progress.seconds)
        self.save_timer = Timer(save, self.progress.seconds)
        self.stretches = self.settings.valid_every == AUTO and not valid.updates
        self.task = task
        self.log = log
        self.facts = task.facts()
        self.meter = Meter()
        trainer.start_clock()
        self.reporter = reporter
        self.bar = Bar()
        self.told_of_time = False
        self.validated = -1  # the update of the last validation
        self.wrong_updates = 0  # of late, with a loss above MOST_BITS

    def go(self) -> int:
        """Update until the end; returns the signal that ended it, or 0."""
        progress, settings = self.progress, self.settings
        check_program(self.trainer.model, self.trainer.config.model)
        shares = self.task.shares(progress.epoch, progress.batch)
        self.trainer.model.train()
        begun = fraction_done(settings, progress)
        with (
            _signals(self.group.size > 1) as received,
            self.reporter.bar(1.0, "", begun) as self.bar,
            self.task.preparing(self.trainer.model),
        ):
            end = signalled = False
            while not end:
                signalled = self._update(shares, received)
                end = signalled or self.ended()
                valid_due = self.valid_timer.due(progress.update, progress.seconds)
                valid_due = valid_due or (end and not signalled)
                valid_due = valid_due and self.validated != progress.update
                save_due = self.save_timer.due(progress.update, progress.seconds) or end
                if self.meter.nats and (valid_due or save_due or progress.update % settings.log_every == 0):
                    self._write_record()
                best = progress.best, progress.best_update
                better = valid_due and self._validate(end)
                end = end or (valid_due and self.ended())
                if better or save_due or end:
                    self._save(better, best, end)
            if not signalled:
                self.bar.show(1.0, f"update {progress.update}")
            return received[0] if received else int(signal.SIGTERM) * signalled

    def ended(self) -> bool:
        """Return whether a limit is reached, or the validation stopped improving."""
        stopped = stopped_early(self.settings, self.progress)
        return fraction_done(self.settings, self.progress) >= 1 or bool(stopped)

    def _update(self, shares: Iterator[Share], received: list[int]) -> bool:
        """Do one update; return whether any process has received a signal, after which none is done."""
        asked = time.monotonic()
        taken = list(islice(shares, self.settings.update_freq))
        step = [share.data for share in taken]
        self.meter.waited += time.monotonic() - asked
        counts = [sum(count) for count in zip((0, 0, 0), *(batch.counts for batch in step), strict=True)]
        sums = self.trainer.sum_over_processes(*counts, len(received))
        n_ends, target_bytes, source_bytes, n_signals = (int(value) for value in sums)
        if n_signals and self.progress.update:
            return True
        self.trainer.move_behind(taken[-1])
        nats, self.meter.norm = self.trainer.update(step, target_bytes)
        self.meter.nats.append(nats)
        self.meter.target_bytes += target_bytes - n_ends
        self.meter.all_bytes += target_bytes + source_bytes
        return n_signals > 0

    def _write_record(self) -> None:
        """Write a record of what happened since the last one.

        Raises BytenmtError where training has diverged.
        """
        (nats,) = self.trainer.sum_over_processes(float(torch.stack(self.meter.nats).double().sum()))
        if not math.isfinite(nats):
            raise BytenmtError(self._diverged("NaN or infinite"))
        record = self.meter.read(nats)
        is_wrong = record["train_bits_per_byte"] > MOST_BITS
        self.wrong_updates = (self.wrong_updates + len(self.meter.nats)) * is_wrong
        if self.wrong_updates >= MOST_UPDATES:
            raise BytenmtError(self._diverged(f"above {MOST_BITS:g} bits a byte"))
        self._log(record)
        text = (
            f"update {self.progress.update}, {record['train_bits_per_byte']:.3f} bits/byte,"
            f" {record['bytes_per_second'] / 1000:.1f} kB/s"
        )
        self.bar.show(fraction_done(self.settings, self.progress), text)
        self.meter = Meter()

    def _diverged(self, loss: str) -> str:
        """Say what the loss is, which plugins may be the cause, and what is left of the run."""
        settings = self.settings
        plugins = [f"the loss term {name}" for name in settings.loss_terms]
        plugins += [f"the optimizer {settings.optimizer}"] * (settings.optimizer in OPTIMIZERS)
        advice = "lower train.lr or raise train.warmup_updates"
        advice += f", or check {', '.join(plugins)}" if plugins else ""
        kept = "the last checkpoint is kept" if has_checkpoint(self.run) else "nothing has been saved"
        return f"training has diverged (the loss is {loss}): {advice}; {kept}"

    def _log(self, values: Mapping[str, float | str]) -> None:
        progress, settings = self.progress, self.settings
        place = {
            "update": progress.update,
            "epoch": progress.epoch,
            "seconds": round(progress.seconds, 3),
            "cpu_seconds": round(progress.cpu_seconds, 3),
            "lr": settings.lr * lr_factor(settings, progress),
        }
        if self.log is not None:
            self.log.write({**place, **values})

    def _validate(self, end: bool) -> bool:
        """Score the validation set; returns whether the weights are the best so far. end: of the run."""
        progress, settings = self.progress, self.settings
        self.bar.show(fraction_done(settings, progress), f"update {progress.update}, validating …")
        self.trainer.update_clocks()
        begun = progress.seconds
        with self.trainer.averaged():
            model = self.trainer.model.eval()
            record = self.group.broadcast(self.task.score(model))
            self.trainer.update_clocks()
            scoring = progress.seconds - begun
            if settings.metric != "bits_per_byte":  # the best checkpoint depends on it: all lines, always
                decoded = self.group.broadcast(self.task.decode(model, math.inf))
                record |= decoded.scores
                better = self._is_best(record)
            else:
                better = self._is_best(record)
                decoded = self._decode(model, end)
                record |= decoded.scores
            self.trainer.update_clocks()
            progress.valid_seconds += scoring + decoded.seconds
            progress.decoding_seconds += decoded.seconds
            self._log(record)
            model.train()
        self.trainer.update_clocks()
        self.validated = progress.update
        # Where the spacing is left to us, scoring takes no more than its share of the time.
        pause = scoring / SHARE if self.stretches else 0.0
        self.valid_timer.pass_over(progress.seconds, pause)
        if self.log is not None:
            self.log.show(progress.update, decoded.samples)
        told = ", ".join(
            f"{name.removeprefix('valid_').replace('_', ' ')} {value:.4g}"
            for name, value in record.items()
            if isinstance(value, float)
        )
        told += f" ({decoded.note})" if decoded.note else ""
        self.reporter.say(f"update {progress.update}, {progress.seconds / 60:.1f} min: {told}")
        self._tell_of_time()
        self.meter = Meter()
        return better

    def _is_best(self, record: Mapping[str, float | str]) -> bool:
        """Return whether a validation is the best so far, and note it in the progress. NaN never is."""
        progress, metric = self.progress, self.settings.metric
        value, best = record[f"valid_{metric}"], self.progress.best
        assert isinstance(value, float)
        higher = metric == "chrf" or (metric in METRICS and METRICS[metric].higher_is_better)
        better = not math.isnan(value) and (best is None or (value > best if higher else value < best))
        if better:
            progress.best, progress.best_update, progress.waited = value, progress.update, 0
        else:
            progress.waited += 1
            progress.standstills += 1
        return better

    def _decode(self, model: Model[Any, Any], end: bool) -> Decoded:
        """Decode lines of the validation set within the share of time that decoding may take.

        end: whether this is known to be the last validation, in which at least a few lines are decoded.
        """
        used = 0.0
        while True:
            last = end or self.ended()
            training = self.progress.seconds
            left = seconds_left(training, self.progress.decoding_seconds + used)
            found = self.task.decode(model, max(left, LAST) if last else max(left, 0.0), last)
            found = self.group.broadcast(found)
            used += found.seconds
            self.trainer.update_clocks()
            # Decoding itself may have used up the run's limit before any line was done.
            if last or found.n_lines or not self.ended():
                return found._replace(seconds=used)

    def _tell_of_time(self) -> None:
        """Warn once where scoring takes more than its share at a spacing that the user has chosen."""
        progress = self.progress
        alone = progress.valid_seconds - progress.decoding_seconds
        training = progress.seconds
        if seconds_left(training, alone) < 0 and not self.stretches and not self.told_of_time:
            self.told_of_time = True
            self.reporter.warn(
                f"validation takes {alone / training:.0%} of the training time, even without decoding:"
                f" raise train.valid_every, or give less validation text"
            )

    def _save(self, better: bool, before: tuple[float | None, int], end: bool) -> None:
        """A checkpoint. A failure ends nothing before the end; `before` is the best one until now."""
        try:
            self.trainer.save(self.run, better, self.facts)
        except CheckpointError as error:
            if end:
                raise
            self.progress.best, self.progress.best_update = before
            self.reporter.warn(f"{error}; training continues, earlier checkpoints are kept")


@contextmanager
def _signals(patient: bool) -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM, so that an update is never cut in half; a second one is not held.

    patient: it is, because torchrun passes on what the terminal has sent already.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # signals are another's affair
        yield received
        return

    def hold(number: int, frame: FrameType | None) -> None:
        if received and not patient:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, hold) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
