"""Merge configurations as nested dictionaries, before they are checked: `--set key=value` over a file over a
preset."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from bytenmt.architectures.presets import PRESETS, WITHOUT_SOURCE
from bytenmt.config.fields import shortened
from bytenmt.errors import ConfigError

LONGEST_SETTING = 20_000  # characters of a `--set`
DILATIONS_OF = {"encoder_layers": "encoder_dilations", "decoder_layers": "decoder_dilations"}


def assign(tree: dict[str, Any], setting: str) -> None:
    """Put one `key.path=value` into the tree; the value is TOML or a plain word. Raises ConfigError."""
    path, equals, text = setting.partition("=")
    if not equals or len(setting) > LONGEST_SETTING:
        raise ConfigError(f"--set {shortened(setting)}: expected key=value, for example train.lr=1e-3")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    except (ValueError, RecursionError):  # thousands of digits, or of brackets
        raise ConfigError(f"--set {shortened(setting)}: the value is too long to read") from None
    assign_value(tree, path, value)


def assign_value(tree: dict[str, Any], path: str, value: Any) -> None:
    """Put a value into the tree at a key like "train.lr". Raises ConfigError for what is no key."""
    *sections, key = path.strip().split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {shortened(path)}: {section} is a value, not a section")
    tree[key] = value


def merge(tree: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Lay one nested dictionary over another, in place."""
    for key, value in over.items():
        if isinstance(value, Mapping):
            if not isinstance(tree.get(key), dict):
                tree[key] = {}
            merge(tree[key], value)
        else:
            tree[key] = value


def merge_settings(tree: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Lay settings over the dictionary of a preset, in place; see merge.

    Dilations of a preset belong to its layers: layers that are given without dilations have none. Raises
    ConfigError where they are nested without end.
    """
    given = settings.get("model", {})
    for layers, dilations in DILATIONS_OF.items():
        if isinstance(given, Mapping) and layers in given:
            tree["model"].pop(dilations, None)
    try:
        merge(tree, settings)
    except RecursionError:
        raise ConfigError("the configuration is nested too deeply: expected sections") from None


def preset_tree(arch: str, preset: str, source: bool = True) -> dict[str, Any]:
    """The nested dictionary of a preset, of a model with or without a source.

    Raises ConfigError for an unknown name.
    """
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}: expected one of {', '.join(PRESETS)}")
    if not isinstance(arch, str) or arch not in PRESETS[preset]:
        known = ", ".join(PRESETS[preset])
        if isinstance(arch, str) and arch in PRESETS["small"]:
            raise ConfigError(
                f"preset {preset} is only for {known}, not for {arch}: choose another preset or architecture"
            )
        raise ConfigError(
            f"unknown architecture {arch!r}: expected one of {known}, or load its plugin by --plugin"
        )
    tree: dict[str, Any] = {"model": {"arch": arch}}
    merge(tree, PRESETS[preset][arch])
    if not source:
        merge(tree, WITHOUT_SOURCE[preset].get(arch, {"model": {"source": False}}))
    return tree
