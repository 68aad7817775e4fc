"""The contract that every architecture obeys, and what all of them share.

One `forward` is training, stepping and streaming: t columns from a state on, for any t >= 1.
The state is explicit: NamedTuples of tensors, rows first, never kept on the module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from bytenmt.architectures.section import ModelSection
from bytenmt.layers.dropout import drop
from bytenmt.layers.embedding import ByteEmbedding
from bytenmt.layers.ngram_tables import NgramTables
from bytenmt.layers.rings import Clock, Rings

# a model's memory: the encoder's outputs that its decoder reads, n rows
M = TypeVar("M", bound=NamedTuple)
# a model's state: the decoder's between two bytes, n * beam rows
S = TypeVar("S", bound=NamedTuple)
T = TypeVar("T", bound=nn.Module)


class Model(nn.Module, ABC, Generic[M, S]):
    """Base class of all models: `encode` sources, `start` a state, `forward` target bytes.

    In shapes: n sentences, rows = n * beam (one a hypothesis), s source bytes, t target bytes; an
    id is a byte. M is the type of the memory, which `encode` returns, S that of the decoder's
    state. Without a source (src (n, 0)) the memory has length 0 and its context is zero: the model
    is a byte language model. A model that is configured with source = false has neither encoder
    nor attention, and must be given no source.
    """

    config: ModelSection
    embedding: ByteEmbedding
    decoder: nn.Module  # what a decode step reads, the output layer included

    @abstractmethod
    def encode(self, src: Tensor, src_len: Tensor) -> M:
        """Run the encoder; return the memory that the decoder reads.

        The memory consists of tensors with a row for each sentence. src (n, s) uint8: the bytes of
        each source, EOS, then padding; src_len (n,) int64: lengths in bytes, EOS included.
        """

    @abstractmethod
    def start(self, memory: M, beam: int = 1) -> S:
        """Return the decoder's state before the first target byte.

        memory: of n sentences, as encode returns it; beam: the number of hypotheses of a sentence.
        The state has n * beam rows; the `beam` rows of a sentence are adjacent.
        """

    @abstractmethod
    def forward(self, tgt: Tensor, memory: M, state: S) -> tuple[Tensor, S]:
        """Read t target bytes; return the logits of the byte after each of them, and the new state.

        tgt (rows, t) uint8: the bytes after those that `state` has read; the first one of a text
        is BOS. memory: of n sentences, each of which has rows / n adjacent rows of `state`. Returns
        logits (rows, t, 256) and the state after the t bytes. Under no_grad the given state may be
        overwritten: use only the returned one.
        """

    def reorder(self, state: S, parents: Tensor) -> S:
        """Return the state in which row i continues row parents[i], as beam search chooses
        hypotheses.

        parents (rows,) int64, each a row of the same sentence. Fields of type Rings (cyclic caches
        of past columns) are not copied; instead the state's Clock records which row's ring holds a
        column. Raises TypeError for a state with Rings but no Clock, or a Clock but no Rings.
        """

        def reordered(part: Any) -> Any:
            if isinstance(part, Rings):
                return part  # never moved
            if isinstance(part, Clock):
                return part.reorder(parents)
            if isinstance(part, Tensor):
                return part[parents]
            return tuple(each[parents] for each in part)

        kinds = set(map(type, state))
        if (Rings in kinds) != (Clock in kinds):
            raise TypeError(f"{type(state).__name__}: Rings need a Clock, and a Clock needs Rings")
        return cast(S, cast(Any, state)._make(map(reordered, state)))

    def drop(self, x: Tensor) -> Tensor:
        """Apply dropout of the configured probability to x; return x itself outside of training."""
        return drop(x, self.config.dropout, self.training)


class AttentiveModel(Model[M, S]):
    """Base class of models with attention, which can return its weights by `forward_aligned`."""

    def forward(self, tgt: Tensor, memory: M, state: S) -> tuple[Tensor, S]:
        """Return forward_aligned's logits (rows, t, 256) and new state, without its weights."""
        return self.forward_aligned(tgt, memory, state)[:2]

    @abstractmethod
    def forward_aligned(
        self, tgt: Tensor, memory: M, state: S
    ) -> tuple[Tensor, S, dict[int, Tensor]]:
        """Read t target bytes; return logits, the new state and attention weights.

        tgt (rows, t) uint8: the bytes after those that `state` has read; logits (rows, t, 256). The
        dict maps the number, from 1, of each decoder layer that has attention to its weights
        (rows, t, s): how much the prediction after each byte attends to each source byte, EOS
        included, in the order of the source; 0 at padding. Without a source s is 0, or the dict is
        empty.
        """


def byte_embedding(config: ModelSection, std: float = 0.1) -> ByteEmbedding:
    """Build the byte embedding of a model, with the tables of hashed n-grams that it configures.

    std: standard deviation of the initial vectors of the 256 bytes.
    """
    d = config.d_embedding
    tables = None
    if config.ngrams:
        is_folded = config.ngram_case == "folded"
        n_rows = config.n_ngram_rows
        tables = NgramTables(d, config.ngrams, n_rows, is_folded, config.ngram_word_rows)
    return ByteEmbedding(d, std, tables)


def logits_to_log_p(logits: Tensor) -> Tensor:
    """Return the natural log-probabilities of logits (..., 256), in float32 or better."""
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def pick_bytes(values: Tensor, ids: Tensor) -> Tensor:
    """Return values[i, j, ids[i, j]], (rows, t), of values (rows, t, 256), ids (rows, t) bytes."""
    return values.gather(2, ids.long()[:, :, None])[:, :, 0]


def module_list(modules: Iterable[T]) -> Sequence[T]:
    """Return an nn.ModuleList of the modules, typed as a sequence of their class."""
    return cast(Sequence[T], nn.ModuleList(modules))
