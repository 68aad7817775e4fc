"""The configuration of ByteNet."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bytenmt.architectures.section import Dilations, Kernel, Layers, ModelSection, OwnLayers, Width


class ByteNetConfig(ModelSection, frozen=True, kw_only=True, tag="bytenet"):
    """Options of ByteNet, dilated convolutions on the encoder (Kalchbrenner et al. 2016)."""

    d_channels: Width  # the paper's d: inside a block; 2d between blocks
    n_sets: Layers  # sets of blocks
    n_encoder_sets: OwnLayers = 0  # 0: n_sets
    n_decoder_sets: OwnLayers = 0  # 0: n_sets
    # which of encoder and decoder have GRU layers (2d units each) instead of blocks; the number of
    # layers is then the number of sets
    recurrent: Literal["none", "decoder", "both"] = "none"
    dilations: Dilations = (1, 2, 4, 8, 16)  # of the convolution in each block of a set
    encoder_dilations: Dilations = ()  # []: the same as dilations
    kernel_width: Kernel = 3  # of the convolutions, in bytes
    block: Literal["relu", "multiplicative"] = "relu"  # ReLUs or multiplicative units in the blocks
    # a: the encoder has ceil(a s + b) output columns for a source of s bytes
    unfolding_factor: Annotated[float, Meta(gt=0.0, le=16.0)] = 1.2
    unfolding_offset: Annotated[int, Meta(ge=0, le=1 << 12)] = 0  # b, in bytes
    # how an encoder column joins a byte's embedding: concatenated (d channels each) or added (2d)
    stacking: Literal["concat", "add"] = "concat"
    # factor of the initial weights of the encoder's output layer
    encoder_scale: Annotated[float, Meta(gt=0.0, le=100.0)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recurrent == "none" and not self.dilations:
            raise ValueError(
                "dilations is empty, but the decoder is convolutional: give one or more"
            )
        has_blocks = self.source and self.recurrent != "both"
        if has_blocks and not (self.dilations or self.encoder_dilations):
            raise ValueError(
                "dilations and encoder_dilations are empty, but the encoder is convolutional:"
                ' give one of them, or set recurrent = "both"'
            )

    @property
    def encoder_depth(self) -> int:
        """Number of sets of blocks, or of recurrent layers, of the encoder; 0 without a source."""
        return (self.n_encoder_sets or self.n_sets) if self.source else 0

    @property
    def decoder_depth(self) -> int:
        """Number of sets of blocks, or of recurrent layers, of the decoder."""
        return self.n_decoder_sets or self.n_sets

    @property
    def encoder_recurrence(self) -> int:
        """Number of recurrent layers of the encoder; 0 where it is convolutional."""
        return self.encoder_depth if self.recurrent == "both" else 0

    @property
    def decoder_recurrence(self) -> int:
        """Number of recurrent layers of the decoder; 0 where it is convolutional."""
        return self.decoder_depth if self.is_serial else 0

    @property
    def encoder_schedule(self) -> tuple[int, ...]:
        """The dilation of each block of the encoder; () if it is recurrent or there is none."""
        dilations = self.encoder_dilations or self.dilations
        return () if self.recurrent == "both" else dilations * self.encoder_depth

    @property
    def decoder_schedule(self) -> tuple[int, ...]:
        """The dilation of each block of the decoder; () if it is recurrent."""
        return () if self.is_serial else self.dilations * self.decoder_depth

    @property
    def adds_columns(self) -> bool:
        """True if encoder columns are added to the decoder's input instead of concatenated."""
        return self.source and self.stacking == "add"

    @property
    def d_column(self) -> int:
        """Channels of an encoder column, which is the encoder's output at one position."""
        return 2 * self.d_channels if self.adds_columns else self.d_channels

    @property
    def d_read(self) -> int:
        """Channels to which the decoder maps a byte's embedding: 2 d_channels.

        d_channels if an encoder column, of as many channels, is concatenated with it.
        """
        has_concatenated = self.source and not self.adds_columns
        return self.d_channels if has_concatenated else 2 * self.d_channels

    @property
    def is_serial(self) -> bool:
        """True if the decoder is recurrent, so that training loops over time."""
        return self.recurrent != "none"

    @property
    def receptive_field(self) -> int | None:
        """The most bytes of the target that a prediction depends on.

        None if the decoder is recurrent: there is no limit.
        """
        if self.is_serial:
            return None
        return 1 + (self.kernel_width - 1) * sum(self.decoder_schedule) + self.ngram_reach
