"""The parameters of a model by name and shape, from its configuration: its program is written on shapes.

A weights file is checked against them before anything is computed with it, and a model's size is counted from
them before it is built. Only an architecture without a program needs PyTorch for this.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bytenmt.architectures.model_program import NGRAM_TABLES as NGRAM_TABLES
from bytenmt.architectures.model_program import TABLE as TABLE
from bytenmt.architectures.model_program import ModelProgram, ModelWriter
from bytenmt.architectures.registry import build_model, of_config
from bytenmt.architectures.section import ModelSection
from bytenmt.program.writer import ParameterShapes, Shapes

if TYPE_CHECKING:  # it imports PyTorch
    from bytenmt.architectures.base import Model

TABLES = (TABLE, "positions.weight")  # how the names of look-up tables end that are stored as they are


def parameter_shapes(config: ModelSection) -> Shapes:
    """Return the name and shape of each parameter of a model; a shared one once, under its first name.

    >>> from bytenmt.config.schema import load_config
    >>> shapes = parameter_shapes(load_config("bytenet", "small", "", []).model)
    >>> shapes["decoder.head.weight"]
    (320, 320)
    """
    if of_config(config).write_program is None:
        return {name: tuple(p.shape) for name, p in build_on_meta(config).named_parameters()}
    return dict(_written(config)[1])


def model_program(config: ModelSection) -> ModelProgram | None:
    """Return a model's program without weights, all offsets of which are 0; None where there is none."""
    return None if of_config(config).write_program is None else _written(config)[0]


@lru_cache(maxsize=16)
def _written(config: ModelSection) -> tuple[ModelProgram, Shapes]:
    """The program, and the parameters that it reads."""
    write_program = of_config(config).write_program
    assert write_program is not None
    weights = ParameterShapes()
    program = write_program(config, ModelWriter(config, weights))
    return program, weights.shapes


def build_on_meta(config: ModelSection) -> Model[Any, Any]:
    """Build a model whose parameters have shapes but no numbers, so that it takes no memory."""
    import torch

    with torch.device("meta"):
        return build_model(config)


def n_parameters(config: ModelSection) -> int:
    """Count the numbers in all parameters of a model."""
    return sum(map(math.prod, parameter_shapes(config).values()))


def is_matrix(name: str, shape: tuple[int, ...]) -> bool:
    """Return whether `convert` stores a parameter in fewer bytes.

    It does so for matrices and n-gram tables, but not for vectors and other look-up tables.
    """
    return len(shape) > 1 and not name.endswith(TABLES)
