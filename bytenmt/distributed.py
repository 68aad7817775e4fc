"""Several processes as one job: who leads, what crosses between them, and how they end together.

Over torch.distributed as torchrun starts it: gloo for what lies on the CPU, NCCL between GPUs. A process
alone needs none of it. Knows no models, batches or files.
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

# Until a process that says nothing counts as lost; one that has ended is noticed at once.
TIMEOUT = timedelta(minutes=30)
# Until a process believes that the leading one does not meet the error that it has met itself.
SAME_ERROR = timedelta(seconds=1)
# Between a process that has told an error and those that leave because of it: torchrun names whichever ends
# first as the root of all.
QUIETLY_LATER = timedelta(seconds=1)
TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # environment variables that it sets


class LostProcess(BytenmtError):
    """Another process of the job has ended or does not answer."""


@dataclass(frozen=True)
class Group:
    """The processes of a job, as one of them sees it: its number, from 0, and how many there are.

    Every method is called by all processes, in the same order. Raises LostProcess where another one has
    ended.
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that reads, writes and speaks for all."""
        return self.rank == 0

    def share(self, n: int) -> range:
        """Which of n things are this process' own: every size-th one."""
        return range(self.rank, n, self.size)

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor, of one shape and type everywhere, by its sum over all processes."""
        if self.size > 1:
            with _crossing():
                dist.all_reduce(tensor)

    def broadcast(self, value: T) -> T:
        """The leading process' value (anything that pickle takes); what the others give is ignored."""
        box = [value]
        if self.size > 1:
            with _crossing():
                dist.broadcast_object_list(box)
        return box[0]

    def first(self, make: Callable[[], T]) -> T:
        """What the leading process makes, for all."""
        return self.broadcast([make()] if self.leads else [])[0]

    def gather(self, value: T) -> list[T] | None:
        """For the leading process the values of all, by rank; None for the others."""
        if self.size == 1:
            return [value]
        # torch fills the list with the values, whatever it holds.
        values = [value] * self.size if self.leads else None
        with _crossing():
            dist.gather_object(value, values)
        return values

    def gather_all(self, value: T) -> list[T]:
        """The values of all, by rank."""
        values = [value] * self.size
        if self.size > 1:
            with _crossing():
                dist.all_gather_object(values, value)
        return values

    def barrier(self) -> None:
        """Wait until all processes are here."""
        self.add_up(torch.zeros(1))


ALONE = Group()


def local_device(device: torch.device) -> torch.device:
    """The GPU of this process among those of its machine, where torchrun has started one for each.

    Any other device stays as it is. Raises DeviceError where the machine has fewer GPUs than processes.
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
    """Join the job that torchrun's environment variables tell of; ALONE without them.

    device: where the tensors lie that are added up. All processes leave together. One that leaves by an
    exception says so to the others first; theirs ends at their next crossing, by LostProcess where
    nobody has said anything (a crash), else without a word and with exit code 1: one cause, one message.
    An error that the leading process has too is its own to tell.
    """
    rank, size = _place()
    if size == 1:
        yield ALONE
        return
    notes = _Notes(_join(device, timeout), rank, size)
    group = Group(rank, size)
    try:
        yield group
        group.barrier()
    except BaseException as error:
        cause = _lost(error) or error
        told = notes.told_by_another(cause)
        _part()
        if told:
            time.sleep(QUIETLY_LATER.total_seconds())
            raise SystemExit(1) from None  # not 0: torchrun would not start this process again
        if cause is not error:
            raise cause from None
        raise
    dist.destroy_process_group()


def _place() -> tuple[int, int]:
    """This process' rank and the number of processes, from the environment."""
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
    """Meet the other processes. Returns the store that they share."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    store: Store
    try:
        store, rank, size = next(rendezvous("env://", timeout=timeout))
        store.set_timeout(timeout)
        name = _meeting(store, rank, size, timeout)
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


def _meeting(store: Store, rank: int, size: int, timeout: timedelta) -> str:
    """A name for this start of the job, the same for all its processes and no other start's.

    torchrun keeps the store when it starts a job again, with the addresses of processes that are dead. The
    leading process names the meeting, the others give it a token each, and go on when theirs is confirmed.
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


def _part() -> None:
    """Leave the group without waiting for the others, as destroying it alone could."""
    assert dist.group.WORLD is not None
    dist.group.WORLD.abort()
    dist.destroy_process_group()


class _Notes:
    """What processes that leave by an exception tell the others, in the store."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self.store, self.rank, self.size = store, rank, size

    def _key(self, rank: int) -> str:
        return f"bytenmt/left/{rank}"

    def told_by_another(self, error: BaseException) -> bool:
        """Whether another process tells the user of what this one leaves by; else leaves its note."""
        try:
            others = [rank for rank in range(self.size) if rank != self.rank]
            if isinstance(error, LostProcess) and any(self.store.check([self._key(r)]) for r in others):
                return True
            self.store.set(self._key(self.rank), repr(error))
            return isinstance(error, BytenmtError | OSError) and self._leader_has(error)
        except RuntimeError:  # the store has gone, and with it whoever held it
            return False

    def _leader_has(self, error: BaseException) -> bool:
        """Whether the leading process, another one, leaves by the same error."""
        if self.rank == 0 or isinstance(error, LostProcess):
            return False
        patience = time.monotonic() + SAME_ERROR.total_seconds()
        while not self.store.check([self._key(0)]):
            if time.monotonic() > patience:
                return False
            time.sleep(0.02)
        return bool(self.store.get(self._key(0)) == repr(error).encode())


@contextmanager
def _crossing() -> Iterator[None]:
    """Turns what torch.distributed says of a lost process into LostProcess."""
    try:
        yield
    except RuntimeError as error:
        raise _lost_process(error) from None


def _lost(error: BaseException) -> LostProcess | None:
    """The error as LostProcess where it comes from torch.distributed, also beneath its own wrappers."""
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
    """What happened, without the place in torch's sources, the advice and the stack around it."""
    line = str(error).partition("\n")[0]
    return re.sub(r"^\[\S*:\d+\] ", "", line).partition(". ")[0].rstrip(". ")
