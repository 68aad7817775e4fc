"""The configuration of convolutional sequence-to-sequence models."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bytenmt.architectures.section import MAX_LAYERS, Dilations, Kernel, ModelSection, Width

ConvLayer = tuple[Width, Kernel]  # channels, kernel width
ConvLayers = Annotated[tuple[ConvLayer, ...], Meta(max_length=MAX_LAYERS)]
AttentionLayers = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_LAYERS)], ...], Meta(max_length=MAX_LAYERS)
]


class ConvS2SConfig(ModelSection, frozen=True, kw_only=True, tag="convs2s"):
    """Options of gated convolutions with attention (Gehring et al. 2017; encoders also of 2016)."""

    # (channels, kernel width) of each layer; with encoder = "conv" of those that make the keys
    encoder_layers: ConvLayers = ()
    decoder_layers: Annotated[ConvLayers, Meta(min_length=1)]  # the same of the decoder
    encoder_dilations: Dilations = ()  # one a layer of encoder_layers; []: none is dilated
    decoder_dilations: Dilations = ()  # one a layer of decoder_layers; []: none is dilated
    # "gated" is that of 2017; those of 2016 are "pooling", the mean of each byte's neighbours,
    # without weights, and "conv", two stacks of tanh layers, one for keys and one for values
    encoder: Literal["gated", "pooling", "conv"] = "gated"
    value_layers: ConvLayers = ()  # of "conv", those that make the values
    pooling_width: Kernel = 5  # bytes that "pooling" takes the mean of
    positions: Literal["learned", "sinusoidal", "off"] = "learned"  # position embeddings
    # rows of the position tables, the last one shared by all positions beyond; 0: none
    n_positions: Annotated[int, Meta(ge=0, le=1 << 20)] = 4096
    # layers of the decoder that attend, the lowest is 1; []: all
    attention_layers: AttentionLayers = ()
    attention_scaling: Literal["sqrt", "none"] = "sqrt"  # context times sqrt(source bytes)
    weight_norm: bool = True  # weight normalisation, of all weights but those of look-up tables

    def __post_init__(self) -> None:
        if self.source and self.encoder != "pooling" and not self.encoder_layers:
            raise ValueError("encoder_layers is empty: give a layer or more")
        if self.source and self.encoder == "conv" and not self.value_layers:
            raise ValueError('value_layers is empty: encoder = "conv" needs a layer or more')
        _check_dilations("encoder", self.encoder_layers, self.encoder_dilations)
        _check_dilations("decoder", self.decoder_layers, self.decoder_dilations)
        last = len(self.decoder_layers)
        sorted_layers = [n for n in range(1, last + 1) if n in self.attention_layers]
        if list(self.attention_layers) != sorted_layers:
            raise ValueError(
                f"attention_layers: expected layers from 1 to {last}, each once, the lowest first"
            )
        if self.positions == "sinusoidal" and not self.n_positions:
            raise ValueError('n_positions = 0 leaves no row for positions = "sinusoidal": raise it')
        super().__post_init__()

    @property
    def encoder_stack(self) -> tuple[tuple[int, int, int], ...]:
        """Channels, kernel width and dilation of each encoder layer; () with encoder = "pooling".

        With encoder = "conv" those of the layers that make the keys.
        """
        if not self.source or self.encoder == "pooling":
            return ()
        return _stack(self.encoder_layers, self.encoder_dilations)

    @property
    def value_stack(self) -> tuple[tuple[int, int, int], ...]:
        """Channels, kernel width and dilation of each layer of the stack that computes the values
        of attention, where model.encoder is "conv"; another stack computes the keys."""
        return _stack(self.value_layers, ())

    @property
    def decoder_stack(self) -> tuple[tuple[int, int, int], ...]:
        """Channels, kernel width and dilation of each layer of the decoder."""
        return _stack(self.decoder_layers, self.decoder_dilations)

    @property
    def attends(self) -> tuple[bool, ...]:
        """For each layer of the decoder, whether it has attention."""
        numbers = range(1, 1 + len(self.decoder_layers))
        attending = self.attention_layers or numbers
        return tuple(self.source and number in attending for number in numbers)

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
        """True if the model has a source, which its decoder then attends to."""
        return self.source

    @property
    def receptive_field(self) -> int:
        """The most bytes of the target that a prediction depends on."""
        reach = sum((width - 1) * dilation for _, width, dilation in self.decoder_stack)
        return 1 + reach + self.ngram_reach


def _check_dilations(side: str, layers: tuple[ConvLayer, ...], dilations: tuple[int, ...]) -> None:
    """Raise ValueError unless there is a dilation for each layer, or none at all."""
    if dilations and len(dilations) != len(layers):
        raise ValueError(
            f"{side}_dilations has {len(dilations)} numbers for {len(layers)} {side}_layers:"
            " give one a layer, or [] for none"
        )


def _stack(
    layers: tuple[ConvLayer, ...], dilations: tuple[int, ...]
) -> tuple[tuple[int, int, int], ...]:
    """Return channels, kernel width and dilation of each layer."""
    each = dilations or (1,) * len(layers)
    return tuple((*layer, dilation) for layer, dilation in zip(layers, each, strict=True))
