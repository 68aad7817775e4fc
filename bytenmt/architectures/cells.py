"""The recurrent cells by name: the state of a layer, its PyTorch module and its instructions.

To add a cell, add its name to CellName and its line to CELLS, its module to layers/recurrent.py
and its instructions to program/layers.py. Importing this module imports neither PyTorch nor NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

if TYPE_CHECKING:  # they import PyTorch and NumPy
    from bytenmt.layers.recurrent import RecurrentLayer
    from bytenmt.program.instructions import Register
    from bytenmt.program.writer import Writer

CellName = Literal["gru", "lstm"]  # a value of the configuration key model.cell
Reset = Literal["before", "after"]  # the product with the state, where a GRU resets it


class CellOptions(NamedTuple):
    """The options of a stack of recurrent layers. A cell without a reset gate ignores them."""

    # the reset gate r is applied before or after the product with the recurrent matrix U:
    # U (r * h) or r * (U h)
    reset: Reset = "before"
    # with "after", the lowest layer's last d_inside inputs c are reset, too: r * (U h + C c)
    d_inside: int = 0


DEFAULT_OPTIONS = CellOptions()


class Cell(NamedTuple):
    """A kind of recurrent layer: GRU, LSTM and so on."""

    # number of vectors (d_hidden,) in the state of a layer: the output h, then the others
    n_parts: int
    # builds the module from d_input, d_hidden and options
    build_layer: Callable[[int, int, CellOptions], RecurrentLayer]
    # writes a layer's instructions for the CPU engine, returns the registers of its new state, h
    # first. Arguments: writer, register of the input, prefix of the parameters' names, d_hidden,
    # index of each state vector among the decoder's states (ignored in an encoder), options
    write_layer: Callable[
        [Writer, Register, str, int, tuple[int, ...], CellOptions], tuple[Register, ...]
    ]
    # whether the cell has a reset gate, and so the options of CellOptions
    has_reset: bool = False
    # init = "paper" of seq2seq: all parameters are drawn from -paper_range to paper_range; 0: they
    # are drawn from N(0, 0.01^2), and recurrent matrices are orthogonal
    paper_range: float = 0.0


def _build_gru(d_input: int, d_hidden: int, options: CellOptions) -> RecurrentLayer:
    from bytenmt.layers.recurrent import GRU

    return GRU(d_input, d_hidden, options.reset, d_inside=options.d_inside)


def _build_lstm(d_input: int, d_hidden: int, options: CellOptions) -> RecurrentLayer:
    from bytenmt.layers.recurrent import LSTM

    return LSTM(d_input, d_hidden)


def _write_gru(
    step: Writer, x: Register, name: str, d: int, states: tuple[int, ...], options: CellOptions
) -> tuple[Register, ...]:
    from bytenmt.program.layers import write_gru_step

    h = step.register(d)
    (state,) = states
    write_gru_step(step, h, h, x, name, options.reset, state=state, d_inside=options.d_inside)
    return (h,)


def _write_lstm(
    step: Writer, x: Register, name: str, d: int, states: tuple[int, ...], options: CellOptions
) -> tuple[Register, ...]:
    from bytenmt.program.layers import write_lstm_step

    return write_lstm_step(step, x, name, d, states)


# The cell of each name; Sutskever et al. 2014 draw the parameters of their LSTMs within 0.08.
CELLS: dict[CellName, Cell] = {
    "gru": Cell(1, _build_gru, _write_gru, has_reset=True),
    "lstm": Cell(2, _build_lstm, _write_lstm, paper_range=0.08),
}


def recurrent_layers(
    cell: Cell, depth: int, d_input: int, d_hidden: int, options: CellOptions = DEFAULT_OPTIONS
) -> Sequence[RecurrentLayer]:
    """Build a stack of `depth` recurrent layers, an nn.ModuleList, the lowest layer first.

    d_input: width of the lowest layer's input; d_hidden: width of every layer's output.
    """
    from torch import nn

    layers: list[RecurrentLayer] = []
    for _ in range(depth):
        layers.append(cell.build_layer(d_input, d_hidden, options))
        d_input = d_hidden
        options = options._replace(d_inside=0)
    return cast("Sequence[RecurrentLayer]", nn.ModuleList(layers))


def write_recurrent_layers(
    cell: Cell,
    step: Writer,
    x: Register,
    name: str,
    depth: int,
    width: int,
    options: CellOptions = DEFAULT_OPTIONS,
) -> tuple[Register, list[Register]]:
    """Write CPU engine instructions of a stack of recurrent layers; return top output and states.

    step: writer of the instructions; x: register of the input; name: prefix of the parameters'
    names; depth: number of layers; width: d_hidden. Returns the register of the top layer's h, and
    those of the states: h of each layer, then, with LSTMs, c of each. In a decode step they are the
    decoder's states 0, 1 and so on.
    """
    layers = []
    for layer in range(depth):
        numbers = tuple(depth * part + layer for part in range(cell.n_parts))
        state = cell.write_layer(step, x, f"{name}.{layer}", width, numbers, options)
        layers.append(state)
        x = state[0]
        options = options._replace(d_inside=0)
    return x, [state[part] for part in range(cell.n_parts) for state in layers]
