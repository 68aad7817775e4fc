"""A model's two programs, the encoder's and the decode step's, and what the engine keeps for a sentence."""

from __future__ import annotations

from typing import Any, NamedTuple

from bytenmt.architectures.section import ModelSection
from bytenmt.kernel_constants import FOLD_CASE, WORD_BITS
from bytenmt.program.instructions import ATTENTIONS, Column, Op, Program, Register
from bytenmt.program.writer import WeightSink, Writer, parameter
from bytenmt.utf8 import N_IDS

TABLE = "embedding.weight"  # the byte embedding, a parameter of every architecture
NGRAM_TABLES = "embedding.ngrams.weight"  # the tables of n-grams, one under the other


class Ring(NamedTuple):
    """The last inputs of a causal convolution. capacity: columns that are kept; width: floats of a column."""

    capacity: int
    width: int
    dilation: int


class Source(NamedTuple):
    """The order and length in which the encoder reads a source.

    reverse: its bytes in reverse order, EOS last all the same; unfolding: ByteNet's a and b, by which a
    source of s bytes has ceil(a s + b) columns of memory, and reads EOS past its end; None in other
    architectures.
    """

    reverse: bool = False
    unfolding: tuple[float, float] | None = None


class ModelProgram(NamedTuple):
    """A model's programs, and the sizes of what they read and write.

    encode runs over the columns of a source, over none without one; step: a decode step; logits: the register
    with a step's result. states: widths of the recurrent states; items: widths of the memory's items, which
    have a row for each column of the source; fixed: widths of its parts that have one row a sentence.
    attending: numbers of the decoder's layers that attend, counted from 1, where one does. first_step_byte:
    offset in the weights of what a step reads.
    """

    encode: Program
    step: Program
    logits: Register
    first_step_byte: int
    states: tuple[int, ...] = ()
    rings: tuple[Ring, ...] = ()
    items: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()
    source: Source = Source()
    attending: tuple[int, ...] = (1,)

    @property
    def n_attentions(self) -> int:
        """The number of attention instructions of a decode step."""
        return len(self.step.select(*ATTENTIONS))

    @property
    def is_reversed(self) -> bool:
        """True if the columns of the memory are in the opposite order of the source."""
        is_turned = self.encode.select(Op.KEEP)[:, Column.M].any()  # by the encoder
        return self.source.reverse and not is_turned


class ModelWriter:
    """Write the programs of one model: first all of `encode`, then the writer that begin_step returns."""

    def __init__(self, config: ModelSection, weights: WeightSink) -> None:
        self._config, self._weights = config, weights
        self._embedding = parameter(TABLE, N_IDS, config.d_embedding)
        self._table = weights.vector(self._embedding)
        if config.ngrams:
            n_rows = len(config.ngrams) * config.n_ngram_rows + config.ngram_word_rows
            self._ngram_tables = weights.vector(parameter(NGRAM_TABLES, n_rows, config.d_embedding))
        self.encode = Writer(weights)

    def embed(self, writer: Writer, d: Register) -> None:
        """Write the embedding of the byte that is read, with its n-grams, into d (d_embedding)."""
        config = self._config
        writer.emit(Op.EMBED, d, w=self._table)
        if config.ngrams:
            orders = sum(1 << n for n in config.ngrams)
            n_bits = config.n_ngram_rows.bit_length() - 1
            k = n_bits + (FOLD_CASE if config.ngram_case == "folded" else 0)
            if config.ngram_word_rows:
                k += (config.ngram_word_rows.bit_length() - 1) << WORD_BITS
            writer.emit(Op.NGRAMS, d, w=self._ngram_tables, m=orders, k=k)

    def begin_step(self) -> Writer:
        """Return the writer of the decode step, whose weights stand together after the encoder's."""
        self._first_step_byte = self._weights.n_bytes
        self._step = Writer(self._weights)
        return self._step

    def output(self, x: Register, *, bias: bool = True) -> Register:
        """Write the output layer of layers/embedding.py; return the logits.

        Its matrix is its own or, with tie_embedding, the embedding's, after a projection where the widths
        differ.
        """
        step, d_embedding, name = self._step, self._config.d_embedding, "decoder.output"
        logits = step.register(N_IDS)
        weight = parameter(f"{name}.weight", N_IDS, x.width)
        if self._config.tie_embedding:
            weight = self._embedding
            if x.width != d_embedding:
                projected = step.register(d_embedding)
                step.linear(projected, x, f"{name}.projection.weight", f"{name}.projection.bias")
                x = projected
        step.linear(logits, x, weight, f"{name}.bias" if bias else None)
        return logits

    def program(self, logits: Register, **sizes: Any) -> ModelProgram:
        """Return the model's programs. sizes: the fields of ModelProgram from `states` on."""
        return ModelProgram(
            self.encode.program(), self._step.program(), logits, self._first_step_byte, **sizes
        )
