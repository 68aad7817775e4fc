"""Measure decoding: time per step and bytes per second, relative to a floor or a rival.

    # five architectures, about five minutes
    python tools/bench/decode.py
    python tools/bench/decode.py --arch bytenet --preset base --batch 8 --precision fp32 int8
    python tools/bench/decode.py --arch luong --set 'model.ngrams=[2,3,4,5,6]' --beam 1 4
    # against CTranslate2's Transformer
    python tools/bench/decode.py --peer

Weights are random and sentences never end, so that every step has all its rows. Sources have 100
bytes. The floor of a step on the CPU is the larger of two times: reading the bytes of its packed
weights at the best rate for a buffer of that size, and, for many rows, its FLOP at the best rate of
torch's matrix product (for int8 twice that of bf16, or of fp32 where this is more). "floor" is the
ratio of step time to floor time: 1 is optimal, and below 0.9 the floor must be wrong, which the
table then says. Relative to another implementation the ratio is the speed-up. On a GPU:
tools/bench/gpu.py.

Other programs may use the machine. So floors and steps are measured in turn in several rounds, and
the best round counts; the medians, the load and the stolen processor time are printed too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


import torch

from bytenmt.architectures.parameters import decoder_weights
from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import ARCHITECTURES as KNOWN
from bytenmt.errors import BytenmtError
from bytenmt.kernel_constants import PRECISIONS
from tools.bench.floor import read_rate
from tools.bench.records import Record, show_records
from tools.bench.steps import (
    BENCH,
    DTYPES,
    Case,
    StepTimer,
    Timing,
    endless_model,
    machine_load,
    make_engine,
    measure_in_turn,
    multiply_rate,
    step_bytes,
    step_flop,
)
from tools.extras import tool_parser

# Those of the CPU engine.
ARCHITECTURES = tuple(name for name in PRESETS["small"] if KNOWN[name].write_program)
MIN_RATIO = 0.9  # a ratio below this means that the floor is wrong


class Group(NamedTuple):
    """Cases that are measured in turn: engines and precisions of one model, batch size and beam."""

    preset: str
    batch: int
    beam: int
    precisions: Sequence[str]


DEFAULT = (
    Group("small", 1, 1, ("fp32",)),
    Group("base", 1, 1, ("fp32",)),
    Group("large", 1, 1, PRECISIONS),
    Group("base", 32, 1, PRECISIONS),
)


def groups(options: Any) -> list[Group]:
    """Return the groups that the command line asks for, by default DEFAULT."""
    if not (options.preset or options.precision or options.batch or options.beam):
        return list(DEFAULT)
    sizes = product(options.preset or ["base"], options.batch or [1], options.beam or [1])
    return [Group(*size, options.precision or ["fp32"]) for size in sizes]


def cases(arch: str, group: Group, options: Any) -> list[Case]:
    """Return the cases of a group.

    Plain PyTorch runs in one precision, fp32 unless bf16 alone is given.
    """
    own = [("numba", precision) for precision in group.precisions]
    own += [("torch", precision) for precision in group.precisions if precision in DTYPES][:1]
    rest = (group.batch, group.beam, options.threads, tuple(options.settings))
    return [Case(arch, group.preset, engine, precision, *rest) for engine, precision in own]


def floor_of(case: Case, n_bytes: int) -> dict[str, Callable[[], float]]:
    """Return functions that measure the seconds of the parts of a step's floor, by name."""
    floors: dict[str, Callable[[], float]] = {
        f"read {n_bytes}": lambda: n_bytes / read_rate(n_bytes, case.threads)
    }
    if case.batch * case.beam > 1:
        flop = step_flop(case)
        floors[f"multiply {case.precision}"] = lambda: flop / multiply_rate(case.precision)
    return floors


def weight_bytes(case: Case) -> int:
    """Return the weight bytes that a step reads."""
    one = endless_model(case.arch, case.preset, *case.settings)
    if case.engine == "numba":
        return step_bytes(one.pack_weights(case.precision), case.batch * case.beam)
    return decoder_weights(one.model.config) * DTYPES[case.precision].itemsize


class TimedCase(NamedTuple):
    """A case with the times of its step and of the parts of its floor."""

    case: Case
    step: Timing
    floors: dict[str, Timing]

    @property
    def floor(self) -> float:
        """The floor of a step in seconds."""
        return max(part.best for part in self.floors.values())

    def bytes_per_second(self) -> float:
        """Return the output bytes per second."""
        return self.case.batch / self.step.best


def measure(group: Sequence[Case], rounds: int) -> list[TimedCase]:
    """Measure all cases of one model and their floors in turn."""
    actions: dict[str, Callable[[], float]] = {}
    floors: dict[Case, list[str]] = {}
    for case in group:
        parts = floor_of(case, weight_bytes(case))
        actions |= {name: part for name, part in parts.items() if name not in actions}
        floors[case] = list(parts)
        engine = make_engine(case, torch.device("cpu"))
        actions[case.name("step")] = StepTimer(engine, case.batch)
    found = measure_in_turn(actions, rounds)
    return [
        TimedCase(case, found[case.name("step")], {name: found[name] for name in floors[case]})
        for case in group
    ]


def floor_record(timed: TimedCase) -> Record:
    """Return a record of step time relative to floor time."""
    case = timed.case
    floor = timed.floor
    took = timed.step.best
    binding = max(timed.floors, key=lambda name: timed.floors[name].best)
    if binding.startswith("read"):
        n_bytes = int(binding.split()[1])
        reference = f"{n_bytes / 1e6:.1f} MB of weights read at {n_bytes / floor / 1e9:.1f} GB/s"
    else:
        flop = step_flop(case) / 1e9
        reference = f"{flop:.2f} GFLOP at {flop / floor:.0f} GFLOP/s, torch's {binding.split()[1]}"
    if took < MIN_RATIO * floor:
        reference += " (THE FLOOR IS WRONG)"
    numbers = (floor * 1e3, took / floor)
    return Record(BENCH, case.name("floor"), took * 1e3, "ms/step", reference, *numbers)


def speedup_record(timed: TimedCase, than: TimedCase, what: str) -> Record:
    """Return a record of bytes per second relative to another case."""
    own = timed.bytes_per_second()
    other = than.bytes_per_second()
    reference = f"{than.case.engine} {than.case.precision}"
    return Record(BENCH, timed.case.name(what), own, "bytes/s", reference, other, own / other)


def compare_cases(group: Sequence[TimedCase]) -> Iterator[Record]:
    """Compare every case with its floor, the engines with PyTorch, and precisions with fp32."""
    for timed in group:
        case = timed.case
        best, median, floor = (1e3 * part for part in (*timed.step, timed.floor))
        times = f"{best:.3f} ms a step (median {median:.3f}), floor {floor:.3f}"
        print(f"{case.name('')}: {times}, {machine_load()}", file=sys.stderr)
        yield floor_record(timed)
        for other in group:
            if case.engine != "torch" and other.case.engine == "torch":
                yield speedup_record(timed, other, "torch")
            if case.precision != "fp32" and other.case == case._replace(precision="fp32"):
                yield speedup_record(timed, other, "fp32")


def command_line(arguments: Sequence[str] | None) -> Any:
    """Parse the options."""
    parser = tool_parser(__doc__)
    parser.add_argument("--arch", nargs="+", choices=ARCHITECTURES, default=list(ARCHITECTURES))
    parser.add_argument("--preset", nargs="+", choices=tuple(PRESETS))
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS)
    parser.add_argument("--batch", nargs="+", type=int, help="sentences per batch")
    parser.add_argument("--beam", nargs="+", type=int)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--rounds", type=int, default=4, help="measurements; the best counts")
    parser.add_argument("--peer", action="store_true", help="against CTranslate2's Transformer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the records here")
    options = parser.parse_args(arguments)
    if options.peer and (options.precision or not {*(options.preset or ())} <= {"base", "fast"}):
        parser.error("--peer has its own precisions, and of presets base and fast")
    return options


def measure_records(options: Any) -> Iterator[Record]:
    """Measure what the options ask for."""
    if options.peer:
        from tools.bench.peer import peer_records

        yield from peer_records(options)
        return
    for group, arch in product(groups(options), options.arch):
        yield from compare_cases(measure(cases(arch, group, options), options.rounds))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    options = command_line(arguments)
    torch.set_num_threads(options.threads)
    before = machine_load()
    try:
        records = list(measure_records(options))
    except BytenmtError as error:
        sys.exit(f"Error: {error}")
    print(f"{options.threads} threads; before: {before}; after: {machine_load()}\n")
    show_records(records, options.json)


if __name__ == "__main__":
    main()
