"""Optimisers, learning-rate schedules and the moving average of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bytenmt.config.facts import Progress
from bytenmt.config.schema import TrainConfig
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.layers.ngram_tables import NgramTables
from bytenmt.plugins import OPTIMIZERS, SCHEDULES
from bytenmt.training.muon import Muon, hidden_matrices
from bytenmt.training.precision import in_bf16

NGRAM_LR = 0.03  # of n-gram tables, where train.ngram_lr is left to us
NUMBER = ":number"  # how the names of plain numbers of an optimizer's state end


def build_optimizer(model: nn.Module, train: TrainConfig) -> torch.optim.Optimizer:
    """The optimiser of train.optimizer; vectors and scalars have no weight decay.

    nag is Nesterov's accelerated gradient (Gehring et al. 2017: momentum 0.99); adadelta has
    rho 0.95 and epsilon 1e-6 (Bahdanau et al. 2015; its paper's lr is 1); sgd has no momentum (Luong et
    al. 2015); muon: see muon.Muon; others are of plugins. A group's "share" is that of the rate which it is
    given; one of a plugin keeps the ratio of its own rate to train.lr.
    """
    every = dense_parameters(model)
    maps = hidden_matrices(model) if train.optimizer == "muon" else {}
    matrices = [p for p in every if p.dim() > 1 and p not in maps]
    vectors = [p for p in every if p.dim() <= 1]
    groups: list[dict[str, Any]] = [
        {"params": list(maps), "weight_decay": train.weight_decay, "muon": True},
        {"params": matrices, "weight_decay": train.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    betas = train.adam_beta1, train.adam_beta2
    if train.optimizer == "muon":
        for group in groups:
            group["share"] = 1.0 if "muon" in group else (train.adam_lr or train.lr) / train.lr
        dtype = torch.bfloat16 if in_bf16(train, every[0].device) else torch.float32
        return Muon(groups, maps, train.lr, betas, train.muon_momentum, dtype)
    if train.optimizer in OPTIMIZERS:
        built = OPTIMIZERS[train.optimizer](groups, train)
        for group in built.param_groups:
            group.setdefault("share", float(group.get("lr", train.lr)) / train.lr)
        return built
    if train.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=train.lr, betas=betas, fused=True)
    if train.optimizer == "adadelta":
        return torch.optim.Adadelta(groups, lr=train.lr, rho=0.95, eps=1e-6, foreach=True)
    if train.optimizer == "nag":
        return torch.optim.SGD(groups, lr=train.lr, momentum=train.momentum, nesterov=True, fused=True)
    return torch.optim.SGD(groups, lr=train.lr, fused=True)


def dense_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters of a model but those of n-gram tables, which row_adam.RowAdam updates."""
    tables = {p for module in model.modules() if isinstance(module, NgramTables) for p in module.parameters()}
    return [p for p in model.parameters() if p not in tables]


def set_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """The rate of the next update, of which each group has its share."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("share", 1.0)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return an optimizer's state by flat names: "3.exp_avg" is exp_avg of parameter 3, "group.0.k" is k of
    the first group. The name of a plain number ends in NUMBER. Raises ConfigError for other values."""
    state = optimizer.state_dict()
    parts = {f"{index}": dict(values) for index, values in state["state"].items()}
    for number, group in enumerate(state["param_groups"]):
        # The rate is set before every update; what is no number is an option of the builder.
        parts[f"group.{number}"] = {
            name: value
            for name, value in group.items()
            if name not in ("params", "lr", "share") and isinstance(value, Tensor | bool | int | float)
        }
    tensors: dict[str, Tensor] = {}
    for place, values in parts.items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"{place}.{name}"] = value
            elif isinstance(value, bool | int | float):
                dtype = torch.float64 if isinstance(value, float) else None  # int64 and bool of themselves
                tensors[f"{place}.{name}{NUMBER}"] = torch.tensor(value, dtype=dtype)
            elif value is not None:
                raise ConfigError(
                    f"train.optimizer: {name} is of the type {type(value).__name__}, which checkpoints do not"
                    " keep: let the optimizer keep tensors and numbers"
                )
    return tensors


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimizer the state that optimizer_tensors returned. Raises ValueError or LookupError."""
    groups = optimizer.state_dict()["param_groups"]
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        place, _, key = name.rpartition(".")
        value: Any = tensor.item() if key.endswith(NUMBER) else tensor
        values = groups[int(place[6:])] if place.startswith("group.") else state.setdefault(int(place), {})
        values[key.removesuffix(NUMBER)] = value
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for index, values in state.items():
        restored = optimizer.state[parameters[index]]
        for key, value in values.items():
            # PyTorch gives every tensor the type of its parameter, also one that counts in int64.
            if isinstance(value, Tensor) and key in restored:
                restored[key] = value.to(restored[key].device)


def fraction_done(train: TrainConfig, progress: Progress) -> float:
    """Return the share of the run's limits that is used, 0 to 1; 0 where there is no limit."""
    shares = [0.0]
    if train.max_updates:
        shares.append(progress.update / train.max_updates)
    if train.max_epochs:
        part = progress.batch / progress.epoch_batches if progress.epoch_batches else 0.0
        shares.append((progress.epoch + part) / train.max_epochs)
    if train.max_minutes:
        shares.append(progress.seconds / (60 * train.max_minutes))
    return min(1.0, max(shares))


def stopped_early(train: TrainConfig, progress: Progress) -> str:
    """Why training ends before its limits, or ""."""
    if train.patience and progress.waited >= train.patience:
        return f"no better {train.metric.replace('_', ' ')} for {progress.waited} validations"
    if train.schedule == "plateau" and train.plateau_factor**progress.standstills < train.min_lr:
        return "the learning rate has fallen below train.min_lr"
    return ""


def lr_factor(train: TrainConfig, progress: Progress) -> float:
    """The schedule: a share of train.lr, linear warm-up first.

    cosine and linear fall to zero as the nearest of the run's limits (updates, epochs, minutes)
    is used up; wsd (warm-up, stable, decay: Hu et al. 2024) falls linearly in the last train.decay_share;
    inverse_sqrt falls as 1/sqrt(update) after the warm-up (Vaswani et al. 2017); plateau falls by
    train.plateau_factor at each validation that is no better than the best (Gehring et al. 2017).
    """
    update, warmup = progress.update + 1, max(1, train.warmup_updates)
    if update < warmup:
        return update / warmup
    if train.schedule == "inverse_sqrt":
        return math.sqrt(warmup / update)
    if train.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * fraction_done(train, progress)))
    if train.schedule == "linear":
        return 1 - fraction_done(train, progress)
    if train.schedule == "wsd":
        return min(1.0, (1 - fraction_done(train, progress)) / train.decay_share)
    if train.schedule in SCHEDULES:
        factor = float(SCHEDULES[train.schedule](train, progress))
        if not math.isfinite(factor):
            raise BytenmtError(
                f"train.schedule = {train.schedule} returned {factor} after update {progress.update}: correct"
                " the plugin"
            )
        return factor
    if train.schedule == "plateau":
        return float(train.plateau_factor**progress.standstills)
    return 1.0


class MovingAverage:
    """An exponential moving average of weights, one tensor a parameter.

    average <- decay average + (1 - decay) weight, with a decay of at most (1 + u) / (10 + u) at update u, so
    that the first, random weights are soon forgotten.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.parameters = parameters
        self.decay = decay
        self.tensors = [p.detach().clone() for p in parameters]

    @torch.no_grad()
    def add(self, update: int) -> None:
        """Take in the weights after an update."""
        decay = min(self.decay, (1 + update) / (10 + update))
        torch._foreach_lerp_(self.tensors, list(self.parameters), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the parameters hold the average."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for i, parameter in enumerate(self.parameters):
            parameter.data, self.tensors[i] = self.tensors[i], parameter.data
