"""The engine for the CPU: packed weights and one compiled function, no PyTorch.

Knows packed models and the search's places; does not know runs, lines or when to admit whom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os.path import commonprefix

import numpy as np

from bytenmt.cpu.choose import DONE, FREE, Places, Rules, mixed
from bytenmt.cpu.model import WorkingModel
from bytenmt.cpu.program import Packed
from bytenmt.decoding import Hypothesis, Options, Request
from bytenmt.errors import BytenmtError


class NumbaEngine:
    """The Engine protocol over packed models of any architectures, which vote.

    What a sentence yields is the same to the last bit whatever stands beside it, and with any number of
    threads.
    """

    def __init__(self, packed: Sequence[Packed], options: Options, capacity: int, threads: int = 1) -> None:
        self.capacity = capacity
        self._options = options
        self._rules = Rules.of(options)
        self._models = [WorkingModel(model, capacity, options.beam, threads) for model in packed]
        self._places = Places.make(capacity, options.beam, len(packed), length=0, prefix=0)
        self._handles: dict[int, int] = {}  # of running sentences, to places
        self._n_admitted = 0
        self._n_threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

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
                self._together(
                    lambda thread, model=model, rows=rows: model.encode(rows, self._places, thread)
                )
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
        return commonprefix([*texts, *(text for text, _, _ in self._ended(place))])

    def _steps(self, which: int, n_steps: int) -> None:
        model = self._models[which]
        self._together(lambda thread: model.steps(self._places, self._rules, which, n_steps, thread))

    def _together(self, task: Callable[[int], None]) -> None:
        """All threads at once, the last on this one."""
        others = []
        if self._pool is not None:
            others = [self._pool.submit(task, thread) for thread in range(1, self._n_threads)]
        task(0)
        for other in others:
            other.result()

    def _grow(self, requests: list[Request]) -> None:
        """Room for the longest output and prefix."""
        length = max(request.limit for request in requests)
        prefix = max(len(request.prefix) for request in requests)
        old = self._places
        if length < old.bytes.shape[1] and prefix <= old.prefix.shape[1]:
            return
        length, prefix = max(length, old.bytes.shape[1] - 1), max(prefix, old.prefix.shape[1])
        new = Places.make(self.capacity, self._options.beam, len(self._models), length, prefix)
        for was, now in zip(old, new, strict=True):
            now[tuple(slice(n) for n in was.shape)] = was
        self._places = new

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
