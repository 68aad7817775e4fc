"""The parameters of a model by name and shape, and the cost of a step, from its configuration.

A weights file is checked against them before anything is computed with it, and a model's size is
counted from them. They are those that its program reads; without a program those of the module,
which is built without numbers and needs PyTorch.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bytenmt.architectures.model_program import TABLE, ModelProgram, ModelWriter
from bytenmt.architectures.registry import Architecture, build_model, of_config
from bytenmt.architectures.section import ModelSection
from bytenmt.errors import ConfigError
from bytenmt.program.instructions import ATTENTIONS, Field, Op
from bytenmt.program.instructions import Table as Row
from bytenmt.program.writer import Shapes, WeightSink

if TYPE_CHECKING:  # it imports PyTorch
    from bytenmt.architectures.base import Model

FLOAT_BYTES = 4  # bytes of a float32
# endings of the names of look-up tables, which `convert` leaves alone
TABLES = (TABLE, "positions.weight")


def parameter_shapes(config: ModelSection) -> Shapes:
    """Map the name of each parameter of a model to its shape.

    A shared parameter has its first name alone.

    >>> from bytenmt.config.schema import load_config
    >>> shapes = parameter_shapes(load_config("bytenet", "small", []).model)
    >>> shapes["decoder.head.weight"]
    (320, 320)
    """
    architecture = of_config(config)
    if architecture.write_program is None:
        model = build_on_meta(config)
        return {name: tuple(part.shape) for name, part in model.named_parameters()}
    return dict(_program_and_shapes(architecture, config)[1])


def model_program(config: ModelSection) -> ModelProgram | None:
    """Return a model's programs for the CPU engine, with the offsets of weights in float32.

    None if the architecture has no programs.
    """
    architecture = of_config(config)
    if architecture.write_program is None:
        return None
    return _program_and_shapes(architecture, config)[0]


@lru_cache(maxsize=16)
def _program_and_shapes(
    architecture: Architecture, config: ModelSection
) -> tuple[ModelProgram, Shapes]:
    """Return the program and the shapes of the parameters that it reads.

    Raises ConfigError for one whose shapes contradict each other.
    """
    weights = WeightSink()
    assert architecture.write_program is not None
    try:
        program = architecture.write_program(config, ModelWriter(config, weights))
    except ValueError as error:
        raise ConfigError(
            f"the program of {architecture.name}: {error}: correct write_program"
        ) from error
    return program, weights.shapes


def build_on_meta(config: ModelSection) -> Model[Any, Any]:
    """Build a model on PyTorch's meta device: parameters have shapes, but take no memory."""
    import torch

    with torch.device("meta"):
        return build_model(config)


def n_parameters(config: ModelSection) -> int:
    """Count the numbers in all parameters of a model."""
    return sum(map(math.prod, parameter_shapes(config).values()))


def is_matrix(name: str, shape: tuple[int, ...]) -> bool:
    """Return whether the command `convert` stores a parameter in lower precision.

    True for matrices and n-gram tables, false for vectors and the other look-up tables.
    """
    return len(shape) > 1 and not name.endswith(TABLES)


def state_bytes(program: ModelProgram) -> int:
    """Return the size in bytes, in float32, of the decoder's state for one hypothesis."""
    rings = sum(ring.capacity * ring.width for ring in program.rings)
    return FLOAT_BYTES * (sum(program.states) + rings)


def decoder_weights(config: ModelSection) -> int:
    """Count the numbers that a decode step reads: the decoder's, without look-up tables."""
    return sum(map(math.prod, _decoder_shapes(config)))


def step_cost(config: ModelSection, source_bytes: int) -> int:
    """Count the multiply-accumulates of one decode step for one hypothesis.

    These are one for each weight of the decoder's matrices, and those of its program's attentions
    over source_bytes bytes; without a program only the former.
    """
    products = sum(math.prod(shape) for shape in _decoder_shapes(config) if len(shape) > 1)
    program = model_program(config)
    if program is None:
        return products
    for row in program.step.instructions:
        if Op(int(row[Field.OP])) in ATTENTIONS:
            products += _attention_cost(row, program, source_bytes)
    return products


def _attention_cost(row: Row, program: ModelProgram, source_bytes: int) -> int:
    """Count the multiply-accumulates of an attention instruction for one hypothesis."""
    columns = source_bytes
    window = int(row[Field.S])
    if row[Field.OP] == int(Op.ATTEND_LOCATION):  # its scores are a product of the decoder
        columns = min(columns, int(row[Field.M]))
        d_key = 0
    else:
        d_key = program.items[int(row[Field.M])]
    if window:
        columns = min(columns, 2 * window + 1)
    return columns * (d_key + int(row[Field.N]))


def _decoder_shapes(config: ModelSection) -> list[tuple[int, ...]]:
    """Return the shapes of the decoder's parameters."""
    shapes = parameter_shapes(config)
    return [shape for name, shape in shapes.items() if name.startswith("decoder.")]
