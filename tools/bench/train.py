"""Measure the training throughput of the models, relative to the CPU's matrix-product peak.

    python tools/bench/train.py --models convs2s bytenet --presets base

Only the FLOP of matrix products on real bytes are counted: the backward pass counts twice the
forward; look-ups, elementwise operations and padding count nothing. An encoder weight is used once
per source byte (in ByteNet once per unfolded column), a decoder weight once per target byte, EOS
included. A step is a whole update: encode, forward, loss, backward, optimiser. Times are the best
of several; the peak is measured in between. On a GPU: tools/bench/gpu.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


import numpy as np
import torch

from bytenmt.architectures.bytenet.config import ByteNetConfig
from bytenmt.architectures.parameters import step_cost
from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import build_model
from bytenmt.architectures.transformer.config import TransformerConfig
from bytenmt.config.schema import Config, load_config
from bytenmt.data.batches import Batch
from bytenmt.training.losses import masked_loss
from bytenmt.training.translation import to_device
from bytenmt.utf8 import BOS, EOS, PAD
from tools.bench.records import Record, show_records
from tools.bench.steps import DTYPES, AnyModel, seconds
from tools.extras import tool_parser

BENCH = "bench/train"


def typical_batch(max_tokens: int, device: torch.device) -> Any:
    """Return a batch as in the middle of a sorted epoch, of random letters.

    Lengths are log-normal (median 110, sigma 0.6), target = source x log-normal(0.05, 0.15); it has
    as many rows as the budget holds.
    """
    draw = np.random.default_rng(1)
    source = np.exp(draw.normal(np.log(110), 0.6, 100_000)).clip(1, 1000).astype(np.int64)
    target = (source * np.exp(draw.normal(0.05, 0.15, len(source)))).clip(1, 1000).astype(np.int64)
    order = np.lexsort((target, source // 4))
    rows = max(1, int(max_tokens / (110 + 116 + 2)))
    middle = order[len(order) // 2 - rows // 2 :][:rows]
    return make_batch(source[middle] + 1, target[middle] + 1, device)


def make_batch(source_len: np.ndarray, target_len: np.ndarray, device: torch.device) -> Any:
    """Return a batch of random letters on the device.

    source_len, target_len: (n,) int64, including EOS.
    """
    draw = torch.Generator().manual_seed(1)
    sides = []
    for lengths in (torch.from_numpy(source_len), torch.from_numpy(target_len)):
        columns = torch.arange(int(lengths.max()))
        size = (len(lengths), len(columns))
        letters = torch.randint(97, 123, size, generator=draw, dtype=torch.uint8)
        letters[columns == lengths[:, None] - 1] = EOS
        letters[columns >= lengths[:, None]] = PAD
        sides.append(letters)
    target = torch.cat([torch.full((len(source_len), 1), BOS, dtype=torch.uint8), sides[1]], dim=1)
    return to_device(Batch(sides[0].numpy(), source_len, target.numpy(), target_len), device)


def real_bytes(batch: Any) -> int:
    """Return the number of source plus target bytes, EOS included."""
    return int(batch.source_len.sum() + batch.target_len.sum())


def step_flop(config: Config, model: AnyModel, batch: Any) -> float:
    """Return the FLOP of the matrix products of forward and backward pass on real bytes."""
    multiplied = {
        id(p): p.numel()
        for name, p in model.named_parameters()
        if p.dim() > 1 and not is_lookup(name)
    }
    decoder = sum(multiplied.get(id(p), 0) for p in model.decoder.parameters())
    encoder = sum(multiplied.values()) - decoder
    columns = batch.source_len
    if isinstance(config.model, ByteNetConfig):
        unfolded = config.model.unfolding_factor * columns + config.model.unfolding_offset
        columns = torch.maximum(columns, unfolded.ceil().long())
    pairs = [*zip(batch.source_len.tolist(), batch.target_len.tolist(), strict=True)]
    products = encoder * int(columns.sum()) + sum(t * step_cost(config.model, s) for s, t in pairs)
    section = config.model
    if isinstance(section, TransformerConfig):  # it has no program whose attentions are counted
        width = 2 * section.d_model * section.decoder_depth
        products += sum(t * width * (section.window + s) for s, t in pairs)
    return 6.0 * float(products)


def is_lookup(name: str) -> bool:
    """Return whether a parameter of the encoder is looked up, not multiplied."""
    return name == "embedding.weight" or "positions" in name


class Step:
    """One update of a model, as in the training loop."""

    def __init__(self, config: Config, batch: Any, precision: str) -> None:
        torch.manual_seed(1)
        self.device = batch.source.device
        self.batch = batch
        self.config = config
        self.bf16 = precision == "bf16"
        self.model: AnyModel = build_model(config.model).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def __call__(self) -> None:
        """Do the update."""
        batch = self.batch
        model = self.model
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            memory = model.encode(batch.source, batch.source_len)
            logits, _ = model(batch.target_in, memory, model.start(memory))
        smoothing = self.config.train.label_smoothing
        loss, _ = masked_loss(logits, batch.target_out, batch.target_out != PAD, smoothing)
        self.optimizer.zero_grad(set_to_none=True)
        (loss / batch.target_len.sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.optimizer.step()


class Peak:
    """The best rate of a matrix product in FLOP/s over a few large shapes.

    Each call measures again; best holds the maximum so far.
    """

    def __init__(self, device: torch.device, precision: str) -> None:
        sizes = (1024, 1536, 2048) if device.type == "cpu" else (4096, 8192)
        squares = [torch.randn(2, n, n, device=device, dtype=DTYPES[precision]) for n in sizes]
        self.pairs = [(pair[0], pair[1]) for pair in squares]
        self.best = 0.0

    def __call__(self) -> None:
        """Measure each shape once more."""
        for a, b in self.pairs:
            took = seconds(partial(torch.matmul, a, b), a.device)
            self.best = max(self.best, 2 * len(a) ** 3 / took)


def best_seconds(
    action: Callable[[], object], between: Callable[[], object], limit: float
) -> float:
    """Return the minimum time of an action over at least two runs, after one warm-up run.

    It repeats for at most `limit` seconds, with another measurement between any two runs.
    """
    device = torch.device("cuda") if torch.cuda.is_available() else None
    seconds(action, device)
    times: list[float] = []
    while len(times) < 2 or sum(times) < limit and len(times) < 100:
        between()
        times.append(seconds(action, device))
    between()
    return min(times)


def throughput(case: str, step: Step, precision: str, limit: float) -> list[Record]:
    """Return a model's records: relative to the matrix-product peak, and in bytes a second."""
    peak = Peak(step.device, precision)
    took = best_seconds(step, peak, limit)
    achieved = step_flop(step.config, step.model, step.batch) / took / 1e9
    best = peak.best / 1e9
    reference = f"best {precision} matrix product"
    rate = real_bytes(step.batch) / took
    told = f"{case}: {achieved / best:.3f} of {best:.0f} GFLOP/s, {rate:,.0f} bytes/s"
    print(told, file=sys.stderr)
    return [
        Record(BENCH, f"{case} matmul peak", achieved, "GFLOP/s", reference, best, achieved / best),
        Record(BENCH, f"{case} speed", rate, "bytes/s", "", 0.0, 0.0),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    architectures = tuple(PRESETS["small"])
    parser.add_argument("--models", nargs="+", choices=architectures, default=list(architectures))
    parser.add_argument("--presets", nargs="+", choices=tuple(PRESETS), default=["small", "base"])
    parser.add_argument("--precision", nargs="+", choices=tuple(DTYPES), default=list(DTYPES))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a case; two steps at least")
    parser.add_argument("--max-tokens", type=int, default=0, help="of a batch; 0: the preset's")
    parser.add_argument("--json", type=Path, help="also write the records here")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    device = torch.device("cpu")
    records: list[Record] = []
    for preset, arch in product(options.presets, options.models):
        config = load_config(arch, preset, options.settings)
        batch = typical_batch(options.max_tokens or config.train.max_tokens, device)
        for precision in options.precision:
            step = Step(config, batch, precision)
            records += throughput(f"{arch} {preset} {precision}", step, precision, options.seconds)
    show_records(records, options.json)


if __name__ == "__main__":
    main()
