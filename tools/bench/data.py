"""Measure the data pipeline: epoch plan, line scan and batch assembly.

    taskset -c 1 python tools/bench/data.py --json data.json

One thread is measured. Every figure is compared with a reference measured in turn with it in the same run,
the best of several each. The text is the sample in data/, repeated to --size bytes in a temporary folder, and
is read once before, so that it is in the page cache.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


import numpy as np
import numpy.typing as npt

from bytenmt.data.batches import assemble
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.epoch_plan import epoch_plan
from bytenmt.data.text_file import TextFile
from bytenmt.jit import njit
from tools.bench.records import Record, format_table, write_json

DATA = Path(__file__).parents[2] / "data"
BENCH = "bench/data"
MAX_TOKENS = 25_000
N_JOINED = 6  # lines of the sample joined to a line of about 110 bytes
N_BATCHES = 2000  # batches to assemble: more bytes than a cache holds

Lengths = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]


def best_of(repeats: int, *functions: Callable[[], object]) -> list[float]:
    """Return the shortest seconds of each function, run in turn after one warm-up run."""
    best = [float("inf")] * len(functions)
    for turn in range(repeats + 1):
        for k, function in enumerate(functions):
            started = time.perf_counter()
            function()
            if turn:
                best[k] = min(best[k], time.perf_counter() - started)
    return best


def sentence_lengths(n: int) -> tuple[Lengths, Lengths]:
    """Return random lengths: sources log-normal (median 110 bytes, sigma 0.6), targets about as long."""
    draw = np.random.default_rng(1)
    source = np.clip(np.round(draw.lognormal(np.log(110), 0.6, n)), 1, 1000).astype(np.int32)
    target = np.maximum(1, np.round(source * draw.lognormal(0.05, 0.15, n))).astype(np.int32)
    return source, target


@njit
def cut(order: Indices, source: Lengths, target: Lengths, max_tokens: int) -> Indices:
    """Return the bounds of batches that each fill the token budget; the lengths include EOS."""
    bounds = np.empty(len(order) + 1, np.int64)
    bounds[0] = 0
    n_batches, longest_source, longest_target = 0, 0, 0
    for place in range(len(order)):
        longest_source = max(longest_source, source[order[place]])
        longest_target = max(longest_target, target[order[place]])
        if (place + 1 - bounds[n_batches]) * (longest_source + longest_target) > max_tokens:
            n_batches += 1
            bounds[n_batches] = place
            longest_source, longest_target = source[order[place]], target[order[place]]
    bounds[n_batches + 1] = len(order)
    return bounds[: n_batches + 2].copy()


def reference_plan(source: Lengths, target: Lengths, seed: int) -> tuple[Indices, Indices, Indices]:
    """Return order, bounds and sequence of batches as other toolkits build them.

    A random permutation, two stable argsorts, packing to a budget (compiled), shuffled batches. Lengths are
    in their smallest type.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(source))
    order = order[np.argsort(target[order], kind="stable")]
    order = order[np.argsort(source[order], kind="stable")]
    bounds = cut(order, source + np.int32(1), target + np.int32(1), MAX_TOKENS)
    return order, bounds, random.permutation(len(bounds) - 1)


def padding(source: Lengths, target: Lengths, order: Indices, bounds: Indices, round_to: int) -> float:
    """Return the percentage of padding in a plan's batches; EOS counts as a byte."""
    widths = np.zeros(len(bounds) - 1, np.int64)
    for lengths in (source, target):
        longest = np.maximum.reduceat(lengths[order] + 1, bounds[:-1])
        widths += -(-longest // round_to) * round_to
    used = int(source.sum(dtype=np.int64) + target.sum(dtype=np.int64)) + 2 * len(source)
    return float(100 * (1 - used / (widths * np.diff(bounds)).sum()))


def bench_plan(n_pairs: int, repeats: int) -> list[Record]:
    """Measure the plan of an epoch, and its padding."""
    source, target = sentence_lengths(n_pairs)
    name = f"epoch plan {n_pairs / 1e6:g}M pairs"
    seconds = best_of(
        repeats,
        lambda: epoch_plan(source, target, MAX_TOKENS, seed=1, epoch=0),
        lambda: reference_plan(source, target, 1),
        lambda: epoch_plan(source, target, MAX_TOKENS, seed=1, epoch=0, round_to=8),
    )
    path = "permutation, two stable argsorts, packing"
    found = [
        Record(BENCH, name, seconds[0], "s", path, seconds[1], seconds[1] / seconds[0]),
        Record(BENCH, f"{name}, rounded to 8", seconds[2], "s", path, seconds[1], seconds[1] / seconds[2]),
    ]
    order, bounds, _ = reference_plan(source, target, 1)
    for round_to, title in ((1, "padding"), (8, "padding, rounded to 8")):
        plan = epoch_plan(source, target, MAX_TOKENS, seed=1, epoch=0, round_to=round_to)
        own = padding(source, target, plan.order.astype(np.int64), plan.bounds, round_to)
        other = padding(source, target, order, bounds, round_to)
        found.append(Record(BENCH, f"{name}, {title}", own, "%", path, other, other / own))
    return found


def repeat_text(language: str, path: Path, n_copies: int) -> Path:
    """Write the sample n_copies times, its lines joined to sentences of usual length."""
    lines = (DATA / f"train.{language}").read_bytes().splitlines()
    joined = (b" ".join(lines[i : i + N_JOINED]) for i in range(0, len(lines), N_JOINED))
    text = b"\n".join(joined) + b"\n"
    with path.open("wb") as file:
        for _ in range(n_copies):
            file.write(text)
    return path


def sample_size(*languages: str) -> int:
    """Return the bytes of the sample in these languages."""
    return sum((DATA / f"train.{language}").stat().st_size for language in languages)


def read_mapped(path: Path) -> object:
    """Map a file into memory and read every byte once."""
    data = np.asarray(np.memmap(path, np.uint8, "r"))
    return np.bitwise_or.reduce(data[: len(data) // 8 * 8].view(np.uint64))


def bench_scan(folder: Path, size: int, repeats: int) -> list[Record]:
    """Measure opening a text, with line scan and UTF-8 check, in English (ASCII) and Korean."""
    found = []
    for language, title in (("en", ""), ("ko", ", Korean")):
        path = repeat_text(language, folder / f"scan.{language}", max(1, size // sample_size(language)))
        n_bytes = path.stat().st_size
        own, read = best_of(repeats, partial(TextFile.open, path), partial(read_mapped, path))
        name = f"line scan {size / 1e9:g} GB{title}"
        speeds = n_bytes / own / 1e9, n_bytes / read / 1e9
        found.append(Record(BENCH, name, speeds[0], "GB/s", "read of the map", speeds[1], read / own))
        path.unlink()
    return found


def bench_assembly(folder: Path, size: int, repeats: int) -> Record:
    """Measure assembling batches of shuffled pairs of two files of together `size` bytes.

    The reference is a copy of the finished batches.
    """
    n_copies = max(1, size // sample_size("ko", "en"))
    paths = [repeat_text(language, folder / f"corpus.{language}", n_copies) for language in ("ko", "en")]
    corpus = ParallelCorpus.open(paths[0], paths[1])
    plan = epoch_plan(corpus.source_lengths, corpus.target_lengths, MAX_TOKENS, seed=1, epoch=0)
    indices = [plan.batch(k) for k in range(min(plan.n_batches, N_BATCHES))]
    assembled = [assemble(corpus, some) for some in indices]

    def assemble_all() -> None:
        for some in indices:
            assemble(corpus, some)

    def copy_all() -> None:
        for batch in assembled:
            for part in (batch.source, batch.target):
                np.copyto(np.empty_like(part), part)

    own, other = best_of(repeats, assemble_all, copy_all)
    n_bytes = sum(batch.source.size + batch.target.size for batch in assembled)
    speeds = n_bytes / own / 1e9, n_bytes / other / 1e9
    return Record(BENCH, "batch assembly", speeds[0], "GB/s", "memcpy", speeds[1], other / own)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Measure the data pipeline.")
    parser.add_argument("--pairs", type=int, default=4_500_000, help="pairs of the epoch plan")
    parser.add_argument("--size", type=float, default=1e9, help="bytes of text")
    parser.add_argument("--repeats", type=int, default=5, help="measurements, of which the best counts")
    parser.add_argument("--only", choices=("plan", "scan", "batches"), help="run only one part")
    parser.add_argument("--json", type=Path, help="also write the records here")
    options = parser.parse_args(arguments)
    size, repeats = int(options.size), options.repeats
    records: list[Record] = []
    with tempfile.TemporaryDirectory() as folder:
        if options.only in (None, "plan"):
            records += bench_plan(options.pairs, repeats)
        if options.only in (None, "scan"):
            records += bench_scan(Path(folder), size, repeats)
        if options.only in (None, "batches"):
            records.append(bench_assembly(Path(folder), size, repeats))
    print(format_table(records))
    if options.json:
        write_json(options.json, records)


if __name__ == "__main__":
    main()
