"""Compare the speed of scoring text, in bytes per second, of the compiled reader and plain PyTorch.

    python tools/bench/predict.py --presets tiny small

A stream is one row, read in chunks with its state carried over: a recurrent model reads one byte after the
other, one matrix-vector product each, so memory bandwidth is the limit. Windows of 256 bytes are read in
batches, as the lines of a translation are. The two readers take turns; each figure is the best of three. Both
compute in fp32.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


import torch

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import load_config
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.cpu.reader import CpuReader
from bytenmt.decoding.pytorch.reader import TorchReader
from bytenmt.decoding.reading import Reader
from bytenmt.language.surprisal import CHUNK
from tools.bench.records import Record, format_table, write_json

CPU = torch.device("cpu")
WINDOW, WINDOWS = 256, 64


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=list(PRESETS["small"]))
    parser.add_argument("--presets", nargs="+", default=["tiny", "small"])
    parser.add_argument("--chunk", type=int, default=CHUNK, help="bytes of the stream a call")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of each turn; each reader has three turns"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    records = [
        record
        for preset in options.presets
        for arch in options.models
        for record in measure_model(arch, preset, options)
    ]
    print(format_table(records))
    if options.json:
        write_json(options.json, records)


def measure_model(arch: str, preset: str, options: Any) -> list[Record]:
    """Measure one architecture on a stream and on windows."""
    config = load_config(arch, preset, "", ["model.source=false"])
    torch.manual_seed(1)
    model = build_model(config.model).eval()
    arrays = {name: p.detach().numpy() for name, p in model.named_parameters()}
    readers: tuple[Reader, Reader] = (
        CpuReader([pack_model(arrays, config.model, "fp32")], options.threads),
        TorchReader([model], CPU),
    )
    text = bytes(torch.randint(32, 127, (WINDOW * WINDOWS,)).tolist())
    records = []
    for kind, work in (("a stream", stream_task), ("windows", window_task)):
        tasks = [work(reader, text, options.chunk) for reader in readers]
        best = [0.0, 0.0]
        for _ in range(3):
            best = [max(b, rate(task, options.seconds)) for b, task in zip(best, tasks, strict=True)]
        case = f"{arch} {preset}, {kind}"
        records.append(
            Record("predict", case, best[0], "bytes a second", "PyTorch", best[1], best[0] / best[1])
        )
    return records


def stream_task(reader: Reader, text: bytes, chunk: int) -> Callable[[], int]:
    """Return a function that reads one chunk of a stream and returns its number of bytes."""
    stream = reader.stream()
    return lambda: len(stream.read(text[:chunk]).log_p)


def window_task(reader: Reader, text: bytes, chunk: int) -> Callable[[], int]:
    """Return a function that reads all windows and returns their number of bytes."""
    windows = [text[at : at + WINDOW] for at in range(0, len(text), WINDOW)]
    return lambda: sum(len(reading.log_p) for reading in reader.texts(None, windows))


def rate(work: Callable[[], int], seconds: float) -> float:
    """Return the bytes per second of a task that is repeated for some seconds, after one warm-up call."""
    work()
    n_bytes, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        n_bytes += work()
    return n_bytes / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
