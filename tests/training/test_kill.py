"""kill -9 at any moment, in the middle of a checkpoint's writing too, changes nothing in the end."""

from pathlib import Path

import killed_runs
import pytest
from processes import FORKSERVER, SECONDS
from small_runs import assert_same, weights, write_pairs

pytestmark = pytest.mark.slow


def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    """After several deaths the weights, the moving average and the optimiser are bit-identical to those of a
    run in one go, and nothing but the kept checkpoints lies about."""
    write_pairs(tmp_path)
    process = FORKSERVER.Process(target=killed_runs.main, args=("convs2s", tmp_path))
    process.start()
    process.join(10 * SECONDS)
    assert process.exitcode == 0, "see above"
    at_random, in_a_write = map(int, (tmp_path / "deaths").read_text().split())
    assert at_random >= 2 and in_a_write >= 2
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))
    names = [{path.name for path in (tmp_path / run).rglob("*")} for run in ("whole", "killed")]
    assert names[0] == names[1]
