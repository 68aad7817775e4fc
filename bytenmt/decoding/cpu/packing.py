"""Pack a model for the CPU engine: its programs, and its weights as one block of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.architectures.model_program import ModelProgram, ModelWriter
from bytenmt.architectures.registry import of_config
from bytenmt.architectures.section import ModelSection
from bytenmt.checkpoints.quantize import quantise
from bytenmt.decoding.cpu.kernels.panels import pack
from bytenmt.program.instructions import aligned_zeros
from bytenmt.program.writer import Array, WeightSink

Bytes = npt.NDArray[np.uint8]
Tensors = Mapping[str, Array]  # a model's weights by the names of its parameters


class PackedModel(NamedTuple):
    """A model in the form that the CPU engine executes."""

    program: ModelProgram  # the model as lists of instructions, and sizes
    weights: Bytes  # all of them, aligned to a cache line
    precision: str  # of the matrices among them, "fp32" or "int8"


def pack_model(tensors: Tensors, config: ModelSection, precision: str) -> PackedModel:
    """Return a model packed for the CPU engine.

    tensors: its float32 weights by parameter name. config: its architecture and sizes. precision:
    of the matrices, "fp32" or "int8". Raises ValueError where the architecture has no program.
    """
    write_program = of_config(config).write_program
    if write_program is None:
        raise ValueError("the architecture has no program for the CPU engine")
    weights = WeightSink(precision)
    program = write_program(config, ModelWriter(config, weights))
    block = aligned_zeros(weights.n_bytes // 4)

    def store(offset: int, array: Array) -> None:
        block[offset // 4 : offset // 4 + array.size] = array.ravel()

    for entry in weights.entries:
        array = entry.values.compute(*(tensors[name] for name in entry.values.parameters))
        if entry.matrix is None:
            store(entry.offset, array)
            continue
        matrix: npt.NDArray[Any] = array.reshape(len(array), -1)
        if precision == "int8":
            matrix, scales = quantise(matrix)
            store(entry.matrix.scales, scales)
        store(entry.matrix.place, pack(matrix).view(np.float32))
    return PackedModel(program, block.view(np.uint8), precision)
