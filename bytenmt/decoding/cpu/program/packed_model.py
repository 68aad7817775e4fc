"""A packed model: its two programs, its weights, and what it keeps of a sentence. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bytenmt.config.schema import ModelConfig
from bytenmt.decoding.cpu.kernels.ngrams import FOLDED
from bytenmt.decoding.cpu.program.instructions import Bytes, Op, Program, Register, Tensors, Weights, Writer
from bytenmt.storage.parameters import NGRAM_TABLES, TABLE


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
    """A model while it is packed: write `encode` to its end, then what begin_step gives."""

    def __init__(self, tensors: Tensors, config: ModelConfig, precision: str) -> None:
        self._weights = Weights(precision)
        self._tensors, self._config = tensors, config
        self._table = self._weights.vector(tensors[TABLE], TABLE)
        if config.ngrams:
            self._ngram_tables = self._weights.vector(tensors[NGRAM_TABLES], NGRAM_TABLES)
        self.encode = Writer(self._weights, tensors)

    def embed(self, writer: Writer, d: Register) -> None:
        """Have a program put the byte embedding, with its n-grams, into d (d_embedding)."""
        config = self._config
        writer.emit(Op.EMBED, d, w=self._table)
        if config.ngrams:
            orders = sum(1 << n for n in config.ngrams)
            folded = FOLDED if config.ngram_case == "folded" else 0
            n_bits = config.n_ngram_rows.bit_length() - 1
            writer.emit(Op.NGRAMS, d, w=self._ngram_tables, m=orders, k=n_bits + folded)

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
