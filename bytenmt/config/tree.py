"""Merge configurations as nested dictionaries, before they are checked.

`--set key=value` wins over a file, which wins over a preset.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from bytenmt.architectures.presets import PRESETS, WITHOUT_SOURCE
from bytenmt.config.fields import shorten
from bytenmt.errors import ConfigError

DILATIONS_OF = {"encoder_layers": "encoder_dilations", "decoder_layers": "decoder_dilations"}


def assign(tree: dict[str, Any], setting: str) -> None:
    """Set a value in the nested dictionary `tree`, in place, from a text `key.path=value`.

    The value is TOML or a plain word. Raises ConfigError for a text without "=".
    """
    path, equals, text = setting.partition("=")
    if not equals:
        raise ConfigError(
            f"--set {shorten(setting)}: expected key=value, for example train.lr=1e-3"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    assign_value(tree, path, value)


def assign_value(tree: dict[str, Any], path: str, value: Any) -> None:
    """Set tree["train"]["lr"] for the path "train.lr", in place; missing sections are made.

    Raises ConfigError where the path goes through a value that is not a section.
    """
    *sections, key = path.strip().split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {shorten(path)}: {section} is a value, not a section")
    tree[key] = value


def merge(tree: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Update `tree` in place: values of `over` win, and nested dictionaries are merged."""
    for key, value in over.items():
        if isinstance(value, Mapping):
            if not isinstance(tree.get(key), dict):
                tree[key] = {}
            merge(tree[key], value)
        else:
            tree[key] = value


def merge_settings(tree: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Update the nested dictionary of a preset, in place, with settings, which win.

    Nested dictionaries are merged. Settings that give the layers of a convolutional net drop the
    preset's dilations, which are made for its own number of layers.
    """
    given = settings.get("model", {})
    for layers, dilations in DILATIONS_OF.items():
        if isinstance(given, Mapping) and layers in given:
            tree["model"].pop(dilations, None)
    merge(tree, settings)


def preset_tree(arch: str, preset: str, source: bool = True) -> dict[str, Any]:
    """Return a preset's settings for an architecture, as a new nested dictionary.

    source: False for a language model, which has no source. Raises ConfigError for an unknown name.
    """
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}: expected one of {', '.join(PRESETS)}")
    has_arch = [name for name, archs in PRESETS.items() if isinstance(arch, str) and arch in archs]
    if has_arch and preset not in has_arch:
        raise ConfigError(f"{arch} has only the presets {', '.join(has_arch)}, not {preset}")
    if not has_arch:
        known = ", ".join(PRESETS[preset])
        raise ConfigError(
            f"no architecture {shorten(arch)}: expected one of {known}, or one of a --plugin"
        )
    tree: dict[str, Any] = {"model": {"arch": arch}}
    merge(tree, PRESETS[preset][arch])
    if not source:
        merge(tree, WITHOUT_SOURCE[preset].get(arch, {"model": {"source": False}}))
    return tree
