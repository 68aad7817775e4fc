"""The configuration of stacked LSTMs with global or local attention."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bytenmt.architectures.section import Layers, StackedSection

# Bytes to either side: the paper's ten words are five or six times as many bytes.
LOCAL_WINDOW_BYTES = 50


class LuongConfig(StackedSection, frozen=True, kw_only=True, tag="luong"):
    """Options of stacked LSTMs with attention and input feeding (Luong et al. 2015)."""

    n_layers: Layers = 2
    # to the whole source, or to a window around a position that moves on with the target (local-m)
    # or is predicted (local-p); off: the encoder's last states are all that the decoder knows
    attention: Literal["global", "local-m", "local-p", "off"] = "global"
    # attention score (section 3.1) of the decoder's state and one of the encoder's; location is a
    # score of the decoder's state alone
    score: Literal["dot", "general", "concat", "location"] = "general"
    # score = "location": source bytes that have a score, EOS included
    n_locations: Annotated[int, Meta(ge=0, le=1 << 16)] = 0
    location_softmax: Literal["once", "twice"] = "once"  # twice: the score is a softmax already
    # local attention: bytes to either side; 0: 50
    attention_window: Annotated[int, Meta(ge=0, le=1 << 20)] = 0
    # local attention: a Gaussian around the position is multiplied with the weights after the
    # softmax, so that they do not add up to 1, or with the scores inside it; auto: after in
    # local-p, none in local-m
    gaussian: Literal["auto", "after", "inside"] = "auto"
    input_feeding: bool = True  # a step reads the attentional vector of the last; see feeds_back
    reverse_source: bool = False  # the encoder reads the source from its end, EOS last
    # initial weights: as in the paper, or scaled by the width
    init: Literal["scaled", "paper"] = "scaled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_location and not self.n_locations:
            raise ValueError(
                'score = "location" has a weight for each source position: set n_locations to the'
                " bytes of the longest source, EOS included"
            )

    @property
    def has_attention(self) -> bool:
        """True if there is a source, and attention is not "off"."""
        return self.source and self.attention != "off"

    @property
    def feeds_back(self) -> bool:
        """True if each step reads the attentional vector of the step before (input feeding)."""
        return self.input_feeding and self.has_attention

    @property
    def by_location(self) -> bool:
        """True if attention scores depend on the decoder's state and the source position alone."""
        return self.score == "location" and self.has_attention

    @property
    def is_local(self) -> bool:
        """True if the attention sees only a window of the source."""
        return self.attention in ("local-m", "local-p") and self.has_attention

    @property
    def by_place(self) -> bool:
        """True if the attention depends on the position of a byte in the source."""
        return self.is_local or self.by_location

    @property
    def window(self) -> int:
        """Number of bytes that local attention sees on either side of its centre; 0: all."""
        return (self.attention_window or LOCAL_WINDOW_BYTES) if self.is_local else 0

    @property
    def gaussian_use(self) -> Literal["none", "after", "inside"]:
        """The numbers that local attention multiplies with a Gaussian around its centre.

        "after": the weights; "inside": the scores before their softmax; "none": nothing.
        """
        if not self.is_local:
            return "none"
        if self.gaussian != "auto":
            return self.gaussian
        return "after" if self.attention == "local-p" else "none"
