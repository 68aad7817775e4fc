"""What a trainer asks of an objective: the gradients of batches, and the state that it carries between them.

Knows tensors; knows neither batches nor optimisers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from bytenmt.config.schema import Config, TrainConfig


class Objective(Protocol):
    """See TranslationObjective and LanguageModelObjective."""

    def gradients(self, batches: Sequence[Any], target_bytes: int, n_splits: int) -> Tensor:
        """Forward and backward of this process' batches, whose rows go through the model in n_splits parts;
        the summed loss is divided by target_bytes. Returns the summed nats, float64 on the device."""

    def n_rows(self, batch: Any) -> int:
        """Rows of a batch."""

    def carried_tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps beside weights and optimiser; in the leading process. Called by all."""

    def take_up(self, carried: Mapping[str, Tensor]) -> None:
        """Go on from what carried_tensors gave. Raises KeyError or ValueError where it does not fit."""


def in_bf16(train: TrainConfig, device: torch.device) -> bool:
    """Whether the products of a training on the device are of bf16 numbers."""
    return train.precision == "bf16" or (train.precision == "auto" and device.type == "cuda")


def autocast(train: TrainConfig, device: torch.device) -> torch.autocast:
    """The context in which a model runs in training, in the numbers of train.precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=in_bf16(train, device))


def compiled(loss: Callable[..., Any], config: Config) -> Callable[..., Any]:
    """A loss of tensors, through torch.compile where train.compile asks for it."""
    if not config.train.compile:
        return loss
    # Convolutions are compiled for each width of a batch, of which train.round_to leaves a few dozen.
    torch._dynamo.config.recompile_limit = 256
    made: Callable[..., Any] = torch.compile(loss, dynamic=True)
    return made
