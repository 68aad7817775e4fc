"""Typed, frozen configuration: a preset, under a TOML file, under `--set key=value`.

Everything that a run depends on has its default here or, for the model, in the config.py of its
architecture. An unknown key, a wrong type or a value out of range fails with its path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Union, cast, get_args, get_type_hints

import msgspec
import tomli_w

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import ARCHITECTURES, BUILT_IN
from bytenmt.architectures.section import ModelSection, Section
from bytenmt.config import metrics, schedules  # noqa: F401  # which fill METRICS and SCHEDULES
from bytenmt.config.fields import Fraction, Positive, check_name, explain_mistake, shorten
from bytenmt.config.train_section import TrainConfig
from bytenmt.config.tree import assign, merge_settings, preset_tree
from bytenmt.errors import ConfigError
from bytenmt.plugins import LOSS_TERMS, METRICS, NEEDS_PLUGIN, SCHEDULES, load_plugins

if TYPE_CHECKING:
    ModelConfig = ModelSection
# what msgspec validates: the section of each architecture of the package, told apart by `arch`
else:
    ModelConfig = Union[tuple(ARCHITECTURES[name].section for name in BUILT_IN)]  # noqa: UP007


# The comments of the sections are the meanings in docs/configuration.md, see
# tools/configuration_page.py.
class DataConfig(Section, frozen=True):
    """Configuration section `data`: which training pairs are used, and their augmentation.

    Augmentation changes pairs anew in every epoch.
    """

    max_source_bytes: Positive = 1000  # longest source; longer pairs are left out and reported
    max_target_bytes: Positive = 1000  # longest target; longer pairs are left out and reported
    noise: Fraction = 0.0  # share of a source's characters with a typo or the like
    # share of pairs where names and numbers of both sides become others, to be copied
    copy: Fraction = 0.0
    # above 0: tags, addresses and the like that both sides share become sentinels, bytes that stand
    # for them;
    sentinels: Fraction = 0.0  # share of pairs where names and numbers become sentinels, too
    upper_case: Fraction = 0.0  # share of pairs written in capitals on both sides
    title_case: Fraction = 0.0  # share of pairs in which every word begins with a capital
    lower_case: Fraction = 0.0  # share of pairs whose source has no capitals
    unpunctuated: Fraction = 0.0  # share of pairs without the signs at the ends of both sides
    # share of pairs with an empty source: the model learns p(target) alone
    empty_source: Fraction = 0.0

    def __post_init__(self) -> None:
        if self.upper_case + self.title_case + self.lower_case > 1:
            raise ValueError(
                "upper_case, title_case and lower_case are shares of the pairs: their sum must be"
                " at most 1"
            )

    @property
    def augmentations(self) -> tuple[str, ...]:
        """The keys of the augmentations that are not 0, such as "noise"."""
        return tuple(key for key in AUGMENTATIONS if getattr(self, key))


# Keys of DataConfig that say which pairs are used; all others change pairs, and need a source.
SELECTION_KEYS = frozenset({"max_source_bytes", "max_target_bytes"})
AUGMENTATIONS = tuple(key for key in DataConfig.__struct_fields__ if key not in SELECTION_KEYS)


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
    """Return the configuration of a preset (None: "small"), changed by settings.

    arch: an architecture's name; None if settings have model.arch. settings: texts
    `key.path=value`, such as "train.lr=1e-3", values in TOML syntax or plain words. Raises
    ConfigError.
    """
    tree: dict[str, Any] = {}
    for setting in settings:
        assign(tree, setting)
    return resolve_config(arch, preset, tree)


def resolve_config(arch: str | None, preset: str | None, settings: Mapping[str, Any]) -> Config:
    """Return the configuration of a preset (None: "small"), changed by settings.

    arch: an architecture's name; None if settings have model.arch. settings: a nested dictionary,
    such as {"train": {"lr": 1e-3}}. Raises ConfigError, also for a name of a plugin that is not
    loaded.
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
    """Return `config` as it is. Raises ConfigError if it names a schedule, a metric or a loss term
    that neither the package nor an imported plugin has."""
    check_name("train.schedule", config.train.schedule, SCHEDULES)
    check_name("train.metric", config.train.metric, METRICS)
    for name in config.train.loss_terms:
        if name not in LOSS_TERMS:
            raise ConfigError(
                f"configuration train.loss_terms: there is no loss term {shorten(name)};"
                f" {NEEDS_PLUGIN}"
            )
    return config


def parse_config(tree: Mapping[str, Any]) -> Config:
    """Convert a nested dictionary, which must have model.arch, to a Config.

    Raises ConfigError, which names the key, for an unknown key or a wrong value. The names of
    schedules, metrics and loss terms are not checked: without a plugin its models can be used, only
    not trained.
    """
    load_plugins()
    model = tree.get("model")
    arch = model.get("arch") if isinstance(model, Mapping) else None
    if isinstance(arch, str) and arch not in ARCHITECTURES:
        check_name("model.arch", arch, BUILT_IN)
    kind = Config
    if isinstance(arch, str) and arch not in BUILT_IN:
        kind = _config_type(ARCHITECTURES[arch].section)
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_explained(str(error), arch)) from None


def parse_stored_config(tree: Mapping[str, Any]) -> Config:
    """Convert the configuration of a weights file, also of one that an earlier version has written.

    Of `data` and `train`, keys that no longer exist are dropped, and so are intervals in time
    (strings), which are now in updates: neither changes what a model computes. Of `model`, such
    keys are dropped if they have their former defaults. Raises ConfigError for anything else.
    """
    sections = {
        name: tree[name] for name in ("model", "data", "train") if tree.get(name) is not None
    }
    for name, kind in (("data", DataConfig), ("train", TrainConfig)):
        section = sections.get(name)
        if isinstance(section, Mapping):
            sections[name] = _without_removed_keys(section, kind)
    section = sections.get("model")
    if isinstance(section, Mapping):
        sections["model"] = {
            key: value
            for key, value in section.items()
            if (key, value) not in REMOVED_MODEL_KEYS.items()
            and key != "ngram_dropout"  # of training alone
        }
    return parse_config(sections)


def _without_removed_keys(section: Mapping[str, Any], kind: type[Section]) -> dict[str, Any]:
    """Return a stored section without removed keys, and without intervals that were times."""
    return {
        key: value
        for key, value in section.items()
        if key in kind.__struct_fields__ and not (key.endswith("_every") and isinstance(value, str))
    }


def _explained(message: str, arch: Any) -> str:
    """Return msgspec's message about a configuration as one line, with the choices of the key."""
    what, _, where = message.partition(" - at `$")
    path = where.strip(".`")
    if what.startswith("Object contains unknown field"):
        path = f"{path}.{what.split('`')[1]}".lstrip(".")
        what = "unknown key; bytenmt info ARCH prints all"
    elif what.startswith("Invalid enum value"):
        section, _, key = path.partition(".")
        kind: type[Section] = ARCHITECTURES[arch].section if section != "train" else TrainConfig
        what += f", expected one of {', '.join(get_args(get_type_hints(kind)[key]))}"
    return f"configuration {path}: {explain_mistake(what)}".replace(" :", ":")


@cache
def _config_type(section: type[ModelSection]) -> type[Config]:
    """Return the class of configurations for the section of a registered architecture."""
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
    return tree


def config_toml(config: Config) -> str:
    """Write a configuration as TOML text, with every key, also those that have their default."""
    return tomli_w.dumps(config_tree(config))


def fingerprint(config: Config) -> str:
    """Return eight hex digits of a configuration's hash, by which scores and logs name it."""
    return hashlib.sha256(msgspec.json.encode(config_tree(config), order="sorted")).hexdigest()[:8]
