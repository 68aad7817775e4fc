"""The table of settings, values out of bounds alike in commands, configuration and Python, and what
goes over what in a configuration."""

import math
import tomllib
from typing import Any, get_args

import click
import msgspec
import pytest
from made_up_engine import made_up_translator
from msgspec import Meta

from bytenmt.architectures.presets import PRESETS
from bytenmt.cli.main import main
from bytenmt.cli.options import OptionValue
from bytenmt.config import fields
from bytenmt.config.fields import MAX_THREADS, Option, check_values, options_of
from bytenmt.config.schema import Config, config_tree, load_config, resolve_config
from bytenmt.config.train_section import TrainConfig
from bytenmt.config.tree import assign
from bytenmt.decoding.interface import SAMPLING_SETTINGS, EngineSpec
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.translation.settings import TRANSLATION_SETTINGS
from bytenmt.translation.translator import Translator

SETTINGS = {
    name: one
    for name, one in TRANSLATION_SETTINGS.items()
    if one.kind not in (bool, bytes) and not one.choices
}
TRAINING = options_of(TrainConfig)


def ends(option: Option) -> tuple[float | None, float | None, float]:
    """Return the lowest value, an excluded one below all others, and the highest."""
    metas = [meta for meta in get_args(option.item) if isinstance(meta, Meta)]
    least = next((meta.ge for meta in metas if meta.ge is not None), None)
    above = next((meta.gt for meta in metas if meta.gt is not None), None)
    return least, above, next(meta.le for meta in metas if meta.le is not None)


def translator(**named: Any) -> Translator:
    """With what a setting needs beside it."""
    return made_up_translator(**{"beam": 1000, **named} if "n_best" in named else named)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_python_interface_holds_the_bounds(name: str) -> None:
    """The ends are in; what lies outside is a user's error and a ValueError, and is named."""
    least, above, most = ends(SETTINGS[name])
    translator(**{name: most})
    if least is not None and name != "temperature":
        translator(**{name: least})
    wrong = [math.nan, math.inf, -math.inf, 1e300, most * 2 + 1, 10**30, True, "1"]
    wrong.append(above if least is None else least - 1)
    wrong += [] if isinstance(most, float) else [most - 0.5]
    wrong += [] if name == "max_source_bytes" else [None]  # which is "as the run was trained"
    for value in wrong:
        with pytest.raises(BytenmtError, match=name) as told:
            translator(**{name: value})
        assert isinstance(told.value, ValueError)


def numeric_options() -> list[Any]:
    """Return every option of every command that takes a number."""
    return [
        pytest.param(name, option, id=f"{name} {option.opts[0]}")
        for name, command in main.every().items()
        for option in command.params
        if isinstance(option.type, OptionValue) and option.type.name != "text"
    ]


NO_OPTIONS = ("nan", "inf", "1" + "0" * 30, "9" * 5000, "\x1b[31m", "-1")


@pytest.mark.parametrize(("name", "option"), numeric_options())
def test_every_option_refuses_what_is_no_number_of_its(name: str, option: click.Option) -> None:
    for value in NO_OPTIONS:
        with pytest.raises(click.BadParameter) as told:
            option.type.convert(value, option, click.Context(main))
        line = told.value.format_message()
        assert option.opts[-1] in line and len(line) < 250 and line.isprintable()


def test_every_numeric_option_is_known() -> None:
    """So that the test above does not pass over an option of another type."""
    names = {parameter.values[1].name for parameter in numeric_options()}
    assert names >= {"threads", "weights", "n_bytes", "buffer_size", "max_queue"}
    assert names >= {*SETTINGS, *TRAINING}


def test_no_number_of_the_configuration_is_without_end() -> None:
    """Every number of a run, at values that NumPy, PyTorch or a loop would choke on; the highest
    one of an option is in."""
    tree = config_tree(load_config("bytenet", "tiny", []))
    keys = {f"train.{name}" for name in TRAINING}
    for section in ("data", "train"):
        numbers = [name for name, value in tree[section].items() if type(value) in (int, float)]
        keys |= {f"{section}.{name}" for name in numbers}
    for key in keys:
        for wrong in ("nan", "inf", "1e300", "9223372036854775807", "-1"):
            if (key, wrong) != ("train.seed", "9223372036854775807"):
                with pytest.raises(ConfigError, match=key):
                    load_config("bytenet", "tiny", [f"{key}={wrong}"])
    for name, option in TRAINING.items():
        most = ends(option)[2]
        tree = config_tree(load_config("luong", "tiny", [f"train.{name}={most}"]))
        assert tree["train"][name] == most
    with pytest.raises(ConfigError, match="train.loss_terms.*: expected a number <="):
        load_config("bytenet", "tiny", ["train.loss_terms.x=inf"])


@pytest.mark.parametrize("threads", [0, -1, 100_000, 10**30, math.nan])
def test_threads(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads"):
        EngineSpec("numba", "cpu", threads=threads)
    assert EngineSpec("numba", "cpu", threads=MAX_THREADS).threads == MAX_THREADS


def test_a_search_that_fits_with_few_lines_side_by_side_has_few() -> None:
    assert translator(beam=100, max_len_b=10**6).translate(["a"]) == ["A0"]
    admitted: list[Any] = []
    long = made_up_translator(admitted, max_len_b=10**6, max_source_bytes=100)
    long.translate([f"{i}" for i in range(1000)])
    assert 100 < max(map(len, admitted)) < 200


def test_a_message_names_value_and_bound() -> None:
    rows = TRANSLATION_SETTINGS
    with pytest.raises(ValueError, match=r"^top_p is 0: expected a number > 0\.0$"):
        check_values({"top_p": 0}, rows)
    with pytest.raises(ValueError, match=r"^--seed is -1: expected a whole number >= 0$"):
        check_values({"seed": -1}, rows, lambda name: rows[name].long)
    with pytest.raises(ValueError, match="split_sentences is 'x': expected one of auto, always,"):
        check_values({"split_sentences": "x"}, rows)


# ---- the table of settings

TRANSLATING = ("translate", "translate-file", "translate-dataset", "evaluate")


def command_options(command: str) -> dict[str, click.Option]:
    parameters = main.every()[command].params
    return {one.name: one for one in parameters if isinstance(one, click.Option) and one.name}


@pytest.mark.parametrize("row", TRANSLATION_SETTINGS.values(), ids=lambda row: row.name)
def test_a_setting_is_an_option_of_the_commands_of_its_group(row: Option) -> None:
    expected = {
        "search": {*TRANSLATING, "serve"},
        "sampling": {*TRANSLATING} | ({"generate"} if row.name in SAMPLING_SETTINGS else set()),
        "output": {"translate"},
    }[row.group]
    offered = {name for name in main.every() if row.name in command_options(name)}
    assert expected <= offered
    for command in expected:
        option = command_options(command)[row.name]
        assert row.long in option.opts and (option.help or "").startswith(row.help[:-1])
        assert option.is_flag == (row.kind is bool)


# ---- a configuration


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
    ("arch", "preset", "toml", "message"),
    [
        ("perceptron", "tiny", "", "perceptron"),
        ("luong", "huge", "", "huge"),
        (None, None, "", "--arch"),
        ("luong", "tiny", "model = 3", "model"),
        (None, "tiny", "[model]\narch = 3\n", "3"),
        ("luong", "tiny", "[model]\narch = 'bytenet'\n", "--arch"),
    ],
)
def test_what_does_not_fit_is_named(
    arch: str | None, preset: str | None, toml: str, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        with_file(arch, preset, toml)
    assert message in str(error.value) and "\n" not in str(error.value)


WRONG = """train.lerning_rate=1 nonsense=1 model.d_hiden=3 model=3 train=3 train.lr=fast train.lr=0
train.max_tokens=0 train.max_tokens=1.5 train.seed=true train.teacher_forcing=1.5
train.schedule=triangular model.dropout=1.0 model.d_hidden=0 model.context=end model.source=1
data.empty_source=1.1 train.lr =3 train.=1 model.arch=[1] lr"""


@pytest.mark.parametrize("setting", [*WRONG.split(), ""])
def test_a_setting_that_does_not_fit_is_named(setting: str) -> None:
    with pytest.raises(ConfigError) as error:
        with_file("seq2seq", "tiny", "[train]\nlr = 0.1", setting)
    assert setting.partition("=")[0] in str(error.value) and "\n" not in str(error.value)


def test_settings_are_toml_or_plain_words() -> None:
    settings = ["train.lr=1e-4", "train.schedule=constant", 'train.precision="fp32"']
    settings += ["data.max_source_bytes=9", "model.encoder_layers=[[8, 3], [8, 5]]"]
    settings.append(" train.seed = 9 ")
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


def test_an_option_has_a_help_text() -> None:
    for help_text in ("", " "):
        with pytest.raises(ValueError, match="needs a help text"):
            fields.option(0.0, help_text)
