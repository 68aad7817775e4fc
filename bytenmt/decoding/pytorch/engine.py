"""The PyTorch engine: decoding on any device, by one model or an ensemble.

A step is a pass of the models on the device and a step of the search on the host (search/host_search.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bytenmt.architectures.tensor_tree import concatenate
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.forward import (
    Decoder,
    Inputs,
    ModelState,
    begin,
    forward,
    select_sentences,
)
from bytenmt.decoding.search.host_search import HostSearch, SearchStep


class TorchEngine:
    """Decode up to `capacity` sentences together; see interface.Engine.

    models: in evaluation mode on `device`, in the precision in which they compute; several form an ensemble,
    whose probabilities are averaged. search: a step of the search; None for Python. The rows of sentences
    that are done are removed when they are a quarter, or when others are admitted.
    """

    def __init__(
        self,
        models: Sequence[Decoder],
        options: Options,
        capacity: int,
        device: torch.device,
        search: SearchStep | None = None,
    ) -> None:
        if capacity < 1 or not models:
            raise ValueError(f"{len(models)} models, capacity {capacity}: expected at least 1")
        self.capacity = capacity
        self._models, self._options, self._device = models, options, device
        self._search = HostSearch(options, capacity, search)
        self._states: tuple[ModelState, ...] = ()
        self._slots: list[int] = []  # of the sentences in the states, in order
        self._without_source = False

    def room(self) -> int:
        return self._search.room()

    @torch.no_grad()
    def admit(self, requests: list[Request]) -> list[int]:
        if not requests:
            return []
        without_source = requests[0].source is None
        self._compact()
        if self._slots and without_source != self._without_source:
            raise ValueError("sentences with and without a source, expected one kind")
        self._without_source = without_source
        fresh = begin(self._models, requests, self._options.beam, self._device)
        handles, slots = self._search.admit(requests)
        self._states = concatenate([self._states, fresh]) if self._slots else fresh
        self._slots += slots
        return handles

    @torch.no_grad()
    def advance(self, n_steps: int) -> None:
        for _ in range(n_steps):
            if not self._search.is_running(self._slots).any():
                return
            self._step()

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        finished = self._search.finished()
        if 4 * int((~self._search.is_running(self._slots)).sum()) >= len(self._slots):
            self._compact()
        return finished

    def drop(self, handle: int) -> None:
        self._search.drop(handle)

    def so_far(self, handle: int) -> bytes:
        return self._search.so_far(handle)

    def _step(self) -> None:
        """Execute a pass over the bytes that were chosen last, and choose the next ones."""
        search, slots = self._search, self._slots
        inputs = Inputs(
            torch.from_numpy(search.bytes_to_read(slots)).to(self._device),
            torch.from_numpy(search.parents(slots)).to(self._device),
        )
        log_p, self._states = forward(self._models, self._states, inputs, self._options)
        search.choose(slots, log_p.cpu().numpy())

    def _compact(self) -> None:
        """Remove the rows of sentences that are done."""
        running = self._search.is_running(self._slots)
        if not running.any():
            self._states = ()
        elif not running.all():
            keep = torch.from_numpy(running.nonzero()[0])
            self._states = select_sentences(self._states, keep.to(self._device), self._options.beam)
        self._slots = [slot for slot, runs in zip(self._slots, running, strict=True) if runs]
