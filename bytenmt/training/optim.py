"""Optimisers, and the moving average of the weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bytenmt.config.train_section import TrainConfig
from bytenmt.layers.embedding import ByteEmbedding, PositionEmbedding
from bytenmt.layers.ngram_tables import NgramTables
from bytenmt.training.precision import in_bf16

DEFAULT_NGRAM_LR = 0.03  # peak rate of n-gram tables where train.ngram_lr is 0
DECOUPLED_DECAY = "decoupled_decay"  # key of a group of parameters
N_NEWTON_SCHULZ_STEPS = 5
# Jordan et al. 2024: the polynomial that is steepest at 0, which has no limit at 1.
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def build_optimizer(model: nn.Module, train: TrainConfig) -> torch.optim.Optimizer:
    """Build the optimiser that train.optimizer names.

    It updates all parameters but n-gram tables, which RowAdam updates. The weight decay of all
    optimisers is decoupled: before a step the weights are multiplied by 1 - lr * decay. Vectors and
    scalars have none.

    nag is Nesterov's accelerated gradient (Gehring et al. 2017: momentum 0.99); adadelta has rho
    0.95 and epsilon 1e-6 (Bahdanau et al. 2015; its paper's lr is 1); sgd has no momentum (Luong et
    al. 2015); muon: see Muon. The key "share" of a parameter group is a factor of its learning
    rate, see set_rate.
    """
    parameters = dense_parameters(model)
    maps = hidden_matrices(model) if train.optimizer == "muon" else {}
    matrices = [p for p in parameters if p.dim() > 1 and p not in maps]
    vectors = [p for p in parameters if p.dim() <= 1]
    groups: list[dict[str, Any]] = [
        {"params": list(maps), "weight_decay": train.weight_decay, "muon": True},
        {"params": matrices, "weight_decay": train.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    betas = train.adam_beta1, train.adam_beta2
    if train.optimizer == "muon":
        for group in groups:
            if "muon" not in group:
                group["share"] = (train.adam_lr or train.lr) / train.lr
        dtype = torch.bfloat16 if in_bf16(train, parameters[0].device) else torch.float32
        return Muon(groups, maps, train.lr, betas, train.muon_momentum, dtype)
    if train.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=train.lr, betas=betas, fused=True)
    for group in groups:  # in PyTorch these optimisers add the decay to the gradient
        group[DECOUPLED_DECAY] = group.pop("weight_decay")
    optimizer: torch.optim.Optimizer
    if train.optimizer == "adadelta":
        optimizer = torch.optim.Adadelta(groups, lr=train.lr, rho=0.95, eps=1e-6, foreach=True)
    else:
        is_nag = train.optimizer == "nag"
        momentum = train.momentum if is_nag else 0
        optimizer = torch.optim.SGD(groups, train.lr, momentum, nesterov=is_nag, fused=True)
    optimizer.register_step_pre_hook(decay_weights)
    return optimizer


def dense_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return a model's parameters without n-gram tables, which row_adam.RowAdam updates.

    These are embedding tables of hashed byte n-grams, of which an update reads few rows.
    """
    tables: set[nn.Parameter] = set()
    for module in model.modules():
        if isinstance(module, NgramTables):
            tables.update(module.parameters())
    return [p for p in model.parameters() if p not in tables]


def set_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of an optimizer's next update.

    It is lr, and lr * share in a parameter group that has the key "share".
    """
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("share", 1.0)


def stored_rate(optimizer: torch.optim.Optimizer) -> float:
    """Return the learning rate `lr` of the last call of set_rate, from the optimizer's groups."""
    group = optimizer.param_groups[0]
    return float(group["lr"] / group.get("share", 1.0))


@torch.no_grad()
def decay_weights(optimizer: torch.optim.Optimizer, *_: object) -> None:
    """Multiply an optimizer's parameters by 1 - lr * decay before a step, as AdamW does.

    This is decoupled weight decay (Loshchilov and Hutter 2019), as a pre-hook of Optimizer.step.
    decay: the value of the key DECOUPLED_DECAY of a parameter group; without it nothing is done.
    """
    for group in optimizer.param_groups:
        decay = group.get(DECOUPLED_DECAY)  # missing in checkpoints of older versions
        if decay:
            parameters = [p for p in group["params"] if p.grad is not None]
            torch._foreach_mul_(parameters, 1 - group["lr"] * decay)


class MovingAverage:
    """The exponential moving average (EMA) of a model's parameters, one tensor for each.

    average <- d average + (1 - d) weight, where d is `decay`, but at most (1 + u) / (10 + u) at
    update u, so that the first, random weights are soon forgotten.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.parameters = parameters
        self.decay = decay
        self.tensors = [p.detach().clone() for p in parameters]

    @torch.no_grad()
    def add(self, update: int) -> None:
        """Update the average with the parameters after update number `update`, from 1."""
        decay = min(self.decay, (1 + update) / (10 + update))
        torch._foreach_lerp_(self.tensors, list(self.parameters), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Swap average and parameters while the context is open."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for i, parameter in enumerate(self.parameters):
            parameter.data, self.tensors[i] = self.tensors[i], parameter.data


def hidden_matrices(model: nn.Module) -> dict[nn.Parameter, int]:
    """Return the matrices that Muon updates, each with the number of linear maps stacked in it.

    The gates of a GRU in one matrix are such maps. The matrices are all but look-up tables and the
    output layer. A layer's attribute STACKED has these numbers by the names of its parts.
    """
    excluded: set[nn.Parameter] = set()
    for name, module in model.named_modules():
        if isinstance(module, ByteEmbedding | PositionEmbedding) or name.endswith("decoder.output"):
            excluded.update(module.parameters())
    n_maps_of = {p: 1 for p in model.parameters() if p.dim() > 1 and p not in excluded}
    for module in model.modules():
        stacked: Mapping[str, int] = getattr(module, "STACKED", {})
        for part, n_maps in stacked.items():
            parameters = getattr(module, part).parameters()
            n_maps_of |= {p: n_maps for p in parameters if p in n_maps_of}
    return n_maps_of


class Muon(torch.optim.AdamW):
    """Muon for parameter groups with the entry "muon": True, AdamW for the other groups.

        B <- mu B + (1 - mu) G
        U = NS((1 - mu) G + mu B)
        W <- (1 - lr wd) W - 0.2 sqrt(max(m, n)) lr U

    NS is five steps of a Newton-Schulz iteration, after which all singular values of U lie near 1
    (Jordan et al. 2024, kellerjordan.github.io/posts/muon); the factor gives U the size of AdamW's
    updates, so that both share a rate (Liu et al. 2025, 2502.16982). A kernel is flattened to
    (outputs, inputs * width), and of maps that stand on one another, such as the gates of a GRU,
    each is made orthogonal by itself.

    groups: parameter groups, as in PyTorch; maps: number of linear maps that stand on one another
    in each matrix, from hidden_matrices; betas: of AdamW; momentum: mu; dtype: of the products of
    the iteration.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        maps: Mapping[nn.Parameter, int],
        lr: float,
        betas: tuple[float, float],
        momentum: float,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(groups, lr=lr, betas=betas, fused=True)
        self.maps = maps
        self.momentum = momentum
        self.dtype = dtype

    def __setstate__(self, state: dict[str, Any]) -> None:
        torch.optim.Optimizer.__setstate__(self, state)  # AdamW's asks matrices for their step, too

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient; `closure` is ignored."""
        groups = self.param_groups
        for group in (group for group in groups if group.get("muon")):
            parameters = [p for p in group["params"] if p.grad is not None]
            if parameters:
                self._update_matrices(parameters, group["lr"], group["weight_decay"])
        self.param_groups = [group for group in groups if not group.get("muon")]
        super().step()
        self.param_groups = groups

    def _update_matrices(
        self, parameters: list[nn.Parameter], lr: float, weight_decay: float
    ) -> None:
        for p in parameters:
            if not self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        grads = [p.grad for p in parameters if p.grad is not None]
        buffers = [self.state[p]["momentum_buffer"] for p in parameters]
        torch._foreach_lerp_(buffers, grads, 1 - self.momentum)
        directions = torch._foreach_lerp(grads, buffers, self.momentum)
        torch._foreach_mul_(list[Tensor](parameters), 1 - lr * weight_decay)
        by_shape: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for p, direction in zip(parameters, directions, strict=True):
            weight, direction_of = (_wide(t, self.maps[p]) for t in (p, direction))
            by_shape[weight.shape[1], weight.shape[2]].append((weight, direction_of))
        for (_, width), pairs in by_shape.items():
            stacked = torch.cat([direction_of for _, direction_of in pairs])
            rotated = orthogonal(stacked.to(self.dtype))
            parts = torch.split(rotated, [len(weight) for weight, _ in pairs])
            for (weight, _), part in zip(pairs, parts, strict=True):
                weight.add_(part, alpha=-0.2 * width**0.5 * lr)


def _wide(matrix: Tensor, n_maps: int) -> Tensor:
    """Return a view of stacked maps, (n_maps, m, n) with m <= n."""
    maps = matrix.view(n_maps, len(matrix) // n_maps, -1)
    return maps.mT if maps.shape[1] > maps.shape[2] else maps


def orthogonal(x: Tensor) -> Tensor:
    """Return matrices with about the singular vectors of x, and singular values near 1.

    x (k, m, n), m <= n. It is a Newton-Schulz iteration; singular values that were not very small
    come to lie between 0.7 and 1.2.
    """
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    x = x / x.float().norm(dim=(1, 2), keepdim=True).clamp(min=1e-7).to(x.dtype)
    for _ in range(N_NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
