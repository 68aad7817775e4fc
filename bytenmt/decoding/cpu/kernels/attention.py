"""Attention of one row over its sentence's columns in the encoder's memory, all of them or those of a window.

Compiled without a cache of its own, as part of interpreter.py. A row's scores stand in its thread's scratch.
Knows no models and no search.
"""

from __future__ import annotations

import math

import numpy as np

from bytenmt.decoding.cpu.kernels.columns import (
    add,
    add_half,
    additive_dots,
    additive_dots_half,
    dot,
    dots,
    dots_half,
)
from bytenmt.decoding.cpu.kernels.elementwise import exp_sum, largest, multiply, scale, softmax
from bytenmt.decoding.cpu.kernels.gemm import row_panels
from bytenmt.decoding.cpu.kernels.instructions import (
    Crew,
    Model,
    copy,
    exponential,
    fill,
    read,
    write,
    zero,
)
from bytenmt.decoding.cpu.kernels.kept import (
    KEYS,
    VALUES,
    column_of,
    item_at,
    item_bytes,
    scales_of,
    whole_panels,
)
from bytenmt.decoding.cpu.kernels.panels import INT8, W8A8
from bytenmt.jit import compiled, inlined

AFTER, INSIDE = 1, 2  # see program.instructions.Bell


@compiled
def centre_at(model: Model, place: int, position: int, bound: int, d: int) -> None:
    """Op.CENTRE of a row."""
    write(d, 0, np.float32(min(position, seen(model, place, bound) - 1)))


@compiled
def predict_centre(model: Model, place: int, a: int, v: int, n: int, bound: int, d: int) -> None:
    """Op.PREDICT_CENTRE of a row."""
    share = np.float32(1) / np.float32(1 + math.exp(-dot(a, v, n)))
    write(d, 0, np.float32(np.float32(seen(model, place, bound)) * share))


@inlined
def attend_dot(
    model: Model, crew: Crew, place: int, d: int, width: int, query: int, k: int, v: int, root: int,
    centre: int, window: int, bell: int,
) -> None:  # fmt: skip
    """Op.ATTEND_DOT of a row; centre: the address of p."""
    first, last = around(seen(model, place, 0), centre, window)
    n_query, size = model.items[k, 1], item_bytes(model) * model.items[k, 1]
    if model.items[k, 2] == KEYS:
        room = crew.scratch + 4 * whole_panels(last)
        scales = scales_of(model, place, k)
        row_panels(query, item_at(model, place, k), n_query, crew.scratch, last, W8A8, scales, room)
    elif item_bytes(model) == 2:
        dots_half(crew.scratch, query, column_of(model, place, k, first), size, last - first, n_query)
    else:
        dots(crew.scratch, query, column_of(model, place, k, first), size, last - first, n_query)
    factor = math.sqrt(model.source_len[place]) if root else 1.0
    weigh(model, crew.scratch, place, first, last, v, width, factor, d, centre, window, bell)


@inlined
def attend_additive(
    model: Model, crew: Crew, place: int, d: int, width: int, query: int, w: int, k: int, v: int,
    centre: int, window: int, bell: int,
) -> None:  # fmt: skip
    """Op.ATTEND_ADDITIVE of a row; spoils the query."""
    first, last = around(seen(model, place, 0), centre, window)
    n_query, half, weights = model.items[k, 1], item_bytes(model) == 2, model.weights + w
    keys, size = column_of(model, place, k, first), item_bytes(model) * n_query
    exponential(query, query, n_query)
    if half:
        additive_dots_half(crew.scratch, query, weights, keys, size, last - first, n_query)
    else:
        additive_dots(crew.scratch, query, weights, keys, size, last - first, n_query)
    weigh(model, crew.scratch, place, first, last, v, width, 1.0, d, centre, window, bell)


@compiled
def attend_location(
    model: Model, crew: Crew, place: int, d: int, width: int, scores: int, bound: int, v: int, twice: int,
    centre: int, window: int, bell: int,
) -> None:  # fmt: skip
    """Op.ATTEND_LOCATION of a row."""
    first, last = around(seen(model, place, bound), centre, window)
    if last > first:
        copy(crew.scratch, scores + 4 * first, last - first)
        if twice:
            softmax(crew.scratch, crew.scratch, last - first)
    weigh(model, crew.scratch, place, first, last, v, width, 1.0, d, centre, window, bell)


@compiled
def seen(model: Model, place: int, bound: int) -> int:
    """Columns that there are to attend to, no more than a bound; 0: none is set."""
    n: int = model.columns[place]
    return min(n, bound) if bound else n


@compiled
def around(n: int, centre: int, window: int) -> tuple[int, int]:
    """The columns at most `window` from p: first, last + 1; of n, all of them for window 0. Where p is no
    number all of them, too, whose Gaussians then are none either."""
    if window == 0:
        return 0, n
    p = read(centre, 0)
    if math.isnan(p):
        return 0, n
    return max(0, int(math.ceil(p - window))), min(n, int(math.floor(p + window)) + 1)


@inlined
def weigh(
    model: Model, scores: int, place: int, first: int, last: int, v: int, width: int, factor: float, d: int,
    centre: int, window: int, bell: int,
) -> None:  # fmt: skip
    """d = factor times the mean of item v's columns, weighed by the scores' softmax; zero of nothing. The
    scores, which begin with that of column `first`, become the weights, factor and all."""
    zero(d, width)
    n = last - first
    if n <= 0:
        return
    if bell == INSIDE:
        fade(scores, n, read(centre, 0) - first, window)
    share_of_one = np.float32(factor) / exp_sum(scores, scores, n, largest(scores, n))
    if bell == AFTER:
        fade(scores, n, read(centre, 0) - first, window)
    scale(scores, scores, n, share_of_one)
    size = item_bytes(model) * width
    if model.items[v, 2] == VALUES:
        weights = scores + 4 * whole_panels(n)
        sums = weights + 4 * whole_panels(n)
        room = sums + 4 * whole_panels(width)
        multiply(weights, scores, scales_of(model, place, v), n)
        fill(sums, whole_panels(width), 1.0)
        row_panels(weights, item_at(model, place, v), n, sums, width, INT8, sums, room)
        copy(d, sums, width)
    elif item_bytes(model) == 2:
        add_half(d, column_of(model, place, v, first), size, scores, n, width)
    else:
        add(d, column_of(model, place, v, first), size, scores, n, width)


@compiled
def fade(x: int, n: int, centre: float, window: int) -> None:
    """x times a Gaussian around a place among n numbers, with the standard deviation window / 2."""
    for j in range(n):
        far = (j - centre) / window
        write(x, j, np.float32(read(x, j) * math.exp(-2 * far * far)))
