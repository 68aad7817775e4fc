"""One row against the columns of an item in the encoder's memory, in float32 or bfloat16, by address.

Knows neither where an item lies nor what attention is for.
"""

from __future__ import annotations

from typing import Any

from bytenmt.decoding.cpu.kernels.elementwise import fold_over
from bytenmt.decoding.cpu.kernels.simd import (
    FLOAT,
    LANES,
    Builder,
    Value,
    broadcast,
    emitted,
    load,
    load_first,
    load_first_half,
    load_half,
    loop,
    mask,
    multiply_add,
    pointer,
    spread,
    store,
    store_first,
    whole,
)

TOGETHER = 4  # columns that are added at once


def _product(b: Builder, sum_: Value, x: Value, y: Value) -> Value:
    return multiply_add(b, x, y, sum_)


def _additive(b: Builder, sum_: Value, q: Value, k: Value, v: Value) -> Value:
    part = b.fdiv(spread(2.0), multiply_add(b, q, k, spread(1.0)))
    return multiply_add(b, v, b.fsub(spread(1.0), part), sum_)


def _add(half: bool) -> Any:
    """Make (y, x, size, weights, n, width): y (width,) += the sum of weights[j] x[j] over n columns x[j],
    which are size bytes apart; several at a time, in their order."""
    read, read_first = (load_half, load_first_half) if half else (load, load_first)

    def generate(b: Builder, y: Value, x: Value, size: Value, weights: Value, n: Value, width: Value) -> None:
        end = b.and_(width, whole(-LANES))

        def some(first: Value, n_columns: int) -> None:
            columns = [b.add(first, whole(j)) for j in range(n_columns)]
            factors = [broadcast(b, b.load(pointer(b, weights, FLOAT, j))) for j in columns]
            sources = [b.add(x, b.mul(j, size)) for j in columns]

            def body(at: Value) -> list[Value]:
                total = load(b, y, at)
                for source, factor in zip(sources, factors, strict=True):
                    total = multiply_add(b, read(b, source, at), factor, total)
                store(b, total, y, at)
                return []

            loop(b, end, LANES, [], body)
            with b.if_then(b.icmp_signed("<", end, width)):
                lanes = mask(b, b.sub(width, end))
                total = load_first(b, y, end, lanes)
                for source, factor in zip(sources, factors, strict=True):
                    total = multiply_add(b, read_first(b, source, end, lanes), factor, total)
                store_first(b, total, y, end, lanes)

        def step(n_columns: int) -> Any:
            def body(first: Value) -> list[Value]:
                some(first, n_columns)
                return []

            return body

        reached = loop(b, b.sub(n, whole(TOGETHER - 1)), TOGETHER, [], step(TOGETHER))[0]
        loop(b, n, 1, [], step(1), reached)

    return emitted(6, 0, generate)


# Of each two the second is for columns in bfloat16.
dot, dot_half = (fold_over(2, 0, _product, half=half) for half in (None, 1))  # (x, column, n) -> x . column
# (q, column, v, n) -> v . tanh(a + b) from q = exp(2 a) and exp(2 b), where neither overflows
additive_dot, additive_dot_half = (fold_over(3, 0, _additive, half=half) for half in (None, 1))
add, add_half = (_add(half) for half in (False, True))
