"""Communication between processes, and how they end together; a single one has none."""

import os
import time
from typing import Any, NoReturn

import pytest
import torch
import torch.distributed as dist
from processes import Outcome, job, results

from bytenmt.distributed import SINGLE_PROCESS, Group, pick_device, process_group
from bytenmt.errors import BytenmtError, DataError, DeviceError

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def crossings(group: Group) -> dict[str, Any]:
    """Each kind once, with what only this process has."""
    own = torch.tensor([group.rank + 1, 10 * (group.rank + 1)], dtype=torch.float64)
    group.all_reduce(own)
    counts = torch.tensor([2**40 + group.rank])
    group.all_reduce(counts)
    value = {"rank": group.rank, "bytes": b"\0\xff" * (group.rank + 1)}
    return {
        "place": (group.rank, group.size, group.is_leader),
        "sums": [own.tolist(), counts.tolist()],
        "broadcast": group.broadcast(value),
        "first": group.on_leader(lambda: f"made by {group.rank}"),
        "gather_all": group.gather_all(value),
    }


@pytest.mark.parametrize("size", [1, 3])
def test_what_crosses(size: int) -> None:
    everywhere = results(crossings, size=size)
    values = [{"rank": rank, "bytes": b"\0\xff" * (rank + 1)} for rank in range(size)]
    total = sum(range(1, size + 1))
    for rank, found in enumerate(everywhere):
        assert found["place"] == (rank, size, rank == 0)
        assert found["sums"] == [[total, 10 * total], [size * 2**40 + sum(range(size))]]
        assert found["broadcast"] == values[0]
        assert found["first"] == "made by 0"
        assert found["gather_all"] == values


def test_alone_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torchrun's environment, or in a job of one, torch.distributed is not asked."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("torch.distributed was asked")

    for name in ("init_process_group", "all_reduce", "broadcast_object_list", "all_gather_object"):
        monkeypatch.setattr(dist, name, refuse)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "4")  # as a cluster may set it for other programs
    with process_group(CPU) as group:
        assert group is SINGLE_PROCESS
        assert crossings(group)["gather_all"] == [{"rank": 0, "bytes": b"\0\xff"}]
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with process_group(CPU) as group:
        assert group is SINGLE_PROCESS
    with pytest.raises(KeyError, match="through"), process_group(CPU):
        raise KeyError("through")


def end_without_a_word(group: Group, who: int) -> None:
    """End like a process that the kernel kills."""
    if group.rank == who:
        os._exit(9)
    group.barrier()


def end_in_a_raw_collective(group: Group) -> None:
    """The others are inside torch's own call, as a gradient's sum is."""
    if group.rank == 0:
        os._exit(9)
    dist.all_reduce(torch.zeros(3))


def assert_lost(outcome: Outcome) -> None:
    assert type(outcome.error) is BytenmtError, outcome
    assert "another process of the job has ended" in str(outcome.error)
    assert "\n" not in str(outcome.error)


@pytest.mark.parametrize("who", [0, 1])
def test_a_dead_process_ends_the_other(who: int) -> None:
    """With an error that says so, long before the timeout."""
    began = time.monotonic()
    outcomes = job(end_without_a_word, who, timeout=50)
    assert outcomes[who].exit_code == 9
    assert_lost(outcomes[1 - who])
    assert time.monotonic() - began < 40


def test_a_dead_process_is_seen_in_a_raw_collective() -> None:
    assert_lost(job(end_in_a_raw_collective)[1])


def stay_silent(group: Group) -> None:
    if group.is_leader:
        group.barrier()
    time.sleep(1)  # longer than the timeout


def raise_on(group: Group, errors: dict[int, BaseException]) -> None:
    if group.rank in errors:
        raise errors[group.rank]
    group.barrier()


def done_early(group: Group, seconds: float) -> None:
    """The leading process has still something to do, and fails in it."""
    if group.is_leader:
        time.sleep(seconds)
        raise OSError(28, "No space left on device")


def test_a_silent_process_is_given_up() -> None:
    assert_lost(job(stay_silent, timeout=0.5)[0])


@pytest.mark.parametrize(
    ("who", "error"), [(0, DataError("a bad line")), (1, KeyError("a bug")), (1, SystemExit(130))]
)
def test_an_error_ends_all(who: int, error: BaseException) -> None:
    """The process that meets it raises it, and the other one loses its mate."""
    outcomes = job(raise_on, {who: error})
    assert repr(outcomes[who].error) == repr(error)
    assert_lost(outcomes[1 - who])


def test_all_leave_together() -> None:
    """A process that is done early waits, so that a job that fails at its end fails as a whole."""
    outcomes = job(done_early, 0.5)
    assert isinstance(outcomes[0].error, OSError)
    assert_lost(outcomes[1])


def test_each_process_has_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert pick_device("cuda") == torch.device("cuda:0")  # without an index it cannot be set
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert pick_device("auto") == pick_device("cuda") == torch.device("cuda:1")
    assert pick_device("cpu") == CPU
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(
        DeviceError, match="process 3 of this machine has no GPU: start at most 2 on"
    ):
        pick_device("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert pick_device("auto") == CPU
