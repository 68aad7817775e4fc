"""Typed, frozen configuration: a preset, under a TOML file, under `--set key=value`.

Everything that a run depends on stands here with its default; an unknown key, a wrong type or a value
out of range fails with its path. Knows no tensors and no files but the TOML text that it is given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
import tomli_w
from msgspec import Meta, Struct

from bytenmt.config.advice import explained
from bytenmt.config.bounds import MOST, TRAINING
from bytenmt.config.presets import PRESETS
from bytenmt.config.spacing import AUTO, check_spacing
from bytenmt.config.tree import assign, merge, not_finite, preset_tree
from bytenmt.config.untrusted import parse_toml, printable
from bytenmt.errors import ConfigError

Positive = Annotated[int, Meta(ge=1, le=MOST)]
Count = Annotated[int, Meta(ge=0, le=MOST)]
Fraction = Annotated[float, Meta(ge=0.0, le=1.0)]
Dropout = Annotated[float, Meta(ge=0.0, lt=1.0)]
# Bounds of a model's sizes, far beyond what anybody trains: a configuration may come from a stranger, and
# what is counted or built from it must end.
Width = Annotated[int, Meta(ge=1, le=1 << 16)]
Layers = Annotated[int, Meta(ge=1, le=256)]
Kernel = Annotated[int, Meta(ge=1, le=1 << 10)]
Dilation = Annotated[int, Meta(ge=1, le=1 << 12)]
MOST_LAYERS = 256  # of a stack of convolutions
LONGEST_FIELD = 1 << 14  # bytes before it that a convolutional prediction depends on: each is kept
ConvLayer = tuple[Width, Kernel]  # channels, kernel width
Length = Annotated[int, Meta(ge=1, le=1 << 20)]  # bytes of a window


def _as_option(name: str) -> Meta:
    """The bounds of what is an option of train too."""
    low, high, above, _ = TRAINING[name]
    return Meta(gt=low, le=high) if above else Meta(ge=low, le=high)


class _Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the configuration: immutable, no unknown keys."""


class ModelSection(_Section, frozen=True, kw_only=True, tag_field="arch"):
    """What all architectures have; `tag` is the name of each."""

    d_embedding: Width
    source: bool = True  # false: a byte language model, without an encoder and without attention
    dropout: Dropout = 0.1
    tie_embedding: bool = False  # the output layer uses the byte embedding's table


class Seq2SeqConfig(ModelSection, frozen=True, kw_only=True, tag="seq2seq"):
    """GRU encoder-decoder (Cho et al. 2014, Sutskever et al. 2014)."""

    d_hidden: Width
    n_layers: Layers = 1
    context: Literal["start", "every_step"] = "start"
    gru_reset: Literal["before", "after"] = "before"
    reverse_source: bool = True
    init: Literal["scaled", "paper"] = "scaled"

    def __post_init__(self) -> None:
        if not self.source and self.context == "every_step":
            raise ValueError('context = "every_step" shows a source at every step: without one set "start"')
        if self.d_hidden == 1 and self.context == "every_step":
            raise ValueError(
                'd_hidden = 1 leaves nothing to read out with context = "every_step": set 2 or more'
            )


class BahdanauConfig(ModelSection, frozen=True, kw_only=True, tag="bahdanau"):
    """Additive attention (Bahdanau et al. 2015)."""

    d_hidden: Width
    d_attention: Width
    d_maxout: Width
    read_out: Literal["previous", "current"] = "previous"  # the state that the read-out sees
    init: Literal["scaled", "paper"] = "scaled"


class LuongConfig(ModelSection, frozen=True, kw_only=True, tag="luong"):
    """Stacked LSTM with global attention and input feeding (Luong et al. 2015)."""

    d_hidden: Width
    n_layers: Layers = 2
    score: Literal["dot", "general", "concat"] = "general"
    input_feeding: bool = True
    reverse_source: bool = False
    init: Literal["scaled", "paper"] = "scaled"

    def __post_init__(self) -> None:
        if not self.source and self.input_feeding:
            raise ValueError("input_feeding is of the attention's outcome: without a source set it to false")


class ByteNetConfig(ModelSection, frozen=True, kw_only=True, tag="bytenet"):
    """Dilated convolutions stacked on the encoder (Kalchbrenner et al. 2016)."""

    d_channels: Width  # the paper's d: inside a block; 2d between blocks
    n_sets: Layers
    dilations: Annotated[tuple[Dilation, ...], Meta(min_length=1, max_length=MOST_LAYERS)] = (1, 2, 4, 8, 16)
    kernel_width: Kernel = 3
    block: Literal["relu", "multiplicative"] = "relu"
    unfolding_factor: Annotated[float, Meta(gt=0.0, le=16.0)] = 1.2  # a of |t^| = a|s| + b
    unfolding_offset: Annotated[int, Meta(ge=0, le=1 << 12)] = 0  # b, in bytes

    def __post_init__(self) -> None:
        n_blocks = self.n_sets * len(self.dilations)
        if n_blocks > MOST_LAYERS:
            raise ValueError(
                f"n_sets times the dilations are {n_blocks} blocks: expected {MOST_LAYERS} or fewer"
            )
        _check_field((self.kernel_width - 1) * sum(self.dilations) * self.n_sets)


class ConvS2SConfig(ModelSection, frozen=True, kw_only=True, tag="convs2s"):
    """Gated convolutions with attention in every decoder layer (Gehring et al. 2017)."""

    encoder_layers: Annotated[tuple[ConvLayer, ...], Meta(max_length=MOST_LAYERS)] = ()
    decoder_layers: Annotated[tuple[ConvLayer, ...], Meta(min_length=1, max_length=MOST_LAYERS)]
    n_positions: Annotated[int, Meta(ge=0, le=1 << 20)] = (
        4096  # rows of the position tables, the last one shared by all beyond; 0: none
    )

    def __post_init__(self) -> None:
        if self.source != bool(self.encoder_layers):
            raise ValueError(
                "encoder_layers is empty: give a layer or more"
                if self.source
                else "encoder_layers would be ignored without a source: set it to []"
            )
        _check_field(sum(kernel_width - 1 for _, kernel_width in self.decoder_layers))


def _check_field(reach: int) -> None:
    """Raise ValueError where so many bytes before a prediction would have to be kept."""
    if reach > LONGEST_FIELD:
        raise ValueError(
            f"the receptive field is {reach + 1:,} bytes: expected {LONGEST_FIELD + 1:,} or fewer"
        )


CONVOLUTIONAL = ("bytenet", "convs2s")  # architectures whose training has no loop over time
ATTENTIVE = ("bahdanau", "luong", "convs2s")  # those with attention, which tells an alignment
ModelConfig = Seq2SeqConfig | BahdanauConfig | LuongConfig | ByteNetConfig | ConvS2SConfig
REGISTERED: dict[str, type[Config]] = {}  # a whole run's configuration, by the name of its architecture


def architecture(config: ModelConfig) -> str:
    """The name of a model's architecture, as --arch has it."""
    return str(config.__struct_config__.tag)


class DataConfig(_Section, frozen=True):
    """Which training pairs are used."""

    max_source_bytes: Positive = 1000  # a longer pair is left out and reported
    max_target_bytes: Positive = 1000


class TrainConfig(_Section, frozen=True):
    """The training loop."""

    seed: Annotated[int, _as_option("seed")] = 1
    max_updates: Annotated[int, _as_option("max_updates")] = 20_000  # 0: no limit
    max_minutes: Annotated[float, _as_option("max_minutes")] = 0.0  # in all, resumed or not; 0: no limit
    # Of all processes and threads, in all: what a shared machine takes away does not count; 0: no limit.
    max_cpu_minutes: Annotated[float, _as_option("max_cpu_minutes")] = 0.0
    # Bytes a batch, source plus target, padding counted, over all processes.
    max_tokens: Annotated[int, _as_option("max_tokens")] = 12_000
    window: Length = 256  # without a source: bytes of each stream that a batch learns from
    valid_bytes: Positive = 200_000  # without a source: of the validation text, from its beginning on
    context: Annotated[int, Meta(ge=0, le=1 << 20)] = (
        0  # without a source, convolutional models: bytes read before them
    )
    update_freq: Annotated[int, _as_option("update_freq")] = 1  # batches an update
    round_to: Annotated[int, Meta(ge=1, le=1 << 16)] = (
        1  # batches are as wide as a multiple of it, so that the shapes are fewer
    )
    short_first: bool = False  # the first epoch goes from short pairs to long ones
    optimizer: Literal["adamw", "nag", "sgd", "adadelta"] = "adamw"
    lr: Annotated[float, _as_option("lr")] = 1e-3
    schedule: Literal["inverse_sqrt", "cosine", "constant", "plateau"] = "cosine"
    warmup_updates: Count = 200
    plateau_factor: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.1  # plateau: lr times it at each standstill
    min_lr: Fraction = 1e-4  # plateau: the end of training, as a share of lr
    weight_decay: Annotated[float, Meta(ge=0.0, le=1e3)] = 0.01
    adam_beta2: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.98
    momentum: Dropout = 0.99  # nag
    clip_norm: Annotated[float, Meta(ge=0.0, le=1e9)] = 1.0  # 0: no clipping
    label_smoothing: Dropout = 0.0
    byte_dropout: Dropout = 0.0  # share of the decoder's input bytes that it is not shown
    byte_dropout_kind: Literal["mask", "replace"] = "mask"  # by PAD, or by any byte of UTF-8
    teacher_forcing: Fraction = 1.0  # how often the decoder reads the true byte, not its own
    ema: Dropout = 0.0  # decay of the moving average that is validated and saved; 0: the weights themselves
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: see objective.precision_of
    compile: bool = False  # torch.compile, convolutional models only; minutes to compile, once a width
    metric: Literal["bits_per_byte", "chrf"] = "bits_per_byte"  # what the best checkpoint is best in
    patience: Annotated[int, _as_option("patience")] = (
        0  # validations without a better one after which training ends; 0: no such end
    )
    draft: bool = False  # count drafts of the text at the end, for convolutional models
    valid_every: Positive | str = AUTO  # updates, or a time as "90s"; auto: see loop.spacings
    valid_lines: Count = 200  # lines decoded for chrF and BLEU at every validation; 0: bits per byte only
    save_every: Positive | str = AUTO  # the same
    keep_last: Positive = 2  # checkpoints that are kept beside the best one
    log_every: Positive = 50  # updates

    def __post_init__(self) -> None:
        check_spacing("valid_every", self.valid_every)
        check_spacing("save_every", self.save_every)


class Config(_Section, frozen=True, kw_only=True):
    """A whole run."""

    model: ModelConfig
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()


def load_config(arch: str | None, preset: str | None, toml: str, settings: Iterable[str]) -> Config:
    """Resolve a configuration.

    arch and preset name the starting point (preset None: "small", where the TOML text does not give a
    whole model); toml is the text of a configuration file or ""; settings are `key.path=value`, values
    in TOML syntax or plain words. Raises ConfigError.
    """
    try:
        given = parse_toml(toml)
    except ValueError as error:
        raise ConfigError(f"the configuration file is not TOML: {error}") from None
    for setting in settings:
        assign(given, setting)
    model = given.get("model", {})
    if not isinstance(model, dict):
        raise ConfigError(f"configuration model: expected a section, got {model!r}")
    named = model.get("arch", arch)
    if arch is not None and named != arch:
        raise ConfigError(f"configuration model.arch is {named!r}, but --arch is {arch!r}: drop one")
    if named is None:
        raise ConfigError(f"no architecture: give --arch, one of {', '.join(PRESETS['small'])}")
    tree = preset_tree(named, preset or "small", model.get("source") is not False)
    merge(tree, given)
    return parse_config(tree)


def parse_config(tree: Mapping[str, Any]) -> Config:
    """A nested dictionary -> Config; ConfigError names the path of what does not fit."""
    endless = not_finite(tree) if isinstance(tree, Mapping) else None
    if endless is not None:
        raise ConfigError(f"configuration {printable(endless)}: expected a finite number")
    try:
        return _converted(tree)
    except msgspec.ValidationError as error:
        raise ConfigError(explained(str(error), _sections(tree))) from None


def _sections(tree: Mapping[str, Any]) -> dict[str, type[Struct]]:
    """The sections of a configuration, that of its architecture's model among them."""
    model = tree.get("model") if isinstance(tree, Mapping) else None
    arch = model.get("arch") if isinstance(model, Mapping) else None
    models = {one.__struct_config__.tag: one for one in get_args(ModelConfig)}
    known: dict[str, type[Struct]] = {"data": DataConfig, "train": TrainConfig}
    return known | ({"model": models[arch]} if isinstance(arch, str) and arch in models else {})


def _converted(tree: Mapping[str, Any]) -> Config:
    """See parse_config. Raises msgspec.ValidationError."""
    model = tree.get("model") if isinstance(tree, Mapping) else None
    arch = model.get("arch") if isinstance(model, Mapping) else None
    return msgspec.convert(tree, REGISTERED.get(arch, Config) if isinstance(arch, str) else Config)


def config_tree(config: Config) -> dict[str, Any]:
    """Config -> nested dictionary of plain values; the inverse of parse_config."""
    tree = msgspec.to_builtins(config)
    assert isinstance(tree, dict)
    return tree


def config_toml(config: Config) -> str:
    """The resolved configuration as TOML text, every key written out."""
    return tomli_w.dumps(config_tree(config))


def fingerprint(config: Config) -> str:
    """Eight hex digits that name a configuration in scores and logs."""
    return hashlib.sha256(msgspec.json.encode(config, order="sorted")).hexdigest()[:8]
