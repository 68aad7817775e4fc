"""Measure a keystroke of a simultaneous translation by the bytes that came before it.

    python tools/bench/simultaneous.py                  four architectures of preset small, on one thread
    python tools/bench/simultaneous.py --engine torch --arch convs2s --rounds 1

Models have random weights, a look-ahead of 8 bytes and the shortest wait of 9, so that from byte 9 on every
key encodes a column and chooses a byte. A line of letters is typed byte by byte, several times, so that the
best time of each key counts; median and 95th percentile are those of the 30 keys after a position. The floor
is the time in which the weights of an encoder column and of a decode step can be read, measured in the same
run. Memory is what a session holds after the line, its shared weights left out; its first key also makes an
engine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import torch

from bytenmt.architectures.presets import PRESETS
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import PackedModel
from bytenmt.decoding.interface import Engine, Options
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.simultaneous import Session
from bytenmt.decoding.translator import Translator
from bytenmt.program.instructions import Column, Op, padded
from tools.bench.floor import read_rate
from tools.bench.steps import EndlessModel, endless_model, machine_load, step_bytes

ARCHITECTURES = ("bahdanau", "luong", "bytenet", "convs2s")
LOOKAHEAD, COUNTED = 8, 30
POSITIONS = (10, 100, 300, 1000)  # bytes before the keys that are counted
RECURRENT = {Op.GRU_SCAN: 3, Op.LSTM_SCAN: 4}  # matrices of a layer


class Keys(NamedTuple):
    """Seconds of the keys after a position."""

    median: float
    p95: float


def translator_of(one: EndlessModel, engine: str) -> Translator:
    """Return a Translator of a model."""
    packed = one.pack_weights("fp32") if engine == "numba" else None

    def make(capacity: int) -> Engine:
        if packed is not None:
            return NumbaEngine([packed], Options(), capacity)
        return TorchEngine([one.model], Options(), capacity, torch.device("cpu"))

    return Translator(make, least_wait=one.config.model.least_wait)


def type_line(session: Session) -> Iterator[float]:
    """Type a line of letters; yield the seconds of each key."""
    for at in range(POSITIONS[-1] + COUNTED):
        started = time.perf_counter()
        session.feed(chr(97 + at * at % 26))
        yield time.perf_counter() - started


def measure(translator: Translator, rounds: int) -> tuple[list[Keys], float]:
    """Return the times of the keys after each position, and of the first one."""
    with translator.open(LOOKAHEAD + 1) as session:
        session.feed("a" * 20)  # compiles
    lines = []
    for _ in range(rounds):
        translator._engines.clear()
        with translator.open(LOOKAHEAD + 1) as session:
            lines.append(list(type_line(session)))
    best = [min(times) for times in zip(*lines, strict=True)]
    parts = [sorted(best[position : position + COUNTED]) for position in POSITIONS]
    return [Keys(statistics.median(part), part[int(0.95 * COUNTED)]) for part in parts], best[0]


def session_bytes(translator: Translator) -> int:
    """Return the bytes that a session holds at the end of the line."""
    translator._engines.clear()
    tracemalloc.start()
    with translator.open(LOOKAHEAD + 1) as session:
        for _ in type_line(session):
            pass
        held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held


def key_bytes(packed: PackedModel) -> int:
    """Return the bytes of packed weights that an encoder column and a decode step read."""
    n_bytes = step_bytes(packed)
    for row in packed.program.encode.select(Op.LINEAR, *RECURRENT):
        n, op = int(row[Column.N]), Op(int(row[Column.OP]))
        n_output, n_input = (n, int(row[Column.M])) if op == Op.LINEAR else (RECURRENT[op] * n, n)
        n_bytes += 4 * padded(n_output) * n_input
    return n_bytes


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Measure a keystroke by the bytes before it.")
    parser.add_argument("--arch", nargs="+", choices=ARCHITECTURES, default=ARCHITECTURES)
    parser.add_argument("--preset", choices=tuple(PRESETS), default="small")
    parser.add_argument("--engine", choices=("numba", "torch"), default="numba")
    parser.add_argument("--rounds", type=int, default=8, help="times that the line is typed")
    options: Any = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"before: {machine_load()}", file=sys.stderr)
    heads = [f"byte {n:,}" for n in POSITIONS]
    ratio = f"{POSITIONS[-1]:,} : {POSITIONS[0]}"
    print("| ms a key, median / p95 | " + " | ".join([*heads, ratio, "floor", "first key", "MB"]) + " |")
    print("|---" + "|---:" * (len(POSITIONS) + 4) + "|")
    for arch in options.arch:
        one = endless_model(arch, options.preset, f"model.encoder_lookahead={LOOKAHEAD}")
        translator = translator_of(one, options.engine)
        keys, first = measure(translator, options.rounds)
        n_bytes = key_bytes(one.pack_weights("fp32"))
        floor = n_bytes / read_rate(n_bytes)
        cells = [f"{1e3 * median:.2f} / {1e3 * p95:.2f}" for median, p95 in keys]
        cells += [f"{keys[-1].median / keys[0].median:.2f}", f"{1e3 * floor:.2f}", f"{1e3 * first:.1f}"]
        cells.append(f"{session_bytes(translator) / 1e6:.1f}")
        print(f"| {arch} | " + " | ".join(cells) + " |", flush=True)
    print(f"after: {machine_load()}", file=sys.stderr)


if __name__ == "__main__":
    main()
