"""The steps of a data set's blocks on Ray Data: tasks that read and write, actors that translate.

Ray's own checkpoints (CheckpointConfig, beta) need a column of unique ids, hold all of them in memory and
read all of the input again, so what is done is noted by blocks (manifest.py), and Ray is given those that are
left. A block is a row of Ray's, whatever Ray bundles. Ray starts a killed actor again and gives it its blocks
again. Knows Ray; knows no engine.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from bytenmt.errors import BytenmtError
from bytenmt.scale.blocks import Block
from bytenmt.scale.job import Runner, Steps
from bytenmt.scale.manifest import Finished, tries_of

PER_THREAD = 0.75  # CPUs that an actor asks for: the rest is for what reads and writes
PER_TASK = 0.25
IN_FLIGHT = 2  # blocks that an actor has: one waits while the other is translated
TRIES = 8  # of a block: actors that died over it all are its own fault
MOST_PIECES = 1000  # into which the list of blocks is cut for Ray
PACKAGES = ("ray", "pyarrow")
Row = dict[str, Any]


class Translating:
    """An actor: one engine, loaded once."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        steps.translate.load()

    def __call__(self, row: Row) -> Row:
        block = _block(row)
        tried = tries_of(Path(self._steps.out), block.number)
        if tried > TRIES:
            why = f"{TRIES} processes died over the rows of this block"
            return {**row, "found": self._steps.given_up(block, why)}
        return {**row, "found": self._steps.found(block, row["data"])}


def check_packages() -> None:
    """Raise BytenmtError where Ray is not installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise BytenmtError(f"translate-dataset needs {' and '.join(missing)}: pip install 'bytenmt[ray]'")


def connect() -> None:
    """To the cluster that RAY_ADDRESS names or `ray start` began here, else to one of this machine that ends
    with this process. Raises BytenmtError."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody was asked
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        return
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray raises that itself where its processes are late
        raise BytenmtError(
            f"Ray did not start: {_last_line(error)} Its logs are in /tmp/ray/session_latest"
        ) from None


def runner(actors: int | None, block_bytes: int) -> Runner:
    """Of so many actors; as many as the cluster has CPUs, or GPUs where those are asked for, by default."""

    def run(steps: Steps, blocks: Sequence[Block]) -> Iterator[Finished]:
        connect()
        from ray.exceptions import RayError

        try:
            for batch in _pipeline(steps, blocks, actors, block_bytes).iter_batches(
                batch_size=None, prefetch_batches=0, batch_format="numpy"
            ):
                for one in batch["finished"]:
                    yield msgspec.msgpack.decode(one, type=Finished)
        except RayError as error:
            raise BytenmtError(f"{_told(error)}; what is done is kept: --resume goes on") from None

    return run


def _pipeline(steps: Steps, blocks: Sequence[Block], actors: int | None, block_bytes: int) -> Any:
    """Ray's data set of what is written."""
    import ray

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size = block_bytes  # a row that is done is not held back for others
    spec = steps.translate.recipe.spec
    on_gpu, threads = spec.device == "cuda", spec.threads or 1
    there = ray.cluster_resources()
    size = actors or max(1, int(there.get("GPU", 0) if on_gpu else there.get("CPU", 1) / threads))
    rows = ray.data.from_items(
        [{"block": msgspec.msgpack.encode(block)} for block in blocks],
        override_num_blocks=min(len(blocks), MOST_PIECES),
    )
    return (
        rows.map(_reader(steps), num_cpus=PER_TASK)
        .map(
            Translating,
            fn_constructor_args=[steps],
            compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=IN_FLIGHT),
            num_cpus=PER_THREAD * threads,
            num_gpus=1 if on_gpu else 0,
        )
        .map(_writer(steps), num_cpus=PER_TASK)
    )


def _told(error: BaseException) -> str:
    """What a step raised, on one line."""
    cause = getattr(error, "cause", None) or error.__cause__
    if isinstance(cause, BaseException) and cause is not error:
        return _told(cause)
    return f"{type(error).__name__}: {_last_line(error)}"


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[-1]


def _block(row: Row) -> Block:
    return msgspec.msgpack.decode(row["block"], type=Block)


def _reader(steps: Steps) -> Callable[[Row], Row]:
    def read(row: Row) -> Row:
        return {**row, "data": steps.read(_block(row))}

    return read


def _writer(steps: Steps) -> Callable[[Row], Row]:
    def write(row: Row) -> Row:
        done = steps.written(_block(row), row["data"], row["found"])
        return {"finished": msgspec.msgpack.encode(done)}

    return write
