"""The CPU engine: decodes by packed weights and one compiled function, without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bytenmt.decoding.cpu.packing import PackedModel
from bytenmt.decoding.cpu.session import ModelSession
from bytenmt.decoding.cpu.thread_team import ThreadTeam
from bytenmt.decoding.engine import Engine
from bytenmt.decoding.interface import Request, SearchOptions


class NumbaEngine(Engine):
    """Decodes up to `capacity` sentences side by side on the CPU, each in a slot of the batch.

    The hypotheses of a sentence have the same bits whatever is decoded beside it, on any number of
    threads.
    packed: the models, of any architectures; several form an ensemble. options: of the search, such
    as the beam size. threads: how many decode at most.
    """

    def __init__(
        self, packed: Sequence[PackedModel], options: SearchOptions, capacity: int, threads: int = 1
    ) -> None:
        super().__init__(options, capacity, len(packed))
        self._models = [ModelSession(model, capacity, options.beam, threads) for model in packed]
        self._team = ThreadTeam(threads)

    def admit(self, requests: list[Request]) -> list[int]:
        """Encode new sentences and put each into a free slot; return a handle (a number) for each,
        in their order. Raises ValueError if there are not enough free slots."""
        handles, slots = self.take_slots(requests)
        if not requests:
            return handles
        for model in self._models:
            for rows in model.prepare([request.source for request in requests], slots):
                self._team.run(partial(model.encode, rows, self.state, self.params))
        return handles

    def advance(self, n_steps: int) -> None:
        """Execute n_steps decode steps; each adds a byte to every unfinished hypothesis."""
        call_steps = n_steps if len(self._models) == 1 else 1  # those of an ensemble take turns
        for _ in range(0, n_steps, call_steps):
            for which, model in enumerate(self._models):
                call = partial(model.run_steps, self.state, self.params, which, call_steps)
                self._team.run_timed(call)
