"""Compare int8's source representation in bytes, and the attention over it, with NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from compiled_calls import from_python

from bytenmt.checkpoints.rounding import quantise
from bytenmt.decoding.cpu.kernels.attention import attend_dot
from bytenmt.decoding.cpu.kernels.decoder_memory import FLAT, KEYS, VALUES, store_column
from bytenmt.decoding.cpu.kernels.gemm import linear_panels, linear_row, scratch_bytes
from bytenmt.decoding.cpu.kernels.instructions import ModelBuffers, ThreadContext
from bytenmt.decoding.cpu.kernels.microkernels import NATIVE_INT8
from bytenmt.decoding.cpu.kernels.panels import INT8, PANEL, pack
from bytenmt.decoding.cpu.session import memory_column_floats, round_up_to_lines

f32 = np.float32
pytestmark = pytest.mark.skipif(not NATIVE_INT8, reason="this machine does not multiply bytes")
compiled = cache(from_python)


class Memory:
    """Sources' keys and values at places, in what was left there: bytes of all kinds."""

    def __init__(
        self, widths: tuple[int, int], columns: list[int], kinds: tuple[int, int], seed: int = 0
    ) -> None:
        draw = np.random.default_rng(seed)
        room = [memory_column_floats(width, kind) for width, kind in zip(widths, kinds, strict=True)]
        most = -(-max(columns) // PANEL) * PANEL
        region = round_up_to_lines(sum(room) * most)
        self.space = draw.integers(0, 256, (len(columns), 4 * region), np.uint8).view(f32)
        floats = 2 * most + sum(widths) + PANEL + scratch_bytes(max(most, *widths), 1) // 4
        self.scratch = draw.integers(0, 256, 4 * floats, np.uint8).view(f32)
        nothing = np.zeros((0, 4), np.int64)
        self.model = ModelBuffers(
            0, INT8, len(columns), 0, 0, self.space.ctypes.data, sum(room), nothing[:, :2], nothing,
            np.array([[0, widths[0], kinds[0]], [room[0], widths[1], kinds[1]]]), nothing[:, :2],
            np.arange(len(columns)) * region, np.array(columns), np.array(columns),
            np.zeros((2, len(columns), 1), np.uint8),
        )  # fmt: skip
        self.width = widths[1]

    def keep(self, place: int, item: int, x: Any) -> None:
        for column in np.random.default_rng(1).permutation(len(x)):  # threads keep them in any order
            where = x[column].ctypes.data, self.scratch.ctypes.data
            compiled(store_column)(self.model, place, item, int(column), *where)

    def attend(self, place: int, query: Any, root: int) -> tuple[Any, Any]:
        """The context and the weights."""
        d, crew = np.full(self.width, f32(9)), ThreadContext(0, 1, 0, self.scratch.ctypes.data)
        to, address = d.ctypes.data, query.ctypes.data
        compiled(attend_dot)(self.model, crew, place, to, self.width, address, 0, 1, root, 0, 0, 0)
        return d, self.scratch[: self.model.columns[place]].copy()


def in_bytes(x: Any) -> Any:
    """Rows rounded to 255 numbers of each, float64."""
    scale = np.abs(x).max(axis=1, keepdims=True).astype(float) / 127
    return np.rint(x / scale) * scale


@pytest.mark.parametrize("n", [1, 3, 4, 16, 17, 63, 64, 65, 130])
@pytest.mark.parametrize(("width_of_keys", "width"), [(8, 8), (3, 70), (100, 33), (256, 256)])
def test_attention_over_bytes_is_that_over_numbers_that_were_rounded(
    n: int, width_of_keys: int, width: int
) -> None:
    draw = np.random.default_rng(n)
    memory = Memory((width_of_keys, width), [5, n], (KEYS, VALUES))
    keys, values = draw.normal(size=(n, width_of_keys)).astype(f32), draw.normal(size=(n, width)).astype(f32)
    values *= np.exp(draw.normal(size=(n, 1))).astype(f32)
    query = draw.normal(size=width_of_keys).astype(f32)
    memory.keep(1, 0, keys)
    memory.keep(1, 1, values)
    scores = in_bytes(keys) @ in_bytes(query[None])[0]
    weights = np.exp(scores - scores.max())
    weights *= np.sqrt(n) / weights.sum()
    context, told = memory.attend(1, query, 1)
    np.testing.assert_allclose(told, weights, atol=2e-5, rtol=2e-5)
    np.testing.assert_allclose(context, weights @ in_bytes(values), atol=1e-4 * np.abs(values).max())


def test_bits_of_a_place_are_its_own() -> None:
    """Whatever stands at other places, whatever stood at this one, and after a longer source."""
    draw = np.random.default_rng(3)
    keys, values, query = (draw.normal(size=size).astype(f32) for size in ((21, 40), (21, 24), (40,)))
    found = []
    for seed, columns in ((0, [21]), (1, [90, 21, 4]), (2, [7, 7, 21])):
        memory, place = Memory((40, 24), columns, (KEYS, VALUES), seed), columns.index(21)
        for other, n in enumerate(columns):
            for item, width in enumerate((40, 24)):
                memory.keep(other, item, draw.normal(size=(n, width)).astype(f32))
        memory.keep(place, 0, keys)
        memory.keep(place, 1, values)
        found.append(memory.attend(place, query, 0)[0].tobytes())
    assert found[0] == found[1] == found[2]


def test_either_may_be_flat() -> None:
    draw = np.random.default_rng(4)
    keys, values, query = (draw.normal(size=size).astype(f32) for size in ((70, 32), (70, 32), (32,)))
    found = []
    for kinds in ((FLAT, FLAT), (KEYS, FLAT), (FLAT, VALUES), (KEYS, VALUES)):
        memory = Memory((32, 32), [70], kinds)
        memory.keep(0, 0, keys)
        memory.keep(0, 1, values)
        found.append(memory.attend(0, query, 0)[0])
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=3e-2)
        assert (other != found[0]).any()


@pytest.mark.parametrize(("n_out", "n_in"), [(1, 5), (16, 64), (40, 3), (64, 33), (200, 130)])
def test_the_product_of_a_row_has_the_bits_of_a_row_among_others(n_out: int, n_in: int) -> None:
    draw = np.random.default_rng(n_out)
    matrix, x = draw.normal(size=(n_out, n_in)).astype(f32), draw.normal(size=(2, n_in)).astype(f32)
    panels, n_panels = pack(matrix, "int8"), -(-n_out // PANEL)
    scales, scratch = np.zeros(n_panels * PANEL, f32), np.zeros(scratch_bytes(n_in), np.uint8)
    scales[:n_out] = quantise(matrix)[1]
    y, row = np.zeros((2, n_panels * PANEL), f32), np.zeros(n_panels * PANEL, f32)
    addresses = panels.ctypes.data, scales.ctypes.data, scratch.ctypes.data
    compiled(linear_panels)(
        x.ctypes.data, n_in, 2, addresses[0], n_in, y.ctypes.data, n_panels * PANEL, 0, n_panels, INT8,
        0, 0, *addresses[1:],
    )  # fmt: skip
    compiled(linear_row)(x[1].ctypes.data, addresses[0], n_in, row.ctypes.data, n_out, False, *addresses[1:])
    assert row[:n_out].tobytes() == y[1, :n_out].tobytes() and (row[:n_out] != 0).all()
