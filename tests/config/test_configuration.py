"""The rules of the configuration: what a setting may be, and what goes over what."""

from __future__ import annotations

import msgspec
import pytest

from bytenmt.architectures.presets import PRESETS
from bytenmt.config.schema import load_config, parse_config
from bytenmt.config.tree import preset_tree
from bytenmt.errors import ConfigError


def test_shares_of_letter_case_are_of_all_pairs() -> None:
    settings = ["data.upper_case=0.5", "data.title_case=0.3", "data.lower_case=0.2"]
    assert load_config("luong", "tiny", "", settings).data.augmentations == (
        "upper_case",
        "title_case",
        "lower_case",
    )
    with pytest.raises(ConfigError, match="sum must be at most 1"):
        load_config("luong", "tiny", "", [*settings, "data.lower_case=0.21"])
    for value in ("-0.1", "1.1", "nan"):
        with pytest.raises(ConfigError, match="data.empty_source"):
            load_config("luong", "tiny", "", [f"data.empty_source={value}"])


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("train.lerning_rate=1", "train"),
        ("nonsense.lr=1", "nonsense"),
        ("model.d_hiden=3", "model"),
        ("train.lr=fast", "train.lr"),
        ("train.lr=0", "train.lr"),
        ("train.lr=-1.0", "train.lr"),
        ("train.max_tokens=0", "train.max_tokens"),
        ("train.max_tokens=1.5", "train.max_tokens"),
        ("train.seed=true", "train.seed"),
        ("train.teacher_forcing=1.5", "train.teacher_forcing"),
        ("train.schedule=triangular", "train.schedule"),
        ("model.dropout=1.0", "model.dropout"),
        ("model.d_hidden=0", "model.d_hidden"),
        ("model.context=end", "model.context"),
        ("model=3", "model"),
        ("train=3", "train"),
        ("model.source=1", "model.source"),
    ],
)
def test_what_does_not_fit_is_named(setting: str, path: str) -> None:
    """An unknown key, a wrong type and a value out of range each name their path, in one line."""
    with pytest.raises(ConfigError) as error:
        load_config("seq2seq", "tiny", "", [setting])
    assert path in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("setting", ["train.lr", "=3", "train..lr=1", "train.lr.x=1", ""])
def test_a_malformed_setting_is_an_error(setting: str) -> None:
    """--set takes key=value."""
    with pytest.raises(ConfigError):
        load_config("seq2seq", "tiny", "[train]\nlr = 0.1", [setting])


def test_settings_are_toml_or_plain_words() -> None:
    """Numbers, truth values, lists and words."""
    settings = [
        "train.lr=1e-4",
        "train.schedule=constant",
        'train.precision="fp32"',
        "data.max_source_bytes=9",
        "model.encoder_layers=[[8, 3], [8, 5]]",
        " train.seed = 9 ",
    ]
    config = load_config("convs2s", "tiny", "", settings)
    assert config.train.lr == 1e-4
    assert config.train.schedule == "constant"
    assert config.train.precision == "fp32"
    assert config.data.max_source_bytes == 9
    assert msgspec.to_builtins(config.model)["encoder_layers"] in (
        [[8, 3], [8, 5]],
        ((8, 3), (8, 5)),
    )
    assert config.train.seed == 9


def test_preset_under_file_under_settings() -> None:
    """A file overrides the preset, --set overrides the file, what neither names stays."""
    text = "[train]\nlr = 0.5\nwarmup_updates = 3\n[model]\ndropout = 0.25\n"
    config = load_config("luong", "tiny", text, ["train.lr=0.75"])
    assert (config.train.lr, config.train.warmup_updates) == (0.75, 3)
    assert config.train.max_tokens == PRESETS["tiny"]["luong"]["train"]["max_tokens"]
    assert config.model.dropout == 0.25
    assert config.model.d_embedding == 64


def test_the_architecture_may_stand_in_the_file() -> None:
    """Either place will do, both if they agree."""
    text = '[model]\narch = "bytenet"\n'
    assert load_config(None, "tiny", text, []) == load_config("bytenet", "tiny", "", [])
    assert load_config("bytenet", "tiny", text, []) == load_config("bytenet", "tiny", "", [])
    with pytest.raises(ConfigError, match="--arch"):
        load_config("luong", "tiny", text, [])


@pytest.mark.parametrize(
    ("arch", "preset", "toml", "message"),
    [
        ("perceptron", "tiny", "", "perceptron"),
        ("luong", "huge", "", "huge"),
        (None, None, "", "--arch"),
        ("luong", "tiny", "[train\n", "TOML"),
        ("luong", "tiny", "model = 3", "model"),
        (None, "tiny", "[model]\narch = 3\n", "3"),
    ],
)
def test_bad_names_and_files(arch: str | None, preset: str | None, toml: str, message: str) -> None:
    """One line that says what was got."""
    with pytest.raises(ConfigError, match=message):
        load_config(arch, preset, toml, [])


def test_configuration_is_frozen() -> None:
    """Nobody changes a configuration under way."""
    config = parse_config(preset_tree("luong", "tiny"))
    with pytest.raises(AttributeError):
        config.train.lr = 1.0  # type: ignore[misc]
