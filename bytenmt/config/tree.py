"""Merge configurations as nested dictionaries, before they are checked: `--set key=value` over a file over a
preset."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from typing import Any

from bytenmt.architectures.presets import PRESETS, WITHOUT_SOURCE
from bytenmt.errors import ConfigError

LONGEST_SETTING, DEEPEST_KEY = 20_000, 8  # characters of a `--set`; names in its key
DILATIONS_OF = {"encoder_layers": "encoder_dilations", "decoder_layers": "decoder_dilations"}
LONGEST_SHOWN = 200  # characters of one in a message


def assign(tree: dict[str, Any], setting: str) -> None:
    """Put one `key.path=value` into the tree; the value is TOML or a plain word. Raises ConfigError."""
    path, equals, text = setting.partition("=")
    if not equals:
        raise ConfigError(f"--set {setting!r}: expected key=value, for example train.lr=1e-3")
    if len(setting) > LONGEST_SETTING:
        raise ConfigError(
            f"--set {setting[:40]!r}… has {len(setting):,} characters: expected {LONGEST_SETTING:,} at most"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    except (ValueError, RecursionError):  # thousands of digits, or of brackets
        raise ConfigError(f"--set {setting[:40]!r}…: the value is too long to read") from None
    assign_value(tree, path, value, setting)


def assign_value(tree: dict[str, Any], path: str, value: Any, setting: str | None = None) -> None:
    """Put a value into the tree at a key like "train.lr". Raises ConfigError for what is no key.

    setting: the whole of it for messages, where it was a text.
    """
    keys, shown = path.strip().split("."), setting or path
    shown = f"--set {shown!r}" if len(shown) <= LONGEST_SHOWN else f"--set {shown[:40]!r}…"
    if not all(keys):
        raise ConfigError(f"{shown}: expected key=value, for example train.lr=1e-3")
    if len(keys) > DEEPEST_KEY:
        raise ConfigError(f"{shown} has {len(keys):,} names in its key: expected {DEEPEST_KEY} at most")
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{shown}: {key} is a value, not a section")
    tree[keys[-1]] = value


def merge(tree: dict[str, Any], over: Mapping[str, Any], levels: int = DEEPEST_KEY) -> None:
    """Lay one nested dictionary over another, in place. Raises ConfigError where it has too many levels."""
    if not levels:
        raise ConfigError(f"the configuration is nested over {DEEPEST_KEY} levels deep: expected sections")
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            merge(tree[key], value, levels - 1)
        elif isinstance(value, Mapping):
            tree[key] = {}
            merge(tree[key], value, levels - 1)
        else:
            tree[key] = value


def merge_settings(tree: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Lay settings over the dictionary of a preset, in place; see merge.

    Dilations of a preset belong to its layers: layers that are given without dilations have none.
    """
    given = settings.get("model", {})
    for layers, dilations in DILATIONS_OF.items():
        if isinstance(given, Mapping) and layers in given:
            tree["model"].pop(dilations, None)
    merge(tree, settings)


def not_finite(tree: Mapping[str, Any]) -> str | None:
    """The path of a number in one of the sections that is infinite or none, which no bound tells."""
    for section, values in tree.items():
        for key, value in values.items() if isinstance(values, Mapping) else ():
            if isinstance(value, float) and not math.isfinite(value):
                return f"{section}.{key}"
    return None


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
