"""Training losses, and the bytes that a decoder reads in training.

They are functions of tensors and a model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from bytenmt.architectures.base import Model, logits_to_log_p, pick_bytes
from bytenmt.config.train_section import TrainConfig
from bytenmt.plugins import LOSS_TERMS
from bytenmt.utf8 import N_IDS, PAD


class LossInputs(NamedTuple):
    """Arguments of a loss, also of a plugin's loss term: a batch and the model's predictions."""

    model: Model[Any, Any]
    train: TrainConfig
    logits: Tensor  # (n, t, 256)
    inputs: Tensor  # (n, t) uint8: the bytes that the decoder has read
    target: Tensor  # (n, t) uint8: the bytes to be predicted, with EOS
    real: Tensor  # (n, t) bool: true where a byte has a loss, false for padding
    # (n, s) uint8, with EOS; None for a language model, like the two below
    source: Tensor | None = None
    source_len: Tensor | None = None  # (n,) int64: bytes of each source, EOS included
    memory: Any = None  # what model.encode returned


def batch_loss(inputs: LossInputs) -> tuple[Tensor, Tensor]:
    """Return the loss of a batch for the gradient, and its negative log-likelihood.

    Both are sums in nats. The first is smoothed and has the terms of train.loss_terms; the second
    is plain, and detached.
    """
    train = inputs.train
    loss, nats = masked_loss(inputs.logits, inputs.target, inputs.real, train.label_smoothing)
    for name, weight in train.loss_terms.items():
        loss = loss + weight * LOSS_TERMS[name](inputs)
    return loss, nats


def masked_loss(
    logits: Tensor, target: Tensor, real: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy with label smoothing and without it, scalars in nats.

    Each is summed over the bytes where `real` (n, t) bool is true. logits (n, t, 256); target (n,
    t) uint8. Smoothing mixes in the uniform distribution over the 256 ids. The loss without it is
    detached.
    """
    log_p = logits_to_log_p(logits)
    nats = -pick_bytes(log_p, target).masked_fill(~real, 0.0).sum()
    loss = nats
    if label_smoothing:
        uniform = -log_p.sum(dim=-1).masked_fill(~real, 0.0).sum() / N_IDS
        loss = (1 - label_smoothing) * nats + label_smoothing * uniform
    return loss, nats.detach()


def drop_bytes(target_in: Tensor, share: float) -> Tensor:
    """Replace input bytes (n, t) uint8 by PAD, each with the probability `share`, 0 to 1.

    The first column, BOS, stays. See Shaham and Levy 2021.
    """
    hidden = torch.rand(target_in.shape, device=target_in.device) < share
    hidden[:, 0] = False
    return target_in.masked_fill(hidden, PAD)


@torch.no_grad()
def draw_inputs(model: Model[Any, Any], memory: Any, target_in: Tensor, ratio: float) -> Tensor:
    """Return decoder inputs for scheduled sampling (Bengio et al. 2015).

    Each byte after BOS is the true one with probability `ratio`, else the model's likeliest byte
    after the inputs chosen so far. memory: what model.encode returned; target_in (n, t) uint8, BOS
    first, as is the result. No gradients.
    """
    state = model.start(memory)
    inputs = target_in.clone()
    for i in range(1, inputs.shape[1]):
        logits, state = model(inputs[:, i - 1 : i], memory, state)
        is_predicted = torch.rand(len(inputs), device=inputs.device) >= ratio
        byte = logits[:, 0].argmax(dim=-1).to(torch.uint8)
        inputs[:, i] = torch.where(is_predicted, byte, inputs[:, i])
    return inputs
