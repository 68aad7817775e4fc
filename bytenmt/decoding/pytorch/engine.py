"""The PyTorch engine: decoding on any device, by one model or an ensemble.

A step is a pass of the models on the device and a step of the search on the host, which costs one
synchronisation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bytenmt.architectures.base import Model
from bytenmt.architectures.tensor_tree import concatenate
from bytenmt.decoding.cpu.library import load_search, search_step
from bytenmt.decoding.engine import Engine
from bytenmt.decoding.interface import Hypothesis, Request, SearchOptions
from bytenmt.decoding.pytorch.forward import (
    ModelState,
    PassInputs,
    encode_requests,
    forward,
    select_sentences,
)
from bytenmt.decoding.search.state import RUNNING, SearchParams, SearchState
from bytenmt.utf8 import N_IDS


class PyTorchEngine(Engine):
    """Base class of the engines in PyTorch, whose subclasses execute the forward pass of a step.

    models: in evaluation mode on `device`, in the precision in which they compute; several form an
    ensemble, whose probabilities are averaged. capacity: sentences that are decoded at once.
    """

    def __init__(
        self,
        models: Sequence[Model[Any, Any]],
        options: SearchOptions,
        capacity: int,
        device: torch.device,
    ) -> None:
        super().__init__(options, capacity)
        load_search()
        # The step of the search, on the host.
        self.run_search: Callable[[SearchState, SearchParams], None] = search_step
        self._models = models
        self._device = device
        self._slots_of_rows: Sequence[int] = ()  # of the sentences in the models' states, in order

    @torch.no_grad()
    def admit(self, requests: list[Request]) -> list[int]:
        """Encode the sources of at most room() requests, and put each into a free slot.

        Return a handle (a number that names the sentence) for each. In the life of an engine, all
        requests have a source, or none has.
        """
        if not requests:
            return []
        self._make_room(requests, self.room() == self.capacity)
        handles, slots = self.take_slots(requests)
        fresh = encode_requests(self._models, requests, self._options.beam, self._device)
        self._place(fresh, slots)
        return handles

    @torch.no_grad()
    def advance(self, n_steps: int) -> None:
        """Execute n_steps decode steps, of a byte for every hypothesis, or fewer if all end."""
        for _ in range(n_steps):
            if not self.is_running(self._slots_of_rows).any():
                return
            self._step()

    def is_running(self, slots: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Return whether each of n slots, given by index, has an unfinished sentence: (n,) bool."""
        running: npt.NDArray[np.bool_] = self.state.state[list(slots)] == RUNNING
        return running

    def choose(self, slots: Sequence[int], log_p: npt.NDArray[Any]) -> None:
        """Execute the search's part of a decode step: choose the next byte of every beam.

        slots: indices of the slots of the n sentences in the batch. log_p (n, b, 256): natural
        log-probabilities of the next byte of each of a sentence's b beams. Sentences that are done
        are skipped. The bytes, and the beams that they continue, are stored in `state`.
        """
        state = self.state
        beam = log_p.shape[1]
        running = np.flatnonzero(self.is_running(slots))
        state.n_rows[0] = n_rows = len(running) * beam
        state.row_slot[:n_rows] = np.repeat(np.array(slots, np.int64)[running], beam)
        state.log_p[:n_rows] = log_p[running].reshape(n_rows, N_IDS)
        self.run_search(state, self.params)

    @abstractmethod
    def _make_room(self, requests: Sequence[Request], is_idle: bool) -> None:
        """Make room for new sentences. is_idle: whether there are no others."""

    @abstractmethod
    def _place(self, fresh: tuple[ModelState, ...], slots: Sequence[int]) -> None:
        """Take the states of new sentences, for their slots."""

    @abstractmethod
    def _step(self) -> None:
        """Read the bytes that were chosen last, and choose the next ones."""


class TorchEngine(PyTorchEngine):
    """An engine in plain PyTorch, on any device.

    models: in evaluation mode on `device`; several form an ensemble. capacity: sentences in the
    batch at most. They leave it once a quarter of it is finished, or when others are admitted.
    """

    _states: tuple[ModelState, ...] = ()

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        """Return (handle, hypotheses, best first) of sentences done since the last call.

        Like Engine.finished, but also shrinks the batch if a quarter of its sentences is done.
        """
        finished = super().finished()
        if 4 * int((~self.is_running(self._slots_of_rows)).sum()) >= len(self._slots_of_rows):
            self._compact()
        return finished

    def _make_room(self, requests: Sequence[Request], is_idle: bool) -> None:
        self._compact()

    def _place(self, fresh: tuple[ModelState, ...], slots: Sequence[int]) -> None:
        self._states = concatenate([self._states, fresh]) if self._slots_of_rows else fresh
        self._slots_of_rows = [*self._slots_of_rows, *slots]

    def _step(self) -> None:
        slots = self._slots_of_rows
        inputs = PassInputs(
            torch.from_numpy(self.state.last[slots]).to(self._device),
            torch.from_numpy(self.state.parent[slots]).to(self._device),
        )
        log_p, self._states = forward(self._models, self._states, inputs, self._options)
        self.choose(slots, log_p.cpu().numpy())

    def _compact(self) -> None:
        """Remove the rows of sentences that are done."""
        running = self.is_running(self._slots_of_rows)
        if not running.any():
            self._states = ()
        elif not running.all():
            keep = torch.from_numpy(running.nonzero()[0])
            self._states = select_sentences(self._states, keep.to(self._device), self._options.beam)
        self._slots_of_rows = [*compress(self._slots_of_rows, running)]
