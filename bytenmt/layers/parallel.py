"""Run Numba kernels on as many threads as PyTorch uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch


def thread_ranges(n: int) -> list[tuple[int, int, int]]:
    """Divide n pieces of work among PyTorch's threads: (thread, first, last) for each, last not included."""
    n_threads = max(1, min(n, torch.get_num_threads()))
    cuts = [n * i // n_threads for i in range(n_threads + 1)]
    return [(i, cuts[i], cuts[i + 1]) for i in range(n_threads)]


def parallel_for(task: Callable[[int, int, int], None], n: int) -> None:
    """Call task(thread, first, last) for all ranges of n at once, the last one on this thread.

    This is useful only for tasks that release the interpreter lock, as kernels do.
    """
    *others, own = thread_ranges(n)
    waiting = [_pool(len(others)).submit(task, *share) for share in others]
    task(*own)
    for future in waiting:
        future.result()


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads)


if hasattr(os, "register_at_fork"):  # a forked child has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
