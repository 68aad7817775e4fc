"""Trainings of a few thousand weights that end in a moment, and what they leave."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import ARCHITECTURES
from bytenmt.checkpoints.checkpoint import load_checkpoint
from bytenmt.checkpoints.weights import METRICS
from bytenmt.config.schema import Config, load_config
from bytenmt.data.pair_files import PairFiles

CPU = torch.device("cpu")
SMALL: dict[str, list[str]] = {
    "seq2seq": ["model.d_hidden=16"],
    "bahdanau": ["model.d_hidden=12", "model.d_attention=8", "model.d_maxout=8"],
    "luong": ["model.d_hidden=12"],
    "bytenet": ["model.d_channels=8", "model.n_sets=1", "model.dilations=[1,2]"],
    "convs2s": ["model.encoder_layers=[[12,3]]", "model.decoder_layers=[[12,3],[12,3]]"],
    "transformer": ["model.d_model=16", "model.n_heads=2", "model.n_layers=1", "model.window=8"],
}


def config(arch: str, *settings: str) -> Config:
    """A model of a few thousand weights, with dropout, so that random states matter.

    It is validated by its bits alone: a decoded line, whose end a model has not learnt, costs more
    than ten updates.
    """
    common = "model.d_embedding=8 model.dropout=0.2 train.max_tokens=200 train.valid_lines=0"
    common += " train.save_every=3 train.valid_every=4 train.log_every=1 train.precision=fp32"
    common += " train.optimizer=adamw train.lr=0.002"
    given = " ".join(settings).split()  # one setting or several in each
    return load_config(arch, "tiny", [*common.split(), *SMALL[arch], *given])


def forget_architecture(name: str) -> None:
    """Remove an architecture that a test has registered, with its presets."""
    ARCHITECTURES.pop(name, None)
    for sizes in PRESETS.values():
        sizes.pop(name, None)


def write_pairs(
    folder: Path, n: int = 40, n_valid: int = 5, n_words: int = 4, n_long: int = 0
) -> dict[str, Any]:
    """Write pairs to train on and to validate on, and return them as train() takes them.

    n_long: so many of the last lines of each file have five times the words.
    """
    generator = np.random.default_rng(7)
    words = ["하나", "둘", "three", "four", "다섯 ", "x"]
    paths = []
    for name, n_lines in (("src", n), ("tgt", n), ("valid_src", n_valid), ("valid_tgt", n_valid)):
        counts = [n_words] * (n_lines - n_long) + [5 * n_words] * n_long
        lines = ["".join(generator.choice(words, count)) for count in counts]
        paths.append(folder / name)
        paths[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    src, tgt, valid_src, valid_tgt = paths
    return {"files": [PairFiles(src, tgt)], "valid": PairFiles(valid_src, valid_tgt)}


def nine_lines(text: Path) -> PairFiles:
    """Write a text of nine short lines, each of which is its own translation."""
    words = [("eins", "zwei", "drei"), ("rot", "blau", "grün")]
    text.write_text("".join(f"{' '.join(pair)}\n" for pair in product(*words)), encoding="utf-8")
    return PairFiles(text, text)


def records(run: Path) -> list[dict[str, Any]]:
    """The log of a run."""
    return [json.loads(line) for line in (run / METRICS).read_text().splitlines()]


def weights(run: Path) -> dict[str, torch.Tensor]:
    """All tensors and numbers of the last checkpoint."""
    saved = load_checkpoint(run)
    return saved.weights | flat(saved.trainer, "trainer")


def flat(state: Any, name: str) -> dict[str, torch.Tensor]:
    """The tensors and numbers in nested dictionaries and lists, by the keys that lead to them."""
    if isinstance(state, dict | list | tuple):
        items = state.items() if isinstance(state, dict) else enumerate(state)
        return {
            key: one for part, inner in items for key, one in flat(inner, f"{name}.{part}").items()
        }
    return {} if state is None or isinstance(state, str) else {name: torch.as_tensor(state)}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name
