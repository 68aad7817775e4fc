"""The configuration of the byte Transformer."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from bytenmt.architectures.section import MAX_FIELD_BYTES, LayeredSection, Layers, Width


class TransformerConfig(LayeredSection, frozen=True, kw_only=True, tag="transformer"):
    """Options of a Transformer (Vaswani et al. 2017); a decoder layer sees `window` bytes."""

    d_model: Width  # of a layer's input and output
    n_heads: Annotated[int, Meta(ge=1, le=256)] = 4  # of each attention
    # units of a feed-forward layer; 0: 4 * d_model
    d_ff: Annotated[int, Meta(ge=0, le=1 << 18)] = 0
    n_layers: Layers = 3
    # last bytes that a decoder layer's self-attention sees, the current one included
    window: Annotated[int, Meta(ge=1, le=MAX_FIELD_BYTES)] = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % (2 * self.n_heads):
            raise ValueError(
                f"d_model = {self.d_model}: expected a multiple of {2 * self.n_heads},"
                " twice n_heads"
            )

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
        """The most bytes of the target that a prediction depends on.

        Each layer of the decoder reaches window - 1 bytes further back, n-gram tables n - 1.
        """
        return 1 + self.decoder_depth * (self.window - 1) + self.ngram_reach
