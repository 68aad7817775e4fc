"""Let threads that run compiled code without the interpreter lock wait for each other, spinning.

The threads of a decoder step wait for each other dozens of times, each time for a few microseconds.
Putting a thread to sleep costs more than that.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from bytenmt.decoding.cpu.kernels.simd import (
    INT64,
    X86,
    Builder,
    Value,
    call,
    emit_function,
    pointer,
)
from bytenmt.decoding.cpu.records import ABORTED, Address
from bytenmt.jit import compiled

# Indices of the counters, beside ABORTED.
_ARRIVED = 0  # threads that wait
_ROUND = 8  # times that all have arrived
# Checks before a thread yields its core: some 3 microseconds. If two of the threads share a core,
# every wait wastes that time; with 4000 checks it was nine tenths of all time.
_MAX_CHECKS = 200
# With more threads than cores, the others never arrive unless this one yields.
_yield_core: Any = types.ExternalFunction("sched_yield", types.int32())


def _load(b: Builder, address: Value, index: Value) -> Value:
    return b.load_atomic(pointer(b, address, INT64, index), "acquire", 8)


def _store(b: Builder, address: Value, index: Value, value: Value) -> None:
    b.store_atomic(value, pointer(b, address, INT64, index), "release", 8)


def _add(b: Builder, address: Value, index: Value, value: Value) -> Value:
    return b.atomic_rmw("add", pointer(b, address, INT64, index), value, "acq_rel")


def _pause(b: Builder) -> None:
    if X86:
        call(b, "llvm.x86.sse2.pause", ir.VoidType(), [])


_read = emit_function(2, 0, _load, types.int64)  # (address, index) -> the number there
_write = emit_function(3, 0, _store)  # (address, index, number)
# (address, index, increment) -> the number before
_increase = emit_function(3, 0, _add, types.int64)
_pause_core = emit_function(0, 0, _pause)


@compiled
def barrier(counters: Address, n_threads: int) -> bool:
    """Wait until all n_threads threads have called it and return True.

    Returns False if a thread has failed: then the caller must return, too.
    counters: N_COUNTERS int64 numbers, zero before the first use. A thread that fails sets
    the one at index ABORTED to 1.
    """
    if n_threads == 1:
        return True
    this_round = _read(counters, _ROUND)
    if _increase(counters, _ARRIVED, 1) == n_threads - 1:
        _write(counters, _ARRIVED, 0)  # before the others may continue, and arrive again
        _write(counters, _ROUND, this_round + 1)
        return True
    n_checks = 0
    while _read(counters, _ROUND) == this_round:
        n_checks += 1
        if n_checks < _MAX_CHECKS:
            _pause_core()
        else:
            if _read(counters, ABORTED) != 0:
                return False
            _yield_core()
    return True
