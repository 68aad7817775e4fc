"""What a run is made of while it trains: model, optimiser, progress; one update; its checkpoints.

Does not know architectures, texts, nor when to validate or stop.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from bytenmt.config.schema import Config
from bytenmt.config.untrusted import printable
from bytenmt.data.batches import Batch
from bytenmt.data.device import to_device
from bytenmt.distributed import ALONE, Group
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.models import build_model
from bytenmt.models.base import Model
from bytenmt.storage.checkpoint import load_checkpoint, load_weights, save_checkpoint, weights
from bytenmt.storage.manifest import read_pointer
from bytenmt.training.optim import (
    MovingAverage,
    Progress,
    build_optimizer,
    lr_factor,
    optimizer_tensors,
    restore_optimizer,
)
from bytenmt.utf8 import N_IDS, PAD

N_BYTES_OF_UTF8 = 243  # 0x00 to 0xBF and, after the two that begin nothing, 0xC2 to 0xF4


class Trainer:
    """Model, optimiser, moving average and progress of a run; one process of `group`."""

    def __init__(self, config: Config, device: torch.device, group: Group = ALONE) -> None:
        train = config.train
        self.config = config
        self.device = device
        self.group = group
        torch.manual_seed(train.seed)
        self.model: Model[Any, Any] = build_model(config.model).to(device)
        self.parameters = list(self.model.parameters())
        self.progress = Progress()
        self.optimizer = build_optimizer(self.parameters, train)
        self.average = MovingAverage(self.parameters, train.ema) if train.ema else None
        bf16 = train.precision == "bf16"
        self.autocast = bf16 or (train.precision == "auto" and device.type == "cuda")
        self.n_splits = 1  # a batch's rows go through the model in so many parts
        self._loss: Callable[..., Any] = self._plain_loss
        if train.compile:
            # Convolutions are compiled for each width of a batch, of which train.round_to leaves a few dozen.
            torch._dynamo.config.recompile_limit = 256
            self._loss = torch.compile(self._plain_loss, dynamic=True)

    def update(self, batches: Sequence[Any], target_bytes: int) -> tuple[Tensor, Tensor]:
        """One update. batches: this process' shares; target_bytes: of all shares of all processes, EOS
        counted, by which the summed loss is divided.

        Returns this process' nats (over its target bytes, without smoothing) and the gradient's norm,
        scalars on the device. Where the GPU's memory does not hold a share, it is split, and all later
        ones, and the gradients are summed.
        """
        train = self.config.train
        lr = train.lr * lr_factor(train, self.progress)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        nats = None
        while nats is None:
            torch.manual_seed(_draw_seed(train.seed, self.progress.update, self.group.rank))
            self.optimizer.zero_grad(set_to_none=True)
            try:
                nats = self._gradients(batches, target_bytes)
            except torch.OutOfMemoryError:
                self._split_more(batches)
        self._add_up_gradients()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, train.clip_norm or math.inf)
        self.optimizer.step()
        self.progress.update += 1
        if self.average is not None:
            self.average.add(self.progress.update)
        return nats, norm

    def averaged(self) -> AbstractContextManager[None]:
        """Inside, the model has the weights that are validated, saved and used."""
        return nullcontext() if self.average is None else self.average.in_place()

    def save(self, run: Path, best: bool, facts: Mapping[str, Any]) -> None:
        """A checkpoint, written by the first process alone. Raises CheckpointError; the old ones stand."""
        kept = self._kept()
        if not self.group.leads:
            return
        trainer = {f"optimizer.{k}": tensor for k, tensor in optimizer_tensors(self.optimizer).items()}
        trainer |= kept
        if self.average is not None:  # detached, they stay what they are while the average is in place
            trainer |= {f"model.{name}": p.detach() for name, p in weights(self.model).items()}
        facts = {"update": self.progress.update, "progress": msgspec.to_builtins(self.progress), **facts}
        with self.averaged():
            save_checkpoint(
                run,
                self.progress.update,
                weights(self.model),
                trainer,
                self.config,
                facts,
                keep=self.config.train.keep_last,
                best=best,
            )

    def load(self, run: Path, update: int | None = None) -> dict[str, Any]:
        """Take up a checkpoint, the last one unless told otherwise; returns its facts.

        Raises CheckpointError.
        """
        saved, best = self.group.first(lambda: (load_checkpoint(run, update), read_pointer(run).best))
        if saved.config.model != self.config.model:
            raise CheckpointError(f"the checkpoint of update {saved.update} in {run} holds another model")
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "state": {}}
        try:
            self.progress = msgspec.convert(saved.facts.get("progress"), Progress)
            for name, tensor in saved.trainer.items():
                part, _, rest = name.partition(".")
                parts[part][rest] = tensor
            load_weights(self.model, saved.weights, run)
            if self.average is not None:
                self.average = MovingAverage(self.parameters, self.config.train.ema)
                load_weights(self.model, parts["model"], run)
            restore_optimizer(self.optimizer, parts["optimizer"], self.config.train)
            self._take_up(parts["state"])
        except (KeyError, ValueError, RuntimeError, msgspec.ValidationError) as error:
            raise CheckpointError(
                f"the checkpoint of update {saved.update} in {run} does not fit its training"
                f" ({printable(str(error))}): go on from another by --resume-from"
            ) from None
        if best != self.progress.best_update:  # the one that was best then is not kept
            self.progress.best = None
        return saved.facts

    def _kept(self) -> dict[str, Tensor]:
        """What a checkpoint keeps beside weights and optimiser, by names "state.…"; in the leading process.
        Called by all."""
        return {}

    def _take_up(self, kept: Mapping[str, Tensor]) -> None:
        """What _kept gave, without "state."."""

    def _gradients(self, batches: Sequence[Any], target_bytes: int) -> Tensor:
        """Forward and backward; returns the summed nats, float64 on the device."""
        nats = torch.zeros((), dtype=torch.float64, device=self.device)
        for batch in batches:
            for part in _split(batch, self.n_splits):
                on = to_device(part, self.device)
                inputs = self._inputs(on.target_in, on.source, on.source_len, on.target_len)
                with self._precision():
                    loss, part_nats = self._loss(
                        on.source, on.source_len, inputs, on.target_out, on.target_len
                    )
                (loss / target_bytes).backward()
                nats += part_nats
        return nats

    def _plain_loss(self, *tensors: Any) -> Any:
        """source, source_len, inputs, target, target_len -> byte_loss's two."""
        source, source_len, inputs, target, target_len = tensors
        memory = self.model.encode(source, source_len)
        logits, _ = self.model(inputs, memory, self.model.start(memory))
        return byte_loss(logits, target, target_len, self.config.train.label_smoothing)

    def _inputs(self, target_in: Tensor, source: Tensor, source_len: Tensor, target_len: Tensor) -> Tensor:
        """What the decoder reads: the true bytes, or what train.teacher_forcing and byte_dropout make
        of them; (n, t) uint8."""
        train, inputs = self.config.train, target_in
        if train.teacher_forcing < 1:
            # In a context of its own: autocast would keep weights without gradients for the loss.
            with torch.no_grad(), self._precision(), without_dropout(self.model):
                memory = self.model.encode(source, source_len)
                inputs = draw_inputs(self.model, memory, inputs, train.teacher_forcing)
        if train.byte_dropout:
            inputs = drop_bytes(inputs, train.byte_dropout, train.byte_dropout_kind)
        return inputs

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast)

    def _n_rows(self, batch: Any) -> int:
        """Rows of a batch."""
        return len(batch.target_len)

    def _split_more(self, batches: Sequence[Any]) -> None:
        """Twice as many parts from now on, said once. Raises BytenmtError where a part is one pair."""
        if self.n_splits >= max(map(self._n_rows, batches)):
            raise BytenmtError(
                "the GPU's memory does not hold the training of one pair: lower data.max_source_bytes"
                " and data.max_target_bytes, or take a smaller preset"
            )
        self.n_splits *= 2
        torch.cuda.empty_cache()
        if self.n_splits == 2:
            print(
                "bytenmt: warning: out of GPU memory: batches are split and their gradients summed, so that"
                " the training is the same; a lower train.max_tokens with --update-freq 2 would be faster",
                file=sys.stderr,
            )

    def _add_up_gradients(self) -> None:
        """Sum the gradients over the processes; one that had no row of the batch adds zeros."""
        if self.group.size == 1:
            return
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        flat = torch.cat([grad.flatten() for grad in grads])
        self.group.add_up(flat)
        parts = torch.split(flat, [grad.numel() for grad in grads])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)


def byte_loss(
    logits: Tensor, target: Tensor, target_len: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """logits (n, t, 256), target (n, t) uint8, target_len (n,) int64 with EOS.

    Returns the summed loss in nats, smoothed with the uniform distribution over the 256 ids (for the
    gradient), and the same without smoothing (for people, detached).
    """
    real = torch.arange(target.shape[1], device=target.device) < target_len[:, None]
    return masked_loss(logits, target, real, label_smoothing)


def masked_loss(
    logits: Tensor, target: Tensor, real: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """The same where `real` (n, t) is true."""
    log_p = logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    nats = -log_p.gather(2, target.long()[:, :, None])[:, :, 0].masked_fill(~real, 0.0).sum()
    loss = nats
    if label_smoothing:
        uniform = -log_p.sum(dim=-1).masked_fill(~real, 0.0).sum() / N_IDS
        loss = (1 - label_smoothing) * nats + label_smoothing * uniform
    return loss, nats.detach()


def drop_bytes(target_in: Tensor, share: float, kind: str) -> Tensor:
    """target_in (n, t) uint8, BOS first -> the same with a random share of the bytes after BOS hidden:
    kind "mask" puts PAD there, "replace" any byte that UTF-8 may have (Shaham and Levy 2021)."""
    hidden = torch.rand(target_in.shape, device=target_in.device) < share
    hidden[:, 0] = False
    if kind == "mask":
        return target_in.masked_fill(hidden, PAD)
    drawn = torch.randint_like(target_in, N_BYTES_OF_UTF8)
    return torch.where(hidden, drawn + 2 * (drawn >= 0xC0).to(drawn.dtype), target_in)


@contextmanager
def without_dropout(model: Model[Any, Any]) -> Iterator[None]:
    """Inside, a model in training writes what it would write in use."""
    model.eval()
    try:
        yield
    finally:
        model.train()


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


def _draw_seed(seed: int, update: int, rank: int) -> int:
    """The seed of what is random in one update of one process."""
    digest = hashlib.blake2b(f"{seed} {update} {rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _split(batch: Batch, n_splits: int) -> Iterator[Batch]:
    """A batch's rows in at most n_splits parts, none of them empty."""
    n = len(batch.target_len)
    step = max(1, -(-n // n_splits))
    for begin in range(0, n, step):
        rows = slice(begin, begin + step)
        yield Batch(batch.source[rows], batch.source_len[rows], batch.target[rows], batch.target_len[rows])
