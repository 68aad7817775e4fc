"""The base class of the architectures' configurations, and the types of their options.

Importing this module imports neither PyTorch nor NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct

from bytenmt.architectures.cells import CELLS, Cell

T = TypeVar("T")
Dropout = Annotated[float, Meta(ge=0.0, lt=1.0)]
# Bounds of a model's sizes, far beyond what anybody trains: a configuration may come from a
# stranger, and what is counted or built from it must end.
Width = Annotated[int, Meta(ge=1, le=1 << 16)]
Layers = Annotated[int, Meta(ge=1, le=256)]
# of encoder or decoder alone; 0: the number given for both
OwnLayers = Annotated[int, Meta(ge=0, le=256)]
DEFAULT_NGRAM_ROWS = 1 << 13  # of each table of n-grams
Kernel = Annotated[int, Meta(ge=1, le=1 << 10)]
Dilation = Annotated[int, Meta(ge=1, le=1 << 12)]
MAX_LAYERS = 256  # of a stack of convolutions
MAX_FIELD_BYTES = 1 << 14  # that a convolutional prediction may read: each is kept
Dilations = Annotated[tuple[Dilation, ...], Meta(max_length=MAX_LAYERS)]


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base class of the configuration's sections: immutable, and unknown keys are errors."""


class ModelSection(Section, frozen=True, kw_only=True, tag_field="arch"):
    """Base class of model configurations, with the options that every architecture has.

    A subclass adds its own options; its msgspec tag is the architecture's name.
    """

    d_embedding: Width  # of the byte embedding
    source: bool = True  # false: a byte language model, without an encoder and without attention
    dropout: Dropout = 0.1
    # the n of each table of hashed byte n-grams, growing; []: none. Rows of the tables are added to
    # the byte embedding.
    ngrams: tuple[Annotated[int, Meta(ge=2, le=8)], ...] = ()
    # rows of each table, a power of two; 0: 8192
    ngram_rows: Annotated[int, Meta(ge=0, le=1 << 20)] = 0
    # rows of one more table, a power of two, which is indexed by a hash of the current word's bytes
    # up to the byte itself; 0: no such table. Ignored without ngrams.
    ngram_word_rows: Annotated[int, Meta(ge=0, le=1 << 20)] = 0
    ngram_case: Literal["kept", "folded"] = "kept"  # folded: A to Z are hashed as a to z

    def __post_init__(self) -> None:
        if any(n >= after for n, after in pairwise(self.ngrams)):
            raise ValueError(
                f"ngrams = {list(self.ngrams)}: expected growing numbers from 2 to 8, each once"
            )
        _check_rows("ngram_rows", self.ngram_rows)
        _check_rows("ngram_word_rows", self.ngram_word_rows)
        if (self.receptive_field or 0) > MAX_FIELD_BYTES:
            raise ValueError(
                f"the receptive field is {self.receptive_field:,} bytes:"
                f" expected {MAX_FIELD_BYTES:,} or fewer"
            )

    @property
    def ngram_reach(self) -> int:
        """Number of earlier bytes on which a byte's embedding depends: the longest n-gram's n - 1.

        The table of words, which depends on a word's bytes from its start on, is not counted.
        """
        return max(self.ngrams, default=1) - 1

    @property
    def n_ngram_rows(self) -> int:
        """Number of rows of each table of n-grams: ngram_rows, or its default of 8192 for 0."""
        return self.ngram_rows or DEFAULT_NGRAM_ROWS

    @property
    def is_serial(self) -> bool:
        """True if training loops over time, as recurrent models do.

        The state of such a model is carried from one window of a text to the next.
        """
        return True

    @property
    def has_attention(self) -> bool:
        """True if the model has attention, and so an alignment: a module with `forward_aligned`."""
        return False

    @property
    def receptive_field(self) -> int | None:
        """The most bytes of the target that a prediction depends on; None if there is no limit."""
        return None


def _check_rows(name: str, rows: int) -> None:
    """Raise ValueError unless the number of rows of a table is 0 or a power of two from 8 on."""
    if rows & (rows - 1) or 0 < rows < 8:
        raise ValueError(f"{name} = {rows}: expected 0 or a power of two, 8 or more")


def architecture(config: ModelSection) -> str:
    """Return the name of a model's architecture, such as "bytenet", as --arch takes it."""
    return str(config.__struct_config__.tag)


class LayeredSection(ModelSection, frozen=True, kw_only=True):
    """Base class of configurations of models whose encoder and decoder are stacks of layers."""

    n_layers: Layers = 1  # of the encoder and of the decoder, unless given for one of them
    n_encoder_layers: OwnLayers = 0  # 0: n_layers
    n_decoder_layers: OwnLayers = 0  # 0: n_layers

    @property
    def encoder_depth(self) -> int:
        """Number of layers of the encoder; 0 without a source."""
        return (self.n_encoder_layers or self.n_layers) if self.source else 0

    @property
    def decoder_depth(self) -> int:
        """Number of layers of the decoder."""
        return self.n_decoder_layers or self.n_layers


class StackedSection(LayeredSection, frozen=True, kw_only=True):
    """Base class of configurations of models that are stacks of recurrent layers."""

    d_hidden: Width  # units of each layer

    @property
    def recurrent_cell(self) -> Cell:
        """The kind of recurrent layer (GRU or LSTM) in encoder and decoder; an LSTM by default."""
        return CELLS["lstm"]

    @property
    def n_states(self) -> int:
        """Number of vectors (d_hidden,) in the state of the decoder, all layers together."""
        return self.recurrent_cell.n_parts * self.decoder_depth

    @property
    def n_encoder_states(self) -> int:
        """Number of vectors (d_hidden,) in the state of the encoder, all layers together."""
        return self.recurrent_cell.n_parts * self.encoder_depth

    def first_states(self, final: Sequence[T]) -> tuple[T, ...]:
        """Return the initial states of the decoder's layers: h of each, then (of LSTMs) c of each.

        final: the last states of the encoder's layers (tensors, registers, …), in the same order.
        The top layers of both correspond, and so on downwards; decoder layers without a counterpart
        start from the encoder's lowest layer.
        """
        depth = self.encoder_depth
        below = depth - self.decoder_depth
        layers = [max(0, layer + below) for layer in range(self.decoder_depth)]
        parts = range(self.recurrent_cell.n_parts)
        return tuple(final[depth * part + layer] for part in parts for layer in layers)
