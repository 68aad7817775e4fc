"""A pass of PyTorch models over the bytes that the search wants to be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bytenmt.architectures.base import Model, logits_to_log_p
from bytenmt.architectures.tensor_tree import place, select
from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.utf8 import EOS, PAD


class ModelState(NamedTuple):
    """The tensors that one model keeps between steps, for n sentences with b beams each."""

    memory: Any  # the encoded sources, nested tuples of tensors with n rows
    state: Any  # the decoder's state, nested tuples of tensors with n * b rows


class PassInputs(NamedTuple):
    """The inputs of a decode step of n sentences with b beams (hypotheses) each."""

    bytes: Tensor  # (n, b) uint8: the byte that each beam reads
    parents: Tensor  # (n, b) int64: the beam of the previous step that each beam continues


def encode_requests(
    models: Sequence[Model[Any, Any]], requests: Sequence[Request], beam: int, device: torch.device
) -> tuple[ModelState, ...]:
    """Encode the sources of requests; return each model's memory and state before the first byte.

    requests: all with a source, or all without. beam: hypotheses (rows of the state) a sentence.
    """
    sources = [request.source for request in requests]
    ended = [b"" if source is None else source + bytes([EOS]) for source in sources]
    src, src_len = pad_texts(ended, device)
    memories = [model.encode(src, src_len) for model in models]
    starts = zip(models, memories, strict=True)
    return tuple(ModelState(memory, model.start(memory, beam)) for model, memory in starts)


def forward(
    models: Sequence[Model[Any, Any]],
    states: Sequence[ModelState],
    inputs: PassInputs,
    options: SearchOptions,
) -> tuple[Tensor, tuple[ModelState, ...]]:
    """Execute one decode step: read a byte of every beam with all models.

    Returns the natural log-probabilities of the next byte (n, b, 256), averaged over the models,
    and the new states. The given states must not be used again. options: in a search, beams are
    reordered by inputs.parents; with options.sample they are not.
    """
    n, b = inputs.bytes.shape
    after = []
    log_ps = []
    for model, (memory, state) in zip(models, states, strict=True):
        if b > 1 and not options.sample:
            first = torch.arange(n, device=inputs.parents.device)[:, None] * b
            state = model.reorder(state, (first + inputs.parents).view(-1))
        logits, state = model(inputs.bytes.view(-1, 1), memory, state)
        log_ps.append(logits_to_log_p(logits.view(n, b, -1)))
        after.append(ModelState(memory, state))
    if len(log_ps) == 1:
        return log_ps[0], tuple(after)
    return torch.stack(log_ps).logsumexp(dim=0) - math.log(len(log_ps)), tuple(after)


def pad_texts(texts: Sequence[bytes], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return texts as a tensor (n, longest) uint8, padded with PAD, and lengths (n,) int64."""
    width = max(map(len, texts))
    data = bytearray(b"".join(text.ljust(width, bytes([PAD])) for text in texts))
    rows = torch.frombuffer(data or bytearray(1), dtype=torch.uint8)[: len(data)]  # never empty
    lengths = torch.tensor([len(text) for text in texts], dtype=torch.int64)
    return rows.view(len(texts), width).to(device), lengths.to(device)


def select_sentences(
    states: Sequence[ModelState], keep: Tensor, beam: int
) -> tuple[ModelState, ...]:
    """Return each model's state for some sentences of a batch.

    states: those of the batch. keep (m,) int64: indices of sentences. beam: beams a sentence.
    """
    rows = rows_of(keep, beam)
    return tuple(
        ModelState(select(state.memory, keep), select(state.state, rows)) for state in states
    )


def place_sentences(
    states: Sequence[ModelState], slots: Tensor, fresh: Sequence[ModelState], beam: int
) -> None:
    """Overwrite the states of m sentences of a batch, in place, with those of m new sentences.

    states: of each model, for the batch. slots (m,) int64: indices of the sentences to overwrite.
    fresh: of each model, for the new sentences. beam: beams a sentence.
    """
    rows = rows_of(slots, beam)
    for old, new in zip(states, fresh, strict=True):
        place(old.memory, slots, new.memory)
        place(old.state, rows, new.state)


def rows_of(sentences: Tensor, beam: int) -> Tensor:
    """Return the rows that m sentences have in a decoder's state: indices (m * beam,) int64.

    sentences (m,): indices in the batch; a sentence i has the rows i * beam to (i + 1) * beam - 1.
    """
    return (sentences[:, None] * beam + torch.arange(beam, device=sentences.device)).view(-1)
