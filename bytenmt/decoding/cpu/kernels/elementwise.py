"""Functions and sums of contiguous float32 numbers, called from compiled code by address.

A number's result has the same bits wherever it stands in a span. Destinations come first and may be a
source, not overlap one. What is no number (NaN) stays none. Knows no weights and no models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types

from bytenmt.decoding.cpu.kernels.functions import exp_of, greatest, sigmoid_of, tanh_of
from bytenmt.decoding.cpu.kernels.simd import (
    LANES,
    VECTOR,
    Builder,
    Value,
    broadcast,
    emitted,
    fold,
    load,
    load_first,
    load_first_half,
    load_half,
    loop,
    mask,
    multiply_add,
    spread,
    store,
    store_first,
    store_first_half,
    store_half,
    whole,
)
from bytenmt.jit import compiled, inlined


def span(
    n_sources: int,
    n_floats: int,
    compute: Callable[..., Value],
    half: int | None = None,
    to_half: bool = False,
) -> Any:
    """Make (y, sources …, n, floats …): each of n numbers y is compute(builder, *sources, *floats). half: the
    number of the source that is in bfloat16; to_half: whether y is."""
    put, put_first = (store_half, store_first_half) if to_half else (store, store_first)

    def generate(b: Builder, destination: Value, *rest: Value) -> None:
        sources, n = rest[:n_sources], rest[n_sources]
        floats = [broadcast(b, value) for value in rest[n_sources + 1 :]]
        end = b.and_(n, whole(-LANES))

        def body(place: Value) -> list[Value]:
            put(b, compute(b, *_loaded(b, sources, place, half), *floats), destination, place)
            return []

        loop(b, end, LANES, [], body)
        with b.if_then(b.icmp_signed("<", end, n)):
            lanes = mask(b, b.sub(n, end))
            values = _loaded(b, sources, end, half, lanes)
            put_first(b, compute(b, *values, *floats), destination, end, lanes)

    return emitted(n_sources + 2, n_floats, generate)


def _loaded(
    b: Builder, sources: Sequence[Value], place: Value, half: int | None, lanes: Value = None
) -> list[Value]:
    """16 numbers of each source, of which one may be in bfloat16; with lanes: those of the mask."""
    if lanes is None:
        return [(load_half if i == half else load)(b, x, place) for i, x in enumerate(sources)]
    return [(load_first_half if i == half else load_first)(b, x, place, lanes) for i, x in enumerate(sources)]


def _plus(b: Builder, x: Value, y: Value) -> Value:
    return b.fadd(x, y)


def _larger(b: Builder, x: Value, y: Value) -> Value:
    """The larger of two; NaN if one is."""
    return b.select(b.or_(b.fcmp_ordered(">", x, y), b.fcmp_unordered("uno", x, x)), x, y)


def fold_over(
    n_sources: int,
    n_floats: int,
    compute: Callable[..., Value],
    join: Callable[..., Value] = _plus,
    start: float = 0.0,
    half: int | None = None,
) -> Any:
    """Make (sources …, n, floats …) -> float32: vector = compute(builder, vector, *sources, *floats) over
    all, in four vectors that are joined last. half: see span."""

    def generate(b: Builder, *arguments: Value) -> Value:
        sources, n = arguments[:n_sources], arguments[n_sources]
        floats = [broadcast(b, value) for value in arguments[n_sources + 1 :]]

        def four(place: Value, *sums: Value) -> list[Value]:
            made = []
            for k, value in enumerate(sums):
                at = b.add(place, whole(k * LANES))
                made.append(compute(b, value, *_loaded(b, sources, at, half), *floats))
            return made

        def one(place: Value, value: Value) -> list[Value]:
            return [compute(b, value, *_loaded(b, sources, place, half), *floats)]

        end_of_four, end = b.and_(n, whole(-4 * LANES)), b.and_(n, whole(-LANES))
        _, *sums = loop(b, end_of_four, 4 * LANES, [spread(start)] * 4, four)
        sums[0] = loop(b, end, LANES, [sums[0]], one, end_of_four)[1]
        before = b.basic_block
        with b.if_then(b.icmp_signed("<", end, n)):
            lanes = mask(b, b.sub(n, end))
            values = _loaded(b, sources, end, half, lanes)
            rest = b.select(lanes, compute(b, sums[1], *values, *floats), sums[1])
            inside = b.basic_block
        last = b.phi(VECTOR)
        last.add_incoming(sums[1], before)
        last.add_incoming(rest, inside)
        whole_sum = join(b, join(b, sums[0], last), join(b, sums[2], sums[3]))
        return fold(b, whole_sum, lambda low, high: join(b, low, high))

    return emitted(n_sources + 1, n_floats, generate, types.float32)


def _exp_from(b: Builder, x: Value, shift: Value) -> Value:
    return exp_of(b, b.fsub(x, shift))


def _glu(b: Builder, x: Value, gate: Value) -> Value:
    return b.fmul(x, sigmoid_of(b, gate))


def _relu(b: Builder, x: Value) -> Value:
    return greatest(b, x, 0.0)


def _gru_keep(b: Builder, z: Value, g: Value, h: Value) -> Value:
    new = tanh_of(b, g)
    return multiply_add(b, sigmoid_of(b, z), b.fsub(h, new), new)


def _gru_take(b: Builder, z: Value, g: Value, h: Value) -> Value:
    return multiply_add(b, sigmoid_of(b, z), b.fsub(tanh_of(b, g), h), h)


def _lstm_cell(b: Builder, c: Value, i: Value, f: Value, g: Value) -> Value:
    return multiply_add(b, sigmoid_of(b, f), c, b.fmul(sigmoid_of(b, i), tanh_of(b, g)))


def _lstm_output(b: Builder, o: Value, c: Value) -> Value:
    return b.fmul(sigmoid_of(b, o), tanh_of(b, c))


def _multiplicative(b: Builder, h: Value, g1: Value, g2: Value, g3: Value, u: Value) -> Value:
    """Kalchbrenner et al. 2016: g1 tanh(g2 h + g3 u), of the gates before sigma and u before tanh."""
    new = b.fmul(sigmoid_of(b, g3), tanh_of(b, u))
    return b.fmul(sigmoid_of(b, g1), tanh_of(b, multiply_add(b, sigmoid_of(b, g2), h, new)))


def _normalise(b: Builder, x: Value, gain: Value, bias: Value, mean: Value, factor: Value) -> Value:
    return multiply_add(b, b.fmul(b.fsub(x, mean), factor), gain, bias)


def _normalise_relu(b: Builder, *arguments: Value) -> Value:
    return _relu(b, _normalise(b, *arguments))


def _square(b: Builder, sum_: Value, x: Value, mean: Value) -> Value:
    far = b.fsub(x, mean)
    return multiply_add(b, far, far, sum_)


# Of spans: a destination y, sources, the count n, then float32 numbers.
exp = span(1, 0, exp_of)  # (y, x, n)
tanh = span(1, 0, tanh_of)  # (y, x, n)
sigmoid = span(1, 0, sigmoid_of)  # (y, x, n)
relu = span(1, 0, _relu)  # (y, x, n)
glu = span(2, 0, _glu)  # (y, a, b, n): a * sigmoid(b)
add = span(2, 0, _plus)  # (y, a, b, n): a + b
multiply = span(2, 0, lambda b, x, y: b.fmul(x, y))  # (y, a, b, n): a * b
add_product = span(3, 0, lambda b, x, y, z: multiply_add(b, y, z, x))  # (y, a, b, c, n): a + b * c
scale = span(1, 1, lambda b, x, factor: b.fmul(x, factor))  # (y, x, n, factor): x * factor
gru_keep = span(
    3, 0, _gru_keep
)  # (y, z, g, h, n), before sigma and tanh: sigma(z) h + (1 - sigma(z)) tanh(g)
gru_take = span(3, 0, _gru_take)  # (y, z, g, h, n): (1 - sigma(z)) h + sigma(z) tanh(g)
_exp_shifted = span(1, 1, _exp_from)  # (y, x, n, shift)
_multiplicative_unit = span(5, 0, _multiplicative)
_lstm_cells = span(4, 0, _lstm_cell)
_lstm_outputs = span(2, 0, _lstm_output)
_normalised = span(3, 2, _normalise)
_normalised_relu = span(3, 2, _normalise_relu)
# Of sums: sources, the count n, then float32 numbers -> float32.
total = fold_over(1, 0, _plus)  # (x, n)
squares = fold_over(1, 1, _square)  # (x, n, mean): of the distances from a mean
largest = fold_over(1, 0, lambda b, most, x: _larger(b, x, most), _larger, -math.inf)  # (x, n)


@compiled
def exp_sum(y: int, x: int, n: int, shift: float) -> np.float32:
    """y = exp(x - shift); returns their sum."""
    _exp_shifted(y, x, n, shift)
    return np.float32(total(y, n))


@compiled
def softmax(y: int, x: int, n: int) -> None:
    """y = exp(x) / sum of exp(x)."""
    scale(y, y, n, np.float32(1) / np.float32(exp_sum(y, x, n, largest(x, n))))


@compiled
def layer_norm(y: int, x: int, gain: int, bias: int, n: int, epsilon: float) -> None:
    """y = (x - mean) / sqrt(variance + epsilon) * gain + bias."""
    mean, factor = _moments(x, n, epsilon)
    _normalised(y, x, gain, bias, n, mean, factor)


@compiled
def layer_norm_relu(y: int, x: int, gain: int, bias: int, n: int, epsilon: float) -> None:
    """y = the larger of that and 0."""
    mean, factor = _moments(x, n, epsilon)
    _normalised_relu(y, x, gain, bias, n, mean, factor)


@inlined
def _moments(x: int, n: int, epsilon: float) -> tuple[np.float32, np.float32]:
    """The mean, and 1 / sqrt(variance + epsilon)."""
    mean = np.float32(total(x, n) / np.float32(n))
    variance = squares(x, n, mean) / np.float32(n)
    return mean, np.float32(1) / np.sqrt(np.float32(variance + np.float32(epsilon)))


@compiled
def multiplicative(y: int, maps: int, h: int, n: int) -> None:
    """y = the multiplicative unit of h; maps: g1, g2, g3, u, n numbers each, before their functions."""
    _multiplicative_unit(y, h, maps, maps + 4 * n, maps + 8 * n, maps + 12 * n, n)


@compiled
def lstm_step(h: int, c: int, gates: int, n: int) -> None:
    """c = sigma(f) * c + sigma(i) * tanh(g), h = sigma(o) * tanh(c); gates: i, f, g, o, n numbers each."""
    _lstm_cells(c, c, gates, gates + 4 * n, gates + 8 * n, n)
    _lstm_outputs(h, gates + 12 * n, c, n)
