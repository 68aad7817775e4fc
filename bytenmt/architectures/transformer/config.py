"""The configuration of the byte Transformer."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from bytenmt.architectures.section import (
    LONGEST_FIELD,
    LayeredSection,
    Layers,
    NetFacts,
    StructureFacts,
    Width,
    check_receptive_field,
)


class TransformerConfig(LayeredSection, frozen=True, kw_only=True, tag="transformer"):
    """Options of a Transformer whose decoder attends to its last `window` bytes (Vaswani et al. 2017)."""

    d_model: Width  # of a layer's input and output
    n_heads: Annotated[int, Meta(ge=1, le=256)] = 4  # of each attention
    d_ff: Annotated[int, Meta(ge=0, le=1 << 18)] = 0  # units of a feed-forward layer; 0: 4 * d_model
    n_layers: Layers = 3
    # Bytes that the decoder's self-attention sees, the current one included; a state keeps as many.
    window: Annotated[int, Meta(ge=1, le=LONGEST_FIELD)] = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % (2 * self.n_heads):
            raise ValueError(
                f"d_model = {self.d_model}: expected a multiple of {2 * self.n_heads}, twice n_heads"
            )
        check_receptive_field(self.decoder_depth * (self.window - 1))

    @property
    def is_serial(self) -> bool:
        """False: training reads all positions at once."""
        return False

    @property
    def has_attention(self) -> bool:
        """True if there is a source."""
        return self.source

    def attention_cost(self, source_bytes: int) -> int:
        """Count the multiply-accumulates of attention to the last `window` bytes and to the source."""
        columns = self.window + (source_bytes if self.source else 0)
        return 2 * self.d_model * columns * self.decoder_depth

    def structure(self) -> StructureFacts:
        """Return facts about encoder and decoder; see ModelSection.structure."""
        field = 1 + self.decoder_depth * (self.window - 1) + self.ngram_reach
        encoder = NetFacts(self.encoder_depth, reads="all at once")
        return StructureFacts(
            encoder, NetFacts(self.decoder_depth, field, "all at once"), "attention", self.encoder_depth
        )
