r"""Train a subword Transformer on the same pairs as bytenmt, for as many updates or minutes.

    python tools/rival/train.py --src train.en --tgt train.de \
        --valid-src valid.en --valid-tgt valid.de -o runs/rival --max-minutes 60 --threads 1

The common alternative to bytenmt: SentencePiece, PyTorch's own layers (pre-norm), AdamW with
warm-up and a cosine schedule that ends with the budget, label smoothing, dropout, a moving average
of the weights. Its pairs can be mixed and augmented as in bytenmt (--weight, --noise, --upper-case
…): the same code makes every epoch's lines, before they are split into subwords. Minutes are those
of updates and validations, without reading text and training subwords. Bits per byte are the bits
of the pieces that SentencePiece chooses, and EOS, over the target's UTF-8 bytes. Needs: pip install
'bytenmt[rival]'.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from bytenmt.data.epoch_plan import epoch_plan
from bytenmt.data.pair_files import PairFiles
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.training.optim import MovingAverage, Muon
from tools.extras import tool_parser
from tools.rival import text as texts
from tools.rival.model import MAX_PIECES, Transformer, stacked_projections
from tools.rival.recipe import (
    BEST,
    CHECKPOINT,
    CONFIG,
    METRICS,
    Recipe,
    RunInfo,
    add_options,
    read_metrics,
)
from tools.rival.text import PIECES, Batch, SubwordModel, SubwordPairs, make_batch

VALID_TOKENS = 8000  # pieces of a validation batch
LOG_EVERY = 50  # updates


def summed_loss(model: Transformer, data: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the summed loss in nats with label smoothing, and without (detached)."""
    encoded = model.encode(data.source, data.source_padding)
    decoded = model.decode(data.target_in, encoded, data.source_padding)
    log_p = model.logits(decoded[data.target_real]).float().log_softmax(dim=-1)
    nats = nn.functional.nll_loss(log_p, data.target_out[data.target_real], reduction="sum")
    return (1 - smoothing) * nats - smoothing * log_p.mean(dim=-1).sum(), nats.detach()


@torch.no_grad()
def bits_per_byte(model: Transformer, pairs: SubwordPairs) -> float:
    """Return the bits of all targets, EOS included, per UTF-8 byte; computed in fp32."""
    plan = epoch_plan(*pairs.lengths(), VALID_TOKENS, seed=0, epoch=0)
    every = (make_batch(pairs, plan.batch(i).tolist()) for i in range(plan.n_batches))
    nats = sum(float(summed_loss(model, data, 0.0)[1]) for data in every)
    return nats / math.log(2) / max(1, int(pairs.target_bytes.sum()))


class Run:
    """A training, new or resumed from its checkpoint. Limits of 0 are none."""

    def __init__(self, folder: Path, recipe: Recipe, max_updates: int, max_minutes: float) -> None:
        self.folder = folder
        self.recipe = recipe
        self.max_updates = max_updates
        self.max_minutes = max_minutes
        # Numbers of the checkpoint: updates, the place in the text, seconds, and the best
        # validation.
        self.progress = {"update": 0, "epoch": 0, "batch": 0, "seconds": 0.0, "best": math.inf}
        self.received_signals: list[int] = []
        self.nats: list[Tensor] = []  # of the updates since the last record
        self.n_bytes = 0

    def prepare(self, files: Sequence[PairFiles], valid: Sequence[Path], resume: bool) -> None:
        """Read the data, and create or restore the model.

        files: training text; valid: source and target of the validation text. Raises BytenmtError.
        """
        self._text = texts.TrainingText(files, self.recipe.data(), self.recipe.seed)
        if resume and RunInfo.load(self.folder).recipe != self.recipe:
            raise CheckpointError(f"--resume: {self.folder / CONFIG} has another recipe")
        if not resume and (self.folder / CHECKPOINT).exists():
            cure = "continue it with --resume, or give another folder"
            raise CheckpointError(f"{self.folder} already holds a run: {cure}")
        self.folder.mkdir(parents=True, exist_ok=True)
        if not resume:
            source, target = self._text.lines(0)
            both = [*source, *target]
            found = texts.train_pieces(both, self.recipe.vocabulary, self.recipe.pieces)
            (self.folder / PIECES).write_bytes(found)
        self._pieces = pieces = SubwordModel.load(self.folder)
        source, target = map(texts.read_lines, valid)
        self.valid = texts.read_pairs(source, target, pieces, MAX_PIECES - 1)
        torch.manual_seed(self.recipe.seed)
        self.model = Transformer(self.recipe.shape(len(pieces)))
        self.optimizer = build_optimizer(self.model, self.recipe)
        self.average = MovingAverage(list(self.model.parameters()), self.recipe.ema)
        if resume:
            self._restore()
        stored = RunInfo(self.recipe, len(pieces), sum(p.numel() for p in self.model.parameters()))
        (self.folder / CONFIG).write_text(stored.to_json(), "utf-8")
        last = self.progress["update"]
        records = [one for one in read_metrics(self.folder) if one["update"] <= last]
        lines = "".join(f"{json.dumps(one)}\n" for one in records)
        (self.folder / METRICS).write_text(lines, "utf-8")
        self._read_epoch()

    def fraction_done(self) -> float:
        """Return the share of the limits that is used, 0 to 1."""
        shares = [self.progress["update"] / self.max_updates] if self.max_updates else []
        shares += [self.progress["seconds"] / (60 * self.max_minutes)] if self.max_minutes else []
        return min(1.0, max(shares))

    def rate(self) -> float:
        """Return the rate of the next update: linear warm-up, then a cosine down to the limit."""
        update = self.progress["update"] + 1
        warmup = max(1, self.recipe.warmup_updates)
        factor = 0.5 * (1 + math.cos(math.pi * self.fraction_done()))
        return self.recipe.lr * (update / warmup if update < warmup else factor)

    def run_updates(self, valid_every: int, save_minutes: float) -> None:
        """Update until a limit or a signal.

        Validates every valid_every updates and at a limit, saves every save_minutes and at the end.
        """
        saved = self.progress["seconds"]
        is_over = self.fraction_done() >= 1
        while not is_over:
            self._update()
            is_over = self.fraction_done() >= 1
            due = is_over or self.progress["update"] % valid_every == 0
            if due or self.received_signals or self.progress["update"] % LOG_EVERY == 0:
                self._write_record()
            if due:
                self._validate()
            is_over = is_over or bool(self.received_signals)
            if is_over or self.progress["seconds"] > saved + 60 * save_minutes:
                self._save()
                saved = self.progress["seconds"]

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: finish the current update, then stop."""
        self.received_signals.append(number)

    def _read_epoch(self) -> None:
        """Read the pairs of the current epoch and plan its batches."""
        epoch = int(self.progress["epoch"])
        if not self._text.is_fixed or not hasattr(self, "pairs"):
            lines = self._text.lines(epoch)
            self.pairs = texts.read_pairs(*lines, self._pieces, self.recipe.max_pieces)
        lengths = self.pairs.lengths()
        self.plan = epoch_plan(*lengths, self.recipe.max_tokens, self.recipe.seed, epoch)

    def _update(self) -> None:
        """Train on the next batch."""
        progress = self.progress
        recipe = self.recipe
        if progress["batch"] == self.plan.n_batches:
            progress["epoch"] = progress["epoch"] + 1
            progress["batch"] = 0
            self._read_epoch()
        started = time.monotonic()
        data = make_batch(self.pairs, self.plan.batch(int(progress["batch"])).tolist())
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.model.train()
        half = torch.autocast("cpu", torch.bfloat16, enabled=recipe.precision == "bf16")
        with half, sdpa_kernel(SDPBackend.MATH):  # faster than the fused kernel for short lines
            loss, nats = summed_loss(self.model, data, recipe.label_smoothing)
        self.optimizer.zero_grad()
        (loss / data.target_real.sum()).backward()  # type: ignore[no-untyped-call]
        if recipe.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip_norm)
        self.optimizer.step()
        progress["update"] = progress["update"] + 1
        progress["batch"] = progress["batch"] + 1
        self.average.add(int(progress["update"]))
        self.nats.append(nats)
        self.n_bytes += data.n_bytes
        progress["seconds"] += time.monotonic() - started

    def _write_record(self) -> None:
        """Write a record of the updates since the last one.

        Raises BytenmtError if training has diverged.
        """
        bits = float(torch.stack(self.nats).double().sum()) / math.log(2) / max(1, self.n_bytes)
        if not math.isfinite(bits):
            raise BytenmtError("training has diverged (the loss is not a number): lower --lr")
        self._write("train_bits_per_byte", bits)
        self.nats = []
        self.n_bytes = 0

    def _write(self, name: str, value: float) -> None:
        """Append a record to the metrics and print it."""
        record = {key: self.progress[key] for key in ("update", "epoch", "seconds")} | {name: value}
        with (self.folder / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        minutes = record["seconds"] / 60
        line = f"update {record['update']}, {minutes:.1f} min: {name} {value:.4f}"
        print(line, file=sys.stderr, flush=True)

    def _validate(self) -> None:
        """Score the validation set with the averaged weights and keep the best weights."""
        started = time.monotonic()
        with self.average.in_place():
            bits = bits_per_byte(self.model.eval(), self.valid)
            if bits < self.progress["best"]:
                self.progress["best"] = bits
                save_file(self.model.state_dict(), self.folder / BEST)
        self.progress["seconds"] += time.monotonic() - started
        self._write("valid_bits_per_byte", bits)

    def _save(self) -> None:
        """Write a checkpoint with all that a resume needs, such as the random generator's state."""
        whole: dict[str, Any] = {
            "progress": self.progress,
            "model": self.model.state_dict(),
            "average": self.average.tensors,
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
        }
        written = self.folder / f"{CHECKPOINT}.part"
        torch.save(whole, written)
        os.replace(written, self.folder / CHECKPOINT)

    def _restore(self) -> None:
        """Load the checkpoint. Raises CheckpointError."""
        try:
            whole = torch.load(self.folder / CHECKPOINT, weights_only=True)
        except (OSError, RuntimeError) as error:
            raise CheckpointError(f"{self.folder / CHECKPOINT} cannot be used: {error}") from None
        self.progress = whole["progress"]
        self.model.load_state_dict(whole["model"])
        self.average.tensors = whole["average"]
        self.optimizer.load_state_dict(whole["optimizer"])
        torch.set_rng_state(whole["random"])


def build_optimizer(model: Transformer, recipe: Recipe) -> torch.optim.Optimizer:
    """Build AdamW, or Muon for hidden matrices and AdamW for the rest.

    Vectors have no weight decay.
    """
    maps = stacked_projections(model) if recipe.optimizer == "muon" else {}
    rest = [p for p in model.parameters() if p not in maps]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in rest if p.dim() > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in rest if p.dim() <= 1], "weight_decay": 0.0},
    ]
    betas = (0.9, 0.98)
    if not maps:
        return torch.optim.AdamW(groups, lr=recipe.lr, betas=betas, fused=True)
    groups.insert(0, {"params": list(maps), "weight_decay": recipe.weight_decay, "muon": True})
    dtype = torch.bfloat16 if recipe.precision == "bf16" else torch.float32
    return Muon(groups, maps, recipe.lr, betas, 0.95, dtype)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    for name in ("--src", "--tgt"):
        parser.add_argument(name, type=Path, required=True, metavar="FILE", action="append")
    for name in ("--valid-src", "--valid-tgt"):
        parser.add_argument(name, type=Path, required=True, metavar="FILE")
    told = "of each --src, as in bytenmt train"
    parser.add_argument("--weight", type=float, action="append", default=[], help=told)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--max-minutes", type=float, default=0.0, help="0: no limit")
    parser.add_argument("--max-updates", type=int, default=0, help="0: no limit")
    parser.add_argument("--valid-every", type=int, default=1000, help="updates (%(default)s)")
    parser.add_argument("--save-every", type=float, default=5.0, help="minutes (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="continue the run of the folder")
    add_options(parser)
    args = parser.parse_args(arguments)
    if not args.max_minutes and not args.max_updates:
        parser.error("give --max-minutes or --max-updates: the rate decays to 0 at that limit")
    weights = args.weight or [1.0] * len(args.src)
    if not len(args.src) == len(args.tgt) == len(weights):
        parser.error("give as many --tgt as --src, and a --weight for each or none")
    sides = zip(args.src, args.tgt, weights, strict=True)
    files = [PairFiles(src, tgt, weight=weight) for src, tgt, weight in sides]
    recipe = Recipe(**{name: getattr(args, name) for name in Recipe._fields})
    torch.set_num_threads(args.threads)
    run = Run(args.output, recipe, args.max_updates, args.max_minutes)
    signals = (signal.SIGINT, signal.SIGTERM)
    try:
        run.prepare(files, [args.valid_src, args.valid_tgt], args.resume)
        before = {number: signal.signal(number, run.stop) for number in signals}
        run.run_updates(args.valid_every, args.save_every)
    except BytenmtError as error:
        sys.exit(f"Error: {error}")
    for number, handler in before.items():
        signal.signal(number, handler)


if __name__ == "__main__":
    main()
