"""Numbers out of bounds: refused alike by the commands, the configuration and the Python interface."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner
from made_up_engine import made_up_translator

from bytenmt.cli.main import main
from bytenmt.config.bounds import MOST_SEED, N_BYTES, THREADS, TRAINING, WEIGHT, Bounds, check
from bytenmt.config.schema import config_tree, load_config
from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.setting_table import BOUNDS as DECODING
from bytenmt.decoding.setting_table import SEARCH
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError, ConfigError

NUMERIC = (click.types.IntParamType, click.types.FloatParamType)


def outside(bounds: Bounds) -> list[Any]:
    """Values that no command may take, as Python numbers."""
    wrong = [
        math.nan,
        math.inf,
        -math.inf,
        1e300,
        bounds.high * 2 + 1,
        bounds.low - 1,
        10**30,
        True,
        "1",
        None,
    ]
    return wrong + ([bounds.low] if bounds.open else []) + ([bounds.high - 0.5] if bounds.whole else [])


def numeric_options() -> list[Any]:
    """Every option of every command that takes a number."""
    return [
        pytest.param(name, option, id=f"{name} {option.opts[0]}")
        for name, command in main.every().items()
        for option in command.params
        if isinstance(option.type, NUMERIC)
    ]


def translator(**named: Any) -> Translator:
    """With what a setting needs beside it."""
    if named.keys() & {"length_penalty", "n_best"}:
        named = {"beam": 1000 if "length_penalty" in named else 1} | named
    return made_up_translator(
        **named,
        **(
            {"sample": True}
            if any(SEARCH[name].needs_sample for name in named.keys() & SEARCH.keys())
            else {}
        ),
    )


@pytest.mark.parametrize("name", DECODING)
def test_the_python_interface_holds_the_bounds(name: str) -> None:
    """The ends are in; what lies outside is a user's error and a ValueError, and is named."""
    bounds = DECODING[name]
    more: Callable[[Any], dict[str, Any]] = lambda value: {"beam": value} if name == "n_best" else {}  # noqa: E731
    for value in (bounds.high, bounds.high if bounds.open else bounds.low):
        value = int(value) if bounds.whole else value
        translator(**{name: value}, **more(value))
    for value in outside(bounds):
        if name == "max_source_bytes" and value is None:
            continue  # as the run was trained
        with pytest.raises(BytenmtError, match=name) as told:
            translator(**{name: value})
        assert isinstance(told.value, ValueError)


WRONG = ["nan", "inf", "1" + "0" * 30, "9" * 5000, "\x1b[31m"]


@pytest.mark.parametrize(
    "name, option, value",
    [
        pytest.param(*option.values, WRONG[(number + turn) % len(WRONG)], id=f"{option.id} {turn}")
        for number, option in enumerate(numeric_options())
        for turn in (0, 2)
    ],
)
def test_every_option_refuses_what_is_no_number_of_its(name: str, option: click.Option, value: str) -> None:
    """With a usage error of one short line, before anything else is looked at; two of the values each."""
    told = CliRunner().invoke(main, [name, f"{option.opts[0]}={value}"])
    assert told.exit_code == 2, told.output
    line = told.output.splitlines()[-1]
    assert option.opts[-1] in line and "range" in line and len(line) < 250 and line.isprintable()


def test_every_numeric_option_is_known() -> None:
    """So that the test above does not pass over an option of another type."""
    names = {parameter.values[1].name for parameter in numeric_options()}
    assert names >= {*DECODING, *TRAINING, "threads", "weights", "n_bytes", "buffer_size"}


@pytest.mark.parametrize("name", TRAINING)
def test_the_configuration_holds_the_bounds(name: str) -> None:
    """Configuration keys that are also options have the bounds of the options."""
    bounds = TRAINING[name]
    tree = config_tree(
        load_config(
            "luong",
            "tiny",
            "",
            [f"train.{name}={bounds.high:g}"] if not bounds.whole else [f"train.{name}={int(bounds.high)}"],
        )
    )
    assert tree["train"][name] == bounds.high
    for value in ("nan", "inf", "-inf", "1e300", "-1", "1" + "0" * 400, "9" * 5000):
        with pytest.raises(ConfigError, match=name):
            load_config("luong", "tiny", "", [f"train.{name}={value}"])


def test_no_number_of_the_configuration_is_without_end() -> None:
    """Every number of a run, at values that NumPy, PyTorch or a loop would choke on."""
    for section, values in config_tree(load_config("bytenet", "tiny", "", [])).items():
        for name, value in values.items():
            if section != "model" and isinstance(value, int | float) and not isinstance(value, bool):
                for wrong in ("nan", "inf", "1e300", "9223372036854775807", "-1"):
                    if (name, wrong) != ("seed", "9223372036854775807"):
                        with pytest.raises(ConfigError, match=name):
                            load_config("bytenet", "tiny", "", [f"{section}.{name}={wrong}"])


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
    ],
)
def test_a_setting_of_thousands_of_digits_or_levels(setting: str) -> None:
    """One line, and not a long one."""
    with pytest.raises(ConfigError) as told:
        load_config(None if "arch" in setting else "luong", "tiny", "", [setting])
    assert len(str(told.value)) < 300 and str(told.value).isprintable()


def test_a_file_of_thousands_of_levels() -> None:
    with pytest.raises(ConfigError, match="8 levels deep"):
        load_config("luong", "tiny", ".".join("a" * 500) + " = 1", [])


@pytest.mark.parametrize("threads", [0, -1, 100_000, 10**30, math.nan])
def test_threads(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads"):
        EngineSpec("numba", "cpu", threads=threads)
    assert EngineSpec("numba", "cpu", threads=int(THREADS.high)).threads == THREADS.high


@pytest.mark.parametrize("weight", [0.0, 1e-320, math.nan, math.inf, 1e300])
def test_weights(weight: float, tmp_path: Any) -> None:
    assert not WEIGHT.hold(weight)
    with pytest.raises(ValueError, match="weight"):
        ParallelCorpus.open_all([PairFiles(tmp_path, tmp_path, weight=weight)])


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


def test_bounds_tell_themselves() -> None:
    with pytest.raises(ValueError, match=r"^top_p is 0, expected a number above 0 to 1$"):
        check({"top_p": 0}, DECODING)
    with pytest.raises(ValueError, match=r"^seed is -1, expected a whole number from 0 to "):
        check({"seed": -1}, DECODING)
    assert N_BYTES.hold(0) and DECODING["seed"].hold(MOST_SEED) and not DECODING["seed"].hold(MOST_SEED + 1)
