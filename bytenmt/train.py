"""The training loop: batches, validation, checkpoints, signals, and what a person sees of them.

Does not know architectures.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor
from tqdm import tqdm

from bytenmt.batching import Batch, batches, epoch_plan
from bytenmt.checkpoint import (
    BEST,
    CONFIG,
    TRAINER,
    append_metrics,
    cut_metrics,
    load_embedding,
    write_atomically,
)
from bytenmt.config import Config, architecture, config_toml, fingerprint
from bytenmt.corpus import ParallelCorpus
from bytenmt.device import to_device
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.evaluate import bits_per_byte, log_probabilities, text_scores
from bytenmt.trainer import Progress, Trainer, fraction_done, lr_factor
from bytenmt.translate import Translator


class _Meter:
    """What happened since the last log record, read from the device only there."""

    def __init__(self) -> None:
        self.nats: list[Tensor] = []
        self.norm = torch.zeros(())
        self.target_bytes = self.all_bytes = 0
        self.started = time.monotonic()

    def add(self, nats: Tensor, norm: Tensor, target_bytes: int, all_bytes: int) -> None:
        self.nats.append(nats)
        self.norm = norm
        self.target_bytes += target_bytes
        self.all_bytes += all_bytes

    def read(self) -> dict[str, float]:
        """Raises BytenmtError where training has diverged."""
        nats = float(torch.stack(self.nats).sum()) if self.nats else 0.0
        if not math.isfinite(nats):
            raise BytenmtError(
                "training has diverged (the loss is not a number): lower train.lr or raise"
                " train.warmup_updates; the last checkpoint stands"
            )
        return {
            "train_bits_per_byte": nats / math.log(2) / max(1, self.target_bytes),
            "gradient_norm": float(self.norm),
            "bytes_per_second": self.all_bytes / (time.monotonic() - self.started),
        }


def train(
    run: Path,
    config: Config,
    *,
    src: Path | None,
    tgt: Path,
    valid_src: Path | None,
    valid_tgt: Path,
    device: torch.device,
    errors: str = "replace",
    resume: bool = False,
    init_embedding: Path | None = None,
) -> None:
    """Train a model into the folder `run`. src and valid_src None: without a source.

    resume: go on from the run's trainer state where there is one. Raises BytenmtError before anything is
    written where an input cannot be used.
    """
    limits = config.data.max_source_bytes, config.data.max_target_bytes
    corpus = ParallelCorpus.open(src, tgt, errors, *limits)
    valid = ParallelCorpus.open(valid_src, valid_tgt, errors, *limits)
    for part in (corpus, valid):
        part.require_pairs()
        for line in part.report():
            print(line, file=sys.stderr)
    if config.train.schedule == "cosine" and not (config.train.max_updates or config.train.max_minutes):
        raise ConfigError(
            "train.schedule = cosine needs an end: give --max-minutes or train.max_updates,"
            " or set train.schedule=inverse_sqrt"
        )
    saved = resume and (run / TRAINER).is_file()
    if saved and init_embedding is not None:
        raise BytenmtError(f"--init-embedding would be ignored: {run} goes on from its own weights")
    trainer = Trainer(config, device)
    if init_embedding is not None:
        load_embedding(trainer.model, init_embedding)
    if saved:
        trainer.load(run)
        if fraction_done(config.train, trainer.progress) >= 1:
            print(f"{run} is finished at update {trainer.progress.update}", file=sys.stderr)
            return
        print(f"resuming {run} at update {trainer.progress.update}", file=sys.stderr)
    run.mkdir(parents=True, exist_ok=True)
    write_atomically(run / CONFIG, config_toml(config).encode())
    cut_metrics(run, trainer.progress.update)
    _loop(run, trainer, corpus, valid)


def _loop(run: Path, trainer: Trainer, corpus: ParallelCorpus, valid: ParallelCorpus) -> None:
    """Updates until a limit or a signal."""
    settings, progress = trainer.config.train, trainer.progress
    n_parameters = sum(p.numel() for p in trainer.model.parameters())
    print(
        f"{architecture(trainer.config.model)}, {n_parameters:,} parameters"
        f" ({trainer.model.decoder_weights():,} in the decoder), {trainer.device},"
        f" configuration {fingerprint(trainer.config)}",
        file=sys.stderr,
    )
    clock = _Clock(progress)
    meter = _Meter()
    trainer.model.train()
    with _signals() as stop, _Bar() as bar:
        for batch in _endless(corpus, trainer):
            nats, norm = trainer.update(to_device(batch, trainer.device))
            all_bytes = int(batch.source_len.sum() + batch.target_len.sum())
            meter.add(nats, norm, int(batch.target_len.sum()) - len(batch.source_len), all_bytes)
            clock.tick()
            end = bool(stop) or fraction_done(settings, progress) >= 1
            if end or progress.update % settings.log_every == 0:
                record = meter.read()
                append_metrics(run, _record(trainer, record))
                text = (
                    f"update {progress.update}, {record['train_bits_per_byte']:.3f} bits/byte,"
                    f" {record['bytes_per_second'] / 1000:.1f} kB/s"
                )
                bar.show(fraction_done(settings, progress), text)
                meter = _Meter()
            if (end and not stop) or progress.update % settings.valid_every == 0:
                meter.read()
                validate(run, trainer, valid, bar)
                meter = _Meter()
                clock.tick()
            if end or progress.update % settings.save_every == 0:
                meter.read()
                trainer.save(run)
            if end:
                break
    if stop:
        print(f"stopped at update {progress.update}, saved; --resume goes on", file=sys.stderr)
        sys.exit(128 + stop[0])
    print(
        f"finished at update {progress.update}; best validation"
        f" {progress.best_bits_per_byte:.4f} bits per byte at update {progress.best_update}: {run / BEST}",
        file=sys.stderr,
    )


def validate(run: Path, trainer: Trainer, valid: ParallelCorpus, bar: _Bar) -> None:
    """Bits per byte and chrF on the validation set; keeps the best weights."""
    model, progress = trainer.model.eval(), trainer.progress
    log_p = log_probabilities(model, valid, trainer.device)
    bits = bits_per_byte(log_p, valid.target_lengths)
    record: dict[str, float] = {"valid_bits_per_byte": bits}
    n_lines = min(trainer.config.train.valid_lines, len(valid))
    if n_lines and valid.src is not None:
        lines = [int(i) for i in valid.pairs[:n_lines]]
        translator = Translator(model, device=trainer.device)
        hypotheses = translator.translate([valid.src.line(i) for i in lines])
        texts = [best.text.decode() for best in hypotheses]
        scores = text_scores(texts, [valid.tgt.line(i).decode() for i in lines])
        record |= {"valid_chrf": scores.chrf, "valid_exact_match": scores.exact_match}
    model.train()
    if bits < progress.best_bits_per_byte:
        progress.best_bits_per_byte, progress.best_update = bits, progress.update
        trainer.save_weights(run / BEST, bits_per_byte=bits)
    append_metrics(run, _record(trainer, record))
    text = ", ".join(f"{name[6:].replace('_', ' ')} {value:.4g}" for name, value in record.items())
    bar.write(f"update {progress.update}, {progress.seconds / 60:.1f} min: {text}")


def _record(trainer: Trainer, values: dict[str, float]) -> dict[str, float]:
    progress, settings = trainer.progress, trainer.config.train
    lr = settings.lr * lr_factor(settings, progress)
    place = {
        "update": progress.update,
        "epoch": progress.epoch,
        "seconds": round(progress.seconds, 3),
    }
    return {**place, "lr": lr, **values}


def _endless(corpus: ParallelCorpus, trainer: Trainer) -> Iterator[Batch]:
    """Batches from the run's position on, epoch after epoch; moves the position along."""
    settings, progress = trainer.config.train, trainer.progress
    while True:
        plan = epoch_plan(
            corpus.source_lengths,
            corpus.target_lengths,
            settings.max_tokens,
            settings.seed,
            progress.epoch,
        )
        for batch in batches(corpus, plan, first=progress.batch):
            progress.batch += 1
            yield batch
        progress.epoch, progress.batch = progress.epoch + 1, 0


class _Clock:
    """Adds the wall-clock seconds between ticks to the run's progress."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.last = time.monotonic()

    def tick(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self.last
        self.last = now


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM, so that an update is never cut in half; a second one is not held."""
    received: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, hold) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Bar:
    """What a person sees: a bar on a terminal, elsewhere a line every half minute."""

    QUIET_SECONDS = 30.0

    def __init__(self) -> None:
        layout = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
        terminal = sys.stderr.isatty()
        self.bar = tqdm(total=1.0, bar_format=layout, disable=not terminal, dynamic_ncols=True)
        self.said = time.monotonic()

    def show(self, fraction: float, text: str) -> None:
        """The share of the run's limits that is used, and a few words."""
        self.bar.n = fraction
        self.bar.set_postfix_str(text)
        if self.bar.disable and time.monotonic() - self.said > self.QUIET_SECONDS:
            self.write(f"{fraction:.0%}, {text}")

    def write(self, line: str) -> None:
        """A line above the bar."""
        self.bar.write(line, file=sys.stderr)
        self.said = time.monotonic()

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()
