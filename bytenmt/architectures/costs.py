"""The cost of a decode step, counted from a model's program before the model is built.

An architecture without a program is built without numbers and asked for what its module tells: its weights
and its state, but no attention and no receptive field.
"""

from __future__ import annotations

import math

from bytenmt.architectures.parameters import TABLE, build_on_meta, model_program, parameter_shapes
from bytenmt.architectures.section import ModelSection
from bytenmt.program.instructions import ATTENTIONS, Column, Op

FLOAT = 4  # bytes of a float32


def state_bytes(config: ModelSection) -> int:
    """Return the bytes of a decoder's state in float32, a row (a beam of a sentence)."""
    program = model_program(config)
    if program is None:
        state = build_on_meta(config).first_state()
        return FLOAT * sum(part.numel() for part in state if part.is_floating_point())
    rings = sum(ring.capacity * ring.width for ring in program.rings)
    return FLOAT * (sum(program.states) + rings)


def decoder_weights(config: ModelSection) -> int:
    """Count the numbers that a decode step reads: the decoder's weights, the tables of look-ups left out."""
    return sum(map(math.prod, _decoder_shapes(config)))


def step_cost(config: ModelSection, source_bytes: int) -> int:
    """Count the multiply-accumulates of one decode step of one row.

    These are one for each weight of the decoder's matrices, and those of its attentions over a source of so
    many bytes.
    """
    products = sum(math.prod(shape) for shape in _decoder_shapes(config) if len(shape) > 1)
    program = model_program(config)
    if program is None:
        return products + config.attention_cost(source_bytes)
    for row in program.step.instructions:
        op, window = Op(int(row[Column.OP])), int(row[Column.S])
        if op in ATTENTIONS:
            by_location = op == Op.ATTEND_LOCATION  # its scores are a product of the decoder's
            columns = min(source_bytes, int(row[Column.M])) if by_location else source_bytes
            columns = min(columns, 2 * window + 1) if window else columns
            d_key = 0 if by_location else program.items[int(row[Column.M])]
            products += columns * (d_key + int(row[Column.N]))
    return products


def receptive_field(config: ModelSection) -> int | None:
    """Return the number of target bytes that a prediction can depend on; None: all of them."""
    nets = config.nets()
    return None if nets is None else nets.decoder.field


def _decoder_shapes(config: ModelSection) -> list[tuple[int, ...]]:
    """The shapes of the decoder's parameters, with a table that it shares with the embedding."""
    if model_program(config) is None:
        return [tuple(p.shape) for p in build_on_meta(config).decoder.parameters()]
    shapes = parameter_shapes(config)
    own = [shape for name, shape in shapes.items() if name.startswith("decoder.")]
    return [*own, shapes[TABLE]] if config.tie_embedding else own
