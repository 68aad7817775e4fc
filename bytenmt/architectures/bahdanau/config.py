"""The configuration of additive attention."""

from __future__ import annotations

from typing import Literal

from bytenmt.architectures.section import Layers, ModelSection, Width


class BahdanauConfig(ModelSection, frozen=True, kw_only=True, tag="bahdanau"):
    """Options of bidirectional GRUs with additive attention (Bahdanau et al. 2015)."""

    d_hidden: Width  # units of each GRU; the encoder has one for each direction
    d_attention: Width  # units of the additive score
    d_maxout: Width  # units of the read-out, each the larger of two
    n_encoder_layers: Layers = 1  # each both ways; the decoder has one
    read_out: Literal["previous", "current"] = "previous"  # the state that the output layer reads
    # initial weights: as in the paper, or scaled by the width
    init: Literal["scaled", "paper"] = "scaled"

    @property
    def has_attention(self) -> bool:
        """True if there is a source."""
        return self.source
