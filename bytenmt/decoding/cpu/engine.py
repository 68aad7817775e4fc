"""The engine for the CPU: packed weights and one compiled function, no PyTorch.

Knows packed models and the search's places; does not know runs, lines or when to admit whom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from time import thread_time

import numpy as np

from bytenmt.decoding.constraints.constraint import Size
from bytenmt.decoding.cpu.interpreter import run
from bytenmt.decoding.cpu.packing import PackedModel
from bytenmt.decoding.cpu.search.drafter import AS_MANY_AS_PAY, AS_THEY_STAND, MOST_ROWS, Drafter, PassInputs
from bytenmt.decoding.cpu.search.slots import DONE, FREE, Rules, SearchState
from bytenmt.decoding.cpu.session import Run, WorkingModel
from bytenmt.decoding.cpu.thread_team import ThreadTeam
from bytenmt.decoding.interface import Hypothesis, Options, Request, shared_beginning
from bytenmt.errors import BytenmtError
from bytenmt.speculative.table import CHAIN, Speculation
from bytenmt.splitmix import draw_key

TRIES, ENOUGH = 5, 0.05  # measurements of each width at most, and seconds after which there are no more
MEASURED_FOR = 1000  # calls of advance; then the machine may have other work
WIDTHS = (2, 3, 4, 6, 9, 12, 16, 24, 32, 48, 64, 96, 128)  # rows of the passes that are measured


class NumbaEngine:
    """The Engine protocol over packed models of any architectures, which vote. threads: at most.

    What a sentence yields is the same to the last bit whatever stands beside it, on however many threads, and
    with whatever speculation, which is for convolutional models, beam 1 and no guard against repetition.
    """

    def __init__(
        self,
        packed: Sequence[PackedModel],
        options: Options,
        capacity: int,
        threads: int = 1,
        speculation: Speculation | None = None,
        run: Run = run,
    ) -> None:
        """run: see session.WorkingModel."""
        if speculation and (options.beam > 1 or any(model.states or not model.rings for model in packed)):
            raise ValueError(f"drafts for beam {options.beam}: expected beam 1 and convolutional models")
        self.capacity = capacity
        self._options = options
        self._rules = Rules.of(options)
        self._speculates = speculation is not None
        tried = min(capacity * CHAIN, MOST_ROWS) if speculation else 0
        n_rows = capacity * options.beam + tried
        self._models = [
            WorkingModel(model, capacity, options.beam, threads, n_rows, CHAIN if speculation else 0, run)
            for model in packed
        ]
        self._search = SearchState.make(
            capacity, options.beam, len(packed), 0, 0, n_rows=n_rows, totals=options.byte_scores
        )
        self._drafter = Drafter.of(speculation, n_rows)
        self._handles: dict[int, int] = {}  # of running sentences, to places
        self._n_admitted = 0
        self._team = ThreadTeam(threads)
        self._measured = MEASURED_FOR  # calls of advance since then

    def room(self) -> int:
        """Sentences that `admit` would take now."""
        return self.capacity - len(self._handles)

    def admit(self, requests: list[Request]) -> list[int]:
        """Encode the sources and begin; a handle for each. Raises ValueError where there is no room."""
        if len(requests) > self.room():
            raise ValueError(f"{len(requests)} sentences for {self.room()} places")
        if not requests:
            return []
        if not self._handles and self._drafter.most == AS_MANY_AS_PAY and self._measured >= MEASURED_FOR:
            self._measure()
        self._grow(requests)
        free = np.flatnonzero(self._search.state == FREE)[: len(requests)].tolist()
        options = self._options
        for place, request in zip(free, requests, strict=True):
            keys = [draw_key(options.seed, request.number, text) for text in range(options.beam)]
            copied = request.source or b"" if self._speculates else b""
            owed = None if options.tracker is None else request.constraint
            self._search.begin(place, request.limit, request.prefix, keys, options.sample, copied, owed)
        for model in self._models:
            for rows in model.prepare([request.source for request in requests], free):
                self._team.run(partial(model.encode, rows, self._inputs()))
        handles = list(range(self._n_admitted, self._n_admitted + len(requests)))
        self._n_admitted += len(requests)
        self._handles.update(zip(handles, free, strict=True))
        return handles

    def advance(self, n_steps: int) -> None:
        """n passes over all sentences that are not done."""
        self._measured += 1
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
            if self._search.state[place] == DONE:
                done.append((handle, self._hypotheses(place)))
                self._search.state[place] = FREE
                del self._handles[handle]
        return done

    def drop(self, handle: int) -> None:
        """Let go of a sentence that has not been told by `finished`: its place is free again."""
        self._search.state[self._handles.pop(handle)] = FREE

    def so_far(self, handle: int) -> bytes:
        """The bytes that a running sentence will surely begin with."""
        search, place = self._search, self._handles[handle]
        if search.state[place] == DONE:
            return self._hypotheses(place)[0].text
        step = int(search.step[place])
        going = np.flatnonzero(search.score[place] > -np.inf)
        texts = [search.text(place, step, int(beam)) for beam in going]
        return shared_beginning([*texts, *(ended.text for ended in self._ended(place))] or [b""])

    def first_model(self) -> WorkingModel:
        """The first model at work."""
        return self._models[0]

    def _steps(self, which: int, n_steps: int) -> None:
        self._team.run_timed(partial(self._models[which].steps, self._inputs(), which, n_steps))

    def _inputs(self) -> PassInputs:
        return PassInputs(self._search, self._rules, self._drafter)

    def _measure(self) -> None:
        """Find out what a pass costs by its rows, while no sentence is there: up to a width from which on
        every row costs as much as any other."""
        kept = self._search, self._drafter
        text = b"a" * (CHAIN + 1)  # forced, so that all drafted bytes are accepted and the text does not end
        most = len(kept[1].price) - 1
        self._search = SearchState.make(
            self.capacity, 1, len(self._models), len(text), len(text), n_rows=most
        )
        self._drafter = kept[1]._replace(most=AS_THEY_STAND)
        widths, seconds = [1], [self._time_of(1, text)]
        for n_rows in (n for n in WIDTHS if n <= most):
            widths.append(n_rows)
            seconds.append(self._time_of(n_rows, text))
            if seconds[-1] * widths[-2] > 0.9 * seconds[-2] * widths[-1] and n_rows > CHAIN:
                break
        tries = min(TRIES, int(ENOUGH / sum(seconds)))
        for _ in range(tries):  # in turn, so that what disturbs the machine disturbs all alike
            seconds = [min(s, self._time_of(n, text)) for n, s in zip(widths, seconds, strict=True)]
        call = min(self._time_of(0, text) for _ in range(TRIES))  # of no passes
        seconds = [max(s - call, call / 10) for s in seconds]
        for i in range(1, len(widths)):  # more rows never cost less, nor more than as many passes
            dearest = min(s * widths[i] / n for n, s in zip(widths[:i], seconds[:i], strict=True))
            seconds[i] = min(max(seconds[i], seconds[i - 1]), dearest)
        rows = np.arange(most + 1)
        beyond = np.maximum(rows - widths[-1], 0) * (seconds[-1] / widths[-1])
        kept[1].price[:] = np.interp(rows, widths, seconds) + beyond
        self._search, self._drafter = kept
        self._measured = 0

    def _time_of(self, n_rows: int, text: bytes) -> float:
        """Seconds of this thread, others may use its core too, for a pass over so many rows."""
        n_places = -(-n_rows // (CHAIN + 1))
        for place in range(n_places):
            self._search.begin(place, len(text), text, [0], self._options.sample)
            self._search.n_drafted[place] = (n_rows + place) // n_places - 1
            self._search.drafted[place] = text[0]
        started = thread_time()
        self.advance(1)
        seconds = thread_time() - started
        self._search.state[:n_places] = FREE
        return seconds

    def _grow(self, requests: list[Request]) -> None:
        """Room for the longest output, prefix and source, and for all that is owed."""
        length = max(request.limit for request in requests)
        prefix = max(len(request.prefix) for request in requests)
        source = max(len(request.source or b"") for request in requests) if self._speculates else 0
        there = tuple(
            part.shape[1] for part in (self._search.chosen, self._search.prefix, self._search.source)
        )
        owing = self._search.owing.size()
        if (tracker := self._options.tracker) is not None:
            owing = owing.joined(Size.of([request.constraint for request in requests], tracker))
        if length >= there[0] or prefix > there[1] or source > there[2] or owing != self._search.owing.size():
            sizes = max(length, there[0] - 1), max(prefix, there[1]), max(source, there[2])
            self._search = self._search.grown(*sizes, owing)

    def _ended(self, place: int) -> list[Hypothesis]:
        """The finished hypotheses of a place, best first."""
        search = self._search
        n_passes = int(search.passes[place]) if self._speculates else 0
        ended = search.ranked, search.log_p, search.at, search.who
        numbers = [part[place, : search.n_finished[place]].tolist() for part in ended]
        return [
            Hypothesis(
                search.text(place, step, beam),
                log_p,
                score,
                n_passes,
                search.byte_scores(place, step, beam, log_p),
            )
            for score, log_p, step, beam in zip(*numbers, strict=True)
        ]

    def _hypotheses(self, place: int) -> list[Hypothesis]:
        """What a done sentence yields, best first. Raises BytenmtError where it is no number."""
        ended = self._ended(place)[: self._options.n_best]
        if not ended or math.isnan(ended[0].score):
            raise BytenmtError("the model's probabilities are not numbers: its training has diverged")
        return ended
