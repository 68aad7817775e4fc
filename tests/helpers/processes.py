"""Jobs of several processes, as torchrun starts them: forked from one that has imported all.

Nothing here waits for ever: a job that has not ended in time is killed and fails its test.
"""

import importlib
import multiprocessing
import os
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist

from bytenmt import distributed

SECONDS = 60  # until a job counts as hanging; it takes about one
FORKSERVER = multiprocessing.get_context("forkserver")
# Imported once, before the first fork: what is missing here is imported again by each process that
# needs it, Numba alone in a quarter of a second, and torch._dynamo, by the first optimiser, in two.
PRELOADED = """
bytenmt.training.run bytenmt.cli.main bytenmt.cli.line_filter bytenmt.api.runs
bytenmt.evaluation.scores bytenmt.translation.translator bytenmt.decoding.cpu.engine
bytenmt.checkpoints.metrics click.testing hypothesis msgspec pytest sacrebleu torch._dynamo
torch.distributed.run
"""
FORKSERVER.set_forkserver_preload(PRELOADED.split())


class Outcome(NamedTuple):
    """The outcome of a process: the value its function returned, or the exception it raised.

    The exception may be SystemExit; there may be neither.
    """

    value: Any = None
    error: BaseException | None = None
    exit_code: int | None = 0


def results(
    function: Callable[..., Any], *arguments: Any, size: int = 2, timeout: float = SECONDS
) -> list[Any]:
    """Return the results of each process of a job without failures."""
    outcomes = job(function, *arguments, size=size, timeout=timeout)
    wrong = [outcome for outcome in outcomes if outcome.error is not None or outcome.exit_code]
    assert not wrong, wrong
    return [outcome.value for outcome in outcomes]


def job(
    function: Callable[..., Any], *arguments: Any, size: int = 2, timeout: float = SECONDS
) -> list[Outcome]:
    """function(group, *arguments) in each of `size` processes; a function of a module, for pickle.

    timeout: seconds that a process waits for another that says nothing.
    """
    # As torchrun's agent does, the test holds the store, so that it outlives the processes.
    c10d: Any = dist
    store = c10d.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    environment = {
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    running = []
    for rank in range(size):
        ours, theirs = FORKSERVER.Pipe()
        there = environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        process = FORKSERVER.Process(
            target=_child, args=(theirs, there, timeout, function, arguments)
        )
        process.start()
        theirs.close()
        running.append((process, ours))
    try:
        return [_outcome(process, ours) for process, ours in running]
    finally:
        for process, _ in running:
            process.kill()
            process.join()


def _outcome(process: Any, pipe: Connection) -> Outcome:
    if not pipe.poll(SECONDS):
        pytest.fail("a process of the job hangs")
    try:
        value, error = pipe.recv()
    except EOFError:  # it has ended without a word
        value = None
        error = None
    process.join(SECONDS)
    return Outcome(value, error, process.exitcode)


def _child(
    pipe: Connection,
    environment: dict[str, str],
    timeout: float,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    os.environ |= environment
    torch.set_num_threads(1)
    distributed.EXIT_DELAY = timedelta(0)  # only torchrun needs it
    value = None
    error = None
    try:
        with distributed.process_group(torch.device("cpu"), timedelta(seconds=timeout)) as group:
            value = function(group, *arguments)
    except BaseException as raised:
        value = None
        error = raised
    pipe.send((value, error))


def torchrun(log: Path, *arguments: str) -> int | None:
    """Run torchrun's own program in a fork that has imported it; return the exit code.

    It starts the processes; all that it prints goes to a file.
    """
    process = FORKSERVER.Process(target=_torchrun, args=(log, ["--standalone", *arguments]))
    process.start()
    process.join(5 * SECONDS)
    if process.is_alive():
        process.terminate()  # ends what it has started, too
        process.join(SECONDS)
        pytest.fail(f"torchrun hangs: {log.read_text()}")
    return process.exitcode


def _torchrun(log: Path, arguments: list[str]) -> None:
    for target in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), target)
    importlib.import_module("torch.distributed.run").main(arguments)
