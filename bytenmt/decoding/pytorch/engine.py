"""The reference engine: decode steps in plain PyTorch on any device, of one model or of several that vote.

With drafts a step is a pass: models that can take bytes back read the last byte and some drafted ones in one
call, and each text takes as many as it would have chosen.
Knows models by their contract. Does not know when to admit whom, nor lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor

from bytenmt.architectures.base import Drafting, normalised
from bytenmt.architectures.tensor_tree import concatenate, place, select
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.beam_search import Search
from bytenmt.decoding.pytorch.beams import Beams
from bytenmt.decoding.pytorch.drafter import WIDTHS, Drafter, Sources, best_width, check, drafter_of, seconds
from bytenmt.decoding.pytorch.hypotheses import harvest, sure
from bytenmt.speculative.table import CHAIN, Speculation
from bytenmt.utf8 import EOS, PAD


class Decoder(Protocol):
    """What is asked of a model; see architectures.base."""

    def encode(self, src: Tensor, src_len: Tensor) -> Any: ...

    def start(self, memory: Any, beam: int = 1) -> Any: ...

    def __call__(self, tgt: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]: ...

    def reorder(self, state: Any, parents: Tensor) -> Any: ...


class ModelState(NamedTuple):
    """One model's part in the running sentences: memory, n rows; state, n * b rows."""

    memory: Any
    state: Any


class Running(NamedTuple):
    """Sentences side by side: a state of each model, their beams, and sources where drafts copy from them."""

    model_states: tuple[ModelState, ...]
    beams: Beams
    sources: Sources | tuple[()] = ()


class TorchEngine:
    """Sentences decoded together, as many as `capacity`; see interface.Engine.

    models: in evaluation mode on `device`, in the precision in which they shall compute; several give the
    mean of their probabilities. Sentences that are done leave when their places are wanted, or are a quarter.
    speculation: for models that obey base.Drafting, one beam and no repetition guard; the first sentences
    wait until it is measured how many drafted bytes pay.
    """

    def __init__(
        self,
        models: Sequence[Decoder],
        options: Options,
        capacity: int,
        device: torch.device,
        speculation: Speculation | None = None,
    ) -> None:
        if capacity < 1 or not models:
            raise ValueError(f"{len(models)} models, capacity {capacity}: expected at least 1")
        self.capacity = capacity
        check(speculation, options)
        self._models, self._options, self._device = models, options, device
        self._choice = Search(options, device)
        self._speculation = speculation  # None once its width is known
        self._drafter: Drafter | None = None
        self._running: Running | None = None
        self._handles: list[int | None] = []  # of each row; None: harvested
        self._n_admitted = 0
        self._n_left = 0  # steps after which all are done at the latest
        self._without_source = False  # of those that run

    def room(self) -> int:
        return self.capacity - sum(handle is not None for handle in self._handles)

    @torch.no_grad()
    def admit(self, requests: list[Request]) -> list[int]:
        if len(requests) > self.room():
            raise ValueError(f"{len(requests)} sentences, but there is room for {self.room()}")
        if not requests:
            return []
        without_source = requests[0].source is None
        self._compact()
        if self._running is not None and without_source != self._without_source:
            raise ValueError("sentences with and without a source, expected one kind")
        self._without_source = without_source
        memories = encoded(self._models, requests, self._device)
        if self._speculation is not None:
            self._drafter = self._measured(self._speculation, requests, memories)
            self._speculation = None
        drafted = width_of(self._drafter)
        fresh = begin(self._models, self._choice, requests, drafted=drafted, memories=memories)
        self._running = fresh if self._running is None else concatenate([self._running, fresh])
        handles = list(range(self._n_admitted, self._n_admitted + len(requests)))
        self._handles += handles
        self._n_admitted += len(requests)
        self._n_left = max(self._n_left, *(request.limit + 1 for request in requests))
        return handles

    @torch.no_grad()
    def advance(self, n_steps: int) -> None:
        n_steps = min(n_passes(self._drafter, n_steps), self._n_left)
        for _ in range(n_steps):
            if self._running is not None:
                self._running = step(self._models, self._choice, self._running, self._drafter)
                if self._drafter is not None and _all_done(self._running.beams):
                    self._n_left = n_steps = 0
                    break
        self._n_left = max(0, self._n_left - n_steps)

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        if self._running is None:
            return []
        found = harvest(self._running.beams, self._handles, self._options.n_best)
        if 4 * self._handles.count(None) >= len(self._handles):
            self._compact()
        return found

    def drop(self, handle: int) -> None:
        self._handles[self._handles.index(handle)] = None

    def so_far(self, handle: int) -> bytes:
        assert self._running is not None
        return sure(self._running.beams, self._handles.index(handle))

    def _measured(
        self, speculation: Speculation, requests: Sequence[Request], memories: Sequence[Any]
    ) -> Drafter | None:
        """The drafter that pays best for so many sentences like these; memories: as begin's."""
        if speculation.most is not None:
            return Drafter(speculation, speculation.most, self._device)
        trial = begin(self._models, self._choice, requests, drafted=CHAIN, memories=memories)
        drafters = {width: drafter_of(speculation, width, self._device) for width in (0, *WIDTHS)}

        def price(width: int) -> float:
            def one_pass() -> None:
                nonlocal trial
                trial = step(self._models, self._choice, trial, drafters[width])

            return seconds(one_pass, self._device)

        return drafters[best_width(speculation.table.accepted, price)]

    def _compact(self) -> None:
        """Let go of the rows that have been harvested."""
        keep = [row for row, handle in enumerate(self._handles) if handle is not None]
        if not keep:
            self._running = None
        elif len(keep) < len(self._handles) and self._running is not None:
            self._running = only(self._running, torch.tensor(keep, device=self._device))
        self._handles = [self._handles[row] for row in keep]


def begin(
    models: Sequence[Decoder],
    choice: Search,
    requests: Sequence[Request],
    history: int = 0,
    drafted: int = 0,
    memories: Sequence[Any] | None = None,
) -> Running:
    """Sentences before their first byte; history as in Search.begin, drafted: bytes a pass at most; memories:
    of their sources, where they are there already."""
    model_states = []
    for model, memory in zip(models, memories or encoded(models, requests, choice.device), strict=True):
        b = choice.options.beam
        state = cast(Drafting, model).start(memory, b, drafted) if drafted else model.start(memory, b)
        model_states.append(ModelState(memory, state))
    sources = Sources.of(requests, choice.device) if drafted else ()
    return Running(tuple(model_states), choice.begin(requests, history), sources)


def encoded(models: Sequence[Decoder], requests: Sequence[Request], device: torch.device) -> list[Any]:
    """Each model's memory of the sources."""
    src, src_len = (part.to(device) for part in source_tensors(requests))
    return [model.encode(src, src_len) for model in models]


def step(
    models: Sequence[Decoder], choice: Search, running: Running, drafter: Drafter | None = None
) -> Running:
    """One more byte of every sentence, or as many of the drafted ones as are right and one more. The given
    states are consumed, the history is written in place."""
    if drafter is not None:
        return _step_drafted(models, choice, running, drafter)
    beams, options = running.beams, choice.options
    n, b = beams.last.shape
    first = torch.arange(n, device=beams.last.device)[:, None] * b
    model_states, log_ps = [], []
    for model, part in zip(models, running.model_states, strict=True):
        state = part.state
        if b > 1 and not options.sample:
            state = model.reorder(state, (first + beams.parent).view(-1))
        logits, state = model(beams.last.view(-1, 1), part.memory, state)
        log_ps.append(normalised(logits.view(n, b, -1)))
        model_states.append(part._replace(state=state))
    return running._replace(model_states=tuple(model_states), beams=choice.step(mean(log_ps), beams))


def _step_drafted(models: Sequence[Decoder], choice: Search, running: Running, drafter: Drafter) -> Running:
    """See step; the models take back what has been read in vain."""
    draft = drafter(running.beams, running.sources)
    read = torch.cat([running.beams.last, draft.to(torch.uint8)], dim=1)
    states, log_ps = [], []
    for model, part in zip(models, running.model_states, strict=True):
        logits, state = model(read, part.memory, part.state)
        log_ps.append(normalised(logits))
        states.append(state)
    beams, in_vain = choice.verify(mean(log_ps), draft, running.beams)
    model_states = [
        part._replace(state=cast(Drafting, model).rewind(state, in_vain))
        for model, part, state in zip(models, running.model_states, states, strict=True)
    ]
    return running._replace(model_states=tuple(model_states), beams=beams)


def width_of(drafter: Drafter | None) -> int:
    """Drafted bytes a pass."""
    return 0 if drafter is None else drafter.width


def n_passes(drafter: Drafter | None, n_steps: int) -> int:
    """Passes that probably yield as many bytes as so many steps."""
    return n_steps if drafter is None else math.ceil(n_steps / drafter.bytes_a_pass)


def _all_done(beams: Beams) -> bool:
    """Whether no step is needed any more, where that is known without waiting for the device."""
    return beams.done.device.type == "cpu" and bool(beams.done.all())


def mean(log_ps: Sequence[Tensor]) -> Tensor:
    """The logarithm of the models' mean probabilities: each (n, b, 256)."""
    if len(log_ps) == 1:
        return log_ps[0]
    return torch.stack(tuple(log_ps)).logsumexp(dim=0) - math.log(len(log_ps))


def source_tensors(requests: Sequence[Request]) -> tuple[Tensor, Tensor]:
    """src (n, s) uint8: bytes, EOS, PAD; src_len (n,) int64: bytes with EOS. Without sources s is 0."""
    sources = [request.source for request in requests if request.source is not None]
    if not sources:
        n = len(requests)
        return torch.zeros(n, 0, dtype=torch.uint8), torch.zeros(n, dtype=torch.int64)
    if len(sources) < len(requests):
        raise ValueError("sentences with and without a source, expected one kind")
    width = max(map(len, sources)) + 1
    rows = b"".join((source + bytes([EOS])).ljust(width, bytes([PAD])) for source in sources)
    src = torch.frombuffer(bytearray(rows), dtype=torch.uint8).view(len(sources), width)
    return src, torch.tensor([len(source) + 1 for source in sources])


def only(running: Running, keep: Tensor) -> Running:
    """These sentences (int64), in this order."""
    b = running.beams.last.shape[1]
    rows = rows_of(keep, b)
    model_states = tuple(
        ModelState(select(v.memory, keep), select(v.state, rows)) for v in running.model_states
    )
    return Running(model_states, select(running.beams, keep), select(running.sources, keep))


def put(running: Running, places: Tensor, fresh: Running) -> None:
    """Write fresh sentences over the ones at these places (int64), in place."""
    rows = rows_of(places, fresh.beams.last.shape[1])
    place(running.beams, places, fresh.beams)
    place(running.sources, places, fresh.sources)
    for part, new in zip(running.model_states, fresh.model_states, strict=True):
        place(part.memory, places, new.memory)
        place(part.state, rows, new.state)


def rows_of(sentences: Tensor, b: int) -> Tensor:
    """The rows of a state that belong to these sentences (int64)."""
    return (sentences[:, None] * b + torch.arange(b, device=sentences.device)).view(-1)
