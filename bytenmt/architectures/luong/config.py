"""The configuration of stacked LSTMs with global or local attention."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bytenmt.architectures.section import Layers, StackedSection

LOCAL_WINDOW = 50  # bytes to either side: the paper's ten words are five or six times as many bytes


class LuongConfig(StackedSection, frozen=True, kw_only=True, tag="luong"):
    """Options of stacked LSTMs with attention and input feeding (Luong et al. 2015)."""

    n_layers: Layers = 2
    # local: the window is around a position that moves on with the target (m), or that is predicted
    # (p);
    # off: the encoder's last states are all that the decoder knows.
    attention: Literal["global", "local-m", "local-p", "off"] = (
        "global"  # to the whole source or a window
    )
    # Of the decoder's state and one of the encoder's; location is of the decoder's state alone.
    score: Literal["dot", "general", "concat", "location"] = (
        "general"  # attention score, section 3.1
    )
    n_locations: Annotated[int, Meta(ge=0, le=1 << 16)] = (
        0  # location: source bytes with a score, with EOS
    )
    location_softmax: Literal["once", "twice"] = "once"  # twice: the score is a softmax already
    attention_window: Annotated[int, Meta(ge=0, le=1 << 20)] = (
        0  # local: bytes to either side; 0: 50
    )
    # A Gaussian around the position is multiplied with the weights after the softmax, so that they
    # do not add up to 1, or with the scores inside it; auto: after in local-p, none in local-m.
    gaussian: Literal["auto", "after", "inside"] = (
        "auto"  # local attention: where it is multiplied in
    )
    input_feeding: bool = True  # where there is attention
    reverse_source: bool = False  # the encoder reads the source from its end, EOS last
    init: Literal["scaled", "paper"] = (
        "scaled"  # initial weights: as in the paper, or scaled by the width
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_location and not self.n_locations:
            raise ValueError(
                'score = "location" has a weight for each source position: set n_locations to the bytes of'
                " the longest source, EOS included"
            )

    @property
    def has_attention(self) -> bool:
        """True if there is a source, and attention is not "off"."""
        return self.source and self.attention != "off"

    @property
    def feeds_back(self) -> bool:
        """True if each step reads the attentional vector h~ of the step before (input feeding)."""
        return self.input_feeding and self.has_attention

    @property
    def by_location(self) -> bool:
        """True if the score depends on the decoder's state and the position in the source alone."""
        return self.score == "location" and self.has_attention

    @property
    def n_seen(self) -> int:
        """Source bytes, from the first on and EOS counted, that can be attended to; 0: all."""
        return self.n_locations if self.by_location else 0

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
        """D, the bytes that local attention sees on either side of its centre; 0: the whole source."""
        return (self.attention_window or LOCAL_WINDOW) if self.is_local else 0

    @property
    def gaussian_use(self) -> Literal["none", "after", "inside"]:
        """The use of the Gaussian: "after" multiplies the weights after the softmax, "inside" the
        scores."""
        if self.gaussian == "auto" or not self.is_local:
            return "after" if self.is_local and self.attention == "local-p" else "none"
        return self.gaussian
