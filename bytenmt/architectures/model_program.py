"""A model's two programs for the CPU engine, encoder and decode step, and their sizes."""

from __future__ import annotations

from typing import Any, NamedTuple

from bytenmt.architectures.section import ModelSection
from bytenmt.kernel_constants import FOLD_CASE, WORD_BITS
from bytenmt.program.instructions import ATTENTIONS, Field, Op, Program, Register
from bytenmt.program.writer import WeightSink, Writer, parameter
from bytenmt.utf8 import N_IDS

TABLE = "embedding.weight"  # the byte embedding, a parameter of every architecture
NGRAM_TABLES = "embedding.ngrams.weight"  # all tables of n-grams, concatenated by rows


class RingSize(NamedTuple):
    """The size of a ring buffer in a decoder's state: the last inputs of one causal convolution."""

    capacity: int  # inputs (columns) that are kept
    width: int  # floats of an input
    dilation: int  # of the convolution


class SourceOrder(NamedTuple):
    """The order and length in which the encoder reads a source."""

    reverse: bool = False  # bytes are read from the last to the first; EOS stays last
    # ByteNet's (a, b): the encoder has ceil(a s + b) output columns for a source of s bytes,
    # EOS counted, and reads EOS past its end; None in other architectures
    unfolding: tuple[float, float] | None = None


class ModelProgram(NamedTuple):
    """A model's two programs (lists of instructions) for the CPU engine, and their arrays' sizes.

    The memory is the encoder's output that the decoder reads. A column is a position of the source;
    widths are numbers of floats.
    """

    # computes the memory; runs over all columns of the sources; empty without a source
    encode: Program
    step: Program  # a decode step: one target byte of each hypothesis
    logits: Register  # where a step leaves its 256 logits
    # offset in the packed weights, in bytes, of the weights that a step reads
    first_step_byte: int
    states: tuple[int, ...] = ()  # the width of each recurrent state of the decoder
    rings: tuple[RingSize, ...] = ()  # of the decoder's causal convolutions, in order
    # widths of the memory's arrays with a row for each column: keys, values
    items: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()  # widths of the memory's arrays with one row for each sentence
    source: SourceOrder = SourceOrder()  # how the encoder reads a source
    # numbers, from 1, of the decoder's layers with attention, if any
    attending: tuple[int, ...] = (1,)

    @property
    def n_attentions(self) -> int:
        """The number of attention instructions of a decode step."""
        return len(self.step.select(*ATTENTIONS))

    @property
    def is_reversed(self) -> bool:
        """True if the encoder's output has the source's bytes in reverse order, with EOS last."""
        is_turned = self.encode.select(Op.KEEP)[:, Field.M].any()  # by the encoder
        return self.source.reverse and not is_turned


class ModelWriter:
    """Writes a model's two programs, lists of instructions, for the CPU engine.

    weights: collects the parameters that they read. An architecture's write_program gets a
    ModelWriter: it writes all of the encoder with `encode`, a Writer, then the decode step (one
    target byte of each hypothesis) with the Writer that begin_step returns.
    """

    def __init__(self, config: ModelSection, weights: WeightSink) -> None:
        self._config = config
        self._weights = weights
        self._table = weights.vector(parameter(TABLE, N_IDS, config.d_embedding))
        if config.ngrams:
            n_rows = len(config.ngrams) * config.n_ngram_rows + config.ngram_word_rows
            self._ngram_tables = weights.vector(parameter(NGRAM_TABLES, n_rows, config.d_embedding))
        self.encode = Writer(weights, is_encoder=True)

    def embed(self, writer: Writer, d: Register) -> None:
        """Write instructions to `writer` that set register d to the embedding of the byte read."""
        config = self._config
        writer.emit(Op.EMBED, d, w=self._table)
        if config.ngrams:
            orders = sum(1 << n for n in config.ngrams)
            k = config.n_ngram_rows.bit_length() - 1
            if config.ngram_case == "folded":
                k += FOLD_CASE
            if config.ngram_word_rows:
                k += (config.ngram_word_rows.bit_length() - 1) << WORD_BITS
            writer.emit(Op.NGRAMS, d, w=self._ngram_tables, m=orders, k=k)

    def begin_step(self) -> Writer:
        """Return the Writer of the decode step's program; call it once the encoder is written."""
        self._first_step_byte = self._weights.n_bytes
        self._step = Writer(self._weights)
        return self._step

    def output(self, x: Register, *, bias: bool = True) -> Register:
        """Write the decode step's output layer; return the register of its 256 logits.

        x: register of the last layer's output; bias: whether the output layer has a bias.
        """
        logits = self._step.register(N_IDS)
        bias_name = "decoder.output.bias" if bias else None
        self._step.linear(logits, x, "decoder.output.weight", bias_name)
        return logits

    def program(self, logits: Register, **sizes: Any) -> ModelProgram:
        """Return the encoder's program and the decode step's; call it when both are written.

        logits: register that `output` returned; sizes: fields of ModelProgram (states, rings, …).
        """
        return ModelProgram(
            self.encode.program(), self._step.program(), logits, self._first_step_byte, **sizes
        )
