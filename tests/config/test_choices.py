"""The schedules and metrics of the package: the guide lists each, and unknown names are refused."""

import re

import pytest
from source_tree import PACKAGE

from bytenmt.checkpoints.facts import Progress
from bytenmt.config.metrics import PACKAGE_METRICS
from bytenmt.config.schedules import PACKAGE_SCHEDULES, SCHEDULES_WITH_END
from bytenmt.config.schema import load_config
from bytenmt.config.train_section import TrainConfig
from bytenmt.errors import ConfigError


def guide_rows(head: str) -> dict[str, str]:
    """Return the last cell of each row of a table of docs/training.md, by the name in the first."""
    text = (PACKAGE / "docs/training.md").read_text(encoding="utf-8")
    table = text.partition(f"{head}\n")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| .+ \| (\w+) \|$", table, flags=re.M))


def test_the_guide_says_which_schedules_need_a_limit() -> None:
    needs_limit = {
        schedule.__name__: "yes" if schedule.__name__ in SCHEDULES_WITH_END else "no"
        for schedule in PACKAGE_SCHEDULES
    }
    cure = "correct the table of schedules of bytenmt/docs/training.md, or SCHEDULES_WITH_END"
    assert guide_rows("| schedule | learning rate | needs a limit |") == needs_limit, cure


def test_schedules_with_an_end_are_those_that_read_the_limit() -> None:
    """Without a limit the rate of such a schedule stays what it is at the first update."""
    short, endless = TrainConfig(max_updates=1000), TrainConfig(max_updates=0)
    read_limit = set()
    for schedule in PACKAGE_SCHEDULES:
        at_950 = [schedule(train, Progress(update=950)) for train in (short, endless)]
        if at_950[0] != at_950[1]:
            read_limit.add(schedule.__name__)
    assert read_limit == SCHEDULES_WITH_END, "correct SCHEDULES_WITH_END of config/schedules.py"


def test_the_guide_says_which_values_of_metrics_are_better() -> None:
    better = {
        name: "higher" if metric.is_higher_better else "lower"
        for name, metric in PACKAGE_METRICS.items()
    }
    cure = "correct the table of metrics of bytenmt/docs/training.md, or is_higher_better"
    assert guide_rows("| metric | value | better |") == better, cure


@pytest.mark.parametrize("key", ["schedule", "metric"])
def test_an_unknown_choice_is_refused(key: str) -> None:
    message = f"train.{key}: 'nothing' is not one of .*; one of a plugin needs"
    with pytest.raises(ConfigError, match=message):
        load_config("luong", "tiny", [f"train.{key}=nothing"])
