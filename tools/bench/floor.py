"""Measure this machine's memory read rate, which bounds the speed of a decode step on a CPU from above.

Benchmarks divide the weight bytes of a step by `read_rate` to get its memory floor. As a program it prints
the rate for several sizes, the rate at which one row passes through chains of packed matrices, and the
arithmetic rate of many rows relative to OpenBLAS and torch.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types

from bytenmt.checkpoints.rounding import quantise
from bytenmt.decoding.cpu.kernels.barrier import COUNTERS, barrier
from bytenmt.decoding.cpu.kernels.gemm import linear_panels, scratch_bytes
from bytenmt.decoding.cpu.kernels.panels import PANEL, pack, panel_bytes
from bytenmt.decoding.cpu.kernels.simd import (
    INT32,
    INT_VECTOR,
    LANES,
    VECTOR,
    Builder,
    Value,
    const_int,
    emit_function,
    load,
    loop,
    splat,
)
from bytenmt.decoding.interface import PRECISIONS
from tools.bench.records import Record, format_table, write_json

BENCH = "bench/floor"
# Approximate seconds of a measurement, and number of tries: short enough to fit between time slices of other
# programs, so that the best try is undisturbed.
LONG_ENOUGH, TRIES = 0.003, 24
CHUNK = 4096  # bytes; the share of a thread is a multiple of it

Read = Callable[[int, int, int, int, int], float]
Array = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


def _reader(n_streams: int, n_vectors: int, xor: bool = False) -> Read:
    """Compile a function (address, n, times, counters, n_threads) that reads n float32 values `times` times.

    It waits for the other threads first and reads n_streams places in parallel, n_vectors vectors in each.
    The values are summed, or combined by XOR, and the result is returned so that the compiler keeps the
    loads.
    """
    stride = n_vectors * LANES

    def join(b: Builder, x: Value, y: Value) -> Value:
        if not xor:
            return b.fadd(x, y)
        return b.bitcast(b.xor(b.bitcast(x, INT_VECTOR), b.bitcast(y, INT_VECTOR)), VECTOR)

    def generate(b: Builder, address: Value, n: Value) -> Value:
        part = b.mul(b.sdiv(n, const_int(n_streams * stride)), const_int(stride))

        def body(place: Value, *sums: Value) -> list[Value]:
            new_sums = []
            for k, value in enumerate(sums):
                stream, vector = divmod(k, n_vectors)
                at = b.add(b.add(place, b.mul(part, const_int(stream))), const_int(vector * LANES))
                new_sums.append(join(b, value, load(b, address, at)))
            return new_sums

        _, *sums = loop(b, part, stride, [splat(0.0)] * (n_streams * n_vectors), body)
        for value in sums[1:]:
            sums[0] = join(b, sums[0], value)
        return b.extract_element(sums[0], ir.Constant(INT32, 0))

    once: Any = emit_function(2, 0, generate, types.float32)

    @njit(nogil=True)
    def read(address: int, n: int, times: int, counters: int, n_threads: int) -> float:
        barrier(counters, n_threads)
        sum_ = 0.0
        for _ in range(times):
            sum_ += once(address, n)
        return sum_

    return read


# Which pattern is fastest depends on where the bytes are: the inner caches profit from many loads in flight,
# main memory from a few streams that the prefetcher can follow.
READERS = [_reader(1, 1), _reader(1, 4), _reader(1, 8), _reader(2, 4), _reader(4, 4), _reader(1, 8, xor=True)]


class _ThreadTeam:
    """Threads that start the same function together, again and again."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self.counters = np.zeros(COUNTERS, np.int64)
        self._work: Callable[[int], object] | None = None
        self._times = np.zeros((n_threads, 2))
        self._ready = threading.Barrier(n_threads)
        self._done = threading.Barrier(n_threads)
        for me in range(1, n_threads):
            threading.Thread(target=self._serve, args=(me,), daemon=True).start()

    def __enter__(self) -> _ThreadTeam:
        return self

    def __exit__(self, *_: object) -> None:
        self._work = None
        self._ready.wait()

    def seconds(self, work: Callable[[int], object]) -> float:
        """Return the time of work(thread) in all threads: from the last start to the last end."""
        self._work = work
        self._ready.wait()
        self._do(0, work)
        self._done.wait()
        return float(self._times[:, 1].max() - self._times[:, 0].max())

    def _do(self, me: int, work: Callable[[int], object]) -> None:
        self._times[me, 0] = time.perf_counter()
        work(me)
        self._times[me, 1] = time.perf_counter()

    def _serve(self, me: int) -> None:
        while True:
            self._ready.wait()
            work = self._work
            if work is None:
                return
            self._do(me, work)
            self._done.wait()


def aligned_bytes(n_bytes: int) -> Bytes:
    """Return an array of n_bytes ones that begins on a cache line."""
    space = np.empty(n_bytes + 64, np.uint8)
    space[:] = 1  # untouched memory would be mapped to one shared page of zeros
    first = -space.ctypes.data % 64
    return space[first : first + n_bytes]


def read_rate(n_bytes: int, threads: int = 1) -> float:
    """Return the bytes per second at which n_bytes of memory are read repeatedly, each thread its own share.

    The best of several access patterns and tries counts. Sizes are rounded down to whole chunks. Raises
    ValueError where a thread gets no whole chunk.
    """
    share = n_bytes // (threads * CHUNK) * CHUNK
    if share == 0:
        raise ValueError(f"{n_bytes} bytes are no whole chunk of {CHUNK} for each of {threads} threads")
    buffer = aligned_bytes(share * threads)
    address = buffer.ctypes.data
    with _ThreadTeam(threads) as team:
        counters = team.counters.ctypes.data

        def rate(reader: Read) -> float:
            def work(me: int) -> object:
                return reader(address + me * share, share // 4, times, counters, threads)

            return share * threads * times / team.seconds(work)

        for reader in READERS:
            reader(address, 0, 1, counters, 1)  # compiles
        times = 1
        times = max(1, int(LONG_ENOUGH * max(rate(reader) for reader in READERS) / (share * threads)))
        rates = [max(rate(reader) for _ in range(TRIES // 4)) for reader in READERS]
        best = sorted(range(len(READERS)), key=rates.__getitem__)[-3:]
        return max(*rates, *(rate(READERS[which]) for which in best * (TRIES // 2)))


@njit(nogil=True)
def _pass_chain(
    numbers: npt.NDArray[np.int64], x: int, rows: int, w: int, y: int, scales: int, scratch: int, times: int
) -> None:
    """Multiply rows x by a chain of equal-sized packed matrices at w, without the operations in between.

    numbers: number of matrices, panels of each, inputs of each, bytes of each, index of the precision.
    """
    n, n_panels, n_in, size, precision = numbers
    for _ in range(times):
        for k in range(n):
            at = w + k * size
            linear_panels(
                x, n_in, rows, at, n_in, y, n_panels * PANEL, 0, n_panels, precision, 0, 0, scales, scratch
            )


def chain_seconds(n_out: int, n_in: int, precision: str, n: int, rows: int) -> float:
    """Return the time of multiplying `rows` rows by n matrices (n_out, n_in), the best of several tries."""
    random = np.random.default_rng(0)
    matrix = random.standard_normal((n_out, n_in), np.float32)
    packed = pack(matrix, precision)
    n_panels = -(-n_out // PANEL)
    scales = np.zeros(n_panels * PANEL, np.float32)
    scales[:n_out] = quantise(matrix)[1]
    w = aligned_bytes(n * packed.size)
    w.reshape(n, -1)[:] = packed
    x = random.standard_normal((rows, n_in), np.float32)
    y, scratch = aligned_bytes(rows * n_panels * PANEL * 4), aligned_bytes(scratch_bytes(n_in))
    numbers = np.array([n, n_panels, n_in, packed.size, PRECISIONS.index(precision)])
    w_, y_, scales_, scratch_ = (array.ctypes.data for array in (w, y, scales, scratch))
    row = x.ctypes.data
    return best_seconds(lambda times: _pass_chain(numbers, row, rows, w_, y_, scales_, scratch_, times))


def best_seconds(run: Callable[[int], object], tries: int = TRIES) -> float:
    """Return the time of one repetition of run(times), the best of several tries that are long enough."""
    run(1)
    start = time.perf_counter()
    run(1)
    times = max(1, int(LONG_ENOUGH / (time.perf_counter() - start)))
    seconds = []
    for _ in range(tries):
        start = time.perf_counter()
        run(times)
        seconds.append((time.perf_counter() - start) / times)
    return min(seconds)


def bench_memory(n_threads: int) -> list[Record]:
    """Measure the read rate over sizes, relative to the largest size."""
    sizes = (1, 3, 12, 25, 40, 50, 100, 400)
    rates = [read_rate(size * 1_000_000, n_threads) / 1e9 for size in sizes]
    largest = f"of {sizes[-1]} MB"
    return [
        Record(
            BENCH, f"read {size} MB, {n_threads} threads", rate, "GB/s", largest, rates[-1], rate / rates[-1]
        )
        for size, rate in zip(sizes, rates, strict=True)
    ]


def bench_one_row(n_out: int, n_in: int) -> list[Record]:
    """Measure one row through chains of matrices, relative to reading as many bytes."""
    records = []
    for precision in PRECISIONS:
        size = -(-n_out // PANEL) * panel_bytes(n_in, precision)
        for megabytes in (1, 4, 12, 25, 40, 100):
            n = max(1, round(megabytes * 1e6 / size))
            rate = n * size / chain_seconds(n_out, n_in, precision, n, 1) / 1e9
            floor = read_rate(n * size) / 1e9
            case = f"1 row, {n} x {n_out} x {n_in}, {precision}, {n * size / 1e6:.0f} MB"
            records.append(Record(BENCH, case, rate, "GB/s", "read", floor, rate / floor))
    return records


def _openblas_seconds(x: Array, weights: list[Array]) -> float:
    """Return the time of x (rows, n_in) times all weights (n_in, n_out) with OpenBLAS."""
    y = np.empty((len(x), weights[0].shape[1]), np.float32)
    return best_seconds(lambda times: [np.dot(x, w, out=y) for w in weights * times])


def _torch_seconds(x: Array, weights: list[Any]) -> float:
    """Return the time of x (rows, n_in) times all weights (n_out, n_in) with torch in bfloat16."""
    import torch

    half = torch.from_numpy(x).bfloat16()
    return best_seconds(lambda times: [torch.nn.functional.linear(half, w) for w in weights * times])


def bench_rows(n_out: int, n_in: int) -> list[Record]:
    """Measure rows times 3 million weights, relative to OpenBLAS in float32 and torch in bfloat16."""
    import torch

    torch.set_num_threads(1)
    records = []
    n = max(1, round(3e6 / (n_out * n_in)))
    random = np.random.default_rng(0)
    weights = [random.standard_normal((n_in, n_out), np.float32) for _ in range(n)]
    halves = [torch.from_numpy(w).T.contiguous().bfloat16() for w in weights]
    for rows in (1, 2, 4, 8, 16, 32, 64, 512):
        x = random.standard_normal((rows, n_in), np.float32)
        peers = {"OpenBLAS fp32": _openblas_seconds(x, weights), "torch bf16": _torch_seconds(x, halves)}
        work = 2e-9 * n * rows * n_out * n_in
        for precision in PRECISIONS:
            name = "OpenBLAS fp32" if precision == "fp32" else "torch bf16"
            rate, other = work / chain_seconds(n_out, n_in, precision, n, rows), work / peers[name]
            case = f"{rows} rows, {n} x {n_out} x {n_in}, {precision}"
            records.append(Record(BENCH, case, rate, "GFLOP/s", name, other, rate / other))
    return records


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Measure the memory read rate, and the panel kernel relative to it."
    )
    parser.add_argument("--threads", type=int, default=1, help="threads that read; the kernel uses one")
    parser.add_argument("--only", choices=("memory", "row", "rows"), help="run only one part")
    parser.add_argument("--out", type=int, default=1008, help="outputs of the matrices")
    parser.add_argument("--in", type=int, default=336, dest="in_", help="inputs of the matrices")
    parser.add_argument("--json", type=Path, help="also write the records here")
    options = parser.parse_args(arguments)
    records: list[Record] = []
    if options.only in (None, "memory"):
        records += bench_memory(options.threads)
    if options.only in (None, "row"):
        records += bench_one_row(options.out, options.in_)
    if options.only in (None, "rows"):
        records += bench_rows(options.out, options.in_)
    print(format_table(records))
    if options.json:
        write_json(options.json, records)


if __name__ == "__main__":
    main()
