"""The configuration of additive attention."""

from __future__ import annotations

from typing import Literal

from bytenmt.architectures.section import Layers, ModelSection, Width


class BahdanauConfig(ModelSection, frozen=True, kw_only=True, tag="bahdanau"):
    """Options of bidirectional GRUs with additive attention (Bahdanau et al. 2015)."""

    d_hidden: Width  # units of each GRU; the encoder has one for each direction
    d_attention: Width  # units of the hidden layer that scores a state against a source byte
    d_maxout: Width  # units before the output layer, each the larger of two values
    n_encoder_layers: Layers = 1  # each bidirectional; the decoder has one layer
    read_out: Literal["previous", "current"] = "previous"  # state that the output layer reads
    # initial weights: as in the paper, or scaled by the width
    init: Literal["scaled", "paper"] = "scaled"

    @property
    def has_attention(self) -> bool:
        """True if the model has a source, which its decoder then attends to."""
        return self.source
