"""The configuration section `train`: optimiser, limits, batches, validation.

The comment of a key, or its help, is its meaning in docs/configuration.md, see
tools/configuration_page.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bytenmt.architectures.section import Dropout, Section
from bytenmt.config.fields import MAX_COUNT, Count, Fraction, Positive, Seed

Decay = Annotated[float, Meta(gt=0.0, lt=1.0)]
Rate = Annotated[float, Meta(ge=0.0, le=1e3)]
NonNegative = Annotated[float, Meta(ge=0.0, le=MAX_COUNT)]
Finite = Annotated[float, Meta(ge=-MAX_COUNT, le=MAX_COUNT)]
ContextBytes = Annotated[int, Meta(ge=0, le=1 << 20)]  # bytes read before a window


def option_help(text: str) -> Meta:
    """Return a type annotation that makes a configuration key an option with this --help text."""
    return Meta(description=text)


class TrainConfig(Section, frozen=True):
    """Configuration section `train`: optimiser, limits, batches and validation of a training.

    A key with an `option_help` is also an option of `bytenmt train`: max_updates is --max-updates.
    """

    seed: Annotated[Seed, option_help("Random seed of the training.")] = 1
    max_updates: Annotated[
        Count, option_help("Stop after this number of updates; 0 means no limit.")
    ] = 20_000
    max_epochs: Annotated[
        NonNegative,
        option_help("Stop after this number of passes over the training text; 0 means no limit."),
    ] = 0.0
    max_minutes: Annotated[
        NonNegative,
        option_help(
            "Stop after this number of minutes, summed over all resumptions of the run; 0 means no"
            " limit."
        ),
    ] = 0.0
    patience: Annotated[
        Count,
        option_help(
            "Early stopping: stop after this number of validations without improvement;"
            " 0 means never."
        ),
    ] = 0
    max_tokens: Annotated[
        Positive,
        option_help(
            "Batch size in bytes, source and target, padding included, over all processes."
        ),
    ] = 12_000
    update_freq: Annotated[
        int,
        Meta(ge=1, le=512),
        option_help("Number of batches per update, whose gradients are accumulated."),
    ] = 1
    # language models: bytes of a stream in a batch
    window: Annotated[int, Meta(ge=1, le=1 << 20)] = 256
    context: ContextBytes = 0  # convolutional language models: bytes read before the window
    valid_bytes: Positive = 200_000  # language models: bytes of the validation text that are scored
    # of all but n-gram tables
    optimizer: Literal["adamw", "muon", "nag", "sgd", "adadelta"] = "adamw"
    lr: Annotated[float, Meta(gt=0.0, le=1e3), option_help("Peak learning rate.")] = 1e-3
    # a [schedule](training.md#length-of-a-run) of the package or of a plugin
    schedule: str = "cosine"
    warmup_updates: Count = 200  # updates of linear warm-up
    # schedule `wsd` (warm-up, stable, decay): last share of the run: the rate falls to zero
    decay_share: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.2
    # schedule `plateau`: factor of the rate when validation stops improving
    plateau_factor: Decay = 0.1
    min_lr: Fraction = 1e-4  # schedule `plateau`: training ends at this fraction of the peak rate
    weight_decay: Rate = 0.01  # decoupled weight decay
    adam_beta1: Dropout = 0.9  # β₁ of AdamW, also for the parameters that AdamW updates beside Muon
    adam_beta2: Decay = 0.98  # β₂ of AdamW
    # optimizer `muon`: peak rate of the parameters that AdamW updates; 0 means `train.lr`
    adam_lr: Rate = 0.0
    ngram_lr: Rate = 0.0  # peak rate of n-gram tables; 0 means 0.03
    momentum: Dropout = 0.99  # momentum of NAG
    muon_momentum: Dropout = 0.95  # momentum of Muon
    # maximum gradient norm; 0 means no clipping
    clip_norm: Annotated[float, Meta(ge=0.0, le=1e9)] = 1.0
    label_smoothing: Dropout = 0.0  # label smoothing
    loss_terms: dict[str, Finite] = {}  # weight of the loss term NAME of a plugin
    # share of the decoder's input bytes that are replaced by padding in training
    byte_dropout: Dropout = 0.0
    # how often the decoder reads the true byte, not its own prediction
    teacher_forcing: Fraction = 1.0
    # decay of the moving average of the weights, which is validated and saved; 0 means off
    ema: Dropout = 0.0
    # auto: bf16 on a GPU, and on a CPU with bf16 products for all but recurrent models under 256
    # units
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    # the [metric](training.md#watch-a-training) of a validation that selects the best checkpoint
    metric: str = "bits_per_byte"
    valid_every: Annotated[Positive, option_help("Updates between validations.")] = 500
    save_every: Annotated[Positive, option_help("Updates between checkpoints.")] = 500
    # validation lines translated for chrF and BLEU; 0 means bits per byte only
    valid_lines: Count = 200
    log_every: Positive = 50  # interval between log records, in updates
