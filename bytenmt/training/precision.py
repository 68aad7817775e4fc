"""The numbers in which a training computes: float32, or bfloat16 by autocast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch

from bytenmt.config.schema import ModelConfig
from bytenmt.config.train_section import TrainConfig

MIN_BF16_UNITS = 256  # of a recurrent model: bf16 products of fewer take longer than fp32


def precision_of(device: torch.device, model: ModelConfig) -> Literal["fp32", "bf16"]:
    """Return the precision of training that train.precision = "auto" stands for on a device.

    It is bf16 on a GPU, and on a CPU with instructions for it, else fp32. On a CPU recurrent models
    of fewer than 256 units keep fp32: rounding their small products takes longer than it saves.
    """
    if device.type == "cuda":
        return "bf16"
    n_units = getattr(model, "d_hidden", MIN_BF16_UNITS)
    if device.type == "cpu" and n_units >= MIN_BF16_UNITS and has_fast_bf16():
        return "bf16"
    return "fp32"


def has_fast_bf16() -> bool:
    """Return whether this processor multiplies matrices of bf16 faster than those of float32.

    Without such instructions a product in bf16 takes up to 70 times as long.
    """
    get_capabilities = getattr(torch.cpu, "get_capabilities", dict)  # since PyTorch 2.12
    capabilities: Mapping[str, Any] = get_capabilities()
    native = bool(capabilities.get("avx512_bf16"))
    return native and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


def in_bf16(train: TrainConfig, device: torch.device) -> bool:
    """Return whether the matrix products of a training are computed in bf16, by train.precision.

    "auto" means bf16 on a GPU, fp32 elsewhere; training.run.train has already replaced it by the
    result of precision_of.
    """
    return train.precision == "bf16" or (train.precision == "auto" and device.type == "cuda")


def autocast(train: TrainConfig, device: torch.device) -> torch.autocast:
    """Return the context for the forward pass in training: autocast to bf16, or disabled."""
    return torch.autocast(device.type, torch.bfloat16, enabled=in_bf16(train, device))
