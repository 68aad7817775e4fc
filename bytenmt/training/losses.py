"""Training losses, and the bytes that a decoder reads in training.

Functions of tensors and a model; they know no batches, optimisers or runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from bytenmt.architectures.base import Model, normalised, of_bytes
from bytenmt.config.schema import TrainConfig
from bytenmt.plugins import LOSS_TERMS
from bytenmt.utf8 import N_IDS, PAD

N_BYTES_OF_UTF8 = 243  # 0x00 to 0xBF and, after the two that begin nothing, 0xC2 to 0xF4


class LossInputs(NamedTuple):
    """The tensors of a batch that a loss term of a plugin is computed from.

    logits (n, t, 256); inputs, target (n, t) uint8: the bytes read and those to be predicted; real (n, t)
    bool: true where a byte counts. source (n, s) uint8 and source_len (n,) int64, with EOS, and memory: None
    without a source.
    """

    model: Model[Any, Any]
    train: TrainConfig
    logits: Tensor
    inputs: Tensor
    target: Tensor
    real: Tensor
    source: Tensor | None = None
    source_len: Tensor | None = None
    memory: Any = None


def batch_loss(inputs: LossInputs) -> tuple[Tensor, Tensor]:
    """Return the loss of a batch for the gradient, and the plain negative log-likelihood, both in nats.

    The first is smoothed and has the terms of train.loss_terms; the second is detached. Both are summed.
    """
    train = inputs.train
    loss, nats = masked_loss(inputs.logits, inputs.target, inputs.real, train.label_smoothing)
    for name, weight in train.loss_terms.items():
        loss = loss + weight * LOSS_TERMS[name](inputs)
    return loss, nats


def masked_loss(
    logits: Tensor, target: Tensor, real: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the loss summed over the bytes where `real` (n, t) is true, smoothed and plain, in nats.

    Smoothing mixes in the uniform distribution over the 256 ids. The plain loss is detached.
    """
    log_p = normalised(logits)
    nats = -of_bytes(log_p, target).masked_fill(~real, 0.0).sum()
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


@torch.no_grad()
def draw_inputs(
    model: Model[Any, Any], memory: Any, target_in: Tensor, ratio: float, kind: str = "best"
) -> Tensor:
    """Decoder inputs of which a share `ratio` are the true bytes and the rest the model's own: kind "best"
    the likeliest ones, "drawn" from its predictions.

    target_in (n, t) uint8, BOS first -> the same shape. Steps through the target, without gradients; each
    step reads what the one before it has chosen (Bengio et al. 2015).
    """
    state = model.start(memory)
    inputs = target_in.clone()
    for i in range(1, inputs.shape[1]):
        logits, state = model(inputs[:, i - 1 : i], memory, state)
        own = torch.rand(len(inputs), device=inputs.device) >= ratio
        if kind == "best":
            byte = logits[:, 0].argmax(dim=-1)
        else:
            byte = torch.multinomial(normalised(logits[:, 0]).exp(), 1)[:, 0]
        inputs[:, i] = torch.where(own, byte.to(torch.uint8), inputs[:, i])
    return inputs
