"""The parts of tools/bench/gpu.py, each for a process of its own."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from bytenmt.architectures.parameters import decoder_weights, n_parameters
from bytenmt.architectures.section import architecture
from bytenmt.checkpoints.quantize import convert
from bytenmt.checkpoints.weights import BEST
from bytenmt.config.schema import Config, load_config
from bytenmt.data.batches import Batch, assemble
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.pair_files import PairFiles
from bytenmt.decoding.engine import Engine
from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.decoding.pytorch.cuda_graph import Capture, CudaCapture, CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.decoding.scheduler import decode
from bytenmt.training.losses import masked_loss
from bytenmt.training.trainer import Trainer
from bytenmt.utf8 import PAD
from tools.bench.gpu import RECORDS, ROOT
from tools.bench.steps import (
    DTYPES,
    Case,
    StepTimer,
    endless_model,
    make_engine,
    seconds,
    step_flop,
)
from tools.bench.train import Peak, Step, best_seconds, real_bytes, typical_batch
from tools.bench.train import step_flop as update_flop
from tools.results.recipe import FOLDER, Recipe

CPU = torch.device("cpu")
DATA = ROOT / "data"
# Preset tiny with n-gram tables, and in a dry run with few units.
TABLES = ["model.ngrams=[2,3]", "model.ngram_rows=512", "model.dropout=0"]
N_UPDATES = 20
TOLERANCE = 1e-3  # of log-probabilities, and of gradients relative to their norm
LOSS_TOLERANCE = 0.01  # of the losses of N_UPDATES updates, in which differences grow
MAX_BYTES = 15_000_000  # of a file that is brought back
COPY_SECONDS = 60.0  # seconds between two copies of the weights that are being trained
BIG_BATCH_RATIO = 8  # times the preset's batch, as `train` has on a GPU
MULTIPLIED = "best matrix product of this run"
LONG_TRAINING = "32000 --max-updates 0 --valid-every 300"  # after --max-tokens


class Work(NamedTuple):
    """A part with its options."""

    part: str
    output: str  # folder
    corpora: str  # folder of the text of train
    seconds: float  # limit
    architectures: list[str]
    recipes: list[str]
    dry: bool

    @property
    def device(self) -> torch.device:
        """The device that is measured."""
        return CPU if self.dry else torch.device("cuda")

    def emit(
        self,
        case: str,
        value: float,
        unit: str = "",
        reference: float = 0.0,
        ok: bool = True,
        note: str = "",
    ) -> None:
        """Append a record to the file of records, and print it."""
        one = {"part": self.part, "case": case, "value": value, "unit": unit}
        one |= {"reference": reference, "ok": ok, "note": note}
        with open(f"{self.output}/{RECORDS}", "a", encoding="utf-8") as file:
            file.write(json.dumps(one) + "\n")
        failed = "" if ok else " FAILED"
        print(f"{self.part}: {case}: {value:.4g} {unit} {note}{failed}", flush=True)

    @contextmanager
    def guarded(self, case: str) -> Iterator[None]:
        """Make a failed record of an exception inside, so that the next case is tried."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            self.emit(case, math.nan, ok=False, note=f"{type(error).__name__}: {error}"[:300])


def check(work: Work) -> None:
    """Compare the device with the CPU, for each architecture."""
    torch.backends.cudnn.allow_tf32 = False
    corpus = ParallelCorpus.open_all([PairFiles(DATA / "train.ko", DATA / "train.en")])
    batch = assemble(corpus, np.arange(4 if work.dry else 64))
    sys.path.append(str(ROOT / "tests/helpers"))
    for arch in work.architectures:
        with work.guarded(arch):
            small = importlib.import_module("small_runs").SMALL[arch] if work.dry else []
            config = load_config(arch, "tiny", [*TABLES, *small, "train.precision=fp32"])
            check_architecture(work, config, batch)
            count = emulated_waits if work.dry else device_waits
            waits = count(config, batch, work.device)
            told = ", ".join(f"{name} {n}" for name, n in sorted(waits.items()))
            work.emit(f"{arch}, waits of an update", waits.total(), note=told)


def check_architecture(work: Work, config: Config, batch: Batch) -> None:
    """Compare outputs, gradients, losses, a resumed training and decoded texts."""
    arch = architecture(config.model)
    here = Trainer(config, CPU)
    there = Trainer(config, work.device)
    there.model.load_state_dict(here.model.state_dict())

    def emit(what: str, difference: float, most: float) -> None:
        work.emit(f"{arch}, {what}", difference, reference=most, ok=difference <= most)

    sources = [batch.source[k, : n - 1].tobytes() for k, n in enumerate(batch.source_len)]
    texts = [batch.target[k, 1 : n + 1].tobytes() for k, n in enumerate(batch.target_len)]
    scorers = [TorchScorer([one.model.eval()], one.device) for one in (here, there)]
    pairs = zip(*(one.score_texts(sources, texts) for one in scorers), strict=True)
    errors = [np.abs(a.log_p - b.log_p).max() for a, b in pairs]
    emit("log-probabilities", float(max(errors)), TOLERANCE)
    nats = []
    for one in (here, there):
        one.model.train()
        nats.append([float(one.update([batch])[0])])
    differences = 0.0
    norms = 0.0
    for a, b in zip(here.parameters, there.parameters, strict=True):
        if a.grad is not None and b.grad is not None:
            differences += float((a.grad - b.grad.cpu()).square().sum())
            norms += float(a.grad.square().sum())
    emit("gradients", math.sqrt(differences / norms), TOLERANCE)
    for one, values in zip((here, there), nats, strict=True):
        values += [float(one.update([batch])[0]) for _ in range(2 if work.dry else N_UPDATES - 1)]
    emit("losses", max(abs(b / a - 1) for a, b in zip(*nats, strict=True)), LOSS_TOLERANCE)
    with tempfile.TemporaryDirectory() as folder:
        there.save(Path(folder) / "run")
        resumed = Trainer(config, work.device)
        resumed.load(Path(folder) / "run")
    resumed.model.train()
    pair = [[float(one.update([batch])[0]) for _ in range(2)] for one in (there, resumed)]
    emit("resume", max(abs(b / a - 1) for a, b in zip(*pair, strict=True)), TOLERANCE)
    there.model.load_state_dict(here.model.state_dict())
    counts = Counter[str]()
    capture = counting_capture(None if work.dry else CudaCapture(work.device), counts)
    engines: dict[str, Engine] = {
        "the CPU": TorchEngine([here.model.eval()], SearchOptions(), 4, CPU),
        "PyTorch": TorchEngine([there.model.eval()], SearchOptions(), 4, work.device),
        "CUDA graph": CudaGraphEngine([there.model], SearchOptions(), 4, work.device, capture),
    }
    requests = [Request(source, 24) for source in sources[:4]]
    found = {
        name: {k: best[0].text for k, best in decode(engine, requests)}
        for name, engine in engines.items()
    }
    for name in ("PyTorch", "CUDA graph"):
        n_equal = sum(text == found["the CPU"][k] for k, text in found[name].items())
        work.emit(f"{arch}, texts by {name}", n_equal, "equal", 4, n_equal == 4)
    work.emit(f"{arch}, replays of the CUDA graph", counts["replays"], ok=counts["replays"] > 0)


def counting_capture(capture: Capture | None, counts: Counter[str]) -> Capture:
    """Capture a step as another capture does, or as on a CPU, and count its replays."""

    def captured(step: Callable[[], None]) -> Callable[[], None]:
        replay = capture(step) if capture else step

        def counted() -> None:
            counts["replays"] += 1
            replay()

        return counted

    return captured


def device_waits(config: Config, batch: Batch, device: torch.device) -> Counter[str]:
    """Count the operations of an update for which PyTorch says that the host waits for the GPU."""
    trainer = Trainer(config, device)
    trainer.update([batch])
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer.update([batch])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return Counter(f"{Path(one.filename).name}:{one.lineno}" for one in caught)


def emulated_waits(config: Config, batch: Batch, device: torch.device) -> Counter[str]:
    """Count the reads by the host in an update on the emulated device of the tests instead."""
    helper: Any = importlib.import_module("labelled_device")
    with helper.labelled_device() as waits:
        trainer = Trainer(config, helper.DEVICE)
        trainer.update([batch])
        waits.clear()
        trainer.update([batch])
    # Comes from the norm of gradients, which the emulation alone groups by device.
    waits.pop("to the host", None)
    return Counter(+waits)


def speed(work: Work) -> None:
    """Measure training and decode steps of every architecture beside references of the same run."""
    preset, precision = ("tiny", "fp32") if work.dry else ("base", "bf16")
    peak = Peak(work.device, precision)
    limit, scale = (0.0, 0.1) if work.dry else (3.0, BIG_BATCH_RATIO)
    peak.pairs = peak.pairs[: 1 if work.dry else None]
    for arch in work.architectures:
        config = load_config(arch, preset, [])
        batch = typical_batch(int(config.train.max_tokens * scale), work.device)
        with work.guarded(f"{arch}, training"):
            step = Step(config, batch, precision)
            took = best_seconds(step, peak, limit)
            share = update_flop(config, step.model, batch) / took / peak.best
            note = f"{share:.3f} of the {MULTIPLIED}"
            work.emit(f"{arch} {preset}, training", real_bytes(batch) / took, "bytes/s", note=note)
    for kind in ("LSTM", "Transformer"):
        with work.guarded(f"PyTorch's own {kind}"):
            config = load_config("luong", preset, [])
            batch = typical_batch(int(config.train.max_tokens * scale), work.device)
            update = plain_update(kind, n_parameters(config.model), batch, precision)
            rate = real_bytes(batch) / best_seconds(update, peak, limit)
            what = f"PyTorch's own {kind} of as many weights as luong, training"
            work.emit(what, rate, "bytes/s")
    work.emit(f"{MULTIPLIED}, {precision}", peak.best / 1e12, "TFLOP/s")
    for arch in work.architectures:
        for n_rows in (1,) if work.dry else (1, 512):
            with work.guarded(f"{arch}, decoding"):
                decode_records(work, Case(arch, preset, "", precision, n_rows), peak)


def decode_records(work: Work, case: Case, peak: Peak) -> None:
    """Measure a decode step by PyTorch and by the CUDA graph, beside the time it takes at least."""
    config = endless_model(case.arch, case.preset).model.config
    n_bytes = decoder_weights(config) * DTYPES[case.precision].itemsize
    buffer = torch.zeros(1 << (24 if work.dry else 30), dtype=torch.uint8, device=work.device)
    read = min(seconds(buffer.max, work.device) for _ in range(5)) / len(buffer)
    floor = max(n_bytes * read, step_flop(case) / peak.best)
    for name in ("torch",) if work.dry else ("torch", "cuda-graph"):
        timer = StepTimer(make_engine(case._replace(engine=name), work.device), case.batch, 20_000)
        took = timer.time_steps(20) if work.dry else timer()
        what = f"{case.arch} {case.preset} {name}, step of {case.batch}"
        work.emit(what, took * 1e3, "ms", floor * 1e3, note=f"{took / floor:.1f} times the floor")


class PlainModel(nn.Module):
    """PyTorch's own encoder and decoder of width d: a two-layer LSTM or three-layer Transformer."""

    def __init__(self, kind: str, d: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, d)
        self.output = nn.Linear(d, 256)
        self.transformer = None
        if kind == "Transformer":
            self.transformer = nn.Transformer(d, d // 64, 3, 3, 4 * d, 0.0, batch_first=True)
        else:
            self.encoder, self.decoder = (nn.LSTM(d, d, 2, batch_first=True) for _ in range(2))

    def forward(self, source: Tensor, target: Tensor) -> Any:
        """Return the logits (n, t, 256) of a target (n, t) that follows a source (n, s)."""
        own = self.embedding(source)
        other = self.embedding(target)
        if self.transformer is None:
            return self.output(self.decoder(other, self.encoder(own)[1])[0])
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        return self.output(self.transformer(own, other, tgt_mask=mask, tgt_is_causal=True))


def plain_update(kind: str, n_weights: int, batch: Any, precision: str) -> Callable[[], None]:
    """Return an update of a model of PyTorch's own layers with about n_weights parameters."""
    with torch.device("meta"):
        models = {d: PlainModel(kind, d) for d in range(64, 1537, 64)}
    sizes = {d: sum(p.numel() for p in model.parameters()) for d, model in models.items()}
    d = min(sizes, key=lambda d: abs(sizes[d] - n_weights))
    model = PlainModel(kind, d).to(batch.source.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    source = batch.source.long()
    target = batch.target_in.long()

    def update() -> None:
        with torch.autocast(source.device.type, torch.bfloat16, enabled=precision == "bf16"):
            logits = model(source, target)
        loss, _ = masked_loss(logits, batch.target_out, batch.target_out != PAD, 0.0)
        optimizer.zero_grad(set_to_none=True)
        (loss / batch.target_len.sum()).backward()
        optimizer.step()

    return update


def train(work: Work) -> None:
    """Train recipes side by side; copy their weights every minute, and convert them at the end."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: Path(folder) / name / "beginning/run" for name in work.recipes}
        # The rest is for reading the text and converting.
        budget = work.seconds - (30 if work.dry else 90)
        program = [sys.executable, "-m", "bytenmt", "train"]
        words = {name: training_words(name, run, budget, work) for name, run in runs.items()}
        children = {name: subprocess.Popen([*program, *own]) for name, own in words.items()}
        copied: dict[str, float] = {}
        until = time.monotonic() + work.seconds - 25
        while any(child.poll() is None for child in children.values()) and time.monotonic() < until:
            time.sleep(1.0)
            for name, run in runs.items():
                now = time.monotonic()
                if (run / BEST).is_file() and now - copied.get(name, -COPY_SECONDS) >= COPY_SECONDS:
                    write_parts(run / BEST, work.output, f"{name}.fp32")
                    copied[name] = now
        for name, child in children.items():
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(10)
            child.kill()
            with work.guarded(name):
                finish(work, name, runs[name])


def training_words(name: str, run: Path, budget: float, work: Work) -> list[str]:
    """Return the command that trains a recipe's model on the device, as wide as fits."""
    recipe = Recipe.from_file(FOLDER / f"{name}.toml")
    if work.dry:
        texts = {"src": "valid.ko", "tgt": "valid.en"}
        texts |= {"valid-src": "test.ko", "valid-tgt": "test.en"}
        recipe = msgspec.structs.replace(recipe, texts=dict(texts), weights=())
    corpora = DATA if work.dry else Path(work.corpora)
    words = recipe.training_arguments("beginning", corpora, run.parents[1])
    words = [f"{word}.xz" if Path(f"{word}.xz").is_file() else word for word in words]
    settings = [value for key, value in zip(words, words[1:], strict=False) if key == "--set"]
    width = 32 if work.dry else fitting_width(settings)
    threads = 1 if work.dry else max(1, (os.cpu_count() or 1) // len(work.recipes))
    sizes = "600 --max-updates 6 --valid-every 3" if work.dry else LONG_TRAINING
    options = f"--set model.d_hidden={width} --device {work.device.type} --threads {threads}"
    options += f" --max-tokens {sizes} --max-minutes {budget / 60:.2f} --save-every 500"
    work.emit(f"{name}, width", width, "units")
    return [*words, *options.split()]


def fitting_width(settings: Sequence[str]) -> int:
    """Return the largest width whose int8 file has at most MAX_BYTES, 2 % of them overhead."""
    for width in range(64, 2049, 32):
        config = load_config("luong", "tiny", [*settings, f"model.d_hidden={width}"])
        if 1.02 * n_parameters(config.model) > MAX_BYTES:
            break
    return width - 32


def write_parts(file: Path, folder: str, name: str) -> None:
    """Write a file as parts of at most MAX_BYTES: `cat NAME.part*` is the file."""
    data = file.read_bytes()
    for number, first in enumerate(range(0, len(data), MAX_BYTES)):
        part = Path(folder) / f"{name}.part{number}"
        part.with_suffix(".new").write_bytes(data[first : first + MAX_BYTES])
        os.replace(part.with_suffix(".new"), part)


def finish(work: Work, name: str, run: Path) -> None:
    """Record how a training went, and write its weights in int8 and as parts in fp32."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    bits = [one["valid_bits_per_byte"] for one in records if "valid_bits_per_byte" in one]
    rates = [one["bytes_per_second"] for one in records if "bytes_per_second" in one]
    work.emit(f"{name}, updates", records[-1]["update"], note=f"{len(bits)} validations")
    work.emit(f"{name}, validation", min(bits), "bits/byte", ok=math.isfinite(min(bits)))
    work.emit(f"{name}, training", float(np.median(rates)), "bytes/s")
    file = Path(work.output) / f"{name}.safetensors"
    convert(run, file, "int8")  # without thresholds of flags, which take a long decoding
    write_parts(run / BEST, work.output, f"{name}.fp32")
    size = file.stat().st_size
    work.emit(f"{name}, int8 file", size / 1e6, "MB", MAX_BYTES / 1e6, size <= MAX_BYTES)


def main() -> None:
    """Run the part that the first argument describes, a Work in JSON."""
    work = Work(**json.loads(sys.argv[1]))
    torch.manual_seed(1)
    torch.set_num_threads(1 if work.dry else torch.get_num_threads())
    if not work.dry:
        size = torch.cuda.get_device_properties(0).total_memory / 1e9
        work.emit(torch.cuda.get_device_name(), size, "GB", note=f"PyTorch {torch.__version__}")
    {"check": check, "speed": speed, "train": train}[work.part](work)
