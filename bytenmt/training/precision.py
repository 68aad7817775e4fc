"""The numbers in which a training computes: float32, or bfloat16 by autocast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch

from bytenmt.config.schema import ModelConfig, TrainConfig

WIDE = 256  # units of a recurrent model


def precision_of(device: torch.device, model: ModelConfig) -> Literal["fp32", "bf16"]:
    """Return the precision of training that train.precision = "auto" stands for on a device.

    It is bf16 on a GPU, and on a CPU with instructions for it, else fp32. On a CPU recurrent models
    of less than 256 units keep fp32: rounding their small products takes longer than it saves.
    """
    if device.type != "cpu":
        return "bf16" if device.type == "cuda" else "fp32"
    return "bf16" if getattr(model, "d_hidden", WIDE) >= WIDE and has_fast_bf16() else "fp32"


def has_fast_bf16() -> bool:
    """Return whether this processor multiplies matrices of bf16 faster than those of float32.

    Without such instructions a product in bf16 takes up to 70 times as long.
    """
    capabilities: Mapping[str, Any] = getattr(
        torch.cpu, "get_capabilities", dict
    )()  # of PyTorch 2.12
    native = bool(capabilities.get("avx512_bf16"))
    return native and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


def in_bf16(train: TrainConfig, device: torch.device) -> bool:
    """Return whether the matrix products of a training are computed in bf16, by train.precision.

    "auto" is bf16 on a GPU alone here; run.train replaces it by precision_of first.
    """
    return train.precision == "bf16" or (train.precision == "auto" and device.type == "cuda")


def autocast(train: TrainConfig, device: torch.device) -> torch.autocast:
    """Return the torch.autocast context for the forward pass in training: bf16 or, disabled,
    float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=in_bf16(train, device))
