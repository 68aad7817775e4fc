"""The CPU engine: decodes by packed weights and one compiled function, without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import thread_time

import numpy as np

from bytenmt.decoding.cpu.interpreter import run
from bytenmt.decoding.cpu.packing import PackedModel
from bytenmt.decoding.cpu.session import ModelSession, RunProgram
from bytenmt.decoding.cpu.thread_team import ThreadTeam
from bytenmt.decoding.drafts.table import Speculation
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.search.batch import SearchBatch
from bytenmt.decoding.search.drafting import ADAPTIVE, MOST_ROWS, PRESET
from bytenmt.decoding.search.state import FREE, SearchState
from bytenmt.kernel_constants import MOST_DRAFTED

TRIES, ENOUGH = 5, 0.05  # measurements of each width at most, and seconds after which there are no more
MEASURED_FOR = 1000  # calls of advance between measurements: the load of the machine changes
WIDTHS = (2, 3, 4, 6, 9, 12, 16, 24, 32, 48, 64, 96, 128)  # rows of the passes whose time is measured


class NumbaEngine:
    """An Engine (see interface) over packed models of any architectures; several form an ensemble.

    The hypotheses of a sentence have the same bits whatever is decoded beside it, on any number of threads,
    and with or without speculation. Speculation is for convolutional models, beam 1 and no n-gram blocking.
    threads: at most. run: see session.ModelSession.
    """

    def __init__(
        self,
        packed: Sequence[PackedModel],
        options: Options,
        capacity: int,
        threads: int = 1,
        speculation: Speculation | None = None,
        run: RunProgram = run,
    ) -> None:
        programs = [model.program for model in packed]
        if speculation and (options.beam > 1 or any(one.states or not one.rings for one in programs)):
            raise ValueError(f"drafts for beam {options.beam}: expected beam 1 and convolutional models")
        self.capacity = capacity
        drafted = min(capacity * MOST_DRAFTED, MOST_ROWS) if speculation else 0
        n_rows = capacity * options.beam + drafted
        columns = MOST_DRAFTED if speculation else 0
        self._models = [
            ModelSession(model, capacity, options.beam, threads, n_rows, columns, run) for model in packed
        ]
        self._batch = SearchBatch(
            options,
            capacity,
            len(packed),
            n_rows,
            speculation,
            attends=all(one.n_attentions for one in programs),
        )
        self._team = ThreadTeam(threads)
        self._measured = MEASURED_FOR  # calls of advance since then

    def room(self) -> int:
        """Return how many sentences `admit` would take now."""
        return self._batch.room()

    def admit(self, requests: list[Request]) -> list[int]:
        """Encode sources and put them into slots; return their handles.

        Raises ValueError without enough room.
        """
        batch = self._batch
        is_idle = batch.room() == self.capacity
        is_open = any(request.is_open for request in requests)
        is_adaptive = batch.most_drafted == ADAPTIVE and not is_open
        if requests and is_idle and is_adaptive and self._measured >= MEASURED_FOR:
            self._measure()
        handles, slots = batch.admit(requests)
        if is_open:
            for model in self._models:
                model.open(requests[0].wait)
            return handles
        for model in self._models if requests else ():
            waits = [request.wait for request in requests]
            for rows in model.prepare([request.source for request in requests], slots, waits):
                self._team.run(partial(model.encode, rows, batch.pass_inputs()))
        return handles

    def extend(self, handle: int, added: bytes, limit: int, is_last: bool) -> None:
        """Append to the source of a sentence that was admitted open; see interface.Engine."""
        source = self._batch.extend(handle, added, limit, is_last)
        for model in self._models:
            for rows in model.extend(source, len(source) - len(added), is_last):
                self._team.run(partial(model.encode, rows, self._batch.pass_inputs()))

    def advance(self, n_steps: int) -> None:
        """Execute n_steps passes over all sentences that are not done."""
        self._measured += 1
        if len(self._models) == 1:
            self._steps(0, n_steps)
            return
        for _ in range(n_steps):
            for which in range(len(self._models)):
                self._steps(which, 1)

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        """Return handles and hypotheses of the sentences done since the last call, and free their slots."""
        return self._batch.finished()

    def drop(self, handle: int) -> None:
        """Free the slot of a sentence that `finished` has not returned."""
        self._batch.drop(handle)

    def so_far(self, handle: int) -> bytes:
        """Return the bytes that all hypotheses of a running sentence have in common so far."""
        return self._batch.so_far(handle)

    def first_model(self) -> ModelSession:
        """Return the session of the first model."""
        return self._models[0]

    def _steps(self, which: int, n_steps: int) -> None:
        self._team.run_timed(
            partial(self._models[which].run_steps, self._batch.pass_inputs(), which, n_steps)
        )

    def _measure(self) -> None:
        """Measure the seconds of a pass by its number of rows, while there are no sentences.

        Beyond the width from which on each further row costs the same, times are extrapolated.
        """
        batch = self._batch
        before = batch.state, batch.drafts
        text = b"a" * (
            MOST_DRAFTED + 1
        )  # a forced prefix, so that all drafted bytes are accepted and no text ends
        most = len(batch.drafts.price) - 1
        batch.state = SearchState.allocate(
            self.capacity, 1, len(self._models), len(text), len(text), n_rows=most
        )
        batch.drafts = batch.drafts._replace(most=PRESET)
        widths, seconds = [1], [self._time_of(1, text)]
        for n_rows in (n for n in WIDTHS if n <= most):
            widths.append(n_rows)
            seconds.append(self._time_of(n_rows, text))
            if seconds[-1] * widths[-2] > 0.9 * seconds[-2] * widths[-1] and n_rows > MOST_DRAFTED:
                break
        tries = min(TRIES, int(ENOUGH / sum(seconds)))
        for _ in range(tries):  # in turn, so that other load affects all widths alike
            seconds = [min(s, self._time_of(n, text)) for n, s in zip(widths, seconds, strict=True)]
        call = min(self._time_of(0, text) for _ in range(TRIES))  # of a call without passes
        seconds = [max(s - call, call / 10) for s in seconds]
        for i in range(1, len(widths)):  # more rows cost no less than fewer, and no more than several passes
            most_seconds = min(s * widths[i] / n for n, s in zip(widths[:i], seconds[:i], strict=True))
            seconds[i] = min(max(seconds[i], seconds[i - 1]), most_seconds)
        rows = np.arange(most + 1)
        beyond = np.maximum(rows - widths[-1], 0) * (seconds[-1] / widths[-1])
        before[1].price[:] = np.interp(rows, widths, seconds) + beyond
        batch.state, batch.drafts = before
        self._measured = 0

    def _time_of(self, n_rows: int, text: bytes) -> float:
        """Return the CPU seconds of this thread for a pass over n_rows rows."""
        state, n_slots = self._batch.state, -(-n_rows // (MOST_DRAFTED + 1))
        for slot in range(n_slots):
            state.begin(slot, len(text), text, [0] if self._batch.params.sample else None)
            state.n_drafted[slot] = (n_rows + slot) // n_slots - 1
            state.drafted[slot] = text[0]
        started = thread_time()
        self.advance(1)
        seconds = thread_time() - started
        state.state[:n_slots] = FREE
        return seconds
