"""A barrier for threads that run compiled code without the interpreter lock: they wait by looking again.

A step of a decoder has dozens of places where its threads meet, each for a few microseconds; to put a
thread to sleep costs more than that. Knows nothing of what the threads do.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from numba import types

from bytenmt.decoding.cpu.kernels.simd import INT64, X86, Builder, Value, call, emitted, pointer
from bytenmt.jit import compiled

COUNTERS = 16  # int64 numbers of a barrier, zero at first: two cache lines, one for each counter
_ARRIVED, _ROUND = 0, 8  # places of the counters
ABORTED = 9  # place of a number that is not 0 where a thread has failed and the others must not wait for it
# Before a thread offers its core to others: some 3 microseconds. Where two of the threads have to share a
# core every wait takes that long in vain, and with 4000 looks nine tenths of their time went so.
_LOOKS = 200
# Where there are more threads than cores the others never come unless this one gives way.
_yield_core: Any = types.ExternalFunction("sched_yield", types.int32()) if os.name == "posix" else None


def _place(b: Builder, address: Value, place: Value) -> Value:
    return pointer(b, address, INT64, place)


def _load(b: Builder, address: Value, place: Value) -> Value:
    return b.load_atomic(_place(b, address, place), "acquire", 8)


def _store(b: Builder, address: Value, place: Value, value: Value) -> None:
    b.store_atomic(value, _place(b, address, place), "release", 8)


def _add(b: Builder, address: Value, place: Value, value: Value) -> Value:
    return b.atomic_rmw("add", _place(b, address, place), value, "acq_rel")


def _pause(b: Builder) -> None:
    if X86:
        call(b, "llvm.x86.sse2.pause", ir.VoidType(), [])


_read = emitted(2, 0, _load, types.int64)  # (address, place) -> the number there
_write = emitted(3, 0, _store)  # (address, place, number)
_increase = emitted(3, 0, _add, types.int64)  # (address, place, by) -> what was there before
_rest = emitted(0, 0, _pause)


if _yield_core is not None:

    @compiled
    def _give_way() -> None:
        _yield_core()

else:

    @compiled
    def _give_way() -> None:
        pass


@compiled
def barrier(counters: int, n_threads: int) -> bool:
    """Return True when all n_threads have called it, or False where the barrier was aborted while waiting.

    counters: address of COUNTERS int64 numbers, zero before the first use, then left to this function, but
    for the number at ABORTED, which anyone may set.
    """
    if n_threads == 1:
        return True
    this_round = _read(counters, _ROUND)
    if _increase(counters, _ARRIVED, 1) == n_threads - 1:
        _write(counters, _ARRIVED, 0)  # before the others may go on, and come again
        _write(counters, _ROUND, this_round + 1)
        return True
    looks = 0
    while _read(counters, _ROUND) == this_round:
        looks += 1
        if looks < _LOOKS:
            _rest()
        else:
            if _read(counters, ABORTED) != 0:
                return False
            _give_way()
    return True
