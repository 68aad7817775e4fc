"""The objective of streams: the bytes of windows of them, with the state of recurrent models carried from one
to the next without its gradient (truncated back-propagation through time).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.architectures.tensor_tree import concatenate, map_tensors, select, tensors
from bytenmt.config.schema import Config
from bytenmt.data.windows import Bytes, Window
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.training.losses import LossInputs, batch_loss, drop_bytes, masked_loss
from bytenmt.training.objective import autocast, compiled
from bytenmt.utf8 import BOS

WARM, SIDE_BY_SIDE, AT_ONCE = 512, 64, 256  # of text_bits: bytes read first; rows at most; columns a call


class LanguageModelObjective:
    """See objective.Objective; batches are Windows.

    carried: the state after the last one, this process' rows.
    """

    def __init__(
        self, model: Model[Any, Any], config: Config, device: torch.device, group: Group = SINGLE_PROCESS
    ) -> None:
        self.model, self.train, self.device, self.group = model, config.train, device, group
        self.loss = compiled(self.plain_loss, config)
        self._carries = config.model.is_serial
        self.carried: Any = None

    def gradients(
        self, batches: Sequence[Window], target_bytes: int, n_splits: int, update: int = 0
    ) -> Tensor:
        """See Objective."""
        nats = torch.zeros((), dtype=torch.float64, device=self.device)
        carried = self.carried
        for window in batches:
            carried, part_nats = self._window_gradients(window, carried, target_bytes, n_splits)
            nats += part_nats
        self.carried = carried if self._carries else None
        return nats

    def _window_gradients(
        self, window: Window, before: Any, target_bytes: int, n_splits: int
    ) -> tuple[Any, Tensor]:
        """Forward and backward over a window; returns the state after it, and its nats."""
        n = len(window.read)
        step = max(1, -(-n // n_splits))
        nats = torch.zeros((), dtype=torch.float64, device=self.device)
        after = []
        for begin in range(0, n, step):
            rows = torch.arange(begin, min(n, begin + step), device=self.device)
            read, truth, skipped = (
                torch.from_numpy(part[begin : begin + step]).to(self.device) for part in window[:3]
            )
            if self.train.byte_dropout:
                read = drop_bytes(read, self.train.byte_dropout, self.train.byte_dropout_kind)
            state = self._start(len(read)) if window.fresh else select(before, rows)
            with autocast(self.train, self.device):
                loss, part_nats, state = self.loss(read, truth, skipped, state)
            (loss / target_bytes).backward()
            nats += part_nats
            after.append(map_tensors(lambda part: part.detach(), state))
        return concatenate(after) if after and self._carries else None, nats

    def _start(self, n: int) -> Any:
        """The state before a stream's first byte, n rows."""
        return self.model.start(self._memory(n))

    def _memory(self, n: int) -> Any:
        lengths = torch.zeros(n, dtype=torch.int64, device=self.device)
        return self.model.encode(torch.zeros(n, 0, dtype=torch.uint8, device=self.device), lengths)

    def plain_loss(self, *tensors: Any) -> Any:
        """Return the summed loss, the nats, and the state after a window of text.

        read, truth (n, t) uint8: bytes read and to be predicted; skipped (n,) int64: bytes at the beginning
        of each row that do not count; state: of n rows.
        """
        read, truth, skipped, state = tensors
        logits, state = self.model(read, self._memory(len(read)), state)
        real = torch.arange(read.shape[1], device=read.device) >= skipped[:, None]
        return *batch_loss(LossInputs(self.model, self.train, logits, read, truth, real)), state

    def n_rows(self, batch: Window) -> int:
        """See Objective."""
        return len(batch.read)

    def state_dict(self) -> dict[str, Tensor]:
        """The carried states of all processes' rows, in the order of the rows."""
        if not self._carries:
            return {}
        own = [] if self.carried is None else [part.cpu() for part in tensors(self.carried)]
        all_own = self.group.gather(own)
        if all_own is None:
            return {}
        return {f"{i}": _interleaved(parts) for i, parts in enumerate(zip(*all_own, strict=True))}

    def load_state_dict(self, carried: Mapping[str, Tensor]) -> None:
        """See Objective."""
        if not carried:
            return
        start = self._start(1)
        expected = [(part.dtype, part.shape[1:]) for part in tensors(start)]
        found = [carried[str(i)] for i in range(len(carried))]
        if [(part.dtype, part.shape[1:]) for part in found] != expected:
            raise ValueError("the carried state is not that of the model")
        own = slice(self.group.rank, None, self.group.size)
        parts = iter(found)
        self.carried = map_tensors(lambda _: next(parts)[own].to(self.device), start)


def _interleaved(parts: Sequence[Tensor]) -> Tensor:
    """Interleave the rows of all processes: those of process i stand at i, i + size, and so on."""
    whole = parts[0].new_zeros(sum(map(len, parts)), *parts[0].shape[1:])
    for rank, part in enumerate(parts):
        whole[rank :: len(parts)] = part
    return whole


@torch.no_grad()
def text_bits(
    model: Model[Any, Any], text: Bytes, device: torch.device, group: Group = SINGLE_PROCESS
) -> float:
    """The bits that a text (n,) uint8 costs a model in evaluation mode; the same in all processes, which
    share the work.

    Read as up to SIDE_BY_SIDE pieces at once, each after the WARM bytes before it: a receptive field within
    them gives what one stream gives, and a recurrent model very nearly so.
    """
    n_rows = max(1, min(SIDE_BY_SIDE, len(text) // (2 * WARM)))
    each = -(-len(text) // n_rows)
    bits = torch.zeros((), dtype=torch.float64, device=device)
    begins = torch.tensor(
        range(0, len(text), each)[group.rank :: group.size], dtype=torch.int64, device=device
    )
    if len(begins):
        every = torch.from_numpy(np.array(text)).to(device)
        starts = (begins - WARM).clamp(min=0)
        stops = (begins + each).clamp(max=len(text))
        memory = model.encode(
            torch.zeros(len(begins), 0, dtype=torch.uint8, device=device), torch.zeros_like(begins)
        )
        state = model.start(memory)
        for column in range(0, int((stops - starts).max()), AT_ONCE):
            place = starts[:, None] + torch.arange(column, column + AT_ONCE, device=device)
            place = place[:, : int((stops - starts).max()) - column]
            read = every[(place - 1).clamp(0, len(text) - 1)]
            read = torch.where(place == 0, BOS, read)
            logits, state = model(read, memory, state)
            counts = (place >= begins[:, None]) & (place < stops[:, None])
            bits += masked_loss(logits, every[place.clamp(max=len(text) - 1)], counts, 0.0)[1] / math.log(2)
    bits = bits.cpu()
    group.all_reduce(bits)
    return float(bits)
