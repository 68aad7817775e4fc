"""The schedules and metrics of the package: the guide names each, and unknown names are refused."""

from pathlib import Path

import pytest

import bytenmt
from bytenmt.config.metrics import PACKAGE_METRICS
from bytenmt.config.schedules import PACKAGE_SCHEDULES, SCHEDULES_WITH_END
from bytenmt.config.schema import load_config
from bytenmt.errors import ConfigError

GUIDE = Path(bytenmt.__file__).parent / "docs" / "training.md"


def test_the_guide_names_each_choice() -> None:
    """A row of a table for each schedule and each metric of the package."""
    text = GUIDE.read_text(encoding="utf-8")
    names = [schedule.__name__ for schedule in PACKAGE_SCHEDULES]
    assert [name for name in [*names, *PACKAGE_METRICS] if f"| `{name}` |" not in text] == []
    assert set(names) >= SCHEDULES_WITH_END


@pytest.mark.parametrize("key", ["schedule", "metric"])
def test_an_unknown_choice_is_refused(key: str) -> None:
    message = f"train.{key}: 'nothing' is not one of .*; one of a plugin needs"
    with pytest.raises(ConfigError, match=message):
        load_config("luong", "tiny", [f"train.{key}=nothing"])
