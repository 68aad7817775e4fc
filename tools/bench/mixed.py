"""Compare lines of mixed lengths with as many bytes in lines of one length: the cost of idle batch slots.

Source lengths are log-normal about SOURCE_BYTES, as in bench/train.py; outputs are as long as their sources.
The lines come in random order, as in a stream that nothing has sorted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from bytenmt.decoding.interface import Engine, Request
from bytenmt.decoding.scheduler import decode
from tools.bench.records import Record
from tools.bench.steps import BENCH, SOURCE_BYTES, Case, make_engine, measure_in_turn

SIGMA, LONGEST = 0.6, 1000
BATCHES = (32,)


def mixed_records(options: Any) -> Iterator[Record]:
    """Measure options.mixed lines with the models of the command line."""
    draw = np.random.default_rng(1)
    lengths = np.exp(draw.normal(np.log(SOURCE_BYTES), SIGMA, options.mixed)).clip(1, LONGEST).astype(int)
    equal = np.full(max(1, lengths.sum() // SOURCE_BYTES), SOURCE_BYTES)
    for preset in options.preset or ["small"]:
        for arch in options.arch:
            for precision in options.precision or ["fp32"]:
                for batch in options.batch or BATCHES:
                    case = Case(arch, preset, "numba", precision, batch, threads=options.threads)
                    engine = make_engine(case, torch.device("cpu"))
                    seconds(engine, equal[: 2 * batch])  # compiles and allocates
                    actions = {
                        "mixed": lambda engine=engine: seconds(engine, lengths),
                        "equal": lambda engine=engine: seconds(engine, equal),
                    }
                    found = measure_in_turn(actions, options.rounds)
                    rates = [n.sum() / found[name].best for name, n in (("mixed", lengths), ("equal", equal))]
                    yield Record(
                        BENCH,
                        case.name(f"{len(lengths)} lines of mixed lengths"),
                        rates[0],
                        "bytes/s",
                        f"as many bytes in lines of {SOURCE_BYTES}",
                        rates[1],
                        rates[0] / rates[1],
                    )


def seconds(engine: Engine, lengths: Sequence[int] | np.ndarray) -> float:
    """Return the seconds for decoding random sentences of these lengths to outputs of the same lengths."""
    draw = np.random.default_rng(2)
    requests = [
        Request(draw.integers(97, 123, n, np.uint8).tobytes(), int(n), number=i)
        for i, n in enumerate(lengths)
    ]
    started = time.perf_counter()
    n_bytes = sum(len(found[0].text) for _, found in decode(engine, requests))
    took = time.perf_counter() - started
    if n_bytes != sum(lengths):
        raise RuntimeError("sentences have ended before their limit")
    return took
