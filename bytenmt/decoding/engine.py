"""The base class of engines: sentences that are decoded together, their slots and hypotheses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from bytenmt.decoding.interface import Hypothesis, Request, SearchOptions
from bytenmt.decoding.search.state import DONE, FREE, SearchParams, SearchState
from bytenmt.errors import BytenmtError
from bytenmt.kernel_constants import N_SENTINELS
from bytenmt.splitmix import draw_key


class Engine(ABC):
    """Base class of engines, which decode up to `capacity` sentences at once, each in a slot.

    A slot is a place in the batch. Give requests to `admit`, then call `advance` and `finished` in
    turn. The output of a sentence does not depend on the others. Subclasses define `admit` and
    `advance`, that is, run encoders and decoders; the state of the search is here.
    """

    def __init__(self, options: SearchOptions, capacity: int, n_models: int = 0) -> None:
        """n_models: models for whose logits `state` has room; 0 if the engine averages them itself,
        into state.log_p."""
        self.capacity = capacity
        self.params = SearchParams.from_options(options)  # for compiled code
        # Of the search; replaced by a larger one when a sentence needs more room.
        self.state = SearchState.allocate(capacity, options.beam, n_models, 0, 0)
        self._options = options
        # By handle the slot of each sentence that has not been handed out, and its returns_all.
        self._slots: dict[int, tuple[int, bool]] = {}
        self._n_admitted = 0

    def room(self) -> int:
        """Return the number of sentences that `admit` would take now."""
        return self.capacity - len(self._slots)

    @abstractmethod
    def admit(self, requests: list[Request]) -> list[int]:
        """Encode the sources of at most room() requests, and put each into a free slot.

        Return for each, in their order, a handle: a number that names its sentence in `finished`,
        `drop` and `so_far`.
        """

    @abstractmethod
    def advance(self, n_steps: int) -> None:
        """Execute n_steps decode steps, each of which adds a byte to every open hypothesis."""

    def take_slots(self, requests: Sequence[Request]) -> tuple[list[int], list[int]]:
        """Start the search for new sentences in free slots; return their handles and their slots.

        A handle is a number that names the sentence and is never used again, a slot an index into
        the arrays of `state`. Raises ValueError if there are not enough free slots.
        """
        if len(requests) > self.room():
            raise ValueError(f"{len(requests)} sentences, but there is room for {self.room()}")
        if requests:
            self._enlarge(requests)
        slots = np.flatnonzero(self.state.state == FREE)[: len(requests)].tolist()
        handles = list(range(self._n_admitted, self._n_admitted + len(requests)))
        self._n_admitted += len(requests)
        texts = range(self._options.beam if self._options.sample else 0)
        for handle, slot, request in zip(handles, slots, requests, strict=True):
            keys = [draw_key(self._options.seed, request.number, text) for text in texts]
            self.state.fill_slot(slot, request, keys or None)
            self._slots[handle] = slot, request.returns_all
        return handles, slots

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        """Return (handle, hypotheses, best first) of each sentence done since the last call.

        handle: the number that `admit` returned. The slots of these sentences become free. Raises
        BytenmtError if a model's probabilities are NaN.
        """
        hypotheses = [
            (handle, self._hypotheses(slot, returns_all))
            for handle, (slot, returns_all) in self._slots.items()
            if self.state.state[slot] == DONE
        ]
        for handle, _ in hypotheses:
            self.drop(handle)
        return hypotheses

    def drop(self, handle: int) -> None:
        """Abandon a sentence, by the handle that `admit` returned: its slot becomes free."""
        slot, _ = self._slots.pop(handle)
        self.state.state[slot] = FREE

    def so_far(self, handle: int) -> bytes:
        """Return the output so far of a sentence that `finished` has not returned yet.

        handle: the number that `admit` returned. The output may end inside a character. Only for
        beam 1: with more beams it may change at the next step.
        """
        slot, _ = self._slots[handle]
        return self.state.text(slot, int(self.state.step[slot]), 0)

    def _enlarge(self, requests: Sequence[Request]) -> None:
        """Make room for the longest output and prefix."""
        state = self.state
        length = max(request.limit + len(request.prefix) + N_SENTINELS for request in requests)
        prefix_length = max(len(request.prefix) for request in requests)
        old_length = state.history_byte.shape[1] - 1
        old_prefix_length = state.prefix.shape[1]
        if length > old_length or prefix_length > old_prefix_length:
            lengths = max(length, old_length), max(prefix_length, old_prefix_length)
            self.state = state.enlarged(*lengths)

    def _hypotheses(self, slot: int, returns_all: bool) -> list[Hypothesis]:
        """Return a done sentence's n_best hypotheses, or all finished ones, best first."""
        state = self.state
        fields = (
            state.finished_score,
            state.finished_log_p,
            state.finished_step,
            state.finished_beam,
            state.finished_past_end,
        )
        n_finished = int(state.n_finished[slot])
        n_best = n_finished if returns_all else min(self._options.n_best, n_finished)
        values = [part[slot, :n_best].tolist() for part in fields]
        if not n_best or math.isnan(values[0][0]):
            raise BytenmtError("the model's probabilities are NaN: its training has diverged")
        return [
            Hypothesis(state.text(slot, step, beam), log_p, score, is_past_end=is_past_end)
            for score, log_p, step, beam, is_past_end in zip(*values, strict=True)
        ]
