"""The training loop: updates, validation, checkpoints, resume.

All that must be saved is in Trainer. Does not know architectures.
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
from typing import Any

import msgspec
import torch
from torch import Tensor
from tqdm import tqdm

from bytenmt.alphabet import N_IDS
from bytenmt.batching import batches, epoch_plan
from bytenmt.checkpoint import (
    BEST,
    CONFIG,
    LAST,
    TRAINER,
    append_metrics,
    cut_metrics,
    load_embedding,
    load_tensors,
    load_weights,
    save_tensors,
    weights,
    write_atomically,
)
from bytenmt.config import Config, TrainConfig, config_toml, fingerprint
from bytenmt.corpus import ParallelCorpus
from bytenmt.errors import BytenmtError, CheckpointError, ConfigError
from bytenmt.evaluate import Tensors, bits_per_byte, log_probabilities, text_scores, to_device
from bytenmt.models import build_model
from bytenmt.models.base import Model
from bytenmt.translate import Translator


class Progress(msgspec.Struct):
    """How far a run has come: what a resume starts from, beside tensors and random states."""

    update: int = 0
    epoch: int = 0
    batch: int = 0  # the next batch of the epoch's plan
    seconds: float = 0.0  # of training in all, validation included
    best_bits_per_byte: float = math.inf
    best_update: int = 0
    validated: int = 0  # the update that was validated last


class Trainer:
    """Model, optimiser and progress of a run, and their one file."""

    def __init__(self, config: Config, device: torch.device) -> None:
        self.config = config
        self.device = device
        torch.manual_seed(config.train.seed)
        self.model: Model[Any, Any] = build_model(config.model).to(device)
        self.progress = Progress()
        decayed = [p for p in self.model.parameters() if p.dim() > 1]
        plain = [p for p in self.model.parameters() if p.dim() <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed}, {"params": plain, "weight_decay": 0.0}],
            lr=config.train.lr,
            betas=(0.9, config.train.adam_beta2),
            weight_decay=config.train.weight_decay,
            fused=True,
        )
        bf16 = config.train.precision == "bf16"
        self.autocast = bf16 or (config.train.precision == "auto" and device.type == "cuda")

    def save(self, run: Path) -> None:
        """trainer.safetensors first, whole in itself; then last.safetensors for everybody else."""
        tensors = {f"model.{name}": tensor for name, tensor in weights(self.model).items()}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in state.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        facts = {"progress": msgspec.to_builtins(self.progress)}
        if math.isinf(self.progress.best_bits_per_byte):
            facts["progress"]["best_bits_per_byte"] = None
        save_tensors(run / TRAINER, tensors, self.config, facts)
        self.save_weights(run / LAST)

    def save_weights(self, path: Path, **facts: float) -> None:
        """The weights alone, with the update and other facts."""
        facts = {"update": self.progress.update, **facts}
        save_tensors(path, weights(self.model), self.config, facts)

    def load(self, run: Path) -> None:
        """Take up what save left. Raises CheckpointError."""
        tensors, saved, facts = load_tensors(run / TRAINER)
        if saved.model != self.config.model:
            raise CheckpointError(f"{run / TRAINER} belongs to another model than {run / CONFIG}")
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "random": {}}
        for name, tensor in tensors.items():
            group, _, rest = name.partition(".")
            groups[group][rest] = tensor
        load_weights(self.model, groups["model"], run / TRAINER)
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in groups["optimizer"].items():
            index, _, key = name.partition(".")
            state.setdefault(int(index), {})[key] = tensor
        param_groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": param_groups})
        torch.set_rng_state(groups["random"]["cpu"])
        if self.device.type == "cuda" and "cuda" in groups["random"]:
            torch.cuda.set_rng_state(groups["random"]["cuda"], self.device)
        if facts["progress"]["best_bits_per_byte"] is None:
            facts["progress"]["best_bits_per_byte"] = math.inf
        self.progress = msgspec.convert(facts["progress"], Progress)

    def update(self, batch: Tensors) -> tuple[Tensor, Tensor]:
        """One update. Returns the batch's nats (sum over target bytes and EOS, without smoothing) and the
        gradient's norm, both scalars on the device."""
        train, model = self.config.train, self.model
        lr = train.lr * lr_factor(train, self.progress)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            memory = model.encode(batch.source, batch.source_len)
            inputs = batch.target_in
            if train.teacher_forcing < 1:
                inputs = draw_inputs(model, memory, inputs, train.teacher_forcing)
            logits, _ = model(inputs, memory, model.start(memory))
        loss, nats = byte_loss(logits, batch.target_out, batch.target_len, train.label_smoothing)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), train.clip_norm or math.inf)
        self.optimizer.step()
        self.progress.update += 1
        return nats, norm


def byte_loss(
    logits: Tensor, target: Tensor, target_len: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """logits (n, t, 256), target (n, t) uint8, target_len (n,) int64 with EOS.

    Returns the mean loss a target byte in nats, smoothed with the uniform distribution over the 256 ids
    (for the gradient), and the batch's summed nats without smoothing (for people, detached).
    """
    log_p = logits.float().log_softmax(dim=-1)
    real = torch.arange(target.shape[1], device=target.device) < target_len[:, None]
    nats = -log_p.gather(2, target.long()[:, :, None])[:, :, 0].masked_fill(~real, 0.0).sum()
    loss = nats
    if label_smoothing:
        uniform = -log_p.sum(dim=-1).masked_fill(~real, 0.0).sum() / N_IDS
        loss = (1 - label_smoothing) * nats + label_smoothing * uniform
    return loss / target_len.sum(), nats.detach()


@torch.no_grad()
def draw_inputs(model: Model[Any, Any], memory: Any, target_in: Tensor, ratio: float) -> Tensor:
    """Decoder inputs of which a share `ratio` are the true bytes and the rest the model's own greedy ones.

    target_in (n, t) uint8, BOS first -> the same shape. Steps through the target, without gradients.
    """
    state = model.start(memory)
    inputs = target_in.clone()
    for i in range(1, inputs.shape[1]):
        logits, state = model(inputs[:, i - 1 : i], memory, state)
        own = torch.rand(len(inputs), device=inputs.device) >= ratio
        inputs[:, i] = torch.where(own, logits[:, 0].argmax(dim=-1).to(torch.uint8), inputs[:, i])
    return inputs


def fraction_done(train: TrainConfig, progress: Progress) -> float:
    """How much of the run's limits is used, 0 to 1; 0 where there is no limit."""
    shares = [0.0]
    if train.max_updates:
        shares.append(progress.update / train.max_updates)
    if train.max_minutes:
        shares.append(progress.seconds / (60 * train.max_minutes))
    return min(1.0, max(shares))


def lr_factor(train: TrainConfig, progress: Progress) -> float:
    """The schedule: a share of train.lr, linear warm-up first.

    cosine falls to zero as the run's limit (updates or minutes, whichever is nearer) is used up;
    inverse_sqrt falls as 1/sqrt(update) after the warm-up (Vaswani et al. 2017).
    """
    update, warmup = progress.update + 1, max(1, train.warmup_updates)
    if update < warmup:
        return update / warmup
    if train.schedule == "inverse_sqrt":
        return math.sqrt(warmup / update)
    if train.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * fraction_done(train, progress)))
    return 1.0


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
    trainer = Trainer(config, device)
    if init_embedding is not None:
        load_embedding(trainer.model, init_embedding)
    if resume and (run / TRAINER).is_file():
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
        f"{trainer.config.model.__struct_config__.tag}, {n_parameters:,} parameters"
        f" ({trainer.model.decoder_weights():,} in the decoder), {trainer.device},"
        f" configuration {fingerprint(trainer.config)}",
        file=sys.stderr,
    )
    clock = _Clock(progress)
    meter = _Meter()
    trainer.model.train()
    with _signals() as stop, _bar() as bar:
        for batch in _endless(corpus, trainer):
            nats, norm = trainer.update(to_device(batch, trainer.device))
            all_bytes = int(batch.source_len.sum() + batch.target_len.sum())
            meter.add(nats, norm, int(batch.target_len.sum()) - len(batch.source_len), all_bytes)
            clock.tick()
            end = bool(stop) or fraction_done(settings, progress) >= 1
            if end or progress.update % settings.log_every == 0:
                record = meter.read()
                append_metrics(run, _record(trainer, record))
                bar.n = round(100 * fraction_done(settings, progress), 1)
                bar.set_postfix_str(
                    f"update {progress.update}, {record['train_bits_per_byte']:.3f} bits/byte,"
                    f" {record['bytes_per_second'] / 1000:.1f} kB/s"
                )
                meter = _Meter()
            if (end and not stop) or progress.update % settings.valid_every == 0:
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


def validate(run: Path, trainer: Trainer, valid: ParallelCorpus, bar: Any) -> None:
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
    progress.validated = progress.update
    if bits < progress.best_bits_per_byte:
        progress.best_bits_per_byte, progress.best_update = bits, progress.update
        trainer.save_weights(run / BEST, bits_per_byte=bits)
    append_metrics(run, _record(trainer, record))
    text = ", ".join(f"{name[6:].replace('_', ' ')} {value:.4g}" for name, value in record.items())
    bar.write(f"update {progress.update}, {progress.seconds / 60:.1f} min: {text}", file=sys.stderr)


def _record(trainer: Trainer, values: dict[str, float]) -> dict[str, float]:
    progress, settings = trainer.progress, trainer.config.train
    lr = settings.lr * lr_factor(settings, progress)
    place = {"update": progress.update, "epoch": progress.epoch, "seconds": round(progress.seconds, 3)}
    return {**place, "lr": lr, **values}


def _endless(corpus: ParallelCorpus, trainer: Trainer) -> Iterator[Any]:
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


def _bar() -> Any:
    """Percent of the run's limit, on a terminal's stderr."""
    layout = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining} {postfix}"
    return tqdm(total=100, bar_format=layout, disable=not sys.stderr.isatty(), dynamic_ncols=True)
