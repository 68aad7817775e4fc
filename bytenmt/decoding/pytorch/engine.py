"""The PyTorch engine: decoding on any device, by one model or an ensemble.

A step is a pass of the models on the device and a step of the search on the host (search/host_search.py).
With drafts, a pass reads the last byte and some drafted ones, of which each text accepts as many as the
search would have chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from bytenmt.architectures.tensor_tree import concatenate
from bytenmt.decoding.drafts.table import Speculation
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.draft_width import best_width, check, seconds
from bytenmt.decoding.pytorch.forward import (
    Decoder,
    Inputs,
    ModelState,
    OpenSource,
    attends,
    begin,
    forward,
    select_sentences,
)
from bytenmt.decoding.search.host_search import HostSearch, SearchStep
from bytenmt.kernel_constants import MOST_DRAFTED
from bytenmt.utf8 import BOS


class TorchEngine:
    """Decode up to `capacity` sentences together; see interface.Engine.

    models: in evaluation mode on `device`, in the precision in which they compute; several form an ensemble,
    whose probabilities are averaged. speculation: for models that implement base.Drafting, one beam and no
    n-gram blocking; how many drafted bytes are worth it is measured before the first sentence. search: a step
    of the search; None for Python. The rows of sentences that are done are removed when they are a quarter,
    or when others are admitted.
    """

    def __init__(
        self,
        models: Sequence[Decoder],
        options: Options,
        capacity: int,
        device: torch.device,
        speculation: Speculation | None = None,
        search: SearchStep | None = None,
    ) -> None:
        if capacity < 1 or not models:
            raise ValueError(f"{len(models)} models, capacity {capacity}: expected at least 1")
        self.capacity = capacity
        check(speculation, options)
        self._models, self._options, self._device = models, options, device
        self._search = HostSearch(options, capacity, speculation, search, attends(models))
        self._speculation = speculation
        self._width: int | None = None if speculation else 0  # drafted bytes per pass; None: not measured yet
        self._states: tuple[ModelState, ...] = ()
        self._slots: list[int] = []  # of the sentences in the states, in order
        self._n_rejected = torch.zeros(0, dtype=torch.int64)  # of each slot in _slots
        self._without_source = False

    def room(self) -> int:
        return self._search.room()

    @torch.no_grad()
    def admit(self, requests: list[Request]) -> list[int]:
        if not requests:
            return []
        without_source = requests[0].source is None
        self._compact()
        if self._slots and without_source != self._without_source:
            raise ValueError("sentences with and without a source, expected one kind")
        self._without_source = without_source
        if self._width is None:
            self._width = self._measured_width(requests)
            self._search.set_draft_width(self._width)
        fresh = begin(self._models, requests, self._options.beam, self._width, self._device)
        handles, slots = self._search.admit(requests)
        self._states = concatenate([self._states, fresh]) if self._slots else fresh
        self._slots += slots
        self._n_rejected = torch.cat([self._n_rejected, torch.zeros(len(slots), dtype=torch.int64)])
        if requests[0].is_open:
            self._source = OpenSource(self._models, requests[0].wait, self._device)
        return handles

    @torch.no_grad()
    def extend(self, handle: int, added: bytes, limit: int, is_last: bool) -> None:
        source = self._search.extend(handle, added, limit, is_last)
        if added or is_last:
            memories = self._source.extend(added, len(source), is_last)
            pairs = zip(memories, self._states, strict=True)
            self._states = tuple(ModelState(memory, old.state) for memory, old in pairs)

    @torch.no_grad()
    def advance(self, n_steps: int) -> None:
        for _ in range(n_passes(self._speculation, self._width or 0, n_steps)):
            if not self._search.is_running(self._slots).any():
                return
            self._step()

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        finished = self._search.finished()
        if 4 * int((~self._search.is_running(self._slots)).sum()) >= len(self._slots):
            self._compact()
        return finished

    def drop(self, handle: int) -> None:
        self._search.drop(handle)

    def so_far(self, handle: int) -> bytes:
        return self._search.so_far(handle)

    def _step(self) -> None:
        """Execute a pass over the bytes that were chosen last, and choose the next ones."""
        search, slots, width = self._search, self._slots, self._width or 0
        if width:
            search.draft_bytes()
        inputs = Inputs(
            torch.from_numpy(search.bytes_to_read(slots)).to(self._device),
            torch.from_numpy(search.parents(slots)).to(self._device),
            self._n_rejected.to(self._device),
        )
        needs_attention = search.attends and not self._without_source
        outputs, self._states = forward(
            self._models, self._states, inputs, self._options, width > 0, needs_attention
        )
        log_p, attention = (part.cpu().numpy() for part in outputs)
        self._n_rejected = torch.from_numpy(search.choose(slots, log_p, attention))

    def _measured_width(self, requests: Sequence[Request]) -> int:
        """Return how many drafted bytes per pass are worth it for sentences like these; 0 for none."""
        assert self._speculation is not None
        if self._speculation.most is not None:
            return self._speculation.most
        states = begin(self._models, requests, 1, MOST_DRAFTED, self._device)
        n = len(requests)
        zeros = torch.zeros(n, 1, dtype=torch.int64, device=self._device)

        def price(width: int) -> float:
            read = torch.full((n, 1 + width), BOS, dtype=torch.uint8, device=self._device)

            def one_pass() -> None:
                nonlocal states
                inputs = Inputs(read, zeros, zeros[:, 0])
                _, states = forward(self._models, states, inputs, self._options, True)

            return seconds(one_pass, self._device)

        return best_width(self._speculation.table.accepted, price)

    def _compact(self) -> None:
        """Remove the rows of sentences that are done."""
        running = self._search.is_running(self._slots)
        if not running.any():
            self._states = ()
        elif not running.all():
            keep = torch.from_numpy(running.nonzero()[0])
            self._states = select_sentences(self._states, keep.to(self._device), self._options.beam)
            self._n_rejected = self._n_rejected[keep]
        self._slots = [slot for slot, runs in zip(self._slots, running, strict=True) if runs]
        self._n_rejected = self._n_rejected[: len(self._slots)]


def n_passes(speculation: Speculation | None, width: int, n_steps: int) -> int:
    """Return how many passes with drafts are expected to yield as many bytes as n_steps without."""
    if speculation is None or not width:
        return n_steps
    return math.ceil(n_steps / (1 + float(speculation.table.accepted[:width].sum())))
