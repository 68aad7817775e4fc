"""Measure what each of our kernels for training on a CPU gains: updates with and without it.

    python tools/bench/training_kernels.py

One process, one thread, a preset with its own batch, in the precision that a training chooses. Of
each round the time without the kernel is divided by the time with it; the table has the medians.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import torch

from bytenmt.config.schema import load_config
from bytenmt.layers.deferred_matmul import plain_product
from bytenmt.training.precision import precision_of
from tools.bench.train import Step, typical_batch
from tools.extras import tool_parser

CPU = torch.device("cpu")
LAYERS = "bytenmt.layers"
ARCHITECTURES = "bytenmt.architectures"
Replacement = tuple[str, Any]
NO_CELLS = (f"{LAYERS}.recurrent.fusible", lambda product: False)
DEFERRED = [f"{LAYERS}.recurrent.deferred_product", f"{LAYERS}.attention.deferred_product"]
# What stands in the place of a kernel, by its file.
SWITCHED_OFF: dict[str, list[Replacement]] = {
    "fused_cells": [NO_CELLS],
    "fused_cells, deferred_matmul": [
        NO_CELLS,
        *((place, plain_product) for place in DEFERRED),
        (f"{ARCHITECTURES}.luong.model.deferred_product", plain_product),
        (f"{ARCHITECTURES}.bahdanau.model.deferred_product", plain_product),
    ],
    "fused_additive": [(f"{LAYERS}.attention.can_fuse", lambda keys: False)],
    "fused_norm": [(f"{ARCHITECTURES}.bytenet.model.norm_relu", lambda n, x: torch.relu(n(x)))],
    "dropout": [(f"{LAYERS}.dropout.MIN_NUMBERS", 1 << 62)],
}
RECURRENT = ("fused_cells", "fused_cells, deferred_matmul", "dropout")
USED = {
    "luong": RECURRENT,
    "bahdanau": (*RECURRENT, "fused_additive"),
    "seq2seq": RECURRENT,
    "bytenet": ("fused_norm", "dropout"),
    "convs2s": ("dropout",),
}


def seconds(update: Callable[[], None], replacements: list[Replacement]) -> float:
    """Return the time of an update with some functions replaced."""
    with ExitStack() as stack:
        for place, function in replacements:
            stack.enter_context(patch(place, function))
        begun = time.perf_counter()
        update()
        return time.perf_counter() - begun


def main() -> None:
    """Print a line for each model and kernel."""
    parser = tool_parser(__doc__)
    parser.add_argument("--models", nargs="+", default=[*USED], choices=USED)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--kernels", nargs="+", default=[*SWITCHED_OFF], choices=SWITCHED_OFF)
    precisions = ("fp32", "bf16")
    parser.add_argument("--precision", choices=precisions, help="default: what a training chooses")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("| model | preset | precision | without | time without / with |\n|---|---|---|---|---:|")
    for arch in args.models:
        config = load_config(arch, args.preset, [])
        precision = args.precision or precision_of(CPU, config.model)
        update = Step(config, typical_batch(config.train.max_tokens, CPU), precision)
        update()
        for name in (name for name in USED[arch] if name in args.kernels):
            off = SWITCHED_OFF[name]
            seconds(update, off)
            ratios = [seconds(update, off) / seconds(update, []) for _ in range(args.rounds)]
            cells = (arch, args.preset, precision, name, f"{statistics.median(ratios):.2f}")
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
