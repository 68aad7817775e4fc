"""Build command lines for the fuzzer: valid ones, and valid ones with hostile values for some options."""

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
    *("train.log_every", "train.valid_every", "train.save_every", "train.round_to"),
    *("train.min_lr", "train.plateau_factor", "train.schedule", "train.optimizer", "train.metric"),
    *("train.max_minutes", "train.patience", "train.update_freq", "train.window", "train.label_smoothing"),
    *("a.b", "model", "train", "model.x.y", "." * 50, "a" * 3_000, "\0", ".".join("a" * 3_000)),
]
# Options that are left out: another device, engine or output file would reveal nothing new.
UNCHANGED = ("device", "run", "runs", "engine", "output", "config", "init_embedding", "tensorboard")
# Slow commands are drawn rarely.
WEIGHTS = {"train": 1, "evaluate": 2, "predict": 2}
DEFAULT_WEIGHT = 6
NOT_TRIED = {
    "adapt": "trains for a minute, by the code of `train` and with options of paths, a pair and a seed alone",
    "serve": "runs until it is stopped",
    "translate-dataset": "starts a cluster of Ray",
}

# Modules that commands import lazily: imported here once for all forked children.
LAZY_MODULES = [
    *("decoding.alignment", "evaluation.likelihood", "evaluation.scores"),
    "checkpoints.quantize",
    *("language.summary", "language.generate", "language.html_report", "language.surprisal"),
    *("language.ngram", "decoding.model_summary", "documents.translation"),
    *("evaluation.comparison", "evaluation.plots"),
    *("cli.decoding_args", "cli.inputs", "cli.line_filter"),
]
for name in LAZY_MODULES:
    importlib.import_module(f"bytenmt.{name}")


class Paths(NamedTuple):
    """The files that command lines refer to.

    run, language: a translation model and a language model. text: a text file. document: a document. out: an
    empty folder.
    """

    run: Path
    language: Path
    text: Path
    document: Path
    out: Path


def valid_line(command: str, paths: Paths) -> list[str]:
    """Return a command line that succeeds quickly. command: its name, such as `plot attention`."""
    run, text = str(paths.run), str(paths.text)
    pair = ["--src", text, "--tgt", text, "--valid-src", text, "--valid-tgt", text]
    sizes = [f"model.{size}" for size in ("d_embedding=4", "d_hidden=4", "d_attention=4", "d_maxout=4")]
    short = ["--max-len-a", "1", "--max-len-b", "4", "--threads", "1"]
    lines = {
        "translate": [run, *short],
        "translate-file": [run, str(paths.document), str(paths.out / "translated"), *short],
        "evaluate": [run, "--src", text, "--ref", text, "--max-len-a", "1", "--max-len-b", "2"],
        "predict": [str(paths.language), text, "--no-reference"],
        "generate": [str(paths.language), "--bytes", "5", "--threads", "1"],
        "info": [run],
        "convert": [run, "-o", str(paths.out / "small.safetensors"), "--precision", "int8"],
        "plot attention": [run, "--line", "ab", "-o", str(paths.out / "attention.png")],
        "plot embedding": [run, "-o", str(paths.out / "embedding.png")],
        "train": [
            *("-o", str(paths.out / "run"), "--arch", "bahdanau", "--preset", "tiny", *pair),
            # Two limits, so that training ends even if a hostile value removes one.
            *("--max-updates", "1", "--max-minutes", "0.05", "--max-tokens", "300"),
            *("--set", "train.valid_lines=1"),
            *(part for size in sizes for part in ("--set", size)),
        ],
    }
    return [*command.split(), *lines[command]]


def commands() -> dict[str, click.Command]:
    """Return all commands to try by name; those of a group have names such as `plot attention`."""
    found: dict[str, click.Command] = {}
    for name, command in main.every().items():
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": one for inner, one in command.commands.items()}
        elif name not in NOT_TRIED:
            found[name] = command
    return found


def hostile_line(paths: Paths, chance: random.Random) -> list[str]:
    """Return a valid command line with one to three additional options with hostile values."""
    known = commands()
    names = sorted(known)
    command = chance.choices(names, [WEIGHTS.get(name, DEFAULT_WEIGHT) for name in names])[0]
    words = valid_line(command, paths)
    for _ in range(chance.choice([1, 1, 2, 3])):
        words += _hostile_option(known[command].params, chance)
    return words


def _hostile_option(params: Sequence[click.Parameter], chance: random.Random) -> list[str]:
    """Return an option with a value, or one more argument."""
    options = [one for one in params if isinstance(one, click.Option) and one.name not in UNCHANGED]
    if chance.random() < 0.05 or not options:
        return [chance.choice(VALUES)]
    option = chance.choice(options)
    name = chance.choice([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return [name]
    value = chance.choice(VALUES)
    if option.name == "settings" and chance.random() < 0.9:
        value = f"{chance.choice(SETTINGS)}={value}"
    if isinstance(option.type, click.Choice) and chance.random() < 0.7:
        value = str(chance.choice(list(option.type.choices)))
    return [name, value.replace("\0", "") if chance.random() < 0.99 else value]
