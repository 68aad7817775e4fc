"""The engine for the CPU: packed weights and one compiled function, no PyTorch.

Knows packed models and the search's places; does not know runs, lines or when to admit whom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from os.path import commonprefix

import numpy as np

from bytenmt.cpu.model import WorkingModel
from bytenmt.cpu.packed import Packed
from bytenmt.cpu.places import DONE, FREE, Places, Rules, mixed
from bytenmt.cpu.team import Team
from bytenmt.decoding import Hypothesis, Options, Request
from bytenmt.errors import BytenmtError


class NumbaEngine:
    """The Engine protocol over packed models of any architectures, which vote. threads: at most.

    What a sentence yields is the same to the last bit whatever stands beside it and on however many threads.
    """

    def __init__(self, packed: Sequence[Packed], options: Options, capacity: int, threads: int = 1) -> None:
        self.capacity = capacity
        self._options = options
        self._rules = Rules.of(options)
        self._models = [WorkingModel(model, capacity, options.beam, threads) for model in packed]
        self._places = Places.make(capacity, options.beam, len(packed), length=0, prefix=0)
        self._handles: dict[int, int] = {}  # of running sentences, to places
        self._n_admitted = 0
        self._team = Team(threads)

    def room(self) -> int:
        """Sentences that `admit` would take now."""
        return self.capacity - len(self._handles)

    def admit(self, requests: list[Request]) -> list[int]:
        """Encode the sources and begin; a handle for each. Raises ValueError where there is no room."""
        if len(requests) > self.room():
            raise ValueError(f"{len(requests)} sentences for {self.room()} places")
        if not requests:
            return []
        self._grow(requests)
        free = np.flatnonzero(self._places.state == FREE)[: len(requests)].tolist()
        options = self._options
        for place, request in zip(free, requests, strict=True):
            first = mixed(mixed(options.seed) + request.number)
            keys = [mixed(first + text) for text in range(options.beam)]
            self._places.begin(place, request.limit, request.prefix, keys, options.sample)
        for model in self._models:
            for rows in model.prepare([request.source for request in requests], free):
                self._team.once(partial(model.encode, rows, self._places, self._rules))
        handles = list(range(self._n_admitted, self._n_admitted + len(requests)))
        self._n_admitted += len(requests)
        self._handles.update(zip(handles, free, strict=True))
        return handles

    def advance(self, n_steps: int) -> None:
        """n steps of all sentences that are not done."""
        if len(self._models) == 1:
            self._steps(0, n_steps)
            return
        for _ in range(n_steps):
            for which in range(len(self._models)):
                self._steps(which, 1)

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        """Handles and hypotheses of the sentences done since the last call; their places are free again."""
        done = []
        for handle, place in list(self._handles.items()):
            if self._places.state[place] == DONE:
                done.append((handle, self._hypotheses(place)))
                self._places.state[place] = FREE
                del self._handles[handle]
        return done

    def so_far(self, handle: int) -> bytes:
        """The bytes that a running sentence will surely begin with."""
        places, place = self._places, self._handles[handle]
        if places.state[place] == DONE:
            return self._hypotheses(place)[0].text
        step = int(places.step[place])
        going = np.flatnonzero(places.score[place] > -np.inf)
        texts = [places.text(place, step, int(beam)) for beam in going]
        return commonprefix([*texts, *(text for text, _, _ in self._ended(place))]) or b""

    def _steps(self, which: int, n_steps: int) -> None:
        model, places, rules = self._models[which], self._places, self._rules
        self._team.again(lambda *crew: model.steps(places, rules, which, n_steps, *crew))

    def _grow(self, requests: list[Request]) -> None:
        """Room for the longest output and prefix."""
        length = max(request.limit for request in requests)
        prefix = max(len(request.prefix) for request in requests)
        n_steps, n_forced = self._places.chosen.shape[1], self._places.prefix.shape[1]
        if length >= n_steps or prefix > n_forced:
            self._places = self._places.grown(max(length, n_steps - 1), max(prefix, n_forced))

    def _ended(self, place: int) -> list[Hypothesis]:
        """The finished hypotheses of a place, best first."""
        places = self._places
        ended = places.ranked, places.log_p, places.at, places.who
        numbers = [part[place, : places.n_finished[place]].tolist() for part in ended]
        return [
            Hypothesis(places.text(place, step, beam), log_p, score)
            for score, log_p, step, beam in zip(*numbers, strict=True)
        ]

    def _hypotheses(self, place: int) -> list[Hypothesis]:
        """What a done sentence yields, best first. Raises BytenmtError where it is no number."""
        ended = self._ended(place)[: self._options.n_best]
        if not ended or math.isnan(ended[0].score):
            raise BytenmtError("the model's probabilities are not numbers: its training has diverged")
        return ended
