"""Architectures that are not in the package: one call makes a configuration's section and its presets known.

Knows configurations; models.register adds the module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from bytenmt.config.presets import PRESETS
from bytenmt.config.schema import REGISTERED, Config, ModelSection


def register(section: type[ModelSection], presets: Mapping[str, Mapping[str, Any]]) -> None:
    """Make another architecture known; models.register calls it. section: its configuration, whose tag is its
    name; presets: the sections "model" and "train" by the name of a preset, "small" and what else it has."""
    arch = str(section.__struct_config__.tag)
    if arch in PRESETS["small"]:
        raise ValueError(f"there is an architecture {arch!r} already")
    if "small" not in presets or not presets.keys() <= PRESETS.keys():
        raise ValueError(f"presets {', '.join(presets)}: expected small, and others of {', '.join(PRESETS)}")
    kind = msgspec.defstruct(
        "Config", [("model", section)], bases=(Config,), frozen=True, forbid_unknown_fields=True, kw_only=True
    )
    REGISTERED[arch] = cast(type[Config], kind)
    for preset, given in presets.items():
        PRESETS[preset][arch] = {"model": dict(given.get("model", {})), "train": dict(given.get("train", {}))}
