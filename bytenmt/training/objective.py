"""The interface of a training objective: gradients of batches, and the state carried between batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import llvmlite.binding
import torch
from torch import Tensor

from bytenmt.config.schema import Config, ModelConfig, TrainConfig
from bytenmt.layers.ngram_tables import NgramTables

WIDE = 256  # units of a recurrent model


class Objective(Protocol):
    """Compute gradients of batches, see TranslationObjective and LanguageModelObjective."""

    def gradients(self, batches: Sequence[Any], target_bytes: int, n_splits: int, update: int = 0) -> Tensor:
        """Run forward and backward on this process' batches; return the summed nats, float64 on the device.

        Rows go through the model in n_splits parts; the summed loss is divided by target_bytes. update:
        number of updates done before.
        """

    def n_rows(self, batch: Any) -> int:
        """Rows of a batch."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps beside weights and optimiser.

        All processes call it; the leading one gets the tensors.
        """

    def load_state_dict(self, carried: Mapping[str, Tensor]) -> None:
        """Continue from the tensors that state_dict returned.

        Raises KeyError or ValueError where they do not fit.
        """


def precision_of(device: torch.device, model: ModelConfig) -> Literal["fp32", "bf16"]:
    """Return the precision that train.precision = "auto" stands for on a device.

    It is bf16 on a GPU, and on a CPU with instructions for it, else fp32. On a CPU recurrent models of less
    than 256 units keep fp32: rounding their small products takes longer than it saves.
    """
    if device.type != "cpu":
        return "bf16" if device.type == "cuda" else "fp32"
    return "bf16" if getattr(model, "d_hidden", WIDE) >= WIDE and has_fast_bf16() else "fp32"


def has_fast_bf16() -> bool:
    """Return whether this processor multiplies matrices of bf16 faster than those of float32.

    Without such instructions a product in bf16 takes up to 70 times as long.
    """
    try:
        features: Mapping[str, bool] = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:  # not told on this machine
        features = {}
    native = any(features.get(name, False) for name in ("avx512bf16", "amx-bf16"))
    return native and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


def in_bf16(train: TrainConfig, device: torch.device) -> bool:
    """Return whether the matrix products of a training are computed in bf16.

    "auto" occurs only in runs of an earlier version, which used bf16 on a GPU.
    """
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
    # A look-up in n-gram tables stays outside of the graph: its backward pass appends to a list. Not by a
    # decorator, which would import the compiler, two seconds, wherever a model is imported.
    NgramTables.forward = torch.compiler.disable(NgramTables.forward)  # type: ignore[method-assign,no-untyped-call]
    made: Callable[..., Any] = torch.compile(loss, dynamic=True)
    return made
