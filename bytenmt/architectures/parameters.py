"""The parameters and buffers of a model by name and shape, and the cost of a step, from its configuration.

A weights file is checked against them before anything is computed with it, and a model's size is counted from
them. They are those that its program reads; where the module may have more, or where there is no program, the
module is built without numbers, which needs PyTorch and tells no receptive field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from bytenmt.architectures.model_program import NGRAM_TABLES as NGRAM_TABLES
from bytenmt.architectures.model_program import TABLE as TABLE
from bytenmt.architectures.model_program import ModelProgram, ModelWriter
from bytenmt.architectures.registry import BUILT_IN, Architecture, build_model, of_config
from bytenmt.architectures.section import ModelSection
from bytenmt.errors import ConfigError
from bytenmt.program.instructions import ATTENTIONS, Field, Op
from bytenmt.program.writer import Shapes, WeightSink

if TYPE_CHECKING:  # it imports PyTorch
    from bytenmt.architectures.base import Model

FLOAT = 4  # bytes of a float32
TABLES = (TABLE, "positions.weight")  # endings of the names of look-up tables, which `convert` leaves alone


class BufferKind(NamedTuple):
    """The dtype and shape of a persistent buffer of a module."""

    dtype: str  # as PyTorch names it: "float32"
    shape: tuple[int, ...]


def parameter_shapes(config: ModelSection) -> Shapes:
    """Map the name of each parameter of a model to its shape; a shared one has its first name alone.

    >>> from bytenmt.config.schema import load_config
    >>> shapes = parameter_shapes(load_config("bytenet", "small", []).model)
    >>> shapes["decoder.head.weight"]
    (320, 320)
    """
    architecture = of_config(config)
    if _needs_module(architecture):
        return dict(_module_tensors(architecture, config)[0])
    return dict(_program_and_shapes(architecture, config)[1])


def buffer_kinds(config: ModelSection) -> Mapping[str, BufferKind]:
    """Map the name of each persistent buffer of a model to its kind; no shipped architecture has one."""
    architecture = of_config(config)
    return _module_tensors(architecture, config)[1] if _needs_module(architecture) else {}


def model_program(config: ModelSection) -> ModelProgram | None:
    """Return a model's programs for the CPU engine, with all offsets of weights 0, as no weights are packed.

    None if the architecture has no programs.
    """
    architecture = of_config(config)
    return None if architecture.write_program is None else _program_and_shapes(architecture, config)[0]


def _needs_module(architecture: Architecture) -> bool:
    """Return whether a model's tensors are those of its module: without a program, and in a plugin, whose
    module may have more than its program reads."""
    return architecture.name not in BUILT_IN or architecture.write_program is None


@lru_cache(maxsize=16)
def _module_tensors(
    architecture: Architecture, config: ModelSection
) -> tuple[Shapes, Mapping[str, BufferKind]]:
    """Return a module's parameters and persistent buffers, a shared one once.

    Raises ConfigError where its program reads others.
    """
    from bytenmt.architectures.base import persistent_buffers

    model = build_on_meta(config)
    parameters = {name: tuple(p.shape) for name, p in model.named_parameters()}
    buffers = {
        name: BufferKind(str(buffer.dtype).removeprefix("torch."), tuple(buffer.shape))
        for name, buffer in persistent_buffers(model).items()
    }
    shapes = parameters | {name: kind.shape for name, kind in buffers.items()}
    read = {} if architecture.write_program is None else _program_and_shapes(architecture, config)[1]
    for name, shape in read.items():
        if shapes.get(name) != shape:
            difference = f"has the shape {shapes[name]}" if name in shapes else "has no such tensor"
            raise ConfigError(
                f"the program of {architecture.name} reads {name} as {shape}, but the module {difference}:"
                f" correct write_program"
            )
    return parameters, buffers


@lru_cache(maxsize=16)
def _program_and_shapes(architecture: Architecture, config: ModelSection) -> tuple[ModelProgram, Shapes]:
    """Return the program and the shapes of the parameters that it reads.

    Raises ConfigError for one whose shapes contradict each other.
    """
    weights = WeightSink()
    assert architecture.write_program is not None
    try:
        program = architecture.write_program(config, ModelWriter(config, weights))
    except ValueError as error:
        raise ConfigError(f"the program of {architecture.name}: {error}: correct write_program") from error
    return program, weights.shapes


def build_on_meta(config: ModelSection) -> Model[Any, Any]:
    """Build a model on PyTorch's meta device: parameters have shapes but no numbers, and take no memory."""
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


def state_bytes(config: ModelSection) -> int:
    """Return the size in bytes, in float32, of the decoder's state for one hypothesis."""
    program = model_program(config)
    if program is None:
        state = build_on_meta(config).first_state()
        return FLOAT * sum(part.numel() for part in state if part.is_floating_point())
    rings = sum(ring.capacity * ring.width for ring in program.rings)
    return FLOAT * (sum(program.states) + rings)


def decoder_weights(config: ModelSection) -> int:
    """Count the decoder's parameters: the numbers that a decode step reads, look-up tables left out."""
    return sum(map(math.prod, _decoder_shapes(config)))


def step_cost(config: ModelSection, source_bytes: int) -> int:
    """Count the multiply-accumulates of one decode step for one hypothesis.

    These are one for each weight of the decoder's matrices, and those of its attentions over source_bytes
    bytes.
    """
    products = sum(math.prod(shape) for shape in _decoder_shapes(config) if len(shape) > 1)
    program = model_program(config)
    if program is None:
        return products + config.attention_cost(source_bytes)
    for row in program.step.instructions:
        op, window = Op(int(row[Field.OP])), int(row[Field.S])
        if op in ATTENTIONS:
            by_location = op == Op.ATTEND_LOCATION  # its scores are a product of the decoder's
            columns = min(source_bytes, int(row[Field.M])) if by_location else source_bytes
            columns = min(columns, 2 * window + 1) if window else columns
            d_key = 0 if by_location else program.items[int(row[Field.M])]
            products += columns * (d_key + int(row[Field.N]))
    return products


def receptive_field(config: ModelSection) -> int | None:
    """Return the number of target bytes that a prediction can depend on.

    None if it can depend on all before it, or if the architecture does not say.
    """
    nets = config.structure()
    return None if nets is None else nets.decoder.field


def _decoder_shapes(config: ModelSection) -> list[tuple[int, ...]]:
    """The shapes of the decoder's parameters, with a table that it shares with the embedding."""
    if model_program(config) is None:
        return [tuple(p.shape) for p in build_on_meta(config).decoder.parameters()]
    shapes = parameter_shapes(config)
    shapes_of_decoder = [shape for name, shape in shapes.items() if name.startswith("decoder.")]
    return [*shapes_of_decoder, shapes[TABLE]] if config.tie_embedding else shapes_of_decoder
