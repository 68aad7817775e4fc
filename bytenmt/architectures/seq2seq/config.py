"""The configuration of the recurrent encoder-decoder."""

from __future__ import annotations

from typing import Literal

from bytenmt.architectures.section import (
    BACKWARDS,
    FORWARDS,
    OwnReset,
    Properties,
    Reset,
    StackedSection,
)


class Seq2SeqConfig(StackedSection, frozen=True, kw_only=True, tag="seq2seq"):
    """Options of a GRU or LSTM encoder-decoder (Cho et al. 2014, Sutskever et al. 2014)."""

    cell: Literal["gru", "lstm"] = "gru"
    context: Literal["start", "every_step"] = (
        "start"  # when the decoder reads the encoder's last state
    )
    gru_reset: Reset = "before"  # GRU's reset before or after the product, of both sides
    decoder_reset: OwnReset = "shared"  # the same of the decoder alone; shared: gru_reset
    reset_context: bool = (
        False  # the decoder's reset gate acts on the context as well: r * (U h + C c)
    )
    reverse_source: bool = True  # the encoder reads the source from its end, EOS last
    init: Literal["scaled", "paper"] = (
        "scaled"  # initial weights: as in the papers, or scaled by the width
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.source and self.context == "every_step":
            raise ValueError(
                'context = "every_step" shows a source at every step: without one set "start"'
            )
        if self.reset_context and self.context != "every_step":
            raise ValueError(
                'reset_context = true resets what context = "every_step" shows: set that too'
            )
        if self.reset_context and (self.cell == "lstm" or self.resets[1] == "before"):
            needed = 'cell = "gru"' if self.cell == "lstm" else 'decoder_reset = "after"'
            raise ValueError(f"reset_context = true resets after the product: set {needed} with it")
        if self.d_hidden == 1 and self.context == "every_step":
            raise ValueError(
                'd_hidden = 1 leaves nothing to read out with context = "every_step": set 2 or more'
            )

    @property
    def resets(self) -> tuple[Reset, Reset]:
        """The place of the reset, before or after the product, in GRUs of the encoder and of the
        decoder."""
        return (
            self.gru_reset,
            self.gru_reset if self.decoder_reset == "shared" else self.decoder_reset,
        )

    @property
    def n_parts(self) -> int:
        """Vectors (d_hidden,) in the state of a layer: h, and in an LSTM c."""
        return 2 if self.cell == "lstm" else 1

    def properties(self) -> Properties:
        """Return cost, paths and fields; see ModelSection.properties."""
        time, path_s = (
            "S + T" if self.source else "T",
            "S" if self.context == "every_step" else "S + T",
        )
        field = BACKWARDS if self.reverse_source else FORWARDS
        return Properties("RNN", "RNN", time, False, path_s, "T", field, FORWARDS)
