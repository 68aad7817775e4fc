"""A whole decode step as one CUDA graph: models, automaton, search and book-keeping, captured once, replayed.

A fixed number of places holds the sentences in buffers that never move; a new sentence is written into the
place of one that is done. Sources stand in a fixed number of columns; a longer one takes a graph of its own.
All but the capture itself is plain PyTorch and runs on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from bytenmt.architectures.tensor_tree import map_tensors, tensors
from bytenmt.decoding.constraints.constraint import NOTHING, Size
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.beam_search import Search
from bytenmt.decoding.pytorch.beams import Beams
from bytenmt.decoding.pytorch.constraints import Owing
from bytenmt.decoding.pytorch.drafter import Drafter, Sources, best_width, check, drafter_of, seconds
from bytenmt.decoding.pytorch.engine import Decoder, ModelState, Running, begin, n_passes, put, step, width_of
from bytenmt.decoding.pytorch.hypotheses import harvest, sure
from bytenmt.speculative.table import CHAIN, Speculation

SOURCE_COLUMNS = 64  # source capacities are multiples of this, EOS counted
HISTORY = 1024  # and the output's of this
WARM_UP = 3  # steps before a capture: libraries allocate, folded weights are made

# A step without arguments or result -> a function that repeats it. It may call the step as often as it likes.
Capture = Callable[[Callable[[], None]], Callable[[], None]]


class Plan(NamedTuple):
    """What is kept of one source capacity: a memory of each model, what drafts copy from, and the captured
    step."""

    memories: tuple[Any, ...]
    sources: Sources | tuple[()]
    replay: Callable[[], None]


class CudaGraphEngine:
    """Sentences at `capacity` fixed places; see interface.Engine.

    models: in evaluation mode on `device`, best in bf16; their weights must not change. capture: for tests,
    what takes the place of CUDA's. speculation: as TorchEngine's.
    """

    def __init__(
        self,
        models: Sequence[Decoder],
        options: Options,
        capacity: int,
        device: torch.device,
        capture: Capture | None = None,
        speculation: Speculation | None = None,
    ) -> None:
        if capacity < 1 or not models:
            raise ValueError(f"{len(models)} models, capacity {capacity}: expected at least 1")
        self.capacity = capacity
        check(speculation, options)
        self._models, self._options, self._device = models, options, device
        self._speculation = speculation  # None once its width is known
        self._drafter: Drafter | None = None
        self._capture = capture or CudaCapture(device)
        self._choice = Search(options, device)
        self._handles: list[int | None] = [None] * capacity  # of each place; None: free
        self._n_admitted = 0
        self._n_left = 0  # steps after which all are done at the latest
        self._states: tuple[Any, ...] = ()  # of each model, n * b rows
        self._beams: Beams | None = None
        self._plans: dict[int, Plan] = {}  # by source capacity; all share states and beams
        self._source_capacity = self._history = 0  # of the plan that runs; of the beams
        self._owing = Size()  # of the beams' constraints

    def room(self) -> int:
        return self._handles.count(None)

    @torch.no_grad()
    def admit(self, requests: list[Request]) -> list[int]:
        if len(requests) > self.room():
            raise ValueError(f"{len(requests)} sentences, but there is room for {self.room()}")
        if not requests:
            return []
        self._make_room(requests)
        fresh = begin(self._models, self._choice, requests, drafted=width_of(self._drafter))
        free = [i for i, handle in enumerate(self._handles) if handle is None][: len(requests)]
        put(self._running(), torch.tensor(free, device=self._device), fresh)
        handles = list(range(self._n_admitted, self._n_admitted + len(requests)))
        self._n_admitted += len(requests)
        self._n_left = max(self._n_left, *(request.limit + 1 for request in requests))
        for i, handle in zip(free, handles, strict=True):
            self._handles[i] = handle
        return handles

    @torch.no_grad()
    def advance(self, n_steps: int) -> None:
        n_steps = min(n_passes(self._drafter, n_steps), self._n_left)
        for _ in range(n_steps):
            self._plans[self._source_capacity].replay()
        self._n_left -= n_steps

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        if self._beams is None:
            return []
        return harvest(self._beams, self._handles, self._options.n_best)

    def drop(self, handle: int) -> None:
        self._handles[self._handles.index(handle)] = None

    def so_far(self, handle: int) -> bytes:
        assert self._beams is not None
        return sure(self._beams, self._handles.index(handle))

    def _running(self) -> Running:
        """The buffers of the plan that runs."""
        assert self._beams is not None
        plan = self._plans[self._source_capacity]
        return Running(tuple(map(ModelState, plan.memories, self._states)), self._beams, plan.sources)

    def _make_room(self, requests: Sequence[Request]) -> None:
        """See to buffers and a graph that these sentences fit into, beside those that run."""
        sources = [0 if request.source is None else len(request.source) + 1 for request in requests]
        capacity = _rounded(max(sources), SOURCE_COLUMNS)
        history = max(_rounded(max(r.limit for r in requests) + 1, HISTORY), self._history)
        owing = self._owing
        if (tracker := self._options.tracker) is not None:
            owing = owing.joined(Size.of([request.constraint for request in requests], tracker).rounded())
        idle = self.room() == self.capacity
        if not idle:
            if (capacity > 0) != (self._source_capacity > 0):
                raise ValueError("sentences with and without a source, expected one kind")
            capacity = max(capacity, self._source_capacity)
        runs = capacity, history, owing
        if capacity in self._plans and runs == (self._source_capacity, self._history, self._owing):
            return
        kept = None if idle else map_tensors(torch.clone, self._running())
        if history > self._history or owing != self._owing:
            self._plans.clear()  # they write into beams that are too short
            self._states, self._beams, self._history, self._owing = (), None, history, owing
        if capacity not in self._plans:
            self._plans[capacity] = self._build(capacity)
        self._source_capacity = capacity
        if kept is not None:  # a capture's first steps have gone over what was there
            put(self._running(), torch.arange(self.capacity, device=self._device), kept)

    def _build(self, capacity: int) -> Plan:
        """Buffers for sources of so many columns, all places free, and the step captured on them."""
        if self._speculation is not None:
            self._drafter = self._measured(self._speculation, capacity)
            self._speculation = None
        fixed = self._buffers(capacity, width_of(self._drafter))
        if self._beams is None:
            self._states, self._beams = tuple(part.state for part in fixed.model_states), fixed.beams
        memories = tuple(part.memory for part in fixed.model_states)
        buffers = Running(tuple(map(ModelState, memories, self._states)), self._beams, fixed.sources)
        return Plan(memories, fixed.sources, self._captured(buffers, self._drafter))

    def _measured(self, speculation: Speculation, capacity: int) -> Drafter | None:
        """The drafter that pays best, each one's step captured on buffers of its own."""
        if speculation.most is not None:
            return Drafter(speculation, speculation.most, self._device)
        buffers = self._buffers(capacity, CHAIN)

        @cache
        def replay(width: int) -> Callable[[], None]:
            return self._captured(buffers, drafter_of(speculation, width, self._device))

        width = best_width(speculation.table.accepted, lambda width: seconds(replay(width), self._device))
        return drafter_of(speculation, width, self._device)

    def _buffers(self, capacity: int, drafted: int) -> Running:
        """All places, free, for sources of so many columns."""
        source = None if capacity == 0 else b" " * (capacity - 1)
        example = [Request(source, self._history - 1)]
        one = begin(self._models, self._choice, example, self._history, drafted)
        if self._options.tracker is not None:
            blank = map_tensors(
                lambda part: part.to(self._device), Owing.of([NOTHING], self._options.beam, self._owing)
            )
            one = one._replace(beams=one.beams._replace(owing=blank))
        fixed = map_tensors(lambda part: part.repeat(self.capacity, *[1] * (part.dim() - 1)), one)
        fixed.beams.done.fill_(True)
        return fixed

    def _captured(self, buffers: Running, drafter: Drafter | None) -> Callable[[], None]:
        """A step that writes into the buffers from which it reads."""

        def one_step() -> None:
            after = step(self._models, self._choice, buffers, drafter)
            for old, new in zip(tensors(buffers), tensors(after), strict=True):
                if new is not old:  # rings and history have been written in place
                    old.copy_(new)

        return self._capture(one_step)


class CudaCapture:
    """Captures steps on one GPU. Its graphs share the memory of what they compute in between: of their
    results nothing but the buffers lasts."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None

    def __call__(self, step: Callable[[], None]) -> Callable[[], None]:
        with torch.cuda.device(self._device):
            beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            beside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                for _ in range(WARM_UP):
                    step()
            torch.cuda.current_stream().wait_stream(beside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                step()
            self._pool = graph.pool()
        return graph.replay


def _rounded(n: int, multiple: int) -> int:
    """n rounded up."""
    return -(-n // multiple) * multiple
