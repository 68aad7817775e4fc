"""Measure the cost of n-gram tables for a decode step of the CPU engine and for a training update.

    python tools/bench/ngrams.py

The two models differ only in the tables and are measured in turn. Decoding samples from random weights, so
that the n-grams, and with them the rows read, differ at every step. An update is Trainer.update on batches of
the configured size, of random letters.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import numpy as np
import torch

from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import Config, load_config
from bytenmt.data.batches import Batch
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.interface import Options
from bytenmt.training.trainer import Trainer
from bytenmt.utf8 import BOS, EOS
from tools.bench.records import Record, format_table, write_json
from tools.bench.steps import NEVER, StepTimer, machine_load, measure_in_turn

BENCH = "bench/ngrams"
ARCHITECTURES = ("seq2seq", "bahdanau", "luong", "bytenet", "convs2s")
TABLES = ["model.ngrams=[2,3,4,5,6]"]
LINE = 50  # bytes of a line in training


def settings(arch: str, preset: str, with_tables: bool, *more: str) -> Config:
    """Return the configuration of a preset with or without n-gram tables."""
    return load_config(arch, preset, "", [*(TABLES if with_tables else []), *more])


def sampling_engine(config: Config, batch: int) -> NumbaEngine:
    """Build an engine that samples sentences that never end; the n-gram tables hold random values."""
    torch.manual_seed(1)
    model = build_model(config.model).eval()
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        if model.embedding.ngrams is not None:
            torch.nn.init.normal_(model.embedding.ngrams.weight, std=0.1)
        if "decoder.output.bias" in parameters:
            parameters["decoder.output.bias"][EOS] = NEVER
        else:  # the logit 0, which about half of the other 255 exceed
            parameters["decoder.output.weight"][EOS] = 0.0
    arrays = {name: p.detach().numpy() for name, p in parameters.items()}
    options = Options(sample=True, endless=True)
    return NumbaEngine([pack_model(arrays, config.model, "fp32")], options, batch)


def decode_records(options: argparse.Namespace) -> Iterator[Record]:
    """Measure a step with tables, relative to one without."""
    for preset in options.preset:
        for arch in options.arch:
            for batch in options.batch:
                actions = {
                    name: StepTimer(sampling_engine(settings(arch, preset, name == "tables"), batch), batch)
                    for name in ("tables", "none")
                }
                found = measure_in_turn(actions, options.rounds)
                own, other = found["tables"].best * 1e3, found["none"].best * 1e3
                case = f"{arch} {preset} step batch={batch}"
                yield Record(BENCH, case, own, "ms", "without tables", other, own / other)


def update_records(options: argparse.Namespace) -> Iterator[Record]:
    """Measure an update with tables, relative to one without: CPU time, median of options.updates in turn."""
    for arch in options.arch:
        configs = [settings(arch, "tiny", on, "train.precision=bf16") for on in (True, False)]
        trainers = [Trainer(config, torch.device("cpu")) for config in configs]
        rows = max(1, configs[0].train.max_tokens // (2 * LINE))
        draw = np.random.default_rng(1)
        times: list[list[float]] = [[], []]
        for number in range(options.updates + 5):
            batch = random_batch(draw, rows)
            for trainer, durations in zip(trainers, times, strict=True):
                started = time.thread_time()
                trainer.model.train()
                trainer.update([batch], rows * (LINE + 1))
                durations.append(time.thread_time() - started)
            if number == 4:  # the warm-up is over: discard its times
                times = [[], []]
        own, other = (statistics.median(durations) * 1e3 for durations in times)
        yield Record(BENCH, f"{arch} tiny update", own, "CPU ms", "without tables", other, own / other)


def random_batch(draw: np.random.Generator, rows: int) -> Batch:
    """Return pairs of LINE bytes, drawn with English letter frequencies so that n-grams recur."""
    letters = np.frombuffer(b"eeeeeeetttttaaaaooooiiiinnnnssshhhrrrddllcumwfgypbvk      ", np.uint8)
    source, target = (draw.choice(letters, (rows, LINE + 2)).astype(np.uint8) for _ in range(2))
    target[:, 0] = BOS
    for part in (source, target):
        part[:, -1] = EOS
    lengths = np.full(rows, LINE + 1, np.int64)
    return Batch(source[:, 1:], lengths, target, lengths.copy())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Measure the cost of n-gram tables.")
    parser.add_argument("--arch", nargs="+", choices=ARCHITECTURES, default=list(ARCHITECTURES))
    parser.add_argument("--preset", nargs="+", default=["tiny", "base"])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--only", choices=("decode", "update"))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(machine_load(), file=sys.stderr)
    records: list[Record] = []
    for name, measured in (("decode", decode_records(options)), ("update", update_records(options))):
        if options.only in (None, name):
            for record in measured:
                records.append(record)
                print(format_table([record]).splitlines()[-1], file=sys.stderr, flush=True)
    print(format_table(records))
    if options.json:
        write_json(options.json, records)


if __name__ == "__main__":
    main()
