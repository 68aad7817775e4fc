"""Measure the plan of an epoch.

    taskset -c 1 python tools/bench/data.py --json data.json

One thread is measured, in turn with a reference of the same run, the best of several each.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


import numpy as np
import numpy.typing as npt

from bytenmt.data.epoch_plan import epoch_plan
from bytenmt.jit import njit
from tools.bench.records import Record, show_records
from tools.bench.steps import measure_in_turn, seconds

BENCH = "bench/data"
MAX_TOKENS = 25_000

Lengths = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]


def sentence_lengths(n: int) -> tuple[Lengths, Lengths]:
    """Return random lengths: sources log-normal (median 110 bytes, sigma 0.6), targets similar."""
    draw = np.random.default_rng(1)
    source = np.clip(np.round(draw.lognormal(np.log(110), 0.6, n)), 1, 1000).astype(np.int32)
    target = np.maximum(1, np.round(source * draw.lognormal(0.05, 0.15, n))).astype(np.int32)
    return source, target


@njit
def cut(order: Indices, source: Lengths, target: Lengths, max_tokens: int) -> Indices:
    """Return the bounds of batches that each fill the token budget; the lengths include EOS."""
    bounds = np.empty(len(order) + 1, np.int64)
    bounds[0] = 0
    n_batches = 0
    longest_source = 0
    longest_target = 0
    for place in range(len(order)):
        longest_source = max(longest_source, source[order[place]])
        longest_target = max(longest_target, target[order[place]])
        if (place + 1 - bounds[n_batches]) * (longest_source + longest_target) > max_tokens:
            n_batches += 1
            bounds[n_batches] = place
            longest_source = source[order[place]]
            longest_target = target[order[place]]
    bounds[n_batches + 1] = len(order)
    return bounds[: n_batches + 2].copy()


def reference_plan(source: Lengths, target: Lengths, seed: int) -> tuple[Indices, Indices, Indices]:
    """Return order, bounds and sequence of batches as other toolkits build them.

    A random permutation, two stable argsorts, packing to a budget (compiled), shuffled batches.
    Lengths are in their smallest type.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(source))
    order = order[np.argsort(target[order], kind="stable")]
    order = order[np.argsort(source[order], kind="stable")]
    bounds = cut(order, source + np.int32(1), target + np.int32(1), MAX_TOKENS)
    return order, bounds, random.permutation(len(bounds) - 1)


def padding(source: Lengths, target: Lengths, order: Indices, bounds: Indices) -> float:
    """Return the percentage of padding in a plan's batches; EOS counts as a byte."""
    widths = np.zeros(len(bounds) - 1, np.int64)
    for lengths in (source, target):
        widths += np.maximum.reduceat(lengths[order] + 1, bounds[:-1])
    used = int(source.sum(dtype=np.int64) + target.sum(dtype=np.int64)) + 2 * len(source)
    return float(100 * (1 - used / (widths * np.diff(bounds)).sum()))


def bench_plan(n_pairs: int, repeats: int) -> list[Record]:
    """Measure the plan of an epoch, and its padding."""
    source, target = sentence_lengths(n_pairs)
    name = f"epoch plan {n_pairs / 1e6:g}M pairs"
    make_plan = partial(epoch_plan, source, target, MAX_TOKENS, seed=1, epoch=0)
    order, bounds, _ = reference_plan(source, target, 1)  # compiles
    actions = {
        "plan": partial(seconds, make_plan),
        "reference": partial(seconds, partial(reference_plan, source, target, 1)),
    }
    best = {what: timing.best for what, timing in measure_in_turn(actions, 1 + repeats).items()}
    path = "permutation, two stable argsorts, packing"
    own = best["plan"]
    other = best["reference"]
    plan = make_plan()
    unused = padding(source, target, plan.order.astype(np.int64), plan.bounds)
    usual = padding(source, target, order, bounds)
    return [
        Record(BENCH, name, own, "s", path, other, other / own),
        Record(BENCH, f"{name}, padding", unused, "%", path, usual, usual / unused),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Measure the plan of an epoch.")
    parser.add_argument("--pairs", type=int, default=4_500_000, help="pairs of the epoch plan")
    parser.add_argument("--repeats", type=int, default=5, help="measurements; the best counts")
    parser.add_argument("--json", type=Path, help="also write the records here")
    options = parser.parse_args(arguments)
    show_records(bench_plan(options.pairs, options.repeats), options.json)


if __name__ == "__main__":
    main()
