"""The reference stepper: plain PyTorch, any device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bytenmt.models.base import Model


class EagerStepper:
    """Decode steps of one batch of sentences, a sentence's beams side by side.

    model: in evaluation mode; src (n, s) uint8 ending in EOS, padded; src_len (n,) int64.
    """

    def __init__(self, model: Model[Any, Any], src: Tensor, src_len: Tensor, beam: int) -> None:
        self.n, self.beam = len(src), beam
        self.device = src.device
        self._model = model
        with torch.no_grad():
            self._memory = model.encode(src, src_len)
            self._state = model.start(self._memory, beam)

    @torch.no_grad()
    def step(self, last: Tensor, parents: Tensor | None) -> Tensor:
        """Read one byte a row and predict the next.

        last (n, beam) uint8: the byte just chosen, BOS first; parents (n, beam) int64: which beam of the
        sentence each row goes on from, None where every row goes on from itself.
        Returns log-probabilities (n, beam, 256) float32 (float64 for a float64 model).
        """
        if parents is not None:
            first = torch.arange(self.n, device=self.device)[:, None] * self.beam
            self._state = self._model.reorder(self._state, (first + parents).view(-1))
        logits, self._state = self._model(last.view(-1, 1), self._memory, self._state)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        log_p: Tensor = logits.view(self.n, self.beam, -1).log_softmax(dim=-1, dtype=dtype)
        return log_p
