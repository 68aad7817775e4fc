"""Measure this machine's memory read rate, the upper bound of a decode step's speed on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types

from bytenmt.decoding.cpu.kernels.simd import (
    INT32,
    LANES,
    Builder,
    Value,
    const_int,
    emit_function,
    load,
    loop,
    splat,
)

# Approximate seconds of a measurement, and number of tries: short enough to fit between time slices
# of other programs, so that the best try is undisturbed.
MEASURE_SECONDS = 0.003
N_TRIES = 12
CHUNK_BYTES = 4096  # bytes; the share of a thread is a multiple of it

Read = Callable[[int, int, int], float]


def _reader(n_streams: int, n_vectors: int) -> Read:
    """Compile a function (address, n, times) that reads n float32 values `times` times.

    It reads n_streams places in parallel, n_vectors vectors in each, and returns the sum of the
    values, so that the compiler keeps the loads.
    """
    stride = n_vectors * LANES

    def generate(b: Builder, address: Value, n: Value) -> Value:
        part = b.mul(b.sdiv(n, const_int(n_streams * stride)), const_int(stride))

        def body(place: Value, *sums: Value) -> list[Value]:
            new_sums = []
            for k, value in enumerate(sums):
                stream, vector = divmod(k, n_vectors)
                at = b.add(b.add(place, b.mul(part, const_int(stream))), const_int(vector * LANES))
                new_sums.append(b.fadd(value, load(b, address, at)))
            return new_sums

        _, *sums = loop(b, part, stride, [splat(0.0)] * (n_streams * n_vectors), body)
        for value in sums[1:]:
            sums[0] = b.fadd(sums[0], value)
        return b.extract_element(sums[0], ir.Constant(INT32, 0))

    once: Any = emit_function(2, 0, generate, types.float32)

    @njit(nogil=True)
    def read(address: int, n: int, times: int) -> float:
        total = 0.0
        for _ in range(times):
            total += once(address, n)
        return total

    return read


# Which pattern is fastest depends on where the bytes are: the inner caches profit from many loads
# in flight, main memory from a few streams that the prefetcher can follow.
READERS = (_reader(1, 4), _reader(1, 8), _reader(2, 4), _reader(4, 4))


def read_rate(n_bytes: int, threads: int = 1) -> float:
    """Return the bytes per second at which threads read n_bytes of memory, each its own share.

    The best of several access patterns and tries counts. Sizes are rounded down to whole chunks.
    Raises ValueError where a thread gets no whole chunk.
    """
    share = n_bytes // (threads * CHUNK_BYTES) * CHUNK_BYTES
    if share == 0:
        raise ValueError(
            f"{n_bytes} bytes are not a whole chunk of {CHUNK_BYTES} for each of {threads} threads"
        )
    memory = np.ones(share * threads + 64, np.uint8)
    first = memory.ctypes.data + -memory.ctypes.data % 64  # on a cache line
    best = 0.0
    times = 1
    with ThreadPoolExecutor(threads) as pool:
        for number in range(2 + N_TRIES):
            for reader in READERS:
                started = time.perf_counter()
                places = [first + k * share for k in range(threads)]
                list(pool.map(reader, places, [share // 4] * threads, [times] * threads))
                if number:  # the first round compiles
                    best = max(best, share * threads * times / (time.perf_counter() - started))
            if number == 1:
                times = max(1, int(MEASURE_SECONDS * best / (share * threads)))
    return best
