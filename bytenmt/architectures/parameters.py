"""The parameters of a model by name and shape, and the cost of a step, from its configuration.

A weights file is checked against them before anything is computed with it, and a model's size is
counted from them. They are those that its program reads; without a program those of the module,
which is built without numbers and needs PyTorch.
"""

from __future__ import annotations

import math
from functools import lru_cache

from bytenmt.architectures.model_program import TABLE, ModelProgram, ModelWriter
from bytenmt.architectures.registry import Architecture, build_model, of_config
from bytenmt.architectures.section import ModelSection
from bytenmt.errors import ConfigError
from bytenmt.program.instructions import ATTENTIONS, Field, Op
from bytenmt.program.instructions import Table as Row
from bytenmt.program.writer import Shapes, WeightSink

FLOAT_BYTES = 4  # bytes of a float32
# endings of the names of look-up tables, which `convert` leaves alone
TABLES = (TABLE, "positions.weight")


def parameter_shapes(config: ModelSection) -> Shapes:
    """Map the name of each parameter of a model to its shape; a shared one has its first name only.

    >>> from bytenmt.config.schema import load_config
    >>> shapes = parameter_shapes(load_config("bytenet", "small", []).model)
    >>> shapes["decoder.head.weight"]
    (320, 320)
    """
    written = _program_and_shapes(of_config(config), config)
    if written is not None:
        return dict(written[1])
    import torch

    with torch.device("meta"):  # parameters have shapes, but take no memory
        model = build_model(config)
    return {name: tuple(part.shape) for name, part in model.named_parameters()}


def model_program(config: ModelSection) -> ModelProgram | None:
    """Return a model's programs for the CPU engine, None if its architecture has none.

    Their offsets into the packed weights are those of float32 weights.
    """
    written = _program_and_shapes(of_config(config), config)
    return None if written is None else written[0]


@lru_cache(maxsize=16)
def _program_and_shapes(
    architecture: Architecture, config: ModelSection
) -> tuple[ModelProgram, Shapes] | None:
    """Return the program and the shapes of the parameters that it reads; None without a program.

    Raises ConfigError for one whose shapes contradict each other.
    """
    if architecture.write_program is None:
        return None
    weights = WeightSink()
    try:
        program = architecture.write_program(config, ModelWriter(config, weights))
    except ValueError as error:
        raise ConfigError(
            f"the program of {architecture.name}: {error}: correct write_program"
        ) from error
    return program, weights.shapes


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
    """Count the weights that a decode step reads: those of the decoder, without look-up tables."""
    return sum(map(math.prod, _decoder_shapes(config)))


def step_cost(config: ModelSection, source_bytes: int) -> int:
    """Count the multiply-accumulates of one decode step for one hypothesis.

    There is one for each weight of the decoder's matrices; attention over a source of source_bytes
    bytes adds its own, which are counted only if the CPU engine has a program of the model.
    """
    products = sum(math.prod(shape) for shape in _decoder_shapes(config) if len(shape) > 1)
    program = model_program(config)
    if program is None:
        return products
    attentions = program.step.select(*ATTENTIONS)
    return products + sum(_attention_cost(row, program, source_bytes) for row in attentions)


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
