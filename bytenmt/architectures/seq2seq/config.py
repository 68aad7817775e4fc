"""The configuration of the recurrent encoder-decoder."""

from __future__ import annotations

from typing import Literal

from bytenmt.architectures.cells import CELLS, Cell, CellName, CellOptions, Reset
from bytenmt.architectures.section import StackedSection


class Seq2SeqConfig(StackedSection, frozen=True, kw_only=True, tag="seq2seq"):
    """Options of a GRU or LSTM encoder-decoder (Cho et al. 2014, Sutskever et al. 2014)."""

    cell: CellName = "gru"
    # when the decoder reads the encoder's last state: to start from it, or at every byte
    context: Literal["start", "every_step"] = "start"
    # GRUs' reset gate r before or after the product with the state: U (r * h) or r * (U h)
    gru_reset: Reset = "before"
    # the same of the decoder; shared: gru_reset
    decoder_reset: Literal["shared", "before", "after"] = "shared"
    # the decoder's reset gate acts on the context as well: r * (U h + C c)
    reset_context: bool = False
    reverse_source: bool = True  # the encoder reads the source from its end, EOS last
    # initial weights: as in the papers, or scaled by the width
    init: Literal["scaled", "paper"] = "scaled"

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
        if self.reset_context and not self.recurrent_cell.has_reset:
            raise ValueError(
                'reset_context = true resets after the product: set cell = "gru" with it'
            )
        if self.reset_context and self.decoder_options.reset == "before":
            raise ValueError(
                'reset_context = true resets after the product: set decoder_reset = "after" with it'
            )
        if self.d_hidden == 1 and self.context == "every_step":
            raise ValueError(
                'd_hidden = 1 leaves nothing to read out with context = "every_step": set 2 or more'
            )

    @property
    def recurrent_cell(self) -> Cell:
        """The kind of recurrent layer (GRU or LSTM) in encoder and decoder."""
        return CELLS[self.cell]

    @property
    def encoder_options(self) -> CellOptions:
        """The options of the encoder's recurrent layers: how the reset gate of a GRU acts."""
        return CellOptions(self.gru_reset)

    @property
    def decoder_options(self) -> CellOptions:
        """The options of the decoder's recurrent layers: how the reset gate of a GRU acts."""
        reset = self.gru_reset if self.decoder_reset == "shared" else self.decoder_reset
        return CellOptions(reset, self.d_hidden * self.reset_context)
