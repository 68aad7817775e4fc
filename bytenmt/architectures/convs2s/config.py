"""The configuration of convolutional sequence-to-sequence models."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bytenmt.architectures.section import (
    MOST_LAYERS,
    Dilations,
    Kernel,
    ModelSection,
    Width,
)

ConvLayer = tuple[Width, Kernel]  # channels, kernel width
ConvLayers = Annotated[tuple[ConvLayer, ...], Meta(max_length=MOST_LAYERS)]
AttentionLayers = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MOST_LAYERS)], ...], Meta(max_length=MOST_LAYERS)
]


class ConvS2SConfig(ModelSection, frozen=True, kw_only=True, tag="convs2s"):
    """Options of gated convolutions with attention in the decoder's layers (Gehring et al. 2017).

    The encoder may also be one of Gehring et al. 2016.
    """

    # With encoder = "conv" the layers that make the keys.
    encoder_layers: ConvLayers = ()  # (channels, kernel width) of each
    decoder_layers: Annotated[ConvLayers, Meta(min_length=1)]  # the same of the decoder
    encoder_dilations: Dilations = ()  # one a layer of encoder_layers; []: none is dilated
    decoder_dilations: Dilations = ()  # one a layer of decoder_layers; []: none is dilated
    # "pooling": the mean of each byte's neighbours, without weights; "conv": two stacks of tanh
    # layers, one that makes keys and one that makes values.
    encoder: Literal["gated", "pooling", "conv"] = "gated"  # of 2017, or the two of 2016
    value_layers: ConvLayers = ()  # of "conv", those that make the values
    pooling_width: Kernel = 5  # bytes that "pooling" takes the mean of
    positions: Literal["learned", "sinusoidal", "off"] = "learned"  # position embeddings
    n_positions: Annotated[int, Meta(ge=0, le=1 << 20)] = (
        4096  # rows of the position tables, the last one shared by all beyond; 0: none
    )
    # layers of the decoder that attend, the lowest is 1; []: all
    attention_layers: AttentionLayers = ()
    attention_scaling: Literal["sqrt", "none"] = "sqrt"  # context times sqrt(source bytes)
    weight_norm: bool = True  # weights as direction and length, everywhere but in tables

    def __post_init__(self) -> None:
        if self.source and self.encoder != "pooling" and not self.encoder_layers:
            raise ValueError("encoder_layers is empty: give a layer or more")
        if self.source and self.encoder == "conv" and not self.value_layers:
            raise ValueError('value_layers is empty: encoder = "conv" needs a layer or more')
        for side, layers in (("encoder", self.encoder_layers), ("decoder", self.decoder_layers)):
            dilations = self.encoder_dilations if side == "encoder" else self.decoder_dilations
            if dilations and len(dilations) != len(layers):
                raise ValueError(
                    f"{side}_dilations has {len(dilations)} numbers for {len(layers)} {side}_layers:"
                    " give one a layer, or [] for none"
                )
        last = len(self.decoder_layers)
        if list(self.attention_layers) != [
            n for n in range(1, last + 1) if n in self.attention_layers
        ]:
            raise ValueError(
                f"attention_layers: expected layers from 1 to {last}, each once, the lowest first"
            )
        if self.positions == "sinusoidal" and not self.n_positions:
            raise ValueError('n_positions = 0 leaves no row for positions = "sinusoidal": raise it')
        super().__post_init__()

    @property
    def encoder_stack(self) -> tuple[tuple[int, int, int], ...]:
        """Channels, kernel width and dilation of each encoder layer, with "conv" of the stack of
        keys."""
        has_stack = self.source and self.encoder != "pooling"
        return _stack(self.encoder_layers, self.encoder_dilations) if has_stack else ()

    @property
    def value_stack(self) -> tuple[tuple[int, int, int], ...]:
        """Channels, kernel width and dilation of each layer of the "conv" encoder's stack of
        values."""
        return _stack(self.value_layers, ())

    @property
    def decoder_stack(self) -> tuple[tuple[int, int, int], ...]:
        """Channels, kernel width and dilation of each layer of the decoder."""
        return _stack(self.decoder_layers, self.decoder_dilations)

    @property
    def attends(self) -> tuple[bool, ...]:
        """For each layer of the decoder, whether it has attention."""
        numbers = range(1, 1 + len(self.decoder_layers))
        return tuple(
            self.source and number in (self.attention_layers or numbers) for number in numbers
        )

    @property
    def position_kind(self) -> Literal["learned", "sinusoidal", "off"]:
        """The kind of position embeddings, "off" if their table would have no rows."""
        return self.positions if self.n_positions else "off"

    @property
    def is_serial(self) -> bool:
        """False: training reads all positions at once."""
        return False

    @property
    def has_attention(self) -> bool:
        """True if there is a source."""
        return self.source

    @property
    def receptive_field(self) -> int:
        """Bytes of the target that a prediction depends on."""
        return 1 + sum(_reaches(self.decoder_stack)) + self.ngram_reach


def _reaches(stack: tuple[tuple[int, int, int], ...]) -> list[int]:
    """(kernel width - 1) * dilation of each layer."""
    return [(width - 1) * dilation for _, width, dilation in stack]


def _stack(
    layers: tuple[ConvLayer, ...], dilations: tuple[int, ...]
) -> tuple[tuple[int, int, int], ...]:
    """Each layer together with its dilation."""
    each = dilations or (1,) * len(layers)
    return tuple(
        (width, kernel, dilation) for (width, kernel), dilation in zip(layers, each, strict=True)
    )
