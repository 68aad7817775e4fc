"""The PyTorch engine with its pass captured as a CUDA graph and replayed.

The states of a fixed number of slots lie in buffers that never move; a new sentence overwrites one
that is done. Sources are padded to a multiple of SOURCE_COLUMNS, and each such capacity has a graph
of its own. The search runs on the host between passes. Everything except the capture is plain
PyTorch and runs on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.architectures.tensor_tree import map_tensors, tensors
from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.decoding.pytorch.engine import PyTorchEngine
from bytenmt.decoding.pytorch.forward import (
    ModelState,
    PassInputs,
    encode_requests,
    forward,
    place_sentences,
)
from bytenmt.utf8 import BOS

SOURCE_COLUMNS = 64  # source capacities are multiples of this, EOS included
N_WARM_UP_PASSES = 3  # before a capture, in which libraries allocate and weights are folded

# Takes a pass, a function without arguments or result, and returns a function that repeats it.
Capture = Callable[[Callable[[], None]], Callable[[], None]]


class CapturedPass(NamedTuple):
    """A decode step of all models, captured for sources up to some length, with its buffers."""

    states: tuple[ModelState, ...]  # of each model, for all sentences; updated by replay
    inputs: PassInputs  # read by replay
    log_p: Tensor  # written by replay: (sentences, beams, 256), natural log-probabilities
    replay: Callable[[], None]  # executes the step once more


class CudaGraphEngine(PyTorchEngine):
    """An engine that decodes on a GPU by replaying a CUDA graph of a decode step.

    models: in evaluation mode on `device`, preferably in bf16; their weights must not change.
    capacity: number of sentences in the fixed batch. capture: turns a function that executes a step
    into one that repeats it; None: CudaCapture. Tests pass one that runs on a CPU.
    """

    def __init__(
        self,
        models: Sequence[Model[Any, Any]],
        options: SearchOptions,
        capacity: int,
        device: torch.device,
        capture: Capture | None = None,
    ) -> None:
        super().__init__(models, options, capacity, device)
        self._capture = capture or CudaCapture(device)
        self._slots_of_rows = range(capacity)
        self._decoder_states: tuple[Any, ...] = ()  # of each model, shared by all plans
        self._plans: dict[int, CapturedPass] = {}  # by source capacity
        self._source_capacity = 0  # of the plan that runs

    def _place(self, fresh: tuple[ModelState, ...], slots: Sequence[int]) -> None:
        states = self._plans[self._source_capacity].states
        place_sentences(states, torch.tensor(slots, device=self._device), fresh, self._options.beam)

    def _step(self) -> None:
        plan = self._plans[self._source_capacity]
        plan.inputs.bytes.copy_(torch.from_numpy(self.state.last))
        plan.inputs.parents.copy_(torch.from_numpy(self.state.parent))
        plan.replay()
        self.choose(self._slots_of_rows, plan.log_p.cpu().numpy())

    def _make_room(self, requests: Sequence[Request], is_idle: bool) -> None:
        """Switch to a plan whose source capacity fits these sentences and the running ones."""
        sources = [request.source for request in requests]
        columns = [0 if source is None else len(source) + 1 for source in sources]
        capacity = -(-max(columns) // SOURCE_COLUMNS) * SOURCE_COLUMNS
        if not is_idle:
            capacity = max(capacity, self._source_capacity)
        if capacity in self._plans and capacity == self._source_capacity:
            return
        running = () if is_idle else self._plans[self._source_capacity].states
        saved = tuple(map_tensors(torch.clone, state) for state in running)
        if capacity not in self._plans:
            self._plans[capacity] = self._capture_pass(capacity)
        self._source_capacity = capacity
        if saved:  # the passes of a capture have overwritten the states
            slots = torch.arange(self.capacity, device=self._device)
            place_sentences(self._plans[capacity].states, slots, saved, self._options.beam)

    def _buffers(self, capacity: int) -> tuple[ModelState, ...]:
        """Return the states of all slots, for sources of `capacity` columns."""
        source = None if capacity == 0 else b" " * (capacity - 1)
        slot = encode_requests(self._models, [Request(source, 0)], self._options.beam, self._device)
        return map_tensors(lambda part: part.repeat(self.capacity, *[1] * (part.dim() - 1)), slot)

    def _capture_pass(self, capacity: int) -> CapturedPass:
        """Capture a pass that updates its states, for sources of `capacity` columns, in place."""
        states = self._buffers(capacity)
        if not self._decoder_states:
            self._decoder_states = tuple(state.state for state in states)
        memories = [state.memory for state in states]
        states = tuple(map(ModelState, memories, self._decoder_states))
        beam = self._options.beam
        inputs = PassInputs(
            torch.full((self.capacity, beam), BOS, dtype=torch.uint8, device=self._device),
            torch.arange(beam, device=self._device).repeat(self.capacity, 1),
        )
        # A pass before the capture: its result has the type that the models compute in.
        log_p = torch.empty_like(forward(self._models, states, inputs, self._options)[0])

        def one_pass() -> None:
            new, after = forward(self._models, states, inputs, self._options)
            log_p.copy_(new)
            for old, changed in zip(tensors(states), tensors(after), strict=True):
                if changed is not old:  # ring buffers are written in place
                    old.copy_(changed)

        return CapturedPass(states, inputs, log_p, self._capture(one_pass))


class CudaCapture:
    """Records what a function does on a GPU as a CUDA graph: capture(step) returns its replay.

    All graphs of a CudaCapture share one memory pool for intermediate results. device: the GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None

    def __call__(self, step: Callable[[], None]) -> Callable[[], None]:
        """Call `step` some times, record it in a CUDA graph, and return a function to replay it."""
        with torch.cuda.device(self._device):
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(N_WARM_UP_PASSES):
                    step()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                step()
            self._pool = graph.pool()
        return graph.replay
