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
    # to the whole source, or to a window around a centre that moves on with the target (local-m)
    # or is predicted (local-p); off: the decoder only starts from the encoder's last states
    attention: Literal["global", "local-m", "local-p", "off"] = "global"
    # attention score (section 3.1) of the decoder's state and an encoder's state; location: of the
    # decoder's state and the source position, W_a h_t
    score: Literal["dot", "general", "concat", "location"] = "general"
    # score = "location": source bytes, EOS included, that have a score; later ones are not seen
    n_locations: Annotated[int, Meta(ge=0, le=1 << 16)] = 0
    location_softmax: Literal["once", "twice"] = "once"  # twice: softmax of a softmax
    # local attention: bytes on either side of the window's centre; 0: 50
    attention_window: Annotated[int, Meta(ge=0, le=1 << 20)] = 0
    # local attention: a Gaussian around the centre multiplies the weights, after the softmax, so
    # that they do not add up to 1, or the scores inside the softmax; auto: after in local-p, no
    # Gaussian in local-m
    gaussian: Literal["auto", "after", "inside"] = "auto"
    input_feeding: bool = True  # each step reads the attentional vector of the step before
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
        """True if it attends with score "location": by decoder state and source position."""
        return self.score == "location" and self.has_attention

    @property
    def is_local(self) -> bool:
        """True if the attention sees only a window of the source."""
        return self.attention in ("local-m", "local-p") and self.has_attention

    @property
    def by_place(self) -> bool:
        """True if weights depend on source positions: local attention, or score "location"."""
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
