"""Plot cost and gain of drafts: the time of a pass by its width, and bytes per pass by draft length.

    python tools/bench/draft_plot.py RUN ... --src test.en --json draft.json --plot draft.png
    python tools/bench/draft_plot.py --json draft.json --plot draft.png               redraw from the file

Left: presets with random weights decode a forced text, so that every drafted byte is accepted and a pass has
the greatest width; one sentence, or for more columns several; passes of all widths are timed in turn. Right:
trained runs translate sentences with a maximum number of drafted bytes per pass, drafted from the table alone
and from table and source. All on the numba engine.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import numpy as np

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import ARCHITECTURES
from bytenmt.config.schema import PARALLEL
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.drafts.table import CHAIN, Speculation, empty_table
from bytenmt.decoding.interface import Options, Request
from bytenmt.errors import BytenmtError
from tools.bench.drafts import (
    DecodeSetup,
    bytes_per_pass,
    load_drafted_run,
    make_engine,
    read_lines,
    requests_of,
    time_decode,
)
from tools.bench.steps import SOURCE_BYTES, endless_model, measure_in_turn

Points = list[tuple[float, float]]
Curves = dict[str, Points]
SENTENCES = (2, 4, 7)  # batch sizes of passes wider than one draft; 7 is the engine's maximum
STINT, TRIES = 0.001, 100  # approximate seconds of one try; tries of which the best counts
LONG_ENOUGH = 1.0  # seconds of all tries after which no more are made
LIMIT = 50_000  # bytes of the forced text
TOGETHER = 8  # batch size of trained runs; the engine has room for CHAIN drafted bytes of each sentence


class PassTimer:
    """Times passes over n sentences of `columns` columns each.

    Called, it returns the seconds per pass of the fastest of several stints.
    """

    def __init__(self, arch: str, preset: str, precision: str, n: int, columns: int, threads: int) -> None:
        packed = endless_model(arch, preset).pack_weights(precision)
        speculation = Speculation(empty_table(), columns - 1) if columns > 1 else None
        self._engine = NumbaEngine([packed], Options(), n, threads, speculation)
        self._columns, self._n = columns, n
        self._left = 0
        self._take(4)  # warm-up
        self._n_passes = max(1, round(STINT / min(self._take(2) for _ in range(2))))

    def __call__(self) -> float:
        tries = [self._take(self._n_passes)]
        while len(tries) < TRIES and self._n_passes * sum(tries) < LONG_ENOUGH:
            tries.append(self._take(self._n_passes))
        return min(tries)

    def _take(self, n_passes: int) -> float:
        """Return the CPU seconds per pass of this thread, as other programs may use its core too."""
        self._left -= n_passes * self._columns
        if self._left < 1:
            self._left = LIMIT - n_passes * self._columns
            self._engine.advance(LIMIT)
            self._engine.finished()
            source, text = b"b" * SOURCE_BYTES, b"a" * LIMIT
            self._engine.admit([Request(source, LIMIT, text)] * self._n)
        started = time.thread_time()
        self._engine.advance(n_passes)
        return (time.thread_time() - started) / n_passes


def pass_times(arch: str, preset: str, precision: str, threads: int, rounds: int) -> Points:
    """Return the number of columns of a pass and its milliseconds, for all widths."""
    widths = [(1, columns) for columns in range(1, CHAIN + 2)] + [(n, CHAIN + 1) for n in SENTENCES]
    actions: dict[str, Callable[[], float]] = {
        str(n * columns): PassTimer(arch, preset, precision, n, columns, threads) for n, columns in widths
    }
    return [(int(name), 1e3 * found.best) for name, found in measure_in_turn(actions, rounds).items()]


def draft_yield_curves(run: Path, lines: Sequence[bytes], threads: int) -> Curves:
    """Return curves of bytes per pass, EOS included, over the maximum number of drafted bytes per pass."""
    one = load_drafted_run(run, None)
    requests, how = requests_of(one, lines), DecodeSetup("numba", "fp32", TOGETHER, threads)
    tables = {"table": one.table._replace(copy=np.zeros_like(one.table.copy)), "table and source": one.table}
    found: Curves = {}
    for name, table in tables.items():
        points: Points = [(0, 1.0)]
        for most in range(1, CHAIN + 1):
            engine = make_engine(one, how, Speculation(table, most))
            points.append((most, bytes_per_pass(time_decode(engine, requests).hypotheses)))
        found[f"{one.label}, {name}"] = points
    return found


def measure_curves(options: Any) -> dict[str, Curves]:
    """Measure the curves of both plots."""
    lines = read_lines(options.src)[: options.lines]
    found: dict[str, Curves] = {"price": {}, "bytes_per_pass": {}}
    for run in options.runs:
        found["bytes_per_pass"] |= draft_yield_curves(run, lines, options.threads)
    for arch in (arch for arch in PARALLEL if ARCHITECTURES[arch].write_program):
        for preset in options.preset:
            points = pass_times(arch, preset, options.precision, options.threads, options.rounds)
            found["price"][f"{arch} {preset} {options.precision}"] = points
            for columns, milliseconds in points:
                print(f"{arch} {preset}: {columns} columns {milliseconds:.3f} ms", file=sys.stderr)
    return found


def draw(path: Path, curves: dict[str, Curves]) -> None:
    """Draw both plots side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5), layout="constrained")
    archs = list(dict.fromkeys(name.split()[0] for name in curves["price"]))
    for i, (name, points) in enumerate(curves["price"].items()):
        first, (columns, milliseconds) = points[0][1], zip(*points, strict=True)
        style = ("-", "--")[archs.index(name.split()[0]) % 2]
        label = f"{name}, {first:.2f} ms for 1"
        times = [one / first for one in milliseconds]
        left.plot(
            columns, times, style, color=f"C{i % (len(curves['price']) // 2 or 1)}", marker="o", label=label
        )
    widest = max(points[-1][0] for points in curves["price"].values())
    left.plot([1, widest], [1, widest], ":", color="grey", label="as many passes of one column")
    left.set(xscale="log", yscale="log", xlabel="columns of a pass", ylabel="price, passes of one column")
    for axis in (left.xaxis, left.yaxis):
        axis.set_major_locator(matplotlib.ticker.FixedLocator([1, 2, 3, 5, 9, 18, 36, 63]))
        axis.set_minor_locator(matplotlib.ticker.NullLocator())
        axis.set_major_formatter("{x:.0f}")
    for i, (name, points) in enumerate(curves["bytes_per_pass"].items()):
        style = "-" if name.endswith("source") else "--"
        right.plot(*zip(*points, strict=True), style, color=f"C{i // 2}", marker="o", label=name)
    right.set(xlabel="drafted bytes a pass at most", ylabel="bytes a pass", ylim=(0.9, None))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Plot the time of a pass and the bytes gained by drafts.")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="trained, with draft tables")
    parser.add_argument("--src", type=Path, metavar="FILE", help="sentences to translate")
    parser.add_argument("--lines", type=int, default=200, help="number of first sentences")
    parser.add_argument("--preset", nargs="+", choices=tuple(PRESETS), default=["tiny", "base", "large"])
    parser.add_argument("--precision", choices=("fp32", "bf16", "int8", "w8a8"), default="fp32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4, help="measurements of a pass; the best counts")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="figures, written or read")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if bool(options.runs) != bool(options.src):
        parser.error("RUN is measured on the sentences of --src: give both or neither")
    try:
        if options.runs:
            options.json.write_text(json.dumps(measure_curves(options), indent=1) + "\n", encoding="utf-8")
        if options.plot:
            draw(options.plot, json.loads(options.json.read_text(encoding="utf-8")))
    except (BytenmtError, OSError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
