"""Command lines for a fuzzer: good ones, of which some options get values that nobody would choose.

Knows the commands by what click tells of them.
"""

from __future__ import annotations

import importlib
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from bytenmt.cli.main import main

VALUES = [
    *("nan", "inf", "-inf", "1e308", "-1e308", "1e-320", "-1", "0", "1", "2", "3", "8", "1.5", "100000"),
    *("9" * 30, "9" * 5_000, "2147483648", "9223372036854775807", "18446744073709551616", "0x10", "1_000"),
    *("", " ", "x", "-", "--", "a=b", "=", "a\nb", "\x1b[2J", "\u202e", "é" * 200, "z" * 3_000),
    *(os.fsdecode(b"\xff"), os.fsdecode(b"\xc3("), "/", ".", "..", "/dev/null", "/nonexistent/x", "\x7f"),
]
SETTINGS = [
    *("model.d_embedding", "model.dropout", "model.n_layers", "model.tie_embedding", "model.d_hidden"),
    *("data.max_source_bytes", "data.max_target_bytes", "train.seed", "train.max_tokens", "train.lr"),
    *("train.warmup_updates", "train.weight_decay", "train.ema", "train.clip_norm", "train.valid_lines"),
    *("train.keep_last", "train.log_every", "train.valid_every", "train.save_every", "train.round_to"),
    *("train.min_lr", "train.plateau_factor", "train.schedule", "train.optimizer", "train.metric"),
    *("train.max_minutes", "train.patience", "train.update_freq", "train.window", "train.label_smoothing"),
    "train.max_cpu_minutes",
    *("a.b", "model", "train", "model.x.y", "." * 50, "a" * 3_000, "\0", ".".join("a" * 3_000)),
]
TOGETHER = ("device", "run", "runs", "engine", "output", "config", "init_embedding", "tensorboard")  # kept
SLOW = {"train": 1, "evaluate": 2, "score": 2, "predict": 2}  # of how rarely they come: others have 6


# What the commands import when they are called: once is enough for all children.
HEAVY = [
    "evaluation.alignment",
    "evaluation.likelihood",
    "evaluation.scores",
    "storage.average",
    "storage.quantize",
    "speculative.build",
]
HEAVY += ["language.summary", "language.generate", "language.html_report", "language.surprisal"]
HEAVY += [
    "language.baselines",
    "decoding.model_summary",
    "cli.decoding_args",
    "cli.inputs",
    "cli.line_filter",
]
for name in HEAVY:
    importlib.import_module(f"bytenmt.{name}")


class Places(NamedTuple):
    """What command lines name. run, language: folders of a translation and of a language model; text: a file
    of lines; out: a folder that is empty."""

    run: Path
    language: Path
    text: Path
    out: Path


def good(command: str, at: Places) -> list[str]:
    """A command line that works, and takes little time."""
    run, text = str(at.run), str(at.text)
    pair = ["--src", text, "--tgt", text, "--valid-src", text, "--valid-tgt", text]
    sizes = [f"model.{size}" for size in ("d_embedding=4", "d_hidden=4", "d_attention=4", "d_maxout=4")]
    lines = {
        "translate": ["-m", run, "--max-len-a", "1", "--max-len-b", "4", "--threads", "1"],
        "evaluate": ["-m", run, "--src", text, "--ref", text, "--max-len-a", "1", "--max-len-b", "2"],
        "score": ["-m", run, "--src", text, "--tgt", text],
        "predict": ["-m", str(at.language), "--no-reference", text],
        "generate": ["-m", str(at.language), "--bytes", "5", "--threads", "1"],
        "info": [run],
        "average": [run, "-o", str(at.out / "mean.safetensors")],
        "card": [run, "-o", str(at.out / "card.md")],
        "draft": [run, "--src", text, "--tgt", text],
        "convert": [run, "-o", str(at.out / "small.safetensors"), "--precision", "int8"],
        "train": [
            *("-o", str(at.out / "run"), "--arch", "bahdanau", "--preset", "tiny", *pair),
            # Two limits, so that a value that lifts the one leaves the other.
            *("--max-updates", "1", "--max-minutes", "0.05", "--max-tokens", "300"),
            *("--set", "train.valid_lines=1"),
            *(part for size in sizes for part in ("--set", size)),
        ],
    }
    return [command, *lines[command]]


def line(at: Places, chance: random.Random) -> list[str]:
    """A command line of which one to three options have hostile values."""
    commands = main.every()
    names = sorted(commands)
    command = chance.choices(names, [SLOW.get(name, 6) for name in names])[0]
    words = good(command, at)
    for _ in range(chance.choice([1, 1, 2, 3])):
        words += _option(commands[command].params, chance)
    return words


def _option(params: Sequence[click.Parameter], chance: random.Random) -> list[str]:
    """One more option, or argument, with a value."""
    given = [one for one in params if isinstance(one, click.Option) and one.name not in TOGETHER]
    if chance.random() < 0.05 or not given:
        return [chance.choice(VALUES)]
    one = chance.choice(given)
    name = chance.choice([*one.opts, *one.secondary_opts])
    if one.is_flag:
        return [name]
    value = chance.choice(VALUES)
    if one.name == "settings" and chance.random() < 0.9:
        value = f"{chance.choice(SETTINGS)}={value}"
    if isinstance(one.type, click.Choice) and chance.random() < 0.7:
        value = str(chance.choice(list(one.type.choices)))
    return [name, value.replace("\0", "") if chance.random() < 0.99 else value]
