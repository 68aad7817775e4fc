"""Typed, frozen configuration: a preset, under a TOML file, under `--set key=value`.

Everything that a run depends on has its default here or, for the model, in the config.py of its
architecture. An unknown key, a wrong type or a value out of range fails with its path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args, get_type_hints

import msgspec
import tomli_w
from msgspec import Meta

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import ARCHITECTURES, BUILT_IN
from bytenmt.architectures.section import Dropout, ModelSection, Section
from bytenmt.config.fields import MOST, Count, Fraction, Positive, Seed, explain_mistake, shorten
from bytenmt.config.tree import assign, merge_settings, preset_tree
from bytenmt.errors import ConfigError
from bytenmt.plugins import LOSS_TERMS, SCHEDULES, load_plugins

Decay = Annotated[float, Meta(gt=0.0, lt=1.0)]
Rate = Annotated[float, Meta(ge=0.0, le=1e3)]
NonNegative = Annotated[float, Meta(ge=0.0, le=MOST)]
Finite = Annotated[float, Meta(ge=-MOST, le=MOST)]
Length = Annotated[int, Meta(ge=0, le=1 << 20)]  # bytes of a window

SCHEDULES_OF_PACKAGE = ("cosine", "linear", "inverse_sqrt", "constant", "wsd", "plateau")
NEEDS_PLUGIN = "one of a plugin needs `--plugin FILE.py`, or its import"


def option_help(text: str) -> Meta:
    """Attach a --help text to a key's type: keys that have one are options of `bytenmt train`, too."""
    return Meta(description=text)


if TYPE_CHECKING:
    ModelConfig = ModelSection
# what msgspec validates: the section of each architecture of the package, told apart by `arch`
else:
    ModelConfig = Union[tuple(ARCHITECTURES[name].section for name in BUILT_IN)]  # noqa: UP007

# Keys of DataConfig that change training pairs; each needs a source.
AUGMENTATIONS = (
    *("noise", "copy", "sentinels", "upper_case", "title_case", "lower_case", "unpunctuated"),
    *("empty_source", "formality"),
)


# The comments of the sections are the meanings in docs/configuration.md, see
# tools/configuration_page.py.
class DataConfig(Section, frozen=True):
    """Configuration section `data`: which training pairs are used, and how augmentation changes
    them anew in every epoch."""

    max_source_bytes: Positive = 1000  # longest source; longer pairs are left out and reported
    max_target_bytes: Positive = 1000  # longest target; longer pairs are left out and reported
    noise: Fraction = 0.0  # share of a source's characters with a typo or the like
    copy: Fraction = (
        0.0  # share of pairs where names and numbers of both sides become others, to be copied
    )
    # above 0: tags, addresses and the like that both sides share become sentinels, bytes that stand
    # for them;
    sentinels: Fraction = 0.0  # share of pairs where names and numbers become sentinels, too
    upper_case: Fraction = 0.0  # share of pairs written in capitals on both sides
    title_case: Fraction = 0.0  # share of pairs in which every word begins with a capital
    lower_case: Fraction = 0.0  # share of pairs whose source has no capitals
    unpunctuated: Fraction = 0.0  # share of pairs without the signs at the ends of both sides
    empty_source: Fraction = (
        0.0  # share of pairs with an empty source: the model learns p(target) alone
    )
    # share of the pairs whose target shows a form of address in which the source asks for it, by a
    # byte that UTF-8 never uses
    formality: Fraction = 0.0

    def __post_init__(self) -> None:
        if self.upper_case + self.title_case + self.lower_case > 1:
            raise ValueError(
                "upper_case, title_case and lower_case are shares of the pairs: their sum must be at most 1"
            )

    @property
    def augmentations(self) -> tuple[str, ...]:
        """The keys of the augmentations that are not 0, as "noise"."""
        return tuple(key for key in AUGMENTATIONS if getattr(self, key))


class TrainConfig(Section, frozen=True):
    """Configuration section `train`: optimiser, limits, batches, validation. Keys with an
    `option_help` are options of `bytenmt train` by their own names, as max_updates is
    --max-updates."""

    seed: Annotated[Seed, option_help("Random seed of the training.")] = 1
    max_updates: Annotated[
        Count, option_help("Stop after this number of updates; 0 is no limit.")
    ] = 20_000
    max_epochs: Annotated[
        NonNegative,
        option_help("Stop after this number of passes over the training text; 0 is no limit."),
    ] = 0.0
    max_minutes: Annotated[
        NonNegative,
        option_help(
            "Stop after this number of minutes, summed over all resumptions of the run; 0 is no limit."
        ),
    ] = 0.0
    patience: Annotated[
        Count,
        option_help(
            "Early stopping: stop after this number of validations without improvement; 0 is never."
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
    window: Annotated[int, Meta(ge=1, le=1 << 20)] = (
        256  # language models: bytes of a stream in a batch
    )
    context: Length = 0  # convolutional language models: bytes read before the window
    valid_bytes: Positive = 200_000  # language models: bytes of the validation text that are scored
    optimizer: Literal["adamw", "muon", "nag", "sgd", "adadelta"] = (
        "adamw"  # of all but n-gram tables
    )
    lr: Annotated[float, Meta(gt=0.0, le=1e3), option_help("Peak learning rate.")] = 1e-3
    # `cosine`, `linear`, `wsd`, `inverse_sqrt`, `constant`, `plateau`, or one of a plugin
    schedule: str = "cosine"
    warmup_updates: Count = 200  # updates of linear warm-up
    # schedule `wsd` (warm-up, stable, decay):
    decay_share: Annotated[float, Meta(gt=0.0, le=1.0)] = (
        0.2  # last share of the run: the rate falls to zero
    )
    plateau_factor: Decay = (
        0.1  # schedule `plateau`: factor of the rate when validation stops improving
    )
    min_lr: Fraction = 1e-4  # schedule `plateau`: training ends at this fraction of the peak rate
    weight_decay: Rate = 0.01  # decoupled weight decay
    adam_beta1: Dropout = 0.9  # β₁ of AdamW, also for the parameters that AdamW updates beside Muon
    adam_beta2: Decay = 0.98  # β₂ of AdamW
    adam_lr: Rate = (
        0.0  # optimizer `muon`: peak rate of the parameters that AdamW updates; 0 is `train.lr`
    )
    ngram_lr: Rate = 0.0  # peak rate of n-gram tables; 0 is 0.03
    momentum: Dropout = 0.99  # momentum of NAG
    muon_momentum: Dropout = 0.95  # momentum of Muon
    clip_norm: Annotated[float, Meta(ge=0.0, le=1e9)] = (
        1.0  # maximum gradient norm; 0 is no clipping
    )
    label_smoothing: Dropout = 0.0  # label smoothing
    loss_terms: dict[str, Finite] = {}  # weight of the loss term NAME of a plugin
    byte_dropout: Dropout = (
        0.0  # share of the decoder's input bytes that are replaced by padding in training
    )
    teacher_forcing: Fraction = (
        1.0  # how often the decoder reads the true byte, not its own prediction
    )
    ema: Dropout = (
        0.0  # decay of the moving average of the weights, which is validated and saved; 0 is off
    )
    # auto: bf16 on a GPU, and on a CPU with bf16 products for all but recurrent models under 256
    # units
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    metric: Literal["bits_per_byte", "chrf"] = "bits_per_byte"  # selects the best checkpoint
    valid_every: Annotated[Positive, option_help("Updates between validations.")] = 500
    save_every: Annotated[Positive, option_help("Updates between checkpoints.")] = 500
    valid_lines: Count = (
        200  # validation lines translated for chrF and BLEU; 0 is bits per byte only
    )
    log_every: Positive = 50  # interval between log records, in updates


# Keys of `model` that earlier versions had, with their defaults.
REMOVED_MODEL_KEYS: Mapping[str, Any] = {
    "encoder_lookahead": -1,
    "encoder_reset": "shared",
    "read_out_kind": "auto",
    "tie_embedding": False,
    "unfolding": "given",
}


class Config(Section, frozen=True, kw_only=True):
    """The whole configuration of a run, with every default filled in."""

    model: ModelConfig  # the section of the run's architecture
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()


def load_config(arch: str | None, preset: str | None, settings: Iterable[str]) -> Config:
    """Return the configuration of a preset (None: "small") with settings.

    arch: an architecture's name; None if settings have model.arch. settings: texts
    `key.path=value`, values in TOML syntax or plain words. Raises ConfigError.
    """
    tree: dict[str, Any] = {}
    for setting in settings:
        assign(tree, setting)
    return resolve_config(arch, preset, tree)


def resolve_config(arch: str | None, preset: str | None, settings: Mapping[str, Any]) -> Config:
    """Return the configuration of a preset in which `settings`, a nested dictionary, replace
    values.

    arch, preset: as of load_config; arch may be None if the settings have model.arch. Raises
    ConfigError, also for a name of a plugin that is not loaded.
    """
    model = settings.get("model", {})
    if not isinstance(model, dict):
        raise ConfigError(f"configuration model: expected a section, got {model!r}")
    name = model.get("arch", arch)
    if arch is not None and name != arch:
        raise ConfigError(f"configuration model.arch is {name!r}, but --arch is {arch!r}: drop one")
    if name is None:
        raise ConfigError(f"no architecture: give --arch, one of {', '.join(PRESETS['small'])}")
    tree = preset_tree(name, preset or "small", model.get("source") is not False)
    merge_settings(tree, settings)
    return check_names(parse_config(tree))


def check_names(config: Config) -> Config:
    """Return the configuration unchanged. Raises ConfigError where it names a schedule or a loss
    term that neither the package nor a plugin has."""
    schedule, schedules = config.train.schedule, (*SCHEDULES_OF_PACKAGE, *SCHEDULES)
    if schedule not in schedules:
        what = (
            f"configuration train.schedule: {shorten(schedule)} is none of {', '.join(schedules)}"
        )
        raise ConfigError(f"{what}; {NEEDS_PLUGIN}")
    for name in config.train.loss_terms:
        if name not in LOSS_TERMS:
            what = f"configuration train.loss_terms: there is no loss term {shorten(name)}"
            raise ConfigError(f"{what}; {NEEDS_PLUGIN}")
    return config


def parse_config(tree: Mapping[str, Any]) -> Config:
    """Convert a nested dictionary, which must have model.arch, to a Config.

    Raises ConfigError, which names the key, for an unknown key or a wrong value. The names of
    schedules and loss terms are not checked: without a plugin its models can be used, only not
    trained.
    """
    load_plugins()
    arch = _named_architecture(tree)
    if isinstance(arch, str) and arch not in ARCHITECTURES:
        what = f"configuration model.arch: {shorten(arch)} is not one of {', '.join(BUILT_IN)}"
        raise ConfigError(f"{what}; {NEEDS_PLUGIN}")
    is_plugged_in = isinstance(arch, str) and arch not in BUILT_IN
    try:
        kind = _config_type(ARCHITECTURES[str(arch)].section) if is_plugged_in else Config
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_explained(str(error), arch)) from None


def parse_stored_config(tree: Mapping[str, Any]) -> Config:
    """Convert the configuration of a weights file, also of one that an earlier version has written.

    Keys of `data` and `train` that are no more, and intervals that were times, are left out: they
    change nothing that a model computes. Those of `model` are, where they have their former
    defaults. Raises ConfigError.
    """
    sections = {
        name: section
        for name in ("model", "data", "train")
        if (section := tree.get(name)) is not None
    }
    for name, kind in (("data", DataConfig), ("train", TrainConfig)):
        if isinstance(section := sections.get(name), Mapping):
            sections[name] = {
                key: value
                for key, value in section.items()
                if key in kind.__struct_fields__
                and not (key.endswith("_every") and isinstance(value, str))
            }
    if isinstance(section := sections.get("model"), Mapping):
        absent = object()
        sections["model"] = {
            key: value
            for key, value in section.items()
            if value != REMOVED_MODEL_KEYS.get(key, absent)
            and key != "ngram_dropout"  # of training alone
        }
    return parse_config(sections)


def _explained(message: str, arch: Any) -> str:
    """Return one line for what msgspec said of a configuration, with the choices of a key that has
    some."""
    what, _, where = message.partition(" - at `$")
    path = where.strip(".`")
    if what.startswith("Object contains unknown field"):
        path = f"{path}.{what.split('`')[1]}".lstrip(".")
        what = "unknown key; bytenmt info ARCH prints all"
    elif what.startswith("Invalid enum value"):
        section, _, key = path.partition(".")
        kind = TrainConfig if section == "train" else ARCHITECTURES[arch].section
        what += f", expected one of {', '.join(get_args(get_type_hints(kind)[key]))}"
    return f"configuration {path}: {explain_mistake(what)}".replace(" :", ":")


def _named_architecture(tree: Mapping[str, Any]) -> Any:
    """Return model.arch of a nested dictionary of any kind; None where there is none."""
    model = tree.get("model")
    return model.get("arch") if isinstance(model, Mapping) else None


@cache
def _config_type(section: type[ModelSection]) -> type[Config]:
    """Return the class of configurations whose model is of an architecture that a program has
    registered."""
    kind = msgspec.defstruct(
        "Config",
        [("model", section)],
        bases=(Config,),
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )
    return cast(type[Config], kind)


def config_tree(config: Config) -> dict[str, Any]:
    """Convert a Config to a nested dictionary of plain values; the inverse of parse_config."""
    tree = msgspec.to_builtins(config)
    assert isinstance(tree, dict)
    if not config.train.loss_terms:  # most configurations have none, and had no such key
        del tree["train"]["loss_terms"]
    if not config.data.formality:  # models that have not learned forms of address had no such key
        del tree["data"]["formality"]
    return tree


def config_toml(config: Config) -> str:
    """Write a configuration as TOML text, with every key, also those that have their default."""
    return tomli_w.dumps(config_tree(config))


def fingerprint(config: Config) -> str:
    """Return eight hex digits of a configuration's hash, by which scores and logs name it."""
    return hashlib.sha256(msgspec.json.encode(config_tree(config), order="sorted")).hexdigest()[:8]
