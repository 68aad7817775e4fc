"""The configuration of ByteNet."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bytenmt.architectures.section import (
    Dilations,
    Kernel,
    Layers,
    ModelSection,
    OwnLayers,
    Width,
)


class ByteNetConfig(ModelSection, frozen=True, kw_only=True, tag="bytenet"):
    """Options of ByteNet: dilated convolutions stacked on the encoder (Kalchbrenner et al. 2016)."""

    d_channels: Width  # the paper's d: inside a block; 2d between blocks
    n_sets: Layers  # sets of blocks
    n_encoder_sets: OwnLayers = 0  # 0: n_sets
    n_decoder_sets: OwnLayers = 0  # 0: n_sets
    # Layers of gated recurrent units, 2d wide and as many as there would be sets, in place of the
    # blocks.
    recurrent: Literal["none", "decoder", "both"] = (
        "none"  # nets that are GRU layers instead of blocks
    )
    dilations: Dilations = (1, 2, 4, 8, 16)  # of the blocks of a set, one for each
    encoder_dilations: Dilations = ()  # []: the same as dilations
    kernel_width: Kernel = 3  # of the convolutions, in bytes
    block: Literal["relu", "multiplicative"] = "relu"  # ReLUs or multiplicative units in the blocks
    unfolding_factor: Annotated[float, Meta(gt=0.0, le=16.0)] = (
        1.2  # a: ceil(a|s| + b) encoder columns
    )
    unfolding_offset: Annotated[int, Meta(ge=0, le=1 << 12)] = 0  # b, in bytes
    # "concat": d channels beside d; "add": 2d added to 2d.
    stacking: Literal["concat", "add"] = "concat"  # how an encoder column joins the decoder's input
    encoder_scale: Annotated[float, Meta(gt=0.0, le=100.0)] = (
        1.0  # factor of the encoder's initial output
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.recurrent == "none" and not self.dilations:
            raise ValueError(
                "dilations is empty, but the decoder is convolutional: give one or more"
            )
        if (
            self.source
            and self.recurrent != "both"
            and not (self.dilations or self.encoder_dilations)
        ):
            raise ValueError(
                "dilations and encoder_dilations are empty, but the encoder is convolutional: give one of"
                ' them, or set recurrent = "both"'
            )

    @property
    def encoder_recurrence(self) -> int:
        """Number of recurrent layers of the encoder; 0 where it is convolutional."""
        return (
            (self.n_encoder_sets or self.n_sets) if self.source and self.recurrent == "both" else 0
        )

    @property
    def decoder_recurrence(self) -> int:
        """Number of recurrent layers of the decoder; 0 where it is convolutional."""
        return 0 if self.recurrent == "none" else self.n_decoder_sets or self.n_sets

    @property
    def encoder_schedule(self) -> tuple[int, ...]:
        """The dilation of each block of the encoder; empty without a source, and where it is
        recurrent."""
        n_sets = (
            (self.n_encoder_sets or self.n_sets) if self.source and self.recurrent != "both" else 0
        )
        return (self.encoder_dilations or self.dilations) * n_sets

    @property
    def decoder_schedule(self) -> tuple[int, ...]:
        """The dilation of each block of the decoder; empty where it is recurrent."""
        return (
            ()
            if self.recurrent != "none"
            else self.dilations * (self.n_decoder_sets or self.n_sets)
        )

    @property
    def adds_columns(self) -> bool:
        """True if encoder columns are added to the decoder's input instead of concatenated."""
        return self.source and self.stacking == "add"

    @property
    def d_column(self) -> int:
        """Channels of an encoder column, which is the encoder's output at one position."""
        return self.d_channels * (2 if self.adds_columns else 1)

    @property
    def d_read(self) -> int:
        """Channels that the decoder's input map gives each byte; with a concatenated column they
        are 2d."""
        return self.d_channels * (1 if self.source and not self.adds_columns else 2)

    @property
    def is_serial(self) -> bool:
        """True if the decoder, or both nets, are recurrent."""
        return self.recurrent != "none"

    @property
    def receptive_field(self) -> int | None:
        """Bytes of the target that a prediction depends on; None where the decoder is recurrent."""
        return self._field(self.decoder_schedule) if self.decoder_schedule else None

    def _field(self, schedule: tuple[int, ...]) -> int:
        """Bytes that an output of blocks of these dilations depends on."""
        return 1 + (self.kernel_width - 1) * sum(schedule) + self.ngram_reach
