"""Pack a model for the CPU engine: its programs, and its weights as one block in the engine's precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.architectures.model_program import ModelProgram, ModelWriter
from bytenmt.architectures.registry import of_config
from bytenmt.architectures.section import ModelSection
from bytenmt.checkpoints.quantize import quantise
from bytenmt.decoding.cpu.kernels.panels import pack
from bytenmt.kernel_constants import PRECISIONS
from bytenmt.program.instructions import ALIGNMENT, Matrix, padded
from bytenmt.program.writer import Array, WeightArray, WeightSink

Bytes = npt.NDArray[np.uint8]
Tensors = Mapping[str, Array]  # a model's weights by the names of its parameters


class PackedModel(NamedTuple):
    """A model in the form that the CPU engine executes.

    program: its instructions and sizes. weights: all of them in one block of bytes, aligned to a cache line.
    precision: of the matrices in it, "fp32" or "int8".
    """

    program: ModelProgram
    weights: Bytes
    precision: str


def pack_model(tensors: Tensors, config: ModelSection, precision: str) -> PackedModel:
    """Return a model packed for the CPU engine.

    tensors: its float32 weights by parameter name. precision: of the matrices, "fp32" or "int8". Raises
    ValueError where the architecture has no program, or a tensor another shape than its parameter.
    """
    write_program = of_config(config).write_program
    if write_program is None:
        raise ValueError("the architecture has no program for the CPU engine")
    weights = PackedWeights(tensors, precision)
    program = write_program(config, ModelWriter(config, weights))
    return PackedModel(program, weights.block(), precision)


class PackedWeights(WeightSink):
    """Collects the weights that a program uses into one block.

    Every entry begins on a cache line; offsets are bytes from the begin of the block. tensors: float32
    weights by parameter name.
    """

    def __init__(self, tensors: Tensors, precision: str) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision is {precision!r}, expected one of {', '.join(PRECISIONS)}")
        super().__init__()
        self.precision = precision
        self._tensors = tensors
        self._parts: list[Bytes] = []

    def vector(self, values: WeightArray) -> int:
        """Add a vector in float32, padded with zeros to whole panels of 64; return its offset."""
        return self._add_vector(self._array(values))

    def matrix(self, values: WeightArray) -> Matrix:
        """Add a matrix (outputs, inputs) in the block's precision; return its offsets and shape."""
        array = self._array(values)
        array = array.reshape(len(array), -1)
        n_output, n_input = array.shape
        scales = 0
        if self.precision == "int8":
            scales = self._add_vector(quantise(array)[1])
        return Matrix(self._add(pack(array, self.precision)), scales, n_output, n_input)

    def block(self) -> Bytes:
        """Return all entries as one array that begins on a cache line."""
        space = np.empty(self.n_bytes + ALIGNMENT, np.uint8)
        first = -space.ctypes.data % ALIGNMENT
        whole = space[first : first + self.n_bytes]
        offset = 0
        for part in self._parts:
            whole[offset : offset + part.size] = part
            offset += -(-part.size // ALIGNMENT) * ALIGNMENT
        return whole

    def _array(self, values: WeightArray) -> Array:
        """Compute the array that values describe. Raises ValueError for a parameter of another shape."""
        arrays = [self._tensors[name] for name in values.parameters]
        for array, (name, shape) in zip(arrays, values.parameters.items(), strict=True):
            if array.shape != shape:
                raise ValueError(f"{name} has the shape {array.shape}, expected {shape}")
        return values.compute(*arrays)

    def _add_vector(self, array: Array) -> int:
        flat = np.zeros(padded(array.size), np.float32)
        flat[: array.size] = array.ravel()
        return self._add(flat.view(np.uint8))

    def _add(self, part: Bytes) -> int:
        offset = self.n_bytes
        self._parts.append(part)
        self.n_bytes += -(-part.size // ALIGNMENT) * ALIGNMENT
        return offset
