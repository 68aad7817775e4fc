"""Typed, frozen configuration: a preset, under a TOML file, under `--set key=value`.

Everything that a run depends on has its default here or, for the model, in the config.py of its architecture.
An unknown key, a wrong type or a value out of range fails with its path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast

import msgspec
import tomli_w
from msgspec import Meta, Struct

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import ARCHITECTURES, BUILT_IN
from bytenmt.architectures.section import Dropout, Section
from bytenmt.architectures.section import ModelSection as ModelSection
from bytenmt.architectures.section import architecture as architecture
from bytenmt.config.advice import explained, missing_plugin, unknown_architecture
from bytenmt.config.bounds import MOST, TRAINING
from bytenmt.config.spacing import AUTO, check_spacing
from bytenmt.config.tree import assign, merge_settings, not_finite, preset_tree
from bytenmt.config.untrusted import parse_toml, printable, shown
from bytenmt.errors import ConfigError
from bytenmt.plugins import ARCHITECTURES as PLUGGED_IN_ARCHITECTURES
from bytenmt.plugins import AUGMENTATIONS as PLUGGED_IN_AUGMENTATIONS
from bytenmt.plugins import LOSS_TERMS, METRICS, OPTIMIZERS, SCHEDULES, Registry, load_installed, owners

Positive = Annotated[int, Meta(ge=1, le=MOST)]
Count = Annotated[int, Meta(ge=0, le=MOST)]
Fraction = Annotated[float, Meta(ge=0.0, le=1.0)]
Length = Annotated[int, Meta(ge=1, le=1 << 20)]  # bytes of a window
Name = Annotated[str, Meta(min_length=1, max_length=64)]  # of what a registry has


def _as_option(name: str) -> Meta:
    """The bounds of what is an option of train too."""
    low, high, above, _ = TRAINING[name]
    return Meta(gt=low, le=high) if above else Meta(ge=low, le=high)


if TYPE_CHECKING:
    ModelConfig = ModelSection
else:  # what msgspec validates: the section of each architecture of the package, told apart by `arch`
    ModelConfig = Union[tuple(ARCHITECTURES[name].section for name in BUILT_IN)]  # noqa: UP007
PARALLEL = tuple(name for name in BUILT_IN if ARCHITECTURES[name].section.is_parallel)

# Keys of DataConfig that change training pairs; each needs a source.
AUGMENTATIONS = (
    *("noise", "copy", "sentinels", "upper_case", "title_case", "lower_case", "unpunctuated"),
    "empty_source",
)


class DataConfig(Section, frozen=True):
    """The training pairs that are used, and the changes that are made to them anew in every epoch."""

    max_source_bytes: Positive = 1000  # a longer pair is left out and reported
    max_target_bytes: Positive = 1000
    noise: Fraction = 0.0  # share of a source's characters where a typo or the like is made
    copy: Fraction = 0.0  # share of pairs where what stands on both sides becomes another, to be copied
    # Above 0: kept spans of both sides become sentinels, and in this share of the pairs names and numbers do.
    sentinels: Fraction = 0.0
    upper_case: Fraction = 0.0  # share of pairs written in capitals on both sides
    title_case: Fraction = 0.0  # share of pairs in which every word begins with a capital
    lower_case: Fraction = 0.0  # share of pairs without capitals
    unpunctuated: Fraction = 0.0  # share of pairs without the signs at the ends of both sides
    empty_source: Fraction = 0.0  # share of pairs whose source is emptied: the model learns p(target) alone
    augment: dict[Name, Fraction] = {}  # shares of pairs that augmentations of plugins change

    def __post_init__(self) -> None:
        if self.upper_case + self.title_case + self.lower_case > 1:
            raise ValueError(
                "upper_case, title_case and lower_case are shares of the pairs: their sum must be at most 1"
            )

    @property
    def augmentations(self) -> tuple[str, ...]:
        """The keys of AUGMENTATIONS that are not 0, and those of `augment`."""
        own = tuple(key for key in AUGMENTATIONS if getattr(self, key))
        return own + tuple(f"augment.{name}" for name, share in self.augment.items() if share)


class TrainConfig(Section, frozen=True):
    """The training loop."""

    seed: Annotated[int, _as_option("seed")] = 1
    max_updates: Annotated[int, _as_option("max_updates")] = 20_000  # 0: no limit
    max_minutes: Annotated[float, _as_option("max_minutes")] = 0.0  # in all, resumed or not; 0: no limit
    max_epochs: Annotated[float, _as_option("max_epochs")] = 0.0  # passes over the training text; 0: no limit
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
    optimizer: Name = "adamw"  # one of plugins.OPTIMIZERS
    lr: Annotated[float, _as_option("lr")] = 1e-3
    schedule: Name = "cosine"  # one of plugins.SCHEDULES
    warmup_updates: Count = 200
    decay_share: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.2  # wsd: the last part of the run, where lr falls
    plateau_factor: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.1  # plateau: lr times it at each standstill
    min_lr: Fraction = 1e-4  # plateau: the end of training, as a share of lr
    weight_decay: Annotated[float, Meta(ge=0.0, le=1e3)] = 0.01
    adam_beta1: Dropout = 0.9  # adamw, muon
    adam_beta2: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.98
    adam_lr: Annotated[float, Meta(ge=0.0, le=1e3)] = 0.0  # muon: of what AdamW updates; 0: as lr
    ngram_lr: Annotated[float, Meta(ge=0.0, le=1e3)] = 0.0  # of n-gram tables, highest; 0: 0.03
    momentum: Dropout = 0.99  # nag
    muon_momentum: Dropout = 0.95
    clip_norm: Annotated[float, Meta(ge=0.0, le=1e9)] = 1.0  # 0: no clipping
    label_smoothing: Dropout = 0.0
    loss_terms: dict[Name, float] = {}  # weights of loss terms of plugins
    options: dict[Name, bool | int | float | str] = {}  # of plugins, who read them from this section
    byte_dropout: Dropout = 0.0  # share of the decoder's input bytes that it is not shown
    byte_dropout_kind: Literal["mask", "replace"] = "mask"  # by PAD, or by any byte of UTF-8
    teacher_forcing: Fraction = 1.0  # how often the decoder reads the true byte, not its own
    own_bytes: Literal["best", "drawn"] = "best"  # its own byte: the likeliest, or drawn as it predicts them
    ema: Dropout = 0.0  # decay of the moving average that is validated and saved; 0: the weights themselves
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: see objective.precision_of
    compile: bool = False  # torch.compile, convolutional models only; minutes to compile, once a width
    metric: Name = "bits_per_byte"  # what the best checkpoint is best in, one of plugins.METRICS
    patience: Annotated[int, _as_option("patience")] = (
        0  # validations without a better one after which training ends; 0: no such end
    )
    valid_every: Positive | str = AUTO  # updates, or a time as "90s"; auto: see loop.spacings
    valid_lines: Count = 200  # lines decoded for chrF and BLEU at every validation; 0: bits per byte only
    save_every: Positive | str = AUTO  # the same
    log_every: Positive = 50  # updates

    def __post_init__(self) -> None:
        check_spacing("valid_every", self.valid_every)
        check_spacing("save_every", self.save_every)


# Keys of earlier versions, with their defaults: files that have them are read without them.
REMOVED_KEYS: Mapping[str, Mapping[str, Any]] = {
    "data": {"stream_window": 100_000, "placeholders": 0.0},
    "model": {"encoder_lookahead": -1},
    "train": {
        "draft": False,
        "waits": (),
        "keep_last": 2,
        "max_cpu_minutes": 0.0,
        "scheduled_sampling": "none",
        "sampling_k": 0.0,
        "sampling_slope": 0.0,
        "sampling_floor": 0.0,
    },
}


class Config(Section, frozen=True, kw_only=True):
    """A whole run."""

    model: ModelConfig
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    plugins: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()  # those whose additions the run uses

    def registered_names(self) -> list[tuple[str, Registry[Any], tuple[str, ...]]]:
        """Return the keys whose values are names in registries, the registries, and the names."""
        data, train = self.data, self.train
        return [
            ("train.optimizer", OPTIMIZERS, (train.optimizer,)),
            ("train.schedule", SCHEDULES, (train.schedule,)),
            ("train.metric", METRICS, (train.metric,)),
            ("train.loss_terms", LOSS_TERMS, tuple(train.loss_terms)),
            ("data.augment", PLUGGED_IN_AUGMENTATIONS, tuple(data.augment)),
        ]


def load_config(arch: str | None, preset: str | None, toml: str, settings: Iterable[str]) -> Config:
    """Read a configuration from a TOML text and settings over a preset.

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
    return resolve_config(arch, preset, given)


def resolve_config(arch: str | None, preset: str | None, settings: Mapping[str, Any]) -> Config:
    """Return the configuration that settings, a nested dictionary, give over a preset.

    arch, preset: as of load_config. Raises ConfigError, also for names that only a plugin which is not
    loaded would know.
    """
    load_installed()
    model = settings.get("model", {})
    if not isinstance(model, dict):
        raise ConfigError(f"configuration model: expected a section, got {model!r}")
    named = model.get("arch", arch)
    if arch is not None and named != arch:
        raise ConfigError(f"configuration model.arch is {named!r}, but --arch is {arch!r}: drop one")
    if named is None:
        raise ConfigError(f"no architecture: give --arch, one of {', '.join(PRESETS['small'])}")
    tree = preset_tree(named, preset or "small", model.get("source") is not False)
    merge_settings(tree, settings)
    config = parse_config(tree)
    _check_names(config)
    return _with_owners(config)


def _check_names(config: Config) -> None:
    """Raise ConfigError for a name that is in none of the registries."""
    for key, registry, names in config.registered_names():
        for name in names:
            if name not in registry.names:
                what = f"configuration {key}: no {registry.kind} {shown(name)} is registered"
                if registry.names:
                    what = f"configuration {key}: {shown(name)} is none of {', '.join(registry.names)}"
                advised = missing_plugin(what, config.plugins)
                loads = "; one of a plugin needs `--plugin MODULE|FILE.py`, or its import"
                raise ConfigError(what + loads if advised == what else advised)


def _with_owners(config: Config) -> Config:
    """Return the configuration with the plugins that it uses."""
    used = [(registry, name) for _, registry, names in config.registered_names() for name in names]
    used.append((PLUGGED_IN_ARCHITECTURES, architecture(config.model)))
    return msgspec.structs.replace(config, plugins=tuple(owners(used)))


def parse_config(tree: Mapping[str, Any]) -> Config:
    """A nested dictionary -> Config; ConfigError names the path of what does not fit.

    Names that plugins add in training are not checked in a configuration with plugins: a model is used
    without them.
    """
    load_installed()
    endless = not_finite(tree) if isinstance(tree, Mapping) else None
    if endless is not None:
        raise ConfigError(f"configuration {printable(endless)}: expected a finite number")
    tree = _without_removed_keys(tree)
    try:
        config = _converted(tree)
    except msgspec.ValidationError as error:
        arch, plugins = _named_architecture(tree), tree.get("plugins")
        if isinstance(arch, str) and arch not in ARCHITECTURES:
            what = unknown_architecture(arch, BUILT_IN)
            raise ConfigError(missing_plugin(what, plugins if isinstance(plugins, list) else ())) from None
        raise ConfigError(explained(str(error), _sections(tree))) from None
    if not config.plugins:
        _check_names(config)
    return config


def _without_removed_keys(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out REMOVED_KEYS; but a model that does not have a key's default is not itself without it."""
    kept = dict(tree)
    for section, removed in REMOVED_KEYS.items():
        if isinstance(values := tree.get(section), Mapping):
            kept[section] = {
                key: value
                for key, value in values.items()
                if key not in removed or section == "model" and value != removed[key]
            }
    return kept


def _named_architecture(tree: object) -> object:
    """Return model.arch of a nested dictionary of any kind; None where there is none."""
    model = tree.get("model") if isinstance(tree, Mapping) else None
    return model.get("arch") if isinstance(model, Mapping) else None


def _sections(tree: Mapping[str, Any]) -> dict[str, type[Struct]]:
    """Return the sections that a configuration has, its architecture's model section among them."""
    arch = _named_architecture(tree)
    sections: dict[str, type[Struct]] = {"data": DataConfig, "train": TrainConfig}
    if isinstance(arch, str) and arch in ARCHITECTURES:
        sections["model"] = ARCHITECTURES[arch].section
    return sections


def _converted(tree: Mapping[str, Any]) -> Config:
    """Return the configuration of a nested dictionary. Raises msgspec.ValidationError."""
    arch = _named_architecture(tree)
    registered = isinstance(arch, str) and arch in ARCHITECTURES and arch not in BUILT_IN
    return msgspec.convert(tree, _config_type(ARCHITECTURES[str(arch)].section) if registered else Config)


@lru_cache
def _config_type(section: type[ModelSection]) -> type[Config]:
    """Return the class of configurations whose model is of an architecture that a program has registered."""
    kind = msgspec.defstruct(
        "Config", [("model", section)], bases=(Config,), frozen=True, forbid_unknown_fields=True, kw_only=True
    )
    return cast(type[Config], kind)


def config_tree(config: Config) -> dict[str, Any]:
    """Config -> nested dictionary of plain values; the inverse of parse_config."""
    tree = msgspec.to_builtins(config)
    assert isinstance(tree, dict)
    # Without plugins a configuration looks as in versions that knew none.
    data, train = tree["data"], tree["train"]
    for section, key in ((data, "augment"), (train, "loss_terms"), (train, "options"), (tree, "plugins")):
        if not section[key]:
            del section[key]
    return tree


def config_toml(config: Config) -> str:
    """The resolved configuration as TOML text, every key written out."""
    return tomli_w.dumps(config_tree(config))


def fingerprint(config: Config) -> str:
    """Return eight hex digits that name a configuration in scores and logs."""
    return hashlib.sha256(msgspec.json.encode(config_tree(config), order="sorted")).hexdigest()[:8]
