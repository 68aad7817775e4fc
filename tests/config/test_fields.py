"""The table of settings, and values out of bounds: alike in the commands, the configuration and Python."""

import math
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner
from made_up_engine import made_up_translator
from msgspec import Meta

from bytenmt.cli.main import main
from bytenmt.cli.options import OptionValue
from bytenmt.config.fields import MAX_THREADS, Option, check_values, options_of
from bytenmt.config.schema import TrainConfig, config_tree, load_config
from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.setting_table import SAMPLING, TABLE
from bytenmt.decoding.settings import Settings
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError, ConfigError, SettingError

SETTINGS = {name: one for name, one in TABLE.items() if one.kind not in (bool, bytes) and not one.choices}
TRAINING = options_of(TrainConfig)
NUMBERS = {name: one for name, one in TRAINING.items() if not name.endswith("_every")}
NO_NUMBERS = ("nan", "inf", "-inf", "1e300", "-1", "1" + "0" * 400, "9" * 5000)


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
    wrong = [math.nan, math.inf, -math.inf, 1e300, most * 2 + 1, 10**30, True, "1", None]
    wrong += [above if least is None else least - 1, *([] if isinstance(most, float) else [most - 0.5])]
    for value in wrong:
        if name == "max_source_bytes" and value is None:
            continue  # as the run was trained
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
    """One short line says which option it is."""
    for value in NO_OPTIONS:
        with pytest.raises(click.BadParameter) as told:
            option.type.convert(value, option, click.Context(main))
        line = told.value.format_message()
        assert option.opts[-1] in line and len(line) < 250 and line.isprintable()


@pytest.mark.parametrize("value", NO_OPTIONS)
def test_a_wrong_number_is_a_usage_error(value: str) -> None:
    """Before anything else is looked at."""
    told = CliRunner().invoke(main, ["translate", f"--beam-size={value}"])
    assert told.exit_code == 2 and "--beam" in told.output.splitlines()[-1]


def test_every_numeric_option_is_known() -> None:
    """So that the test above does not pass over an option of another type."""
    names = {parameter.values[1].name for parameter in numeric_options()}
    assert names >= {*SETTINGS, *TRAINING, "threads", "weights", "n_bytes", "buffer_size", "max_queue"}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_configuration_holds_the_bounds(name: str) -> None:
    """Configuration keys that are also options have the bounds of the options."""
    most = ends(NUMBERS[name])[2]
    assert config_tree(load_config("luong", "tiny", [f"train.{name}={most}"]))["train"][name] == most
    for value in NO_NUMBERS:
        with pytest.raises(ConfigError, match=name):
            load_config("luong", "tiny", [f"train.{name}={value}"])


def test_no_number_of_the_configuration_is_without_end() -> None:
    """Every number of a run, at values that NumPy, PyTorch or a loop would choke on."""
    for section, values in config_tree(load_config("bytenet", "tiny", [])).items():
        for name, value in values.items():
            if section != "model" and isinstance(value, int | float) and not isinstance(value, bool):
                for wrong in ("nan", "inf", "1e300", "9223372036854775807", "-1"):
                    if (name, wrong) != ("seed", "9223372036854775807"):
                        with pytest.raises(ConfigError, match=name):
                            load_config("bytenet", "tiny", [f"{section}.{name}={wrong}"])
    with pytest.raises(ConfigError, match="train.loss_terms.*: expected a number <="):
        load_config("bytenet", "tiny", ["train.loss_terms.x=inf"])


@pytest.mark.parametrize(
    "setting",
    [
        "train.lr=" + "[" * 5000 + "]" * 5000,
        "train.lr=" + "{a=" * 3000 + "1" + "}" * 3000,
        "train.lr=1" + "_0" * 5000,
        "train.lr=0x" + "f" * 5000,
        "train.seed=" + "9" * 5000,
        ".".join("a" * 5000) + "=1",
        "a.b.c.d.e.f.g.h.i=1",
        "x" * 30_000 + "=1",
        "model.arch=[1]",
        "lr",
    ],
)
def test_a_setting_of_thousands_of_digits_or_levels(setting: str) -> None:
    """One line, and not a long one."""
    with pytest.raises(ConfigError) as told:
        load_config(None if "arch" in setting else "luong", "tiny", [setting])
    assert len(str(told.value)) < 350 and str(told.value).isprintable()


@pytest.mark.parametrize("text", [7, "90s", "2m", "1.5h", "auto"])
def test_intervals(text: int | str) -> None:
    config = load_config("luong", "tiny", [f"train.valid_every={text}", f"train.save_every={text}"])
    assert (config.train.valid_every, config.train.save_every) == (text, text)
    assert TRAINING["save_every"].convert(str(text), is_text=True) == text


@pytest.mark.parametrize(
    "text", ["2", "m", "0s", "0.0h", "-1m", "1e3s", "2 m", "99999999h", "x" * 9999, "2m\x1b"]
)
def test_what_is_no_interval(text: str) -> None:
    """One short line that says what is expected."""
    expected = "save_every is .*: expected a number of updates such as 500, a time"
    with pytest.raises(ConfigError, match=expected) as told:
        load_config("luong", "tiny", [f"train.save_every='{text}'"])
    assert len(str(told.value)) < 200


@pytest.mark.parametrize("threads", [0, -1, 100_000, 10**30, math.nan])
def test_threads(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads"):
        EngineSpec("numba", "cpu", threads=threads)
    assert EngineSpec("numba", "cpu", threads=MAX_THREADS).threads == MAX_THREADS


def test_a_search_too_wide_for_any_memory_is_told_before_it_begins() -> None:
    """And one that only fits with few lines side by side has few."""
    wide = translator(beam=1000, max_len_b=10**6)
    with pytest.raises(BytenmtError, match="1000 hypotheses of up to 1,000,030 bytes need 8.0 GB"):
        wide.translate(["a" * 10])
    assert translator(beam=100, max_len_b=10**6).translate(["a"]) == ["A0"]
    admitted: list[Any] = []
    long = made_up_translator(admitted, max_len_b=10**6, max_source_bytes=100)
    long.translate([f"{i}" for i in range(1000)])
    assert 100 < max(map(len, admitted)) < 200


def test_a_message_names_value_and_bound() -> None:
    with pytest.raises(ValueError, match=r"^top_p is 0: expected a number > 0\.0$"):
        check_values({"top_p": 0}, TABLE)
    with pytest.raises(ValueError, match=r"^--seed is -1: expected a whole number >= 0$"):
        check_values({"seed": -1}, TABLE, lambda name: TABLE[name].long)
    with pytest.raises(ValueError, match="split_sentences is 'x': expected one of auto, always, never"):
        check_values({"split_sentences": "x"}, TABLE)


# ---- the table of settings

TRANSLATING = ("translate", "translate-file", "translate-dataset", "evaluate")


def command_options(command: str) -> dict[str, click.Option]:
    return {
        one.name: one for one in main.every()[command].params if isinstance(one, click.Option) and one.name
    }


@pytest.mark.parametrize("row", TABLE.values(), ids=lambda row: row.name)
def test_a_setting_is_an_option_of_the_commands_of_its_group(row: Option) -> None:
    expected = {
        "search": {*TRANSLATING, "serve"},
        "sampling": {*TRANSLATING} | ({"generate"} if row.name in SAMPLING else set()),
        "output": {"translate"},
    }[row.group]
    offered = {name for name in main.every() if row.name in command_options(name)}
    assert expected <= offered
    for command in expected:
        option = command_options(command)[row.name]
        assert row.long in option.opts and (option.help or "").startswith(row.help[:-1])
        assert option.is_flag == (row.kind is bool)


def test_messages_use_the_names_of_the_caller() -> None:
    with pytest.raises(SettingError, match="--n-best 2 of --beam-size 1"):
        Settings.from_dict({"n_best": 2}, lambda name: TABLE[name].long)
