"""The recipe of a rival's training, its run folder, and loading the model from it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file

from bytenmt.config.schema import AUGMENTATIONS, DataConfig
from bytenmt.errors import BytenmtError, CheckpointError
from tools.rival.model import Transformer, TransformerShape

CONFIG = "config.json"
BEST = "best.safetensors"
CHECKPOINT = "checkpoint.pt"
METRICS = "metrics.jsonl"


class Recipe(NamedTuple):
    """The options of model and training."""

    vocabulary: int = 4000  # subwords at most, shared by both sides, 256 bytes among them
    pieces: str = "unigram"  # SentencePiece's model type, or bpe
    d_model: int = 256
    layers: int = 4  # of the encoder
    decoder_layers: int = 0  # 0: as many as the encoder's
    ff: int = 4  # inner width of a feed-forward sublayer, in widths
    heads: int = 0  # 0: of 64 channels each
    dropout: float = 0.1  # of embeddings, attention weights and sublayer outputs
    label_smoothing: float = 0.1
    optimizer: str = "adamw"  # or muon: the hidden matrices by Muon, tables and vectors by AdamW
    lr: float = 2e-3  # the highest rate: linear warm-up, then a cosine to 0 at the limit
    warmup_updates: int = 200
    weight_decay: float = 0.01  # of matrices
    clip_norm: float = 1.0
    ema: float = 0.99  # decay of the moving average of weights that is validated and exported
    max_tokens: int = 2000  # pieces of a batch, source plus target, including padding
    max_pieces: int = 256  # a training pair with a longer side is left out
    precision: str = "fp32"  # of the products in training, or bf16: autocast
    seed: int = 1
    noise: float = 0.0  # this and the following: augmentation, as data.noise … of bytenmt
    copy: float = 0.0
    upper_case: float = 0.0
    title_case: float = 0.0
    lower_case: float = 0.0
    unpunctuated: float = 0.0
    empty_source: float = 0.0

    def data(self) -> DataConfig:
        """Return the augmentation of the training pairs as bytenmt's configuration."""
        names = {*AUGMENTATIONS} & {*self._fields}
        return DataConfig(**{name: getattr(self, name) for name in names})

    def shape(self, n_pieces: int) -> TransformerShape:
        """Return the shape of the model. n_pieces: vocabulary size. Raises BytenmtError."""
        heads = self.heads or max(1, self.d_model // 64)
        if self.d_model % (2 * heads):
            raise BytenmtError(
                f"--d-model {self.d_model}: expected a multiple of {2 * heads}, for {heads} heads"
            )
        d = self.d_model
        layers = (self.layers, self.decoder_layers or self.layers)
        return TransformerShape(n_pieces, d, self.ff * d, *layers, heads, self.dropout)


CHOICES = {"pieces": ("unigram", "bpe"), "optimizer": ("adamw", "muon")}
CHOICES["precision"] = ("fp32", "bf16")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field of a recipe."""
    for name, default in Recipe()._asdict().items():
        option: dict[str, Any] = {"type": type(default), "default": default}
        option |= {"choices": CHOICES.get(name), "help": "(%(default)s)"}
        parser.add_argument("--" + name.replace("_", "-"), **option)


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
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CheckpointError(f"{folder} is not a run of the rival: {error}") from None

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


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """Return the records of a run's metrics, none where there are no metrics yet."""
    file = folder / METRICS
    text = file.read_text("utf-8") if file.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]
