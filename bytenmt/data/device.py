"""Devices by name, and batches on them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bytenmt.data.batches import Batch
from bytenmt.errors import DeviceError


class Tensors(NamedTuple):
    """A batching.Batch as tensors on a device; same fields, axes and types."""

    source: Tensor
    source_len: Tensor
    target: Tensor
    target_len: Tensor

    @property
    def target_in(self) -> Tensor:
        """Return (n, t) uint8: the decoder's input."""
        return self.target[:, :-1]

    @property
    def target_out(self) -> Tensor:
        """Return (n, t) uint8: the bytes to be predicted."""
        return self.target[:, 1:]


def pick_device(name: str) -> torch.device:
    """Return the device for auto, cpu or cuda; auto takes a GPU if there is one. Raises DeviceError."""
    available = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if available else "cpu")
    if name == "cuda" and not available:
        raise DeviceError("--device cuda: no GPU is available here; use --device cpu or auto")
    return torch.device(name)


def to_device(batch: Batch, device: torch.device) -> Tensors:
    """Copy a batch's arrays to a device; from pinned memory the copy runs in parallel."""
    return Tensors(*(torch.from_numpy(part).to(device, non_blocking=True) for part in batch))
