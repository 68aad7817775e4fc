"""The objective of pairs: the cost of each target after its source, with teacher forcing or without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.config.schema import Config
from bytenmt.data.batches import Batch
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.training.losses import (
    LossInputs,
    batch_loss,
    draw_inputs,
    drop_bytes,
    without_dropout,
)
from bytenmt.training.objective import autocast, compiled


class Tensors(NamedTuple):
    """A data.batches.Batch as tensors on a device; same fields, axes and types."""

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


def to_device(batch: Batch, device: torch.device, is_whole: bool = True) -> Tensors:
    """Copy a batch's arrays to a device.

    is_whole: the arrays are whole blocks of pinned memory, whose copies may run in parallel. PyTorch knows
    such a copy by the first address of its block: memory of a part would be reused too early.
    """
    return Tensors(*(torch.from_numpy(part).to(device, non_blocking=is_whole) for part in batch))


class TranslationObjective:
    """See objective.Objective; batches are data.batches.Batch. Carries nothing from one to the next."""

    def __init__(
        self, model: Model[Any, Any], config: Config, device: torch.device, group: Group = SINGLE_PROCESS
    ) -> None:
        self.model, self.train, self.device = model, config.train, device
        self.loss = compiled(self.plain_loss, config)

    def gradients(
        self, batches: Sequence[Batch], target_bytes: int, n_splits: int, update: int = 0
    ) -> Tensor:
        """See Objective."""
        nats = torch.zeros((), dtype=torch.float64, device=self.device)
        for batch in batches:
            for part in _split(batch, n_splits):
                on = to_device(part, self.device, is_whole=n_splits == 1)
                inputs = self.inputs(on.target_in, on.source, on.source_len, update)
                with autocast(self.train, self.device):
                    loss, part_nats = self.loss(
                        on.source, on.source_len, inputs, on.target_out, on.target_len
                    )
                (loss / target_bytes).backward()
                nats += part_nats
        return nats

    def plain_loss(self, *tensors: Any) -> Any:
        """source, source_len, inputs, target, target_len -> batch_loss's."""
        source, source_len, inputs, target, target_len = tensors
        memory = self.model.encode(source, source_len)
        logits, _ = self.model(inputs, memory, self.model.start(memory))
        real = torch.arange(target.shape[1], device=target.device) < target_len[:, None]
        return batch_loss(
            LossInputs(self.model, self.train, logits, inputs, target, real, source, source_len, memory)
        )

    def inputs(self, target_in: Tensor, source: Tensor, source_len: Tensor, update: int = 0) -> Tensor:
        """Return the bytes that the decoder reads in training, (n, t) uint8.

        These are the true bytes, or what train.teacher_forcing and byte_dropout make of them.
        """
        train, inputs = self.train, target_in
        if train.teacher_forcing < 1:
            # In a context of its own: autocast would keep weights without gradients for the loss.
            with torch.no_grad(), autocast(train, self.device), without_dropout(self.model):
                memory = self.model.encode(source, source_len)
                inputs = draw_inputs(self.model, memory, inputs, train.teacher_forcing, train.own_bytes)
        if train.byte_dropout:
            inputs = drop_bytes(inputs, train.byte_dropout, train.byte_dropout_kind)
        return inputs

    def n_rows(self, batch: Batch) -> int:
        """See Objective."""
        return len(batch.target_len)

    def state_dict(self) -> dict[str, Tensor]:
        """See Objective."""
        return {}

    def load_state_dict(self, carried: Mapping[str, Tensor]) -> None:
        """See Objective."""


def _split(batch: Batch, n_splits: int) -> Iterator[Batch]:
    """A batch's rows in at most n_splits parts, none of them empty."""
    n = len(batch.target_len)
    step = max(1, -(-n // n_splits))
    for begin in range(0, n, step):
        rows = slice(begin, begin + step)
        yield Batch(batch.source[rows], batch.source_len[rows], batch.target[rows], batch.target_len[rows])
