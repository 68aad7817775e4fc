"""Evaluation of a stream beside the forward half of training: bytes a second, by architecture.

    python tools/bench/predict.py --presets tiny small

A stream is one row, read in chunks with its state carried; training reads rows side by side. The forward half
is a batch's forward pass as training runs it, with its graph and its loss, in fp32. A recurrent model reads a
stream one byte after the other, a matrix-vector product each: it waits for its weights where a batch shares
them. The two take turns; each figure is the best of three.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


import torch

from bytenmt.config.presets import PRESETS
from bytenmt.config.schema import Config, load_config
from bytenmt.data.device import pick_device
from bytenmt.language.surprisal import CHUNK, Predictor
from bytenmt.models import build_model
from bytenmt.models.base import Model
from bytenmt.utf8 import BOS
from tools.bench.records import Record, show, write_json

AnyModel = Model[Any, Any]


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=list(PRESETS["small"]))
    parser.add_argument("--presets", nargs="+", default=["tiny", "small"])
    parser.add_argument("--chunk", type=int, default=CHUNK, help="bytes of the stream a call")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn, three turns each")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = pick_device(options.device)
    records = [
        record(arch, preset, options.chunk, device, options.seconds)
        for preset in options.presets
        for arch in options.models
    ]
    print(show(records))
    if options.json:
        write_json(options.json, records)


def record(arch: str, preset: str, chunk: int, device: torch.device, seconds: float) -> Record:
    """One architecture's figure."""
    config = load_config(arch, preset, "", ["model.source=false"])
    torch.manual_seed(1)
    model = build_model(config.model).to(device)
    rows, t = max(1, config.train.max_tokens // config.train.window), config.train.window
    streaming, training = stream(model, chunk, device), forward(model, rows, t, config, device)
    best = [0.0, 0.0]
    for _ in range(3):
        model.eval()
        best[0] = max(best[0], rate(lambda: next(streaming), device, seconds))
        model.train()
        best[1] = max(best[1], rate(training, device, seconds))
    return Record(
        "predict",
        f"{arch} {preset}, chunks of {chunk} bytes",
        best[0],
        "bytes a second",
        f"forward of training, {rows} rows of {t} bytes",
        best[1],
        best[0] / best[1],
    )


def stream(model: AnyModel, chunk: int, device: torch.device) -> Iterator[int]:
    """Reads a chunk a turn; yields its bytes."""
    predictor = Predictor(model.eval(), device)
    text = bytes(torch.randint(32, 127, (chunk,), generator=torch.Generator().manual_seed(1)).tolist())
    while True:
        predictor.read(text)
        yield chunk


def forward(model: AnyModel, rows: int, t: int, config: Config, device: torch.device) -> Callable[[], int]:
    """A batch's forward pass and loss; returns its bytes."""
    truth = torch.randint(32, 127, (rows, t), device=device)
    read = torch.cat([torch.full_like(truth[:, :1], BOS), truth[:, :-1]], dim=1).to(torch.uint8)
    ids = torch.zeros(rows, 0, dtype=torch.uint8, device=device)
    lengths = torch.zeros(rows, dtype=torch.int64, device=device)

    def run() -> int:
        memory = model.encode(ids, lengths)
        logits, _ = model(read, memory, model.start(memory))
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), truth.flatten())
        return rows * t

    return run


def rate(work: Callable[[], int], device: torch.device, seconds: float) -> float:
    """Bytes a second of a piece of work, repeated for so long; the first time does not count."""
    work()
    n_bytes = 0
    _wait(device)
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        n_bytes += work()
    _wait(device)
    return n_bytes / (time.perf_counter() - begin)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
