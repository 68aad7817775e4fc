"""Run the steps of a job on Ray Data, with actors that read, translate and write.

Ray's own checkpoints (CheckpointConfig, beta) need a column of unique ids, hold all of them in memory and
read all of the input again, so what is done is noted by blocks (manifest.py), and Ray is given those that are
left. A block is a row of Ray's data set. Ray restarts a killed actor and gives it its blocks again.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from bytenmt.checkpoints.resumable import FinishedBlock, count_try
from bytenmt.datasets.blocks import RowBlock
from bytenmt.datasets.job import BlockSteps, Runner
from bytenmt.errors import BytenmtError

PER_THREAD = 0.75  # CPUs that an actor asks for: the rest is for what reads and writes
PER_FILE = 0.1  # CPUs of what reads or writes
PER_READER = 16  # CPUs of the cluster for which one reads and one writes
IN_FLIGHT = 2  # blocks that an actor has: one waits while the other is translated
TRIES = 8  # of a block: actors that died over it all are its own fault
SHUTDOWN_SECONDS = 10.0  # until what is left of a cluster is killed
STARTS = 2  # of a cluster of this machine, which may have been busy
MAX_PIECES = 1000  # into which the list of blocks is cut for Ray
PACKAGES = ("ray", "pyarrow")
Row = dict[str, Any]


def _step(call: Callable[[Row], Row], row: Row) -> Row:
    """Run a step on a row. An error for the user is stored in the row.

    Ray would print an exception at length, and restart an actor that cannot load its model.
    """
    if row["error"]:
        return row
    try:
        return row | call(row)
    except (BytenmtError, OSError) as error:
        return row | {"error": str(error)}


class ReadActor:
    """An actor that reads blocks. As tasks, they would start a new process after each idle second."""

    def __init__(self, steps: BlockSteps) -> None:
        self._steps = steps

    def __call__(self, row: Row) -> Row:
        return _step(lambda row: {"data": self._steps.read(_block(row))}, row)


class TranslateActor:
    """An actor that translates blocks with one engine, which is loaded once."""

    def __init__(self, steps: BlockSteps) -> None:
        self._steps = steps
        with suppress(BytenmtError):  # the first row tells
            steps.translate.load()

    def __call__(self, row: Row) -> Row:
        return _step(self._translate, row)

    def _translate(self, row: Row) -> Row:
        block = _block(row)
        if count_try(Path(self._steps.out), block.number) > TRIES:
            return {
                "found": self._steps.give_up(block, f"{TRIES} processes died over the rows of this block")
            }
        return {"found": self._steps.translate_block(block, row["data"])}


class WriteActor:
    """An actor that writes blocks; only a line about each goes back to the driver."""

    def __init__(self, steps: BlockSteps) -> None:
        self._steps = steps

    def __call__(self, row: Row) -> Row:
        done = _step(self._write, row)
        return {"finished": done["finished"], "error": done["error"]}

    def _write(self, row: Row) -> Row:
        return {"finished": msgspec.msgpack.encode(self._steps.write(_block(row), row["data"], row["found"]))}


def check_packages() -> None:
    """Raise BytenmtError where Ray is not installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise BytenmtError(f"translate-dataset needs {' and '.join(missing)}: pip install 'bytenmt[ray]'")


def connect() -> None:
    """Connect to the cluster of RAY_ADDRESS or of `ray start`; else start one that ends with this process.

    Raises BytenmtError.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody was asked
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    last: Exception | None = None
    atexit.unregister(end_cluster)
    atexit.register(end_cluster)
    for _ in range(STARTS):
        if ray.is_initialized():
            break
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # Ray raises that itself where one of its processes is late by 15 seconds
            last = error
            ray.shutdown()
    if not ray.is_initialized():
        raise BytenmtError(f"Ray did not start: {last}")
    if threading.current_thread() is threading.main_thread():
        # Ray's own handler aborts with a stack trace, and its processes stay.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def end_cluster() -> None:
    """End the cluster that this process started and wait for its processes; disconnect from any other.

    Without this, actors live on for seconds, and agents that have lost their cluster for over a minute.
    """
    import ray

    began = {one for one in descendants(os.getpid()) if b"ray" in _command_line(one[0])}
    ray.shutdown()
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    while (left := began & descendants(1)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid, _ in left:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def descendants(root: int) -> set[tuple[int, str]]:
    """Return (id, start time) of all descendants of a process; none if there is no /proc."""
    children: dict[int, list[tuple[int, str]]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            state, parent, *rest = file.read_text().rpartition(")")[2].split()
            if state != "Z":
                children.setdefault(int(parent), []).append((int(file.parent.name), rest[17]))
    found, waiting = set[tuple[int, str]](), [root]
    while waiting:
        for one in children.get(waiting.pop(), ()):
            found.add(one)
            waiting.append(one[0])
    return found


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return b""


def runner(actors: int | None, block_bytes: int) -> Runner:
    """Return a Runner with so many actors that translate; by default one for each CPU or GPU."""

    def run(steps: BlockSteps, blocks: Sequence[RowBlock]) -> Iterator[FinishedBlock]:
        connect()
        from ray.exceptions import RayError

        rows = _pipeline(steps, blocks, actors, block_bytes)
        try:
            for batch in rows.iter_batches(batch_size=None, prefetch_batches=0, batch_format="numpy"):
                for done, error in zip(batch["finished"], batch["error"], strict=True):
                    if error:
                        raise BytenmtError(str(error))
                    yield msgspec.msgpack.decode(done, type=FinishedBlock)
        except RayError as error:
            told = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise BytenmtError(f"{told}; finished parts are kept: continue with --resume") from None

    return run


def _pipeline(steps: BlockSteps, blocks: Sequence[RowBlock], actors: int | None, block_bytes: int) -> Any:
    """Return Ray's data set of the written blocks."""
    import ray

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size = block_bytes  # a row that is done is not held back for others
    spec = steps.translate.recipe.spec
    on_gpu, threads = spec.device == "cuda", spec.threads or 1
    there = ray.cluster_resources()
    n_cpus = max(1, int(there.get("CPU", 1)))
    size = actors or max(1, int(there.get("GPU", 0)) if on_gpu else n_cpus // threads)
    rows = ray.data.from_items(
        [
            {"block": msgspec.msgpack.encode(block), "data": b"", "found": b"", "finished": b"", "error": ""}
            for block in blocks
        ],
        override_num_blocks=min(len(blocks), MAX_PIECES),
    )
    pool, some = ray.data.ActorPoolStrategy, max(1, n_cpus // PER_READER)
    with_steps: dict[str, Any] = {"fn_constructor_args": [steps]}
    rows = rows.map(ReadActor, compute=pool(size=some), num_cpus=PER_FILE, **with_steps)
    rows = rows.map(
        TranslateActor,
        compute=pool(size=size, max_tasks_in_flight_per_actor=IN_FLIGHT),
        num_cpus=PER_THREAD * threads,
        num_gpus=1 if on_gpu else 0,
        **with_steps,
    )
    return rows.map(WriteActor, compute=pool(size=some), num_cpus=PER_FILE, **with_steps)


def _block(row: Row) -> RowBlock:
    return msgspec.msgpack.decode(row["block"], type=RowBlock)
