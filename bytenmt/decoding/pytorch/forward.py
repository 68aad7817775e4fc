"""A pass of models over the bytes that the search wants read: PyTorch's part of a decode step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor

from bytenmt.architectures.base import Drafting, normalised
from bytenmt.architectures.tensor_tree import place, select
from bytenmt.decoding.interface import Options, Request
from bytenmt.utf8 import EOS, PAD


class Decoder(Protocol):
    """What an engine asks of a model; see models.base."""

    def encode(self, src: Tensor, src_len: Tensor) -> Any: ...

    def start(self, memory: Any, beam: int = 1) -> Any: ...

    def __call__(self, tgt: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]: ...

    def reorder(self, state: Any, parents: Tensor) -> Any: ...


class ModelState(NamedTuple):
    """One model's memory of n sources, n rows, and the state of its decoder, n * b rows."""

    memory: Any
    state: Any


class Inputs(NamedTuple):
    """What a pass reads: bytes (n, b) or, drafted ones included, (n, 1 + width) uint8; parents (n, b) int64,
    the beam of the pass before that each beam continues; in_vain (n,) int64, columns of the pass before that
    are taken back."""

    bytes: Tensor
    parents: Tensor
    n_rejected: Tensor


def begin(
    models: Sequence[Decoder], requests: Sequence[Request], beam: int, drafted: int, device: torch.device
) -> tuple[ModelState, ...]:
    """Encode the sources of sentences; return each model's state before their first byte. drafted: bytes that
    a pass can take back at most."""
    src, src_len = (part.to(device) for part in source_tensors(requests))
    states = []
    for model in models:
        memory = model.encode(src, src_len)
        start = cast(Drafting, model).start(memory, beam, drafted) if drafted else model.start(memory, beam)
        states.append(ModelState(memory, start))
    return tuple(states)


def forward(
    models: Sequence[Decoder], states: Sequence[ModelState], inputs: Inputs, options: Options, drafts: bool
) -> tuple[Tensor, tuple[ModelState, ...]]:
    """Read bytes with all models; return the natural log-probabilities of what follows each byte, the mean
    over the models, and the states after.

    The given states are consumed. drafts: whether drafted bytes are read, and taken back.
    """
    (n, columns), b = inputs.bytes.shape, inputs.parents.shape[1]
    after, log_ps = [], []
    for model, (memory, state) in zip(models, states, strict=True):
        if drafts:
            state = cast(Drafting, model).rewind(state, inputs.n_rejected)
        elif b > 1 and not options.sample:
            first = torch.arange(n, device=inputs.parents.device)[:, None] * b
            state = model.reorder(state, (first + inputs.parents).view(-1))
        read = inputs.bytes if drafts else inputs.bytes.view(-1, 1)
        logits, state = model(read, memory, state)
        log_ps.append(normalised(logits.view(n, columns, -1)))
        after.append(ModelState(memory, state))
    return mean(log_ps), tuple(after)


def mean(log_ps: Sequence[Tensor]) -> Tensor:
    """Return the logarithm of the models' mean probabilities: each (n, columns, 256)."""
    if len(log_ps) == 1:
        return log_ps[0]
    return torch.stack(tuple(log_ps)).logsumexp(dim=0) - math.log(len(log_ps))


def source_tensors(requests: Sequence[Request]) -> tuple[Tensor, Tensor]:
    """Return src (n, s) uint8: bytes, EOS, PAD; and src_len (n,) int64: bytes with EOS. Without sources s is
    0. Raises ValueError for sentences with and without a source together."""
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


def select_sentences(states: Sequence[ModelState], keep: Tensor, beam: int) -> tuple[ModelState, ...]:
    """Return the states of these sentences (int64), in this order."""
    rows = rows_of(keep, beam)
    return tuple(ModelState(select(one.memory, keep), select(one.state, rows)) for one in states)


def place_sentences(
    states: Sequence[ModelState], slots: Tensor, fresh: Sequence[ModelState], beam: int
) -> None:
    """Write fresh sentences over those in these slots (int64), in place."""
    rows = rows_of(slots, beam)
    for old, new in zip(states, fresh, strict=True):
        place(old.memory, slots, new.memory)
        place(old.state, rows, new.state)


def rows_of(sentences: Tensor, beam: int) -> Tensor:
    """Return the rows of a decoder's state that belong to these sentences (int64)."""
    return (sentences[:, None] * beam + torch.arange(beam, device=sentences.device)).view(-1)
