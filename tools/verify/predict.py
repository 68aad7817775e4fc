"""Check that the bits per byte of a stream do not depend on its chunking, and that memory stays bounded.

    python tools/verify/predict.py runs/text runs/other --text big.txt

Compares bits per byte of the first megabyte in chunks of 256 and 65,536 bytes, and of the first 20 kB in
chunks of 1 and 7: they must agree to 1e-6 in float64 and to 1e-4 in fp32. `bytenmt predict` must print the
same for a file and for stdin. Its resident memory for a fifth of the text and for all of it, and its bytes
per second, are printed. Exits with 1 where results differ.
"""

from __future__ import annotations

import argparse
import copy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


import torch

from bytenmt.architectures.base import Model
from bytenmt.checkpoints.checkpoint import load_run
from bytenmt.decoding.pytorch.reader import TorchReader
from bytenmt.language.surprisal import stream
from tools.bench.records import Record, format_table, write_json

BENCH = "verify/predict"
MEGABYTE, SHORT = 1_000_000, 20_000
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}
PAIRS = ((MEGABYTE, 256, 65_536), (SHORT, 1, 7))  # bytes of the text, and two sizes of chunks
CPU = torch.device("cpu")


class PredictOutput(NamedTuple):
    """The result of a `bytenmt predict`: its first line, peak resident memory in MiB, and seconds."""

    line: str
    memory: float
    seconds: float


def main() -> None:
    """Check, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    text = options.text.read_bytes()
    if len(text) < MEGABYTE:
        parser.error(f"{options.text} has {len(text):,} bytes, expected a megabyte or more")
    records = []
    for run in options.runs:
        found = [*chunking_records(run, text), *command_records(run, text[:MEGABYTE], options.threads)]
        print(format_table(found), flush=True)
        records += found
    if options.json:
        write_json(options.json, records)
    if any(record.bench.endswith("differs") for record in records):
        sys.exit(1)


def chunking_records(run: Path, text: bytes) -> list[Record]:
    """Return a record for each precision and pair of chunk sizes."""
    loaded = load_run(run, CPU)
    records = []
    for precision, tolerance in TOLERANCE.items():
        model = copy.deepcopy(loaded.model).to(precision).eval()
        for n_bytes, one, other in PAIRS:
            first, second = (bits_per_byte(model, text[:n_bytes], chunk) for chunk in (one, other))
            bench = BENCH if abs(first - second) <= tolerance else f"{BENCH} differs"
            case = f"{run.name}, {n_bytes:,} bytes in chunks of {one}, {precision}".replace("torch.", "")
            there = f"chunks of {other:,}, differs by {abs(first - second):.1e}"
            records.append(Record(bench, case, first, "bits per byte", there, second, first / second))
    return records


def bits_per_byte(model: Model[Any, Any], text: bytes, chunk: int) -> float:
    """Return the bits per byte of a text, read in chunks."""
    return sum(float(found.bits.sum()) for found in stream(TorchReader([model], CPU), [text], chunk)) / len(
        text
    )


def command_records(run: Path, text: bytes, threads: int) -> list[Record]:
    """Compare the command's output for a file and for stdin, and its memory for two lengths."""
    with tempfile.TemporaryDirectory() as folder:
        part, whole = Path(folder, "part"), Path(folder, "whole")
        part.write_bytes(text[: len(text) // 5])
        whole.write_bytes(text)
        short, long = (run_predict(run, file, False, threads) for file in (part, whole))
        piped = run_predict(run, whole, True, threads)
    bench = BENCH if piped.line == long.line else f"{BENCH} differs"
    name = f"{run.name}, predict"
    bits = [float(output.line.split()[-1]) for output in (piped, long)]
    rate = len(text) * 4 / 5 / (long.seconds - short.seconds)
    return [
        Record(
            bench, f"{name} of stdin", bits[0], "bits per byte", "of the file", bits[1], bits[0] / bits[1]
        ),
        Record(
            BENCH,
            f"{name} of {len(text):,} bytes ({rate:,.0f} bytes a second)",
            long.memory,
            "MiB resident",
            "of a fifth",
            short.memory,
            long.memory / short.memory,
        ),
    ]


def run_predict(run: Path, file: Path, piped: bool, threads: int) -> PredictOutput:
    """Run `bytenmt predict` on a file, or on its content as standard input."""
    command = [sys.executable, "-m", "bytenmt", "predict", "-m", str(run), "--no-reference"]
    command += ["--threads", str(threads), *([] if piped else [str(file)])]
    started, memory = time.perf_counter(), 0.0
    with file.open("rb") as text:
        process = subprocess.Popen(command, stdin=text if piped else None, stdout=subprocess.PIPE)
        while process.poll() is None:  # getrusage of a child would include its parent's memory
            memory = max(memory, resident(process.pid))
            time.sleep(0.05)
    assert process.stdout is not None
    lines = process.stdout.read().decode().splitlines()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return PredictOutput(lines[0], memory, time.perf_counter() - started)


def resident(pid: int) -> float:
    """Return the peak resident memory of a process in MiB (Linux); 0 where the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return max((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), default=0.0)


if __name__ == "__main__":
    main()
