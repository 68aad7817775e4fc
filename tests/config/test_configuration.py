"""The rules of the configuration: what a setting may be, and what goes over what."""

import tomllib

import msgspec
import pytest

from bytenmt.architectures.presets import PRESETS
from bytenmt.config.schema import Config, TrainConfig, load_config, resolve_config
from bytenmt.config.spacing import Timer, interval
from bytenmt.config.tree import assign
from bytenmt.errors import ConfigError
from bytenmt.training.run import BY_UPDATES, SAVE_TIME, VALID_TIME, intervals


def with_file(arch: str | None, preset: str | None, toml: str, *settings: str) -> Config:
    """Return the configuration of a preset, a file and settings, as a training combines them."""
    tree = tomllib.loads(toml)
    for setting in settings:
        assign(tree, setting)
    return resolve_config(arch, preset, tree)


def test_shares_of_letter_case_are_of_all_pairs() -> None:
    settings = ["data.upper_case=0.5", "data.title_case=0.3", "data.lower_case=0.2"]
    augmentations = load_config("luong", "tiny", settings).data.augmentations
    assert augmentations == ("upper_case", "title_case", "lower_case")
    with pytest.raises(ConfigError, match="sum must be at most 1"):
        load_config("luong", "tiny", [*settings, "data.lower_case=0.21"])


@pytest.mark.parametrize(
    ("arch", "preset", "toml", "settings", "message"),
    [
        ("perceptron", "tiny", "", "", "perceptron"),
        ("luong", "huge", "", "", "huge"),
        (None, None, "", "", "--arch"),
        ("luong", "tiny", "model = 3", "", "model"),
        (None, "tiny", "[model]\narch = 3\n", "", "3"),
        ("luong", "tiny", "[model]\narch = 'bytenet'\n", "", "--arch"),
        *(
            ("seq2seq", "tiny", "[train]\nlr = 0.1", setting, setting.partition("=")[0].partition(".")[0])
            for setting in ("train.lerning_rate=1", "nonsense.lr=1", "model.d_hiden=3", "model=3", "train=3")
        ),
        *(("seq2seq", "tiny", "[train]\nlr = 0.1", one, "") for one in ("train.lr", "=3", "train..lr=1", "")),
        *(
            ("seq2seq", "tiny", "", setting, setting.partition("=")[0])
            for setting in (
                *(
                    "train.lr=fast",
                    "train.lr=0",
                    "train.lr=-1.0",
                    "train.max_tokens=0",
                    "train.max_tokens=1.5",
                ),
                *("train.seed=true", "train.teacher_forcing=1.5", "train.schedule=triangular"),
                *("model.dropout=1.0", "model.d_hidden=0", "model.context=end", "model.source=1"),
                *("data.empty_source=-0.1", "data.empty_source=1.1", "data.empty_source=nan"),
            )
        ),
    ],
)
def test_what_does_not_fit_is_named(
    arch: str | None, preset: str | None, toml: str, settings: str, message: str
) -> None:
    """An unknown name or key, a wrong type and a value out of range are one line with the path."""
    with pytest.raises(ConfigError) as error:
        with_file(arch, preset, toml, *([settings] if settings or toml.startswith("[train]") else []))
    assert message in str(error.value) and "\n" not in str(error.value)


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
    config = load_config("convs2s", "tiny", settings)
    train = config.train
    assert (train.lr, train.schedule, train.precision, train.seed) == (1e-4, "constant", "fp32", 9)
    assert config.data.max_source_bytes == 9
    assert list(map(list, msgspec.to_builtins(config.model)["encoder_layers"])) == [[8, 3], [8, 5]]


def test_preset_under_file_under_settings() -> None:
    """A file overrides the preset, --set overrides the file, what neither names stays."""
    text = "[train]\nlr = 0.5\nwarmup_updates = 3\n[model]\ndropout = 0.25\n"
    config = with_file("luong", "tiny", text, "train.lr=0.75")
    assert (config.train.lr, config.train.warmup_updates) == (0.75, 3)
    assert config.train.max_tokens == PRESETS["tiny"]["luong"]["train"]["max_tokens"]
    assert config.model.dropout == 0.25
    assert config.model.d_embedding == 64


def test_the_architecture_may_stand_in_the_file() -> None:
    """Either place will do, both if they agree."""
    text = '[model]\narch = "bytenet"\n'
    assert with_file(None, "tiny", text) == load_config("bytenet", "tiny", [])
    assert with_file("bytenet", "tiny", text) == load_config("bytenet", "tiny", [])


# ---- updates and times between what a training does now and then


def test_what_is_given() -> None:
    found = [interval(value, 3) for value in (7, "90s", "2m", "1.5h", "auto")]
    assert found == [7, 90.0, 120.0, 5400.0, 3]
    assert [type(one) for one in found] == [int, float, float, float, int]


def test_timer() -> None:
    """Once for every multiple that has passed since it was asked last, however many; by updates it knows no
    clock."""
    timer = Timer(10.0, 25.0)
    assert [timer.due(0, now) for now in (25.0, 29.9, 30.0, 31.0, 55.0, 56.0, 60.0)] == [
        *(False, False, True, False, True, False, True)
    ]
    timer.pass_over(71.0)
    assert not timer.due(0, 79.0) and timer.due(0, 80.0)
    timer.pass_over(91.0, pause=25.0)
    assert [timer.due(0, now) for now in (100.0, 115.9, 116.0, 119.0, 120.0)] == [
        *(False, False, True, False, True)
    ], "what is due in the pause comes right after it"
    by_updates = Timer(3, 0.0)
    assert [by_updates.due(update, 1e9) for update in range(1, 7)] == [False, False, True] * 2


def test_what_suits_the_run() -> None:
    """Times where its limit is one; updates where all else is counted in them, or validations are."""
    assert intervals(TrainConfig()) == (BY_UPDATES, BY_UPDATES)
    assert intervals(TrainConfig(max_minutes=5.0)) == (VALID_TIME, SAVE_TIME)
    assert intervals(TrainConfig(max_minutes=5.0, patience=2)) == (BY_UPDATES, SAVE_TIME)
    assert intervals(TrainConfig(max_minutes=5.0, schedule="plateau")) == (BY_UPDATES, SAVE_TIME)
    assert intervals(TrainConfig(max_minutes=5.0, patience=2, valid_every=9))[0] == 9
    with pytest.raises(ConfigError, match="plateau schedule count"):
        intervals(TrainConfig(schedule="plateau", valid_every="5m"))
