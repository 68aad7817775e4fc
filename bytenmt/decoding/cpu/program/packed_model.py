"""A packed model: its two programs, its weights, and what it keeps of a sentence. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bytenmt.decoding.cpu.program.instructions import Bytes, Program, Register, Tensors, Weights, Writer


class Ring(NamedTuple):
    """A causal convolution's past: columns kept (capacity), floats of one (width), and its dilation."""

    capacity: int
    width: int
    dilation: int


class Source(NamedTuple):
    """How an encoder reads: reverse: bytes turned round, EOS stays last. unfolding: ByteNet's a and b, by
    which a source of s bytes has ceil(a s + b) columns of memory and EOS past its end; None elsewhere."""

    reverse: bool = False
    unfolding: tuple[float, float] | None = None


class PackedModel(NamedTuple):
    """A model ready to run, in one precision.

    weights: the block, uint8, aligned. encode, step: its programs; without a source encode runs over no
    columns. logits: the register of a step's outcome. states: widths of the recurrent states; rings; items:
    widths of the memory's items, a row a column of the source; fixed: widths of its parts that have one row
    a sentence.
    attending: numbers of the decoder's layers that attend, where one does.
    first_step_byte: where in `weights` begins what a step reads, all after it. names: of what begins at a
    place of `weights`.
    """

    weights: Bytes
    encode: Program
    step: Program
    logits: Register
    precision: str
    first_step_byte: int
    names: Mapping[int, str]
    states: tuple[int, ...] = ()
    rings: tuple[Ring, ...] = ()
    items: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()
    source: Source = Source()
    attending: tuple[int, ...] = (1,)


class Packing:
    """A model while it is packed: write `encode` to its end, then what begin_step gives.

    table: where the byte embedding stands, which both programs look up.
    """

    def __init__(self, tensors: Tensors, precision: str) -> None:
        self._weights = Weights(precision)
        self._tensors = tensors
        self.table = self._weights.vector(tensors["embedding.weight"], "embedding.weight")
        self.encode = Writer(self._weights, tensors)

    def begin_step(self) -> Writer:
        """The program of a step, whose weights stand together after the encoder's."""
        self._first_step_byte = self._weights.n_bytes
        self._step = Writer(self._weights, self._tensors)
        return self._step

    def packed(self, logits: Register, **kept: Any) -> PackedModel:
        """All of it; kept: the fields of PackedModel from `states` on."""
        return PackedModel(
            self._weights.block(),
            self.encode.program(),
            self._step.program(),
            logits,
            self._weights.precision,
            self._first_step_byte,
            self._weights.names,
            **kept,
        )
