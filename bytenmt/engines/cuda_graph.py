"""A whole decode step as one CUDA graph: models, automaton, search and book-keeping, captured once, replayed.

A fixed number of places holds the sentences in buffers that never move; a new sentence is written into the
place of one that is done. Sources stand in a fixed number of columns; a longer one takes a graph of its own.
All but the capture itself is plain PyTorch and runs on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from bytenmt.decoding import Hypothesis, Options, Request
from bytenmt.engines.choice import Beams, Choice
from bytenmt.engines.readback import harvest, sure
from bytenmt.engines.torch_engine import Decoder, Running, Voice, begin, put, step
from bytenmt.models.base import map_tensors, tensors

SOURCE_COLUMNS = 64  # source capacities are multiples of this, EOS counted
HISTORY = 1024  # and the output's of this
WARM_UP = 3  # steps before a capture: libraries allocate, folded weights are made

# A step without arguments or result -> a function that repeats it. It may call the step as often as it likes.
Capture = Callable[[Callable[[], None]], Callable[[], None]]


class Plan(NamedTuple):
    """What is kept of one source capacity: a memory of each model, and the captured step."""

    memories: tuple[Any, ...]
    replay: Callable[[], None]


class CudaGraphEngine:
    """Sentences at `capacity` fixed places; see decoding.Engine.

    models: in evaluation mode on `device`, best in bf16; their weights must not change. capture: for tests,
    what takes the place of CUDA's.
    """

    def __init__(
        self,
        models: Sequence[Decoder],
        options: Options,
        capacity: int,
        device: torch.device,
        capture: Capture | None = None,
    ) -> None:
        if capacity < 1 or not models:
            raise ValueError(f"{len(models)} models, capacity {capacity}: expected at least 1")
        self.capacity = capacity
        self._models, self._options, self._device = models, options, device
        self._capture = capture or CudaCapture(device)
        self._choice = Choice(options, device)
        self._handles: list[int | None] = [None] * capacity  # of each place; None: free
        self._n_admitted = 0
        self._states: tuple[Any, ...] = ()  # of each model, n * b rows
        self._beams: Beams | None = None
        self._plans: dict[int, Plan] = {}  # by source capacity; all share states and beams
        self._source_capacity = self._history = 0  # of the plan that runs; of the beams

    def room(self) -> int:
        return self._handles.count(None)

    @torch.no_grad()
    def admit(self, requests: list[Request]) -> list[int]:
        if len(requests) > self.room():
            raise ValueError(f"{len(requests)} sentences, but there is room for {self.room()}")
        if not requests:
            return []
        fresh = begin(self._models, self._choice, requests)
        self._make_room(requests)
        free = [i for i, handle in enumerate(self._handles) if handle is None][: len(requests)]
        put(self._running(), torch.tensor(free, device=self._device), fresh)
        handles = list(range(self._n_admitted, self._n_admitted + len(requests)))
        self._n_admitted += len(requests)
        for i, handle in zip(free, handles, strict=True):
            self._handles[i] = handle
        return handles

    @torch.no_grad()
    def advance(self, n_steps: int) -> None:
        for _ in range(n_steps if self.room() < self.capacity else 0):
            self._plans[self._source_capacity].replay()

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        if self._beams is None:
            return []
        return harvest(self._beams, self._handles, self._options.n_best)

    def so_far(self, handle: int) -> bytes:
        assert self._beams is not None
        return sure(self._beams, self._handles.index(handle))

    def _running(self) -> Running:
        """The buffers of the plan that runs."""
        assert self._beams is not None
        memories = self._plans[self._source_capacity].memories
        return Running(tuple(map(Voice, memories, self._states)), self._beams)

    def _make_room(self, requests: Sequence[Request]) -> None:
        """See to buffers and a graph that these sentences fit into, beside those that run."""
        sources = [0 if request.source is None else len(request.source) + 1 for request in requests]
        capacity = _rounded(max(sources), SOURCE_COLUMNS)
        history = max(_rounded(max(r.limit for r in requests) + 1, HISTORY), self._history)
        idle = self.room() == self.capacity
        if not idle:
            if (capacity > 0) != (self._source_capacity > 0):
                raise ValueError("sentences with and without a source, expected one kind")
            capacity = max(capacity, self._source_capacity)
        if capacity in self._plans and (capacity, history) == (self._source_capacity, self._history):
            return
        kept = None if idle else map_tensors(torch.clone, self._running())
        if history > self._history:
            self._plans.clear()  # they write into beams that are too short
            self._states, self._beams, self._history = (), None, history
        if capacity not in self._plans:
            self._plans[capacity] = self._build(capacity)
        self._source_capacity = capacity
        if kept is not None:  # a capture's first steps have gone over what was there
            put(self._running(), torch.arange(self.capacity, device=self._device), kept)

    def _build(self, capacity: int) -> Plan:
        """Buffers for sources of so many columns, all places free, and the step captured on them."""
        source = None if capacity == 0 else b" " * (capacity - 1)
        example = [Request(source, self._history - 1)]
        one = begin(self._models, self._choice, example, self._history)
        fixed = map_tensors(lambda part: part.repeat(self.capacity, *[1] * (part.dim() - 1)), one)
        fixed.beams.done.fill_(True)
        if self._beams is None:
            self._states, self._beams = tuple(voice.state for voice in fixed.voices), fixed.beams
        memories = tuple(voice.memory for voice in fixed.voices)
        buffers = Running(tuple(map(Voice, memories, self._states)), self._beams)

        def one_step() -> None:
            after = step(self._models, self._choice, buffers)
            for old, new in zip(tensors(buffers), tensors(after), strict=True):
                if new is not old:  # rings and history have been written in place
                    old.copy_(new)

        return Plan(memories, self._capture(one_step))


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
