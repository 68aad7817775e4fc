"""The loop of a training: updates, validations, log records and checkpoints, limits and signals.

Prints nothing: it calls a reporter. All processes of a group go through the loop together and agree
on every number that decides something.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.metrics import MetricsLog
from bytenmt.checkpoints.weights import has_checkpoint
from bytenmt.config.schedules import fraction_done, stopped_early
from bytenmt.decoding.program_check import check_program
from bytenmt.errors import BytenmtError
from bytenmt.plugins import METRICS
from bytenmt.reporter import Bar, Reporter
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation import BatchShare

# A training has diverged if a byte costs more than MAX_BITS for MAX_DIVERGED_UPDATES: that is worse
# than any start.
MAX_BITS = 16.0
MAX_DIVERGED_UPDATES = 50


class Meter:
    """Totals of one process since the last log record: loss, bytes, seconds of waiting for data.

    TrainingLoop adds to its attributes, and makes a new one after each record.
    """

    def __init__(self) -> None:
        self.nats: list[Tensor] = []  # loss of each update; on the device until it is logged
        self.norm = torch.zeros(())  # of the last gradient
        self.target_bytes = 0  # without ends
        self.all_bytes = 0  # of sources and targets
        self.waited = 0.0  # seconds, for batches
        self.started = time.monotonic()


class TrainingLoop:
    """The loop of updates, validations, log records and checkpoints of a training.

    Call `go` once: it ends at a limit, by early stopping, or by a signal. A full disk ends it with
    a CheckpointError; --resume goes on.
    """

    def __init__(
        self, run: Path, trainer: Trainer, facts: Facts, log: MetricsLog | None, reporter: Reporter
    ) -> None:
        """facts: of the training text, for checkpoints; log: None in all processes but the leading
        one; reporter: silent in these."""
        self.run = run
        self.trainer = trainer
        self.facts = facts
        self.log = log
        self.reporter = reporter
        self.group = trainer.group
        self.progress = trainer.progress
        self.objective = trainer.objective
        self.settings = trainer.config.train
        if not self.progress.update:
            self.progress.validated = 0
        self.bar = Bar()
        self.meter = Meter()
        self.n_diverged = 0  # updates in a row with a loss above MAX_BITS

    def go(self) -> int:
        """Train until the end, and save; return the number of the signal that stopped it, or 0.

        All processes must call it together.
        """
        progress = self.progress
        check_program(self.trainer.model, self.trainer.config.model, self.reporter)
        self.trainer.start_clock()  # not before: check_program may have compiled for a minute
        self.meter = Meter()
        shares = self.objective.shares(progress.epoch, progress.batch)
        self.trainer.model.train()
        done_before = fraction_done(self.settings, progress)
        signals = _signals(self.group.size > 1, self.reporter)
        with signals as received, self.reporter.bar(1.0, "", done_before) as self.bar:
            is_signalled = False
            if self.is_validation_missing():
                self._validate()
                self.trainer.save(self.run, facts=self.facts)
            has_ended = self.has_ended()
            while not has_ended:
                is_signalled = self._update(shares, received)
                has_ended = self._write_what_is_due(is_signalled)
            if not is_signalled:
                self.bar.show(1.0, f"update {progress.update}")
        if is_signalled and not received:  # another process was
            return int(signal.SIGTERM)
        return received[0] if received else 0

    def has_ended(self) -> bool:
        """Return whether a limit (updates, epochs, minutes) is reached, or training stops early."""
        is_done = fraction_done(self.settings, self.progress) >= 1
        return is_done or bool(stopped_early(self.settings, self.progress))

    def is_validation_missing(self) -> bool:
        """Return whether a resumed run must first repeat a validation that was interrupted."""
        progress = self.progress
        if not progress.update or progress.validated in (None, progress.update):
            return False
        return self.has_ended() or progress.update % self.settings.valid_every == 0

    def _write_what_is_due(self, is_signalled: bool) -> bool:
        """Log, save and validate after an update, each if it is due; return whether training ends.

        The checkpoint comes first, so that a validation that fails loses nothing.
        """
        settings = self.settings
        update = self.progress.update
        has_ended = is_signalled or self.has_ended()
        is_validation_due = update % settings.valid_every == 0 or (has_ended and not is_signalled)
        is_validation_due = is_validation_due and self.progress.validated != update
        is_save_due = update % settings.save_every == 0 or has_ended
        is_log_due = update % settings.log_every == 0 or is_validation_due or is_save_due
        if self.meter.nats and is_log_due:
            self._write_record()
        if is_validation_due or is_save_due:
            self.trainer.save(self.run, facts=self.facts)
        if is_validation_due:
            self._validate()
            has_ended = has_ended or self.has_ended()
            if has_ended:  # with the progress of this validation
                self.trainer.save(self.run, facts=self.facts)
        return has_ended

    def _update(self, shares: Iterator[BatchShare], received: list[int]) -> bool:
        """Do one update, after a signal only a run's first; return whether any process got one."""
        meter = self.meter
        started = time.monotonic()
        step_shares = list(islice(shares, self.settings.update_freq))
        meter.waited += time.monotonic() - started
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
        """Log what happened since the last record. Raises BytenmtError where it has diverged."""
        meter = self.meter
        own_nats = float(torch.stack(meter.nats).double().sum())
        nats, target_bytes, all_bytes = self.trainer.sum_over_processes(
            own_nats, meter.target_bytes, meter.all_bytes
        )
        seconds = time.monotonic() - meter.started
        bits = nats / math.log(2) / max(1, target_bytes)
        bytes_per_second = all_bytes / seconds
        self._check_convergence(nats, bits)
        record = {
            "train_bits_per_byte": bits,
            "gradient_norm": float(meter.norm),
            "bytes_per_second": bytes_per_second,
            "waiting_for_data": meter.waited / seconds,
        }
        self._log(record)
        self._show(f"{bits:.3f} bits/byte, {bytes_per_second / 1000:.1f} kB/s")
        self.meter = Meter()

    def _show(self, text: str) -> None:
        """Show the number of the update and a text in the progress bar."""
        done = fraction_done(self.settings, self.progress)
        self.bar.show(done, f"update {self.progress.update}, {text}")

    def _check_convergence(self, nats: float, bits: float) -> None:
        """Raise BytenmtError where the loss is not finite, or has been too high for too long.

        nats: of all updates since the last record; bits: the same for each byte.
        """
        self.n_diverged = self.n_diverged + len(self.meter.nats) if bits > MAX_BITS else 0
        if math.isfinite(nats) and self.n_diverged < MAX_DIVERGED_UPDATES:
            return
        is_saved = has_checkpoint(self.run)
        kept = "the last checkpoint is kept" if is_saved else "nothing has been saved"
        raise BytenmtError(
            f"training has diverged ({bits:g} bits a byte): lower train.lr or raise"
            f" train.warmup_updates, or check your plugins; {kept}"
        )

    def _log(self, values: Mapping[str, Any]) -> None:
        """Write a record of this update to the log, in the leading process."""
        if self.log is None:
            return
        place = {
            "update": self.progress.update,
            "epoch": self.progress.epoch,
            "seconds": round(self.progress.seconds, 3),
            "lr": self.trainer.lr,
        }
        self.log.write({**place, **values})

    def _validate(self) -> None:
        """Score the validation text, and save the weights where they are the best so far."""
        progress = self.progress
        self._show("validating …")
        self.trainer.sum_over_processes()
        with self.trainer.averaged():
            model = self.trainer.model.eval()
            values = self.objective.score(model) | self.objective.decode(model)
            model.train()
        record = self.group.broadcast(values)
        is_best = self._note_validation(float(record[f"valid_{self.settings.metric}"]))
        self.trainer.sum_over_processes()
        self._log(record)
        progress.validated = progress.update
        scores = ", ".join(
            f"{name.removeprefix('valid_').replace('_', ' ')} {value:.4g}"
            for name, value in record.items()
            if isinstance(value, float)
        )
        self.reporter.say(f"update {progress.update}, {progress.seconds / 60:.1f} min: {scores}")
        self.meter = Meter()
        if is_best:
            self.trainer.save_best(self.run, self.facts)

    def _note_validation(self, value: float) -> bool:
        """Count a validation by its value of train.metric; return whether it is the best so far."""
        progress = self.progress
        if METRICS[self.settings.metric].is_better(value, progress.best):
            progress.best = value
            progress.best_update = progress.update
            progress.waited = 0
            return True
        progress.waited += 1
        progress.standstills += 1
        return False


@contextmanager
def _signals(patient: bool, reporter: Reporter) -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM, so that no update is cut in half.

    The second one raises KeyboardInterrupt, but not if `patient`: torchrun passes on what the
    terminal has sent already.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield received
        return

    def hold(number: int, frame: FrameType | None) -> None:
        if received and not patient:
            raise KeyboardInterrupt(number)
        received.append(number)
        text = "stopping at the end of this update"
        if not patient:
            text += "; another Ctrl-C stops at once and saves nothing"
        with suppress(RuntimeError):  # where it interrupts the writing of another line
            reporter.say(text)

    before = {number: signal.signal(number, hold) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
