"""Train a subword Transformer on the same pairs as bytenmt, for the same CPU minutes.

    python tools/rival/train.py --src train.en --tgt train.de --valid-src valid.en --valid-tgt valid.de \\
        -o runs/rival --max-minutes 60 --threads 1

The common alternative to bytenmt: SentencePiece, PyTorch's own layers (pre-norm), AdamW with warm-up and a
cosine schedule that ends with the budget, label smoothing, dropout, a moving average of the weights. Its
pairs can be mixed and augmented as in bytenmt (--weight, --noise, --upper-case …): the same code makes every
epoch's lines, before they are split into subwords. Minutes are counted as in bytenmt: CPU time of this
process since the first update, including validation, without reading text and training subwords. Bits per
byte are the bits of the pieces that SentencePiece chooses, and EOS, over the target's UTF-8 bytes. Needs: pip
install 'bytenmt[rival]'.
"""

from __future__ import annotations

import argparse
import io
import math
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import msgspec
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from bytenmt.atomic_file import write_atomically
from bytenmt.config.facts import Progress
from bytenmt.config.schema import TrainConfig
from bytenmt.data.corpus import PairFiles
from bytenmt.data.epoch_plan import epoch_plan
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.training.metrics import append_metrics, cut_metrics
from bytenmt.training.muon import Muon
from bytenmt.training.optim import MovingAverage, build_optimizer, fraction_done, lr_factor, set_rate
from tools.rival.model import MOST_PIECES, Transformer, stacked_projections
from tools.rival.recipe import BEST, CHECKPOINT, CONFIG, Recipe, RunInfo, add_options
from tools.rival.text import (
    PIECES,
    Batch,
    SubwordModel,
    SubwordPairs,
    TrainingText,
    make_batch,
    read_lines,
    read_pairs,
    train_pieces,
)

VALID_TOKENS = 8000  # pieces of a validation batch
LOG_EVERY = 50  # updates


def summed_loss(model: Transformer, data: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the summed loss in nats with label smoothing, and without (detached)."""
    encoded = model.encode(data.source, data.source_padding)
    decoded = model.decode(data.target_in, encoded, data.source_padding)
    log_p = model.logits(decoded[data.target_real]).float().log_softmax(dim=-1)
    nats = nn.functional.nll_loss(log_p, data.target_out[data.target_real], reduction="sum")
    if not smoothing:
        return nats, nats.detach()
    return (1 - smoothing) * nats - smoothing * log_p.mean(dim=-1).sum(), nats.detach()


@torch.no_grad()
def bits_per_byte(model: Transformer, pairs: SubwordPairs) -> float:
    """Return the bits of all targets, EOS included, per UTF-8 byte; computed in fp32."""
    plan = epoch_plan(*pairs.lengths(), VALID_TOKENS, seed=0, epoch=0, shuffle=False)
    nats = sum(
        float(summed_loss(model, make_batch(pairs, plan.batch(i).tolist()), 0.0)[1])
        for i in range(plan.n_batches)
    )
    return nats / math.log(2) / max(1, int(pairs.target_bytes.sum()))


class Run:
    """A training, new or resumed from its checkpoint."""

    def __init__(self, folder: Path, recipe: Recipe, train: TrainConfig) -> None:
        self.folder, self.recipe, self.train = folder, recipe, train
        self.progress = Progress()
        self.received_signals: list[int] = []  # signals
        self.nats: list[Tensor] = []  # of the updates since the last record
        self.n_bytes = 0

    def prepare(self, files: Sequence[PairFiles], valid: Sequence[Path], resume: bool) -> None:
        """Read the data, and create or restore the model.

        files: training text; valid: source and target of the validation text. Raises BytenmtError.
        """
        self._text = TrainingText(files, self.recipe.data(), self.recipe.seed)
        valid_source, valid_target = map(read_lines, valid)
        if resume and RunInfo.load(self.folder).recipe != self.recipe:
            raise CheckpointError(f"--resume: {self.folder / CONFIG} has another recipe")
        if not resume and (self.folder / CHECKPOINT).exists():
            raise CheckpointError(
                f"{self.folder} already holds a run: continue it with --resume, or give another folder"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        if not resume:
            source, target = self._text.lines(0)
            found = train_pieces([*source, *target], self.recipe.vocabulary, self.recipe.pieces)
            write_atomically(self.folder / PIECES, found)
        self._pieces = pieces = SubwordModel.load(self.folder)
        self.valid = read_pairs(valid_source, valid_target, pieces, MOST_PIECES - 1)
        torch.manual_seed(self.recipe.seed)
        self.model = Transformer(self.recipe.shape(len(pieces)))
        self.optimizer = build_optimizer_for(self.model, self.train)
        self.average = MovingAverage(list(self.model.parameters()), self.train.ema)
        if resume:
            self._restore()
        else:
            stored = RunInfo(self.recipe, len(pieces), sum(p.numel() for p in self.model.parameters()))
            write_atomically(self.folder / CONFIG, stored.to_json().encode())
        cut_metrics(self.folder, self.progress.update)
        self._read_epoch()
        self.print_status(f"{len(self.pairs.sources)} pairs, {len(pieces)} pieces")

    def run_updates(self, valid_every: int, save_minutes: float) -> None:
        """Update until a limit or a signal.

        Validates every valid_every updates and at a limit, saves every save_minutes CPU minutes and at the
        end.
        """
        self.started = (
            self.progress.seconds - time.monotonic(),
            self.progress.cpu_seconds - time.process_time(),
        )
        saved = self.progress.cpu_seconds
        ended = fraction_done(self.train, self.progress) >= 1
        while not ended:
            self._update()
            ended = fraction_done(self.train, self.progress) >= 1
            due = ended or self.progress.update % valid_every == 0
            if due or self.received_signals or self.progress.update % LOG_EVERY == 0:
                self._write_record()
            if due:
                self._validate()
            ended = ended or bool(self.received_signals)
            if ended or self.progress.cpu_seconds > saved + 60 * save_minutes:
                self._save()
                saved = self.progress.cpu_seconds

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: finish the current update, then stop."""
        self.received_signals.append(number)

    def print_status(self, text: str) -> None:
        """Print a line to stderr."""
        print(text, file=sys.stderr, flush=True)

    def _read_epoch(self) -> None:
        """Read the pairs of the current epoch and plan its batches."""
        text = self._text.lines(self.progress.epoch)
        self.pairs = read_pairs(*text, self._pieces, self.recipe.max_pieces)
        self._plan()

    def _plan(self) -> None:
        self.plan = epoch_plan(
            *self.pairs.lengths(), self.train.max_tokens, self.train.seed, self.progress.epoch
        )

    def _update(self) -> None:
        """Train on the next batch."""
        progress, train = self.progress, self.train
        if progress.batch == self.plan.n_batches:
            progress.epoch, progress.batch = progress.epoch + 1, 0
            if self._text.is_fixed:
                self._plan()
            else:
                with self._paused_clocks():  # subword segmentation does not count as training
                    self._read_epoch()
        data = make_batch(self.pairs, self.plan.batch(progress.batch).tolist())
        set_rate(self.optimizer, train.lr * lr_factor(train, progress))
        self.model.train()
        half = torch.autocast("cpu", torch.bfloat16, enabled=train.precision == "bf16")
        with half, sdpa_kernel(SDPBackend.MATH):  # faster than the fused kernel for short lines
            loss, nats = summed_loss(self.model, data, train.label_smoothing)
        self.optimizer.zero_grad()
        (loss / data.target_real.sum()).backward()  # type: ignore[no-untyped-call]
        if train.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), train.clip_norm)
        self.optimizer.step()
        progress.update, progress.batch = progress.update + 1, progress.batch + 1
        self.average.add(progress.update)
        self.nats.append(nats)
        self.n_bytes += data.n_bytes
        self._update_clocks()

    @contextmanager
    def _paused_clocks(self) -> Iterator[None]:
        """Exclude the time of a `with` block from the training time."""
        wall, cpu = time.monotonic(), time.process_time()
        yield
        self.started = (
            self.started[0] - (time.monotonic() - wall),
            self.started[1] - (time.process_time() - cpu),
        )

    def _update_clocks(self) -> None:
        self.progress.seconds = self.started[0] + time.monotonic()
        self.progress.cpu_seconds = self.started[1] + time.process_time()

    def _write_record(self) -> None:
        """Write a record of the updates since the last one. Raises BytenmtError if training has diverged."""
        bits = float(torch.stack(self.nats).double().sum()) / math.log(2) / max(1, self.n_bytes)
        if not math.isfinite(bits):
            raise BytenmtError("training has diverged (the loss is not a number): lower --lr")
        self._write({"train_bits_per_byte": bits})
        self.nats, self.n_bytes = [], 0

    def _write(self, values: dict[str, float]) -> None:
        """Append a record to the metrics and print it."""
        progress = self.progress
        place = {
            "update": progress.update,
            "epoch": progress.epoch,
            "seconds": round(progress.seconds, 3),
            "cpu_seconds": round(progress.cpu_seconds, 3),
            "lr": self.train.lr * lr_factor(self.train, progress),
        }
        append_metrics(self.folder, {**place, **values})
        message = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in values.items())
        self.print_status(f"update {progress.update}, {progress.cpu_seconds / 60:.1f} CPU min: {message}")

    def _validate(self) -> None:
        """Score the validation set with the averaged weights and keep the best weights."""
        progress = self.progress
        with self.average.in_place() if self.train.ema else nullcontext():
            bits = bits_per_byte(self.model.eval(), self.valid)
            if progress.best is None or bits < progress.best:
                progress.best, progress.best_update = bits, progress.update
                write_atomically(self.folder / BEST, save(self.model.state_dict()))
        self._update_clocks()
        self._write({"valid_bits_per_byte": bits})

    def _save(self) -> None:
        """Write a checkpoint with all state that a resume needs, including the random number generator."""
        whole: dict[str, Any] = {
            "progress": msgspec.to_builtins(self.progress),
            "model": self.model.state_dict(),
            "average": self.average.tensors,
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
        }
        written = io.BytesIO()
        torch.save(whole, written)
        write_atomically(self.folder / CHECKPOINT, written.getvalue())

    def _restore(self) -> None:
        """Load the checkpoint. Raises CheckpointError."""
        try:
            whole = torch.load(self.folder / CHECKPOINT, weights_only=True)
        except (OSError, RuntimeError) as error:
            raise CheckpointError(f"{self.folder / CHECKPOINT} cannot be used: {error}") from None
        self.progress = msgspec.convert(whole["progress"], Progress)
        self.model.load_state_dict(whole["model"])
        self.average.tensors = whole["average"]
        self.optimizer.load_state_dict(whole["optimizer"])
        torch.set_rng_state(whole["random"])


def build_optimizer_for(model: Transformer, train: TrainConfig) -> torch.optim.Optimizer:
    """Build the optimiser of train.optimizer."""
    if train.optimizer != "muon":
        return build_optimizer(model, train)
    maps = stacked_projections(model)
    rest = [p for p in model.parameters() if p not in maps]
    groups: list[dict[str, Any]] = [
        {"params": list(maps), "weight_decay": train.weight_decay, "muon": True},
        {"params": [p for p in rest if p.dim() > 1], "weight_decay": train.weight_decay},
        {"params": [p for p in rest if p.dim() <= 1], "weight_decay": 0.0},
    ]
    dtype = torch.bfloat16 if train.precision == "bf16" else torch.float32
    return Muon(groups, maps, train.lr, (train.adam_beta1, train.adam_beta2), train.muon_momentum, dtype)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--src", "--tgt"):
        message = "may be given several times"
        parser.add_argument(name, type=Path, required=True, metavar="FILE", action="append", help=message)
    for name in ("--valid-src", "--valid-tgt"):
        parser.add_argument(name, type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--weight", type=float, action="append", default=[], help="of each --src, as in bytenmt train"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="the run's folder")
    parser.add_argument("--max-minutes", type=float, default=0.0, help="0: no limit")
    parser.add_argument("--max-updates", type=int, default=0, help="0: no limit")
    parser.add_argument("--valid-every", type=int, default=1000, help="updates (%(default)s)")
    parser.add_argument("--save-every", type=float, default=5.0, help="CPU minutes (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="continue from the folder's checkpoint")
    add_options(parser)
    args = parser.parse_args(arguments)
    if not args.max_minutes and not args.max_updates:
        parser.error("give --max-minutes or --max-updates: the learning rate decays to 0 at that limit")
    recipe = Recipe(**{name: getattr(args, name) for name in Recipe._fields})
    torch.set_num_threads(args.threads)
    run = Run(args.output, recipe, recipe.train(args.max_updates, args.max_minutes))
    try:
        run.prepare(_pair_files(parser, args), [args.valid_src, args.valid_tgt], args.resume)
        before = {number: signal.signal(number, run.stop) for number in (signal.SIGINT, signal.SIGTERM)}
        run.run_updates(args.valid_every, args.save_every)
    except BytenmtError as error:
        sys.exit(f"Error: {error}")
    for number, handler in before.items():
        signal.signal(number, handler)


def _pair_files(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[PairFiles]:
    """Return the training corpora, each with its weight."""
    weights = args.weight or [1.0] * len(args.src)
    if not len(args.src) == len(args.tgt) == len(weights):
        parser.error("give as many --tgt as --src, and a --weight for each or none")
    sides = zip(args.src, args.tgt, weights, strict=True)
    return [PairFiles(src, tgt, weight=weight) for src, tgt, weight in sides]


if __name__ == "__main__":
    main()
