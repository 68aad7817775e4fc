"""Compare decoding with and without drafts: the same engine and the same sentences, in turn.

A run may first be enlarged to the sizes of a preset (see widen.py): its texts, and so the acceptance of
drafts, stay the same, its steps cost as much as the preset's. Whole sentences are timed, including their
encoding, as `translate` decodes them: longest first, in batches. They are decoded in small groups, each once
without and once with drafts, in alternating order, so that disturbances affect both alike. A round is all
groups; the median of the rounds' ratios counts.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from bytenmt.checkpoints.checkpoint import build
from bytenmt.checkpoints.weights import StoredWeights, is_weights_file, read_run, restored
from bytenmt.config.schema import PARALLEL, architecture
from bytenmt.data.device import pick_device
from bytenmt.data.text_file import read_bytes
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.drafts.table import FILE, DraftTable, Speculation, read_table
from bytenmt.decoding.interface import Engine, Hypothesis, Options, Request
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode
from bytenmt.errors import BytenmtError, DataError
from tools.bench.records import Record
from tools.bench.steps import BENCH, DTYPES, machine_load
from tools.bench.widen import size, widen_model

BATCHES = (1, 4, 32)
GROUP = 4  # sentences of a group, as a multiple of the batch size
GENERATED = 200  # bytes to generate for a run without a source
SLOWER = 0.97  # ratios below this are marked in the table


class DraftedRun(NamedTuple):
    """A run with a draft table, whose decoding is measured.

    label: its name and the preset that it was enlarged to; file: where its weights came from.
    """

    label: str
    file: Path
    contents: StoredWeights
    table: DraftTable


class DecodeSetup(NamedTuple):
    """A decoding setup: engine, precision, sentences per batch, threads and device."""

    engine: str
    precision: str
    batch: int
    threads: int = 1
    device: str = "cpu"


class TimedDecode(NamedTuple):
    """The seconds and the hypotheses of decoding some requests, in their order."""

    seconds: float
    hypotheses: list[Hypothesis]


class RoundTimes(NamedTuple):
    """Seconds of each round without (off) and with drafts (on), and the last hypotheses of each."""

    off: list[float]
    on: list[float]
    expected: list[Hypothesis]
    hypotheses: list[Hypothesis]

    def ratios(self) -> list[float]:
        """Return the speed-up by drafts in each round."""
        return [off / on for off, on in zip(self.off, self.on, strict=True)]


def load_drafted_run(run: Path, preset: str | None) -> DraftedRun:
    """Load a run, enlarged to a preset if one is given. Raises BytenmtError."""
    file, contents = read_run(run)
    name = architecture(contents.config.model)
    if contents.config.model.is_serial:
        raise BytenmtError(f"{run} is a {name}, whose steps are serial: give {' or '.join(PARALLEL)}")
    table = table_of(run, contents)
    label = run.stem if name in run.stem else f"{run.stem} {name}"
    if preset is None:
        return DraftedRun(label, file, contents, table)
    larger = widen_model(contents, preset)
    print(f"{run}: {size(larger)} for {size(contents)}", file=sys.stderr)
    return DraftedRun(f"{label} {preset}", file, larger, table)


def table_of(run: Path, contents: StoredWeights) -> DraftTable:
    """Read the draft table of a run folder, or of the folder of a weights file. Raises BytenmtError."""
    folder = run.resolve().parent.parent if is_weights_file(run) else run
    if not (folder / FILE).is_file():
        raise BytenmtError(f"{folder} has no draft table: run `bytenmt draft {folder}` first")
    return read_table(folder, contents.config, contents.facts)


def make_engine(
    one: DraftedRun, how: DecodeSetup, speculation: Speculation | None, sample: bool = False
) -> Engine:
    """Build an engine for greedy search, or for sampling that gives the same draws every time."""
    contents = one.contents
    options = Options(sample=sample, endless=not contents.config.model.source)
    if how.engine == "numba":
        packed = pack_model(restored(contents.arrays), contents.config.model, how.precision)
        return NumbaEngine([packed], options, how.batch, how.threads, speculation)
    if how.precision not in DTYPES:
        raise BytenmtError(f"the {how.engine} engine has no {how.precision}: it has fp32 and bf16")
    device = pick_device(how.device)
    model = build(contents, one.file).to(device, DTYPES[how.precision]).eval()
    if how.engine == "cuda-graph":
        return CudaGraphEngine([model], options, how.batch, device, speculation=speculation)
    return TorchEngine([model], options, how.batch, device, speculation)


def requests_of(one: DraftedRun, lines: Sequence[bytes]) -> list[Request]:
    """Return the requests of `translate` for these lines, longest first.

    For a run without a source they ask to continue the first words of the lines.
    """
    limit = one.contents.config.data.max_source_bytes
    longest = sorted((line[:limit] for line in lines if line), key=len, reverse=True)
    if not one.contents.config.model.source:
        return [Request(None, GENERATED, line[: line.find(b" ", 4)]) for line in longest]
    return [Request(line, 3 * len(line) + 100) for line in longest]


def time_decode(engine: Engine, requests: Sequence[Request]) -> TimedDecode:
    """Decode requests and measure the time."""
    started = time.perf_counter()
    found = {index: hypotheses[0] for index, hypotheses in decode(engine, requests)}
    took = time.perf_counter() - started
    return TimedDecode(took, [found[index] for index in range(len(requests))])


def compare_engines(off: Engine, on: Engine, requests: Sequence[Request], rounds: int) -> RoundTimes:
    """Decode all sentences with both engines, group by group in turn, in so many rounds."""
    n = GROUP * off.capacity
    groups = [requests[begin : begin + n] for begin in range(0, len(requests), n)]
    for engine in (off, on):
        time_decode(engine, groups[0])  # warm-up
    pair = RoundTimes([], [], [], [])
    for number in range(rounds):
        turns: list[tuple[TimedDecode, TimedDecode]] = []
        for place, group in enumerate(groups):
            if (number + place) % 2:
                second, first = time_decode(on, group), time_decode(off, group)
            else:
                first, second = time_decode(off, group), time_decode(on, group)
            turns.append((first, second))
        for times, which in ((pair.off, 0), (pair.on, 1)):
            times.append(sum(turn[which].seconds for turn in turns))
        pair.expected[:], pair.hypotheses[:] = (
            [hypothesis for turn in turns for hypothesis in turn[which].hypotheses] for which in (0, 1)
        )
    return pair


def bytes_per_pass(hypotheses: Sequence[Hypothesis]) -> float:
    """Return the bytes per decoder pass, EOS included; 1 where nothing was drafted."""
    drafted = [one for one in hypotheses if one.passes]
    return sum(len(one.text) + 1 for one in drafted) / sum(one.passes for one in drafted) if drafted else 1.0


def comparison_records(case: str, pair: RoundTimes) -> Iterator[Record]:
    """Return text bytes per second with drafts relative to those without, and bytes per pass."""
    n_bytes = sum(len(one.text) for one in pair.expected)
    off, on = (n_bytes / statistics.median(times) for times in (pair.off, pair.on))
    ratios = pair.ratios()
    ratio = statistics.median(ratios)
    reference = f"without drafts; ratios of {len(ratios)} rounds {min(ratios):.3f} to {max(ratios):.3f}"
    n_other = sum(a.text != b.text for a, b in zip(pair.expected, pair.hypotheses, strict=True))
    if n_other:
        reference += f"; {n_other} of {len(pair.hypotheses)} TEXTS DIFFER"
    if ratio < SLOWER:
        reference += " (SLOWER)"
    yield Record(BENCH, f"{case} draft", on, "text bytes/s", reference, off, ratio)
    each = bytes_per_pass(pair.hypotheses)
    yield Record(BENCH, f"{case} bytes per pass", each, "bytes", "a step without drafts", 1.0, each)


def draft_records(options: Any) -> Iterator[Record]:
    """Measure every run, size, engine, precision and batch of the command line."""
    lines = read_lines(options.src)
    for run, preset in product(options.draft, options.preset or [None]):
        one = load_drafted_run(run, preset)
        ways = product(options.engine, options.precision or ["fp32"], options.batch or BATCHES)
        for engine, precision, batch in ways:
            how = DecodeSetup(engine, precision, batch, options.threads, options.device)
            requests = requests_of(one, lines[: max(options.lines, GROUP * batch)])
            off, on = (make_engine(one, how, with_) for with_ in (None, Speculation(one.table)))
            threads = f" threads={how.threads}" if how.threads > 1 else ""
            case = f"{one.label} {engine} {precision} batch={batch}{threads}"
            for record in comparison_records(case, compare_engines(off, on, requests, options.rounds)):
                figures = f"{record.value:.4g} {record.unit}, {record.ratio:.3f} times"
                print(f"{record.case}: {figures}, {machine_load()}", file=sys.stderr)
                yield record


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of a text file, compressed or not. Raises DataError."""
    lines = read_bytes(path).tobytes().splitlines()
    if not lines:
        raise DataError(f"{path} is empty: expected lines to translate")
    return lines
