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
from bytenmt.architectures.tensor_tree import tensors
from bytenmt.layers.convolution import Clock
from bytenmt.layers.dropout import drop
from bytenmt.layers.embedding import ByteEmbedding
from bytenmt.layers.ngram_tables import NgramTables

M = TypeVar("M", bound=NamedTuple)  # a model's Memory: what its decoder needs of the source, n rows
T = TypeVar("T", bound=nn.Module)
S = TypeVar("S", bound=NamedTuple)  # a model's State: what its decoder carries, n * beam rows


class Model(nn.Module, ABC, Generic[M, S]):
    """A translation model on bytes. n sentences, rows = n * beam, s source bytes, t target bytes.

    Without a source (src (n, 0)) the memory has length 0 and its context is zero: the model is a byte
    language model. One whose configuration has no source has neither encoder nor attention, and takes none.
    """

    config: ModelSection
    embedding: ByteEmbedding
    decoder: nn.Module  # what a decode step reads, the output layer included

    @abstractmethod
    def encode(self, src: Tensor, src_len: Tensor) -> M:
        """src (n, s) uint8 ending in EOS, padded; src_len (n,) int64 with EOS -> memory of n rows."""

    @abstractmethod
    def start(self, memory: M, beam: int = 1) -> S:
        """The state before the first target byte, n * beam rows, a sentence's beams side by side."""

    @abstractmethod
    def forward(self, tgt: Tensor, memory: M, state: S) -> tuple[Tensor, S]:
        """Read t more target bytes and predict each one's successor.

        tgt (rows, t) uint8: the decoder's input, BOS first; memory of n rows, state of n * beam.
        Returns logits (rows, t, 256) and the state after the t bytes. With gradients the state is a
        fresh one; without them the given state is consumed and may have been written in place.
        """

    def reorder(self, state: S, parents: Tensor) -> S:
        """Row i goes on from row parents[i] of the same sentence; parents (rows,) int64.

        Rings stay where they are: the state's clock tells whose they are.
        """

        def reordered(name: str, part: Any) -> Any:
            if name == "rings":
                return part
            if isinstance(part, Clock):
                return part.reorder(parents)
            return part[parents] if isinstance(part, Tensor) else tuple(each[parents] for each in part)

        return cast(S, cast(Any, state)._make(map(reordered, state._fields, state)))

    def drop(self, x: Tensor) -> Tensor:
        """Apply the configured dropout, in training."""
        return drop(x, self.config.dropout, self.training)

    def decoder_weights(self) -> int:
        """Numbers that a decode step reads: the decoder's weights, the tables of look-ups left out."""
        return sum(p.numel() for p in self.decoder.parameters())

    def first_state(self) -> list[Tensor]:
        """The tensors of a state of one row."""
        device = self.embedding.weight.device
        ids = torch.zeros(1, 0, dtype=torch.uint8, device=device)
        with torch.no_grad():
            return tensors(self.start(self.encode(ids, torch.zeros(1, dtype=torch.int64, device=device))))


class AttentiveModel(Model[M, S]):
    """A model with attention, whose weights can be looked at."""

    def forward(self, tgt: Tensor, memory: M, state: S) -> tuple[Tensor, S]:
        return self.forward_aligned(tgt, memory, state)[:2]

    @abstractmethod
    def forward_aligned(self, tgt: Tensor, memory: M, state: S) -> tuple[Tensor, S, dict[int, Tensor]]:
        """Do what Model.forward says, and return also the attention weights of each layer that attends.

        They are by the layer's number from 1. Weights (rows, t, s): how much the prediction
        after each byte attends to each source byte, EOS included, in the order of the source; 0 at padding.
        """


def byte_embedding(config: ModelSection, std: float = 0.1) -> ByteEmbedding:
    """Build the embedding that a configuration describes, with its n-gram tables; std: of the 256 vectors."""
    tables = None
    if config.ngrams:
        folded = config.ngram_case == "folded"
        tables = NgramTables(
            config.d_embedding,
            config.ngrams,
            config.n_ngram_rows,
            config.ngram_dropout,
            folded,
            config.ngram_word_rows,
        )
    return ByteEmbedding(config.d_embedding, std, tables)


def no_source(config_source: bool, src: Tensor) -> bool:
    """Return whether src (n, s) is empty. Raises ValueError where a model without a source is given one."""
    if src.shape[1] and not config_source:
        raise ValueError(f"a source of {src.shape[1]} columns for a model that was made without one")
    return src.shape[1] == 0


def normalised(logits: Tensor) -> Tensor:
    """logits (..., 256) -> natural log-probabilities, in single precision or better."""
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def of_bytes(values: Tensor, ids: Tensor) -> Tensor:
    """values (rows, t, 256), ids (rows, t) -> those of the ids, (rows, t)."""
    return values.gather(2, ids.long()[:, :, None])[:, :, 0]


def module_list(modules: Iterable[T]) -> Sequence[T]:
    """An nn.ModuleList, which a type checker sees as a sequence of its modules' own class."""
    return cast(Sequence[T], nn.ModuleList(modules))


def persistent_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that belong to a model's state dict, by name; a shared one once."""
    stored = model.state_dict().keys()
    return {name: buffer for name, buffer in model.named_buffers() if name in stored}
