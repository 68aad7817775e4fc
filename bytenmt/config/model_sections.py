"""The sections of the recurrent architectures: their sizes and options, with defaults and bounds.

Knows no other section, and no tensors; the convolutional two stand in convolutional_sections.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Dropout = Annotated[float, Meta(ge=0.0, lt=1.0)]
# Bounds of a model's sizes, far beyond what anybody trains: a configuration may come from a stranger, and
# what is counted or built from it must end.
Width = Annotated[int, Meta(ge=1, le=1 << 16)]
Layers = Annotated[int, Meta(ge=1, le=256)]
OwnLayers = Annotated[int, Meta(ge=0, le=256)]  # of one side; 0: as many as are given for both


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the configuration: immutable, no unknown keys."""


class ModelSection(Section, frozen=True, kw_only=True, tag_field="arch"):
    """What all architectures have; `tag` is the name of each."""

    d_embedding: Width
    source: bool = True  # false: a byte language model, without an encoder and without attention
    dropout: Dropout = 0.1
    tie_embedding: bool = False  # the output layer uses the byte embedding's table


class _Stacked(ModelSection, frozen=True, kw_only=True):
    """What the two with recurrent layers above each other have."""

    d_hidden: Width
    n_layers: Layers = 1  # of both sides, where they have no number of their own
    n_encoder_layers: OwnLayers = 0
    n_decoder_layers: OwnLayers = 0

    def __post_init__(self) -> None:
        if not self.source and self.n_encoder_layers:
            raise ValueError("n_encoder_layers would be ignored without a source: leave it out")

    @property
    def encoder_depth(self) -> int:
        """Layers of the encoder; 0 without a source."""
        return (self.n_encoder_layers or self.n_layers) if self.source else 0

    @property
    def decoder_depth(self) -> int:
        """Layers of the decoder."""
        return self.n_decoder_layers or self.n_layers

    @property
    def starts_from(self) -> tuple[int, ...]:
        """The layer of the encoder from whose last state each of the decoder's starts: the two stacks stand
        top to top, and a layer below the encoder's lowest starts from that one. Empty without a source."""
        below = self.encoder_depth - self.decoder_depth
        return tuple(max(0, layer + below) for layer in range(self.decoder_depth)) if self.source else ()


class Seq2SeqConfig(_Stacked, frozen=True, kw_only=True, tag="seq2seq"):
    """GRU encoder-decoder (Cho et al. 2014, Sutskever et al. 2014)."""

    context: Literal["start", "every_step"] = "start"
    gru_reset: Literal["before", "after"] = "before"
    reverse_source: bool = True
    init: Literal["scaled", "paper"] = "scaled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.source and self.context == "every_step":
            raise ValueError('context = "every_step" shows a source at every step: without one set "start"')
        if self.d_hidden == 1 and self.context == "every_step":
            raise ValueError(
                'd_hidden = 1 leaves nothing to read out with context = "every_step": set 2 or more'
            )


class BahdanauConfig(ModelSection, frozen=True, kw_only=True, tag="bahdanau"):
    """Additive attention (Bahdanau et al. 2015)."""

    d_hidden: Width
    d_attention: Width
    d_maxout: Width
    read_out: Literal["previous", "current"] = "previous"  # the state that the read-out sees
    init: Literal["scaled", "paper"] = "scaled"


class LuongConfig(_Stacked, frozen=True, kw_only=True, tag="luong"):
    """Stacked LSTM with global attention and input feeding (Luong et al. 2015)."""

    n_layers: Layers = 2
    score: Literal["dot", "general", "concat"] = "general"
    input_feeding: bool = True
    reverse_source: bool = False
    init: Literal["scaled", "paper"] = "scaled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.source and self.input_feeding:
            raise ValueError("input_feeding is of the attention's outcome: without a source set it to false")
