"""Measure how long a program and CTranslate2 take until their first translation, in turn.

Used by install.py. Each is a filter that reads a line, answers it and waits for the next one:
`bytenmt translate` with a model of the clone, and a program of seven lines around CTranslate2 with
a Transformer of the same size with random weights, in int8 as well. Both use as many threads.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.bench.peer import Shape, write_model

SENTENCE = "What time does the train leave?"
N_SUBWORDS = 8  # of that sentence, and of its translation
LATER_SENTENCE = "My brother has a new car."
# 6.0 million parameters, as the models of the clone have 5.7.
LIKE_SIZE = Shape(encoder_layers=4, decoder_layers=3, d=192, d_inner=768, n_heads=6, n_tokens=4_000)
PEER_PROGRAM = f"""
import sys
import ctranslate2
peer = ctranslate2.Translator(
    sys.argv[1], device="cpu", compute_type="int8", intra_threads=int(sys.argv[2]))
limits = dict(beam_size=5, min_decoding_length={N_SUBWORDS}, max_decoding_length={N_SUBWORDS})
for line in sys.stdin:
    print(*peer.translate_batch([line.split()], **limits)[0].hypotheses[0], flush=True)
"""
N_ROUNDS = 5
N_COLD_ROUNDS = 2
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class Filter(NamedTuple):
    """A program that answers lines."""

    name: str
    command: Sequence[str]
    lines: Sequence[str]  # the first one, and a later one


class Answers(NamedTuple):
    """The seconds of one start of a program."""

    first: float  # from the start of the program to its first answer
    later: float  # from the second line to its answer


def time_answers(answering: Filter) -> Answers:
    """Start a filter, give it two lines, one after the other, and measure its answers.

    Raises RuntimeError if there is no answer.
    """
    began = time.perf_counter()
    seconds = []
    with subprocess.Popen(
        answering.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for line in answering.lines:
            process.stdin.write(f"{line}\n")
            if not process.stdout.readline().strip():
                raise RuntimeError(f"{answering.name} has not answered {line!r}")
            seconds.append(time.perf_counter() - began)
            began = time.perf_counter()
        process.stdin.close()
    return Answers(*seconds)


def peer_filter(python: str, folder: Path, n_threads: int) -> Filter:
    """Return CTranslate2 as a filter, with a new model in a new folder.

    python: of an environment that has CTranslate2.
    """
    folder.mkdir()
    write_model(LIKE_SIZE, folder, "int8")
    line = " ".join(f"t{i}" for i in range(N_SUBWORDS))
    command = [python, "-c", PEER_PROGRAM, str(folder), str(n_threads)]
    megabytes = (folder / "model.bin").stat().st_size / 1e6
    return Filter(f"CTranslate2, {megabytes:.1f} MB", command, [line, line])


def compare(filters: Sequence[Filter]) -> None:
    """Measure programs in turn, and print the best and the median of the rounds."""
    load = os.getloadavg()[0]
    print(f"times of answers, in turn; load {load:.1f}", flush=True)
    for answering in filters:
        time_answers(answering)
    warm: dict[str, list[Answers]] = {answering.name: [] for answering in filters}
    for _ in range(N_ROUNDS):
        for answering in filters:
            warm[answering.name].append(time_answers(answering))
    for name, answers in warm.items():
        firsts = [one.first for one in answers]
        laters = [one.later for one in answers]
        print(
            f"{name:24} start to first answer {describe(firsts)}; second line of the same process"
            f" {describe(laters)}",
            flush=True,
        )


def compare_cold(filters: Sequence[Filter]) -> None:
    """Do as `compare`, with no file in the page cache before a start. Only root can do this."""
    print("times with no file in the page cache", flush=True)
    for answering in filters:
        firsts = []
        for _ in range(N_COLD_ROUNDS):
            os.sync()
            try:
                DROP_CACHES.write_text("3", encoding="ascii")
            except OSError as error:
                print(f"not measured: {error}")
                return
            firsts.append(time_answers(answering).first)
        print(
            f"{answering.name:24} start to first answer {describe(firsts)}",
            flush=True,
        )


def describe(seconds: Sequence[float]) -> str:
    """Return the best and the median of measurements."""
    return f"{min(seconds):.3f} s (median {statistics.median(seconds):.3f})"
