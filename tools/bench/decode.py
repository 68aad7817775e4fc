"""Decoding: milliseconds a step and bytes a second, each beside its floor or its rival of the same run.

    python tools/bench/decode.py                                    five architectures, about five minutes
    python tools/bench/decode.py --arch bytenet --preset base --batch 8 --beam 4 --precision fp32 int8
    python tools/bench/decode.py --beams 1,2,4,8,12                 a step's time as its rows grow
    python tools/bench/decode.py --lengths 256,1024,4096,16384,65536 --plot lengths.png
    python tools/bench/decode.py --mixed 1000 --preset base         lines of mixed lengths beside equal ones
    python tools/bench/decode.py --peer                             beside CTranslate2's Transformer
    python tools/bench/decode.py --draft RUN --src test.en --preset base large      drafts beside none
    python tools/bench/decode.py --device cuda                      the GPU engines

Weights are random and sentences never end, so that every step has all its rows. Sources have 100 bytes.
The floor of a step on the CPU is the larger of two times: that of reading the bytes of its packed weights at
the best rate found for a buffer of that size, and, for many rows, that of its FLOP at the best rate of
torch's matrix product (bf16's for bf16 and int8, twice that for w8a8). "floor" is step time over floor time:
1 is the best that can be, and below 0.9 the floor is wrong, which the table says. Against another path the
ratio says how many times faster.

Others use these machines too. So a floor is measured between the steps, in turn, several rounds of each, and
the best of the rounds counts; the medians beside them, the load and the time that was stolen are printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


import torch

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import ARCHITECTURES as KNOWN
from bytenmt.config.schema import PARALLEL
from bytenmt.data.device import pick_device
from bytenmt.errors import BytenmtError
from tools.bench.floor import read_rate
from tools.bench.records import Record, show, write_json
from tools.bench.steps import (
    BENCH,
    DTYPES,
    Case,
    Outcome,
    Steps,
    contest,
    endless,
    make_engine,
    multiply_rate,
    neighbours,
    step_bytes,
    step_flop,
)

ARCHITECTURES = tuple(name for name in PRESETS["small"] if KNOWN[name].write_program)  # of the CPU engine
PRECISIONS = ("fp32", "bf16", "int8", "w8a8")
TOO_LOW = 0.9  # a ratio to a floor below this means that it is none


class Group(NamedTuple):
    """Cases that are measured in turn: the engines and precisions of one model, batch and beam."""

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
    """Return the groups of measurements that the command line asks for; the default without any choice."""
    if not (options.preset or options.precision or options.batch or options.beam):
        return list(DEFAULT)
    presets, precisions = options.preset or ["base"], options.precision or ["fp32"]
    batches, beams = options.batch or [1], options.beam or [1]
    return [Group(p, n, b, precisions) for p in presets for n in batches for b in beams]


def cases(arch: str, group: Group, options: Any) -> list[Case]:
    """The cases of a group; plain PyTorch on the CPU computes in fp32 unless bf16 alone is asked for."""
    made = []
    for engine in options.engine:
        known = group.precisions if engine == "numba" else [p for p in group.precisions if p in DTYPES]
        if engine == "torch":
            known = known[:1]
        sizes = group.batch, group.beam, options.threads
        made += [Case(arch, group.preset, engine, precision, *sizes) for precision in known]
    return made


def floor_of(case: Case, n_bytes: int) -> dict[str, Callable[[], float]]:
    """Measurements of the seconds that the parts of a step's floor take, by their names."""
    floors: dict[str, Callable[[], float]] = {
        f"read {n_bytes}": lambda: n_bytes / read_rate(n_bytes, case.threads)
    }
    if case.batch * case.beam > 1:
        kind = "fp32" if case.precision == "fp32" else "bf16"
        flop = step_flop(case)
        speed_up = 2 if case.precision == "w8a8" else 1  # bytes in the place of pairs of them
        floors[f"multiply {kind} {speed_up}"] = lambda: flop / (speed_up * multiply_rate(kind))
    return floors


def weight_bytes(case: Case) -> int:
    """Return the bytes that a step reads."""
    one = endless(case.arch, case.preset)
    if case.engine == "numba":
        return step_bytes(one.packed(case.precision), case.batch * case.beam)
    return one.model.decoder_weights() * DTYPES[case.precision].itemsize


class Timed(NamedTuple):
    """A case, its step and the parts of its floor."""

    case: Case
    step: Outcome
    floors: dict[str, Outcome]

    @property
    def floor(self) -> float:
        """Seconds."""
        return max(part.best for part in self.floors.values())

    def bytes_per_second(self) -> float:
        """Return bytes of output per second."""
        return self.case.batch / self.step.best


def measure(group: Sequence[Case], options: Any) -> list[Timed]:
    """All cases of one model, their floors between them."""
    actions: dict[str, Callable[[], float]] = {}
    floors: dict[Case, list[str]] = {}
    for case in group:
        parts = floor_of(case, weight_bytes(case))
        actions |= {name: part for name, part in parts.items() if name not in actions}
        floors[case] = list(parts)
        engine = make_engine(case, torch.device("cpu"))
        actions[case.name("step")] = Steps(engine, case.batch)
    found = contest(actions, options.rounds)
    return [
        Timed(case, found[case.name("step")], {name: found[name] for name in floors[case]}) for case in group
    ]


def floor_record(timed: Timed, what: str = "floor") -> Record:
    """Step time over floor time."""
    case, floor, took = timed.case, timed.floor, timed.step.best
    binding = max(timed.floors, key=lambda name: timed.floors[name].best)
    if binding.startswith("read"):
        n_bytes = int(binding.split()[1])
        reference = f"{n_bytes / 1e6:.1f} MB of weights read at {n_bytes / floor / 1e9:.1f} GB/s"
    else:
        rate = step_flop(case) / floor / 1e9
        reference = f"{step_flop(case) / 1e9:.2f} GFLOP at {rate:.0f} GFLOP/s, torch's {binding.split()[1]}"
    if took < TOO_LOW * floor:
        reference += " (THE FLOOR IS WRONG)"
    return Record(BENCH, case.name(what), took * 1e3, "ms/step", reference, floor * 1e3, took / floor)


def faster(timed: Timed, than: Timed, what: str) -> Record:
    """Bytes a second beside those of another case."""
    own, other = timed.bytes_per_second(), than.bytes_per_second()
    reference = f"{than.case.engine} {than.case.precision}"
    return Record(BENCH, timed.case.name(what), own, "bytes/s", reference, other, own / other)


def compare(group: Sequence[Timed]) -> Iterator[Record]:
    """Every case beside its floor, the engines beside PyTorch, precisions beside fp32."""
    for timed in group:
        case, step = timed.case, timed.step
        print(
            f"{case.name('')}: {step.best * 1e3:.3f} ms a step (median {step.median * 1e3:.3f}),"
            f" floor {timed.floor * 1e3:.3f}, {neighbours()}",
            file=sys.stderr,
        )
        yield floor_record(timed)
        for other in group:
            if case.engine != "torch" and other.case.engine == "torch":
                yield faster(timed, other, "torch")
            if case.precision != "fp32" and other.case == case._replace(precision="fp32"):
                yield faster(timed, other, "fp32")


def many_beams(options: Any) -> Iterator[Record]:
    """A step's time as its beams grow, beside its arithmetic and beside that of one beam."""
    for preset in options.preset or ["base"]:
        for arch in options.arch:
            first: dict[tuple[str, str], Timed] = {}
            for beam in options.beams:
                group = Group(preset, (options.batch or [1])[0], beam, options.precision or ["fp32"])
                for timed in measure(cases(arch, group, options), options):
                    yield floor_record(timed, "arithmetic")
                    one = first.setdefault((timed.case.engine, timed.case.precision), timed)
                    yield growth(timed, one)


def growth(timed: Timed, one: Timed) -> Record:
    """Divide how many times the first beam's step a step takes by how many times its rows there are.

    Above 1 time grows faster than rows.
    """
    times = timed.step.best / one.step.best
    rows = timed.case.beam / one.case.beam
    reference = f"rows over those of beam {one.case.beam}"
    return Record(BENCH, timed.case.name("growth"), times, "times", reference, rows, times / rows)


def numbers(text: str) -> list[int]:
    """1,2,4 -> [1, 2, 4]."""
    found = [int(part) for part in text.split(",")]
    if min(found) < 1 or found != sorted(set(found)):
        raise ValueError(text)
    return found


def command_line(arguments: Sequence[str] | None) -> Any:
    """The options; an option that would be ignored is an error."""
    parser = argparse.ArgumentParser(description="Decoding beside its floors and rivals.")
    parser.add_argument("--arch", nargs="+", choices=ARCHITECTURES)
    parser.add_argument("--preset", nargs="+", choices=tuple(PRESETS))
    parser.add_argument("--engine", nargs="+", choices=("numba", "torch", "cuda-graph"))
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS)
    parser.add_argument("--batch", nargs="+", type=int, help="sentences side by side")
    parser.add_argument("--beam", nargs="+", type=int)
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--rounds", type=int, default=4, help="measurements of each, of which the best counts"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--beams", type=numbers, metavar="1,2,…", help="a step's time as its rows grow")
    mode.add_argument("--lengths", type=numbers, metavar="256,…", help="cost against output length")
    mode.add_argument(
        "--mixed", type=int, metavar="LINES", help="of mixed lengths beside lines of one length"
    )
    mode.add_argument("--peer", action="store_true", help="beside CTranslate2's Transformer")
    what = "trained convolutional runs with and without drafts, made as large as --preset"
    mode.add_argument("--draft", nargs="+", type=Path, metavar="RUN", help=what)
    parser.add_argument("--src", type=Path, metavar="FILE", help="with --draft: sentences to translate")
    parser.add_argument("--lines", type=int, default=32, help="of them, the first ones, and at least some")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="with --lengths: a picture of it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the records here")
    options = parser.parse_args(arguments)
    known = ("torch", "cuda-graph" if options.device == "cuda" else "numba")
    options.engine = options.engine or list(known[-1:] if options.draft else known)
    if set(options.engine) - set(known):
        parser.error(f"--device {options.device} has the engines {' and '.join(known)}")
    if bool(options.draft) != bool(options.src):
        parser.error("--draft measures runs on the sentences of --src: give both")
    if options.draft and (options.arch or options.beam):
        parser.error("--draft has its runs' architectures and beam 1")
    if options.plot and not options.lengths:
        parser.error("--plot draws what --lengths measures: give both")
    if options.device == "cuda" and (options.beams or options.lengths or options.mixed or options.peer):
        parser.error("--beams, --lengths, --mixed and --peer are measured on the CPU")
    if options.mixed is not None and (options.beam or options.mixed < 1):
        parser.error("--mixed takes 1 line or more, and searches greedily")
    if options.peer and (options.precision or not {*(options.preset or ())} <= {"base", "fast"}):
        parser.error("--peer has its own precisions, and of presets base and fast")
    if options.beams and options.beam or options.lengths and (options.beam or options.batch):
        parser.error("--beams and --lengths have their own batches and beams")
    options.arch = options.arch or [name for name in ARCHITECTURES if not options.lengths or name in PARALLEL]
    if min(options.rounds, options.threads, options.lines) < 1:
        parser.error("--rounds, --threads and --lines are at least 1")
    return options


def results(options: Any) -> Iterator[Record]:
    """The records of what was asked for."""
    if options.draft:
        from tools.bench.drafts import with_drafts

        yield from with_drafts(options)
    elif options.device == "cuda":
        from tools.bench.gpu_steps import on_gpu

        yield from on_gpu(options, pick_device("cuda"))
    elif options.lengths:
        from tools.bench.lengths import against_length

        yield from against_length(options)
    elif options.mixed:
        from tools.bench.mixed import mixed

        yield from mixed(options)
    elif options.peer:
        from tools.bench.peer import against_peer

        yield from against_peer(options)
    elif options.beams:
        yield from many_beams(options)
    else:
        for group in groups(options):
            for arch in options.arch:
                yield from compare(measure(cases(arch, group, options), options))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    options = command_line(arguments)
    torch.set_num_threads(options.threads)
    before = neighbours()
    try:
        records = list(results(options))
    except BytenmtError as error:
        sys.exit(f"Error: {error}")
    print(f"{options.threads} threads; before: {before}; after: {neighbours()}\n")
    print(show(records))
    wrong = [record.case for record in records if "THE FLOOR IS WRONG" in record.reference]
    if wrong:
        print(f"\nFaster than their floors, which are therefore wrong: {', '.join(wrong)}")
    if options.json:
        write_json(options.json, records)


if __name__ == "__main__":
    main()
