"""Collective operations of the processes that torchrun starts, and how all of them end when one fails.

Built on torch.distributed: gloo for tensors on the CPU, NCCL between GPUs. A single process needs neither.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from bytenmt.errors import BytenmtError, DeviceError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

T = TypeVar("T")

# A process that does not answer for so long counts as lost; one that has ended is noticed at once.
TIMEOUT = timedelta(minutes=30)
# How long a failing process waits for the leader to report the same error, before it reports its own.
SAME_ERROR = timedelta(seconds=1)
# How much later than the process that reports an error the others exit: torchrun names the process that
# exits first as the root cause.
EXIT_DELAY = timedelta(seconds=1)
TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # environment variables that it sets


class LostProcess(BytenmtError):
    """Another process of the job has ended or does not answer."""


@dataclass(frozen=True)
class Group:
    """The process group of a job: this process' rank, from 0, and the number of processes.

    Every method that communicates must be called by all processes, in the same order; it raises LostProcess
    where another one has ended.
    """

    rank: int = 0
    size: int = 1

    @property
    def is_leader(self) -> bool:
        """Whether this process (rank 0) reads and writes the files and prints for all."""
        return self.rank == 0

    def own_indices(self, n: int) -> range:
        """Return the indices below n that this process works on: rank, rank + size, …"""
        return range(self.rank, n, self.size)

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace a tensor in place by its sum over all processes; shape and dtype must be equal in all."""
        if self.size > 1:
            with _collective():
                dist.all_reduce(tensor)

    def broadcast(self, value: T) -> T:
        """Return the leader's value, which must be picklable, in all processes."""
        box = [value]
        if self.size > 1:
            with _collective():
                dist.broadcast_object_list(box)
        return box[0]

    def on_leader(self, make: Callable[[], T]) -> T:
        """Call a function in the leader alone and return its result in all processes."""
        return self.broadcast([make()] if self.is_leader else [])[0]

    def gather(self, value: T) -> list[T] | None:
        """Return the values of all processes, by rank, in the leader; None in the others."""
        if self.size == 1:
            return [value]
        # torch fills the list with the values, whatever it holds.
        values = [value] * self.size if self.is_leader else None
        with _collective():
            dist.gather_object(value, values)
        return values

    def gather_all(self, value: T) -> list[T]:
        """Return the values of all processes, by rank."""
        values = [value] * self.size
        if self.size > 1:
            with _collective():
                dist.all_gather_object(values, value)
        return values

    def barrier(self) -> None:
        """Wait until all processes have called this."""
        self.all_reduce(torch.zeros(1))


SINGLE_PROCESS = Group()


def pick_device(name: str) -> torch.device:
    """Return the device for auto, cpu or cuda; auto takes a GPU if there is one. Raises DeviceError."""
    available = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if available else "cpu")
    if name == "cuda" and not available:
        raise DeviceError("--device cuda: no GPU is available here; use --device cpu or auto")
    return torch.device(name)


def local_device(device: torch.device) -> torch.device:
    """Return the GPU with this process' LOCAL_RANK where torchrun started it and `device` is "cuda".

    Any other device is returned unchanged. Raises DeviceError where there are fewer GPUs than processes.
    """
    local = os.environ.get("LOCAL_RANK")
    if local is None or device.type != "cuda" or device.index is not None:
        return device
    n_devices = torch.cuda.device_count()
    if int(local) >= n_devices:
        raise DeviceError(
            f"this is process {int(local) + 1} on a machine with {n_devices} GPU{'s' * (n_devices != 1)}:"
            f" start at most {n_devices} on it (torchrun --nproc-per-node), or use --device cpu"
        )
    return torch.device("cuda", int(local))


@contextmanager
def process_group(device: torch.device, timeout: timedelta = TIMEOUT) -> Iterator[Group]:
    """Join the job that torchrun's environment variables describe; yields SINGLE_PROCESS without them.

    device: where the tensors of all_reduce lie. All processes leave the context together. A process that
    leaves it by an exception first leaves a note for the others; they end at their next collective operation,
    silently with exit code 1 where there is a note, else (a crash) by LostProcess. So one cause gives one
    message. An error that the leader raises as well is reported by the leader alone.
    """
    rank, size = _rank_and_size()
    if size == 1:
        yield SINGLE_PROCESS
        return
    notes = _Notes(_join(device, timeout), rank, size)
    group = Group(rank, size)
    try:
        yield group
        group.barrier()
    except BaseException as error:
        cause = _lost(error) or error
        is_reported = notes.is_reported_elsewhere(cause)
        _leave()
        if is_reported:
            time.sleep(EXIT_DELAY.total_seconds())
            raise SystemExit(1) from None  # not 0: torchrun would not start this process again
        if cause is not error:
            raise cause from None
        raise
    dist.destroy_process_group()


def _rank_and_size() -> tuple[int, int]:
    """Return this process' rank and the number of processes, read from the environment."""
    given = {name: os.environ.get(name, "") for name in TORCHRUN}
    if not given["RANK"] or not given["WORLD_SIZE"]:
        return 0, 1
    try:
        rank, size = int(given["RANK"]), int(given["WORLD_SIZE"])
    except ValueError:
        rank, size = -1, 0
    if not 0 <= rank < size:
        raise BytenmtError(
            f"RANK={given['RANK']} of WORLD_SIZE={given['WORLD_SIZE']} in the environment is no place in"
            " a job: start it by torchrun, or unset them"
        )
    missing = [name for name, value in given.items() if not value]
    if size > 1 and missing:
        raise BytenmtError(
            f"WORLD_SIZE={size} in the environment without {' and '.join(missing)}: start the job by"
            " torchrun, or unset WORLD_SIZE"
        )
    return rank, size


def _join(device: torch.device, timeout: timedelta) -> Store:
    """Initialise torch.distributed and return the store that the processes share."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    store: Store
    try:
        store, rank, size = next(rendezvous("env://", timeout=timeout))
        store.set_timeout(timeout)
        name = _agree_on_prefix(store, rank, size, timeout)
        store = dist.PrefixStore(name, store)  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
        # One that leaves at once would cut off another that is still connecting.
        if store.add("joined", 1) == size:
            store.set("met", "")
        store.wait(["met"], timeout)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise LostProcess(
            f"the processes of the job did not meet at {where} ({_first_line(error)}): start it again"
        ) from None
    return store


def _agree_on_prefix(store: Store, rank: int, size: int, timeout: timedelta) -> str:
    """Agree on a key prefix for this start of the job, the same in all its processes and new in each start.

    torchrun keeps the store when it restarts a job, with the addresses of dead processes in it. The leader
    chooses the prefix; each of the others writes a token under it and goes on when the leader confirms it.
    """
    own = uuid.uuid4().hex
    if rank == 0:
        store.set("bytenmt/meeting", own)
        for other in range(1, size):
            token = store.get(f"bytenmt/{own}/{other}").decode()
            store.set(f"bytenmt/{own}/{token}", "")
        return own
    patience = time.monotonic() + timeout.total_seconds()
    while time.monotonic() < patience:
        meeting = store.get("bytenmt/meeting").decode()  # perhaps still an earlier start's
        store.set(f"bytenmt/{meeting}/{rank}", own)
        if store.check([f"bytenmt/{meeting}/{own}"]):
            return meeting
        time.sleep(0.02)
    raise RuntimeError("no answer of the leading process")


def _leave() -> None:
    """Destroy the process group without waiting for the others, for which destroying it could wait."""
    assert dist.group.WORLD is not None
    dist.group.WORLD.abort()
    dist.destroy_process_group()


class _Notes:
    """Notes in the shared store, by which a process that leaves by an exception tells the others."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.store, self.rank, self.size = store, rank, size

    def _key(self, rank: int) -> str:
        return f"bytenmt/left/{rank}"

    def is_reported_elsewhere(self, error: BaseException) -> bool:
        """Return whether another process reports this failure to the user; if not, leave a note."""
        try:
            others = [rank for rank in range(self.size) if rank != self.rank]
            if isinstance(error, LostProcess) and any(self.store.check([self._key(r)]) for r in others):
                return True
            self.store.set(self._key(self.rank), repr(error))
            return isinstance(error, BytenmtError | OSError) and self._leader_has(error)
        except RuntimeError:  # the store has gone, and with it whoever held it
            return False

    def _leader_has(self, error: BaseException) -> bool:
        """Return whether the leader, which is another process, fails with the same error."""
        if self.rank == 0 or isinstance(error, LostProcess):
            return False
        patience = time.monotonic() + SAME_ERROR.total_seconds()
        while not self.store.check([self._key(0)]):
            if time.monotonic() > patience:
                return False
            time.sleep(0.02)
        return bool(self.store.get(self._key(0)) == repr(error).encode())


@contextmanager
def _collective() -> Iterator[None]:
    """Raise LostProcess for the RuntimeError by which torch.distributed reports a lost process."""
    try:
        yield
    except RuntimeError as error:
        raise _lost_process(error) from None


def _lost(error: BaseException) -> LostProcess | None:
    """Return a LostProcess for an error of torch.distributed, None for any other error."""
    if isinstance(error, LostProcess):
        return error
    if isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error)):
        return _lost_process(error)
    return None


def _lost_process(error: Exception) -> LostProcess:
    return LostProcess(
        f"another process of the job has ended or does not answer ({_first_line(error)}): its own message"
        " tells why; start the job again (training goes on with --resume)"
    )


def _first_line(error: Exception) -> str:
    """Return the first sentence of an error message, without the position in PyTorch's sources."""
    line = str(error).partition("\n")[0]
    return re.sub(r"^\[\S*:\d+\] ", "", line).partition(". ")[0].rstrip(". ")
