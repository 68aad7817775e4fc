"""The table of settings: commands, Python API and server offer what its lines declare, and nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from source_tree import PACKAGE

from bytenmt.cli.main import main
from bytenmt.config.fields import Option
from bytenmt.decoding.setting_table import SAMPLING, TABLE
from bytenmt.decoding.settings import Settings
from bytenmt.errors import SettingError

TRANSLATING = ("translate", "translate-file", "translate-dataset", "evaluate")


def options_of(command: str) -> dict[str, click.Option]:
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
    offered = {name for name in main.every() if row.name in options_of(name)}
    assert expected <= offered
    for command in expected:
        option = options_of(command)[row.name]
        assert row.long in option.opts and (option.help or "").startswith(row.help[:-1])
        assert option.is_flag == (row.kind is bool)


def test_messages_use_the_names_of_the_caller() -> None:
    with pytest.raises(SettingError, match="--n-best 2 of --beam-size 1"):
        Settings.from_dict({"n_best": 2}, lambda name: TABLE[name].long)


ADDED = """
    coverage: Annotated[int, Meta(ge=0, le=9)] = search_option(7, "Of a test.", "--coverage-of-test")
"""
PROGRAM = """
from click.testing import CliRunner
from bytenmt.cli.main import main
from bytenmt.decoding.settings import Settings
from bytenmt.errors import SettingError
for command in ("translate", "evaluate", "serve"):
    help = CliRunner().invoke(main, [command, "--help"], env={"COLUMNS": "200"}).output
    assert "--coverage-of-test" in help and "Of a test (default: 7)." in help, command
    told = CliRunner().invoke(main, [command, "--coverage-of-test", "10"])
    assert told.exit_code == 2 and "expected a whole number <= 9" in told.output, told.output
from bytenmt.cli.inputs import check_settings as settings
from bytenmt.cli.serve import serve
found = {one.name: one for one in serve.params}["coverage"]
assert found.envvar == "BYTENMT_SERVE_COVERAGE_OF_TEST"
assert settings({"coverage": 3}).search.coverage == 3 and Settings.from_dict({}).search.coverage == 7
assert Settings.from_dict({"coverage": 3}).search.coverage == 3
for wrong in (10, -1, "x", 1.5):
    try:
        Settings.from_dict({"coverage": wrong})
    except SettingError as error:
        assert "coverage" in str(error)
    else:
        raise AssertionError(wrong)
"""


@pytest.mark.slow
def test_adding_a_setting_is_one_line(tmp_path: Path) -> None:
    """Adding one line to a copy of the package adds the setting to the commands, the API and the server."""
    shutil.copytree(PACKAGE, tmp_path / "bytenmt", ignore=shutil.ignore_patterns("__pycache__"))
    table = tmp_path / "bytenmt/decoding/setting_table.py"
    text = table.read_text(encoding="utf-8")
    before = "    beam: Beam = search_option(\n"
    assert text.count(before) == 1
    table.write_text(text.replace(before, ADDED + before), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        check=True,
    )
