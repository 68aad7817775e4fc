"""Devices by name."""

from __future__ import annotations

import torch

from bytenmt.errors import DeviceError


def pick_device(name: str) -> torch.device:
    """Return the device for auto, cpu or cuda; auto takes a GPU if there is one. Raises DeviceError."""
    available = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if available else "cpu")
    if name == "cuda" and not available:
        raise DeviceError("--device cuda: no GPU is available here; use --device cpu or auto")
    return torch.device(name)
