"""Fingerprints of configurations: the same in every version that knows more keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from bytenmt.config import fingerprint as module
from bytenmt.config.fingerprint import NEUTRAL, fingerprint
from bytenmt.config.schema import DataConfig, ModelConfig, TrainConfig, config_tree, load_config, parse_config
from bytenmt.errors import ConfigError

# Configurations and their fingerprints, of the version before keys had neutral values.
STORED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "files" / "fingerprints.json").read_text(encoding="utf-8")
)
ARCHITECTURES = {str(one.__struct_config__.tag): one for one in get_args(ModelConfig)}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_later_key_has_a_neutral_value(arch: str) -> None:
    """A failure after adding a configuration key: store its neutral value in config/fingerprint.py."""
    (first, *_) = (one["config"] for one in STORED if one["config"]["model"]["arch"] == arch)
    for name, section in (("model", ARCHITECTURES[arch]), ("data", DataConfig), ("train", TrainConfig)):
        keys = {field.name for field in msgspec.structs.fields(section)}
        assert keys - first[name].keys() - NEUTRAL[name].keys() == set(), f"new keys of section {name}"
        assert not first[name].keys() & NEUTRAL[name].keys(), "a key that is always part of a fingerprint"


@pytest.mark.parametrize("stored", STORED, ids=lambda one: one["fingerprint"])
def test_stored_fingerprints_hold(stored: dict[str, Any]) -> None:
    """A failure means that the default of a later key is not its neutral value, or that one was changed."""
    assert fingerprint(parse_config(stored["config"])) == stored["fingerprint"]


def test_a_later_key_counts_where_it_is_not_neutral(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its default is or becomes."""
    config = load_config("luong", "tiny", "", [])
    before = fingerprint(config)
    neutral = {**NEUTRAL, "data": {**NEUTRAL["data"], "shuffled": "pairs"}}
    monkeypatch.setattr(module, "NEUTRAL", neutral)
    for value in ("pairs", "lines"):
        tree = config_tree(config)
        tree["data"]["shuffled"] = value
        monkeypatch.setattr(module, "config_tree", lambda _, tree=tree: tree)
        assert (fingerprint(config) == before) == (value == "pairs")


@pytest.mark.parametrize(
    "setting",
    ["train.seed=2", "train.lr=0.1", "data.noise=0.1", "data.upper_case=0.1", "model.dropout=0.3"],
)
def test_other_values_have_another_fingerprint(setting: str) -> None:
    plain, other = (load_config("luong", "tiny", "", given) for given in ([], [setting]))
    assert fingerprint(plain) != fingerprint(other)


def test_keys_of_earlier_versions_are_left_out() -> None:
    """Unless the model was another one by its key."""
    config = load_config("luong", "tiny", "", [])
    tree = config_tree(config)
    tree["model"]["encoder_lookahead"] = -1
    tree["data"]["stream_window"] = 9
    tree["train"] |= {"draft": True, "waits": [1, 2]}
    assert parse_config(tree) == config
    tree["model"]["encoder_lookahead"] = 3
    with pytest.raises(ConfigError, match="encoder_lookahead"):
        parse_config(tree)
