"""The recipe of a rival's training, its run folder, and loading the model from it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file

from bytenmt.config.schema import AUGMENTATIONS, DataConfig, TrainConfig
from bytenmt.errors import BytenmtError, CheckpointError
from tools.rival.model import Transformer, TransformerShape

CONFIG, BEST, CHECKPOINT = "config.json", "best.safetensors", "checkpoint.pt"


class Recipe(NamedTuple):
    """The options of model and training; HELP describes each."""

    vocabulary: int = 4000
    pieces: str = "unigram"
    d_model: int = 256
    layers: int = 4
    decoder_layers: int = 0
    ff: int = 4
    heads: int = 0
    dropout: float = 0.1
    label_smoothing: float = 0.1
    optimizer: str = "adamw"
    lr: float = 2e-3
    warmup_updates: int = 200
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    ema: float = 0.99
    max_tokens: int = 2000
    max_pieces: int = 256
    precision: str = "fp32"
    seed: int = 1
    noise: float = 0.0
    copy: float = 0.0
    upper_case: float = 0.0
    title_case: float = 0.0
    lower_case: float = 0.0
    unpunctuated: float = 0.0
    empty_source: float = 0.0

    def train(self, max_updates: int, max_minutes: float) -> TrainConfig:
        """Return rate, schedule and limits as bytenmt's configuration, so that both are counted alike."""
        same = (
            "lr warmup_updates weight_decay clip_norm label_smoothing ema max_tokens optimizer precision seed"
        )
        return TrainConfig(
            max_updates=max_updates,
            max_minutes=max_minutes,
            schedule="cosine",
            **{name: getattr(self, name) for name in same.split()},
        )

    def data(self) -> DataConfig:
        """Return the augmentation of the training pairs as bytenmt's configuration."""
        return DataConfig(**{name: getattr(self, name) for name in AUGMENTATIONS if name in self._fields})

    def shape(self, n_pieces: int) -> TransformerShape:
        """Return the shape of the model. n_pieces: vocabulary size. Raises BytenmtError."""
        heads = self.heads or max(1, self.d_model // 64)
        if self.d_model % (2 * heads):
            raise BytenmtError(
                f"--d-model {self.d_model}: expected a multiple of {2 * heads}, for {heads} heads"
            )
        layers = self.decoder_layers or self.layers
        inner = self.ff * self.d_model
        return TransformerShape(n_pieces, self.d_model, inner, self.layers, layers, heads, self.dropout)


CHOICES = {"pieces": ("unigram", "bpe"), "optimizer": ("adamw", "muon"), "precision": ("fp32", "bf16")}
HELP = {
    "vocabulary": "subwords at most, shared by both sides, 256 bytes among them",
    "pieces": "SentencePiece's model type",
    "d_model": "width",
    "layers": "of the encoder",
    "decoder_layers": "0: as many as the encoder's",
    "ff": "inner width of a feed-forward sublayer, in widths",
    "heads": "0: of 64 channels each",
    "dropout": "of embeddings, attention weights and sublayer outputs",
    "label_smoothing": "weight of the uniform distribution in the training targets",
    "optimizer": "muon: the hidden matrices by Muon, tables and vectors by AdamW",
    "lr": "the highest rate: linear warm-up, then a cosine to 0 at the limit",
    "warmup_updates": "updates",
    "weight_decay": "of matrices",
    "clip_norm": "of the gradient",
    "ema": "decay of the moving average of weights that is validated and exported; 0: the weights themselves",
    "max_tokens": "pieces of a batch, source plus target, including padding",
    "max_pieces": "a training pair with a longer side is left out",
    "precision": "of the products in training; bf16: autocast",
    "seed": "of weights, order and dropout",
    "noise": "share of a source's characters with a typo, as data.noise of bytenmt",
    "copy": "share of pairs whose copied items are replaced by others, as data.copy",
    "upper_case": "share of pairs in capitals, as data.upper_case",
    "title_case": "share of pairs in which every word begins with a capital, as data.title_case",
    "lower_case": "share of pairs without capitals, as data.lower_case",
    "unpunctuated": "share of pairs without their final signs, as data.unpunctuated",
    "empty_source": "share of pairs whose source is emptied, as data.empty_source",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field of a recipe."""
    for name, default in Recipe()._asdict().items():
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=type(default),
            default=default,
            choices=CHOICES.get(name),
            help=f"{HELP[name]} (%(default)s)",
        )


class RunInfo(NamedTuple):
    """The content of config.json: the recipe, the vocabulary size and the number of parameters."""

    recipe: Recipe
    n_pieces: int
    parameters: int

    @classmethod
    def load(cls, folder: Path) -> RunInfo:
        """Read it from a run folder. Raises CheckpointError."""
        try:
            values: dict[str, Any] = json.loads((folder / CONFIG).read_bytes())
            return cls(Recipe(**values["recipe"]), values["n_pieces"], values["parameters"])
        except OSError as error:
            raise CheckpointError(f"{folder} is no rival's run: {CONFIG}: {error.strerror}") from None
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointError(f"{folder / CONFIG} cannot be used: {error}") from None

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps(self._asdict() | {"recipe": self.recipe._asdict()}, indent=1) + "\n"


def load_model(folder: Path) -> Transformer:
    """Load the best weights of a run, in evaluation mode. Raises CheckpointError."""
    stored = RunInfo.load(folder)
    model = Transformer(stored.recipe.shape(stored.n_pieces))
    try:
        model.load_state_dict(load_file(folder / BEST))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise CheckpointError(f"{folder / BEST} cannot be used: {error}") from None
    return model.eval()
