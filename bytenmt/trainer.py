"""What a run is made of while it trains: model, optimiser, progress; one update; one file that holds it all.

Does not know architectures, texts, nor when to validate or stop.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from bytenmt.alphabet import N_IDS
from bytenmt.checkpoint import (
    CONFIG,
    LAST,
    TRAINER,
    load_tensors,
    load_weights,
    save_tensors,
    weights,
)
from bytenmt.config import Config, TrainConfig
from bytenmt.device import Tensors
from bytenmt.errors import CheckpointError
from bytenmt.models import build_model
from bytenmt.models.base import Model


class Progress(msgspec.Struct):
    """How far a run has come: what a resume starts from, beside tensors and random states."""

    update: int = 0
    epoch: int = 0
    batch: int = 0  # the next batch of the epoch's plan
    seconds: float = 0.0  # of training in all, validation included
    best_bits_per_byte: float = math.inf
    best_update: int = 0


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
        groups: list[dict[str, Any]] = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(
            groups,
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
