"""Muon: the momentum of every hidden matrix, made orthogonal; AdamW for the rest.

    B <- mu B + (1 - mu) G,  U = NS((1 - mu) G + mu B),  W <- (1 - lr wd) W - 0.2 sqrt(max(m, n)) lr U

NS is five steps of a Newton-Schulz iteration, after which all singular values of U lie near 1 (Jordan et al.
2024, kellerjordan.github.io/posts/muon); the factor gives U the size of AdamW's updates, so that both share
a rate (Liu et al. 2025, 2502.16982). A kernel is flattened to (outputs, inputs * width), and of maps that
stand on one another, such as the gates of a GRU, each is made orthogonal by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw  # documented as the functional form

from bytenmt.layers.embedding import ByteEmbedding, PositionEmbedding

NS_STEPS = 5
NS_COEFFICIENTS = 3.4445, -4.7750, 2.0315  # Jordan et al.: steepest at 0, without a limit at 1


def hidden_matrices(model: nn.Module) -> dict[nn.Parameter, int]:
    """Return the matrices that Muon updates, and how many maps are stacked in each.

    These are all but look-up tables and the output layer. A layer names its stacked parameters in STACKED.
    """
    rest: set[nn.Parameter] = set()
    for name, module in model.named_modules():
        if isinstance(module, ByteEmbedding | PositionEmbedding) or name.endswith("decoder.output"):
            rest.update(module.parameters())
    found = {p: 1 for p in model.parameters() if p.dim() > 1 and p not in rest}
    for module in model.modules():
        stacked: Mapping[str, int] = getattr(module, "STACKED", {})
        for part, n_maps in stacked.items():
            found.update({p: n_maps for p in getattr(module, part).parameters() if p in found})
    return found


class Muon(torch.optim.Optimizer):
    """Groups with "muon" hold matrices; the others are AdamW's, with its betas.

    maps: see hidden_matrices; momentum: mu; dtype: of the products of the iteration.
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
        # fused: load_state_dict then moves AdamW's step, which its kernel reads on the device.
        super().__init__(groups, {"lr": lr, "muon": False, "fused": True})
        self.maps, self.betas, self.momentum, self.dtype = maps, betas, momentum, dtype

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if parameters:
                update = self._muon if group["muon"] else self._adamw
                update(parameters, group["lr"], group["weight_decay"])

    def _muon(self, parameters: list[nn.Parameter], lr: float, weight_decay: float) -> None:
        for p in parameters:
            if not self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        grads = [p.grad for p in parameters if p.grad is not None]
        buffers = [self.state[p]["momentum_buffer"] for p in parameters]
        torch._foreach_lerp_(buffers, grads, 1 - self.momentum)
        directions = torch._foreach_lerp(grads, buffers, self.momentum)
        torch._foreach_mul_(list[Tensor](parameters), 1 - lr * weight_decay)
        alike: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for p, direction in zip(parameters, directions, strict=True):
            where, what = (_wide(t, self.maps[p]) for t in (p, direction))
            alike[where.shape[1], where.shape[2]].append((where, what))
        for (_, width), pairs in alike.items():
            found = orthogonal(torch.cat([what for _, what in pairs]).to(self.dtype))
            parts = torch.split(found, [len(where) for where, _ in pairs])
            for (where, _), part in zip(pairs, parts, strict=True):
                where.add_(part, alpha=-0.2 * width**0.5 * lr)

    def _adamw(self, parameters: list[nn.Parameter], lr: float, weight_decay: float) -> None:
        for p in parameters:
            if not self.state[p]:
                self.state[p]["step"] = torch.zeros((), device=p.device)
                self.state[p]["exp_avg"], self.state[p]["exp_avg_sq"] = (
                    torch.zeros_like(p),
                    torch.zeros_like(p),
                )
        kept = {name: [self.state[p][name] for p in parameters] for name in ("exp_avg", "exp_avg_sq", "step")}
        adamw(
            params=list(parameters),
            grads=[p.grad for p in parameters if p.grad is not None],
            exp_avgs=kept["exp_avg"],
            exp_avg_sqs=kept["exp_avg_sq"],
            max_exp_avg_sqs=[],
            state_steps=kept["step"],
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=lr,
            weight_decay=weight_decay,
            eps=1e-8,
            maximize=False,
        )


def _wide(matrix: Tensor, n_maps: int) -> Tensor:
    """A view of stacked maps, (n_maps, m, n) with m <= n."""
    maps = matrix.view(n_maps, len(matrix) // n_maps, -1)
    return maps if maps.shape[1] <= maps.shape[2] else maps.mT


def orthogonal(x: Tensor) -> Tensor:
    """x (maps, m, n) with m <= n: singular values that are not small to about 1, between 0.7 and 1.2."""
    a, b, c = NS_COEFFICIENTS
    x = x / x.float().norm(dim=(1, 2), keepdim=True).clamp(min=1e-7).to(x.dtype)
    for _ in range(NS_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x
