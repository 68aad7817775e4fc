"""Collective operations of the processes that torchrun starts; all of them end when one fails.

Built on torch.distributed: gloo for tensors on the CPU, NCCL between GPUs. A single process needs
neither.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from bytenmt.errors import BytenmtError, DeviceError

T = TypeVar("T")

# A process that does not answer for so long counts as lost; one that has ended is noticed at once.
TIMEOUT = timedelta(minutes=30)
# How much later than the leading process the others fail: torchrun then ends them before they
# report an error that all of them meet, and names the process that exits first as the root cause.
EXIT_DELAY = timedelta(seconds=1)

LOST_PROCESS = (
    "another process of the job has ended or does not answer: its own message tells why; start the"
    " job again (training goes on with --resume)"
)


@dataclass(frozen=True)
class Group:
    """The processes of a training job as one of them sees them; with size 1 no method communicates.

    all_reduce, broadcast, on_leader, gather_all and barrier must be called by all processes, in the
    same order. If another process has ended, they fail, and process_group raises BytenmtError.
    """

    rank: int = 0  # of this process, from 0
    size: int = 1  # the number of processes

    @property
    def is_leader(self) -> bool:
        """True for the process of rank 0, which reads and writes the files and prints for all."""
        return self.rank == 0

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace a tensor in place by its sum over all processes; its shape is equal in all."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def broadcast(self, value: T) -> T:
        """Return in all processes the value, picklable, that the leader (rank 0) passed."""
        box = [value]
        if self.size > 1:
            dist.broadcast_object_list(box)
        return box[0]

    def on_leader(self, make: Callable[[], T]) -> T:
        """Call a function in the leader (rank 0) alone; return its result, picklable, in all."""
        return self.broadcast([make()] if self.is_leader else [])[0]

    def gather_all(self, value: T) -> list[T]:
        """Return in every process the values of all processes, picklable, in the order of ranks."""
        values = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values

    def barrier(self) -> None:
        """Wait until all processes have called this."""
        self.all_reduce(torch.zeros(1))


SINGLE_PROCESS = Group()


def pick_device(name: str) -> torch.device:
    """Return the PyTorch device of a name: "cpu", "cuda", or "auto", a GPU if there is one.

    The GPU is number LOCAL_RANK of the machine: torchrun gives each process one of its own. Without
    this variable it is the first one. Raises DeviceError where there is none.
    """
    n_devices = torch.cuda.device_count()
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    if name == "auto":
        name = "cuda" if n_devices else "cpu"
    if name != "cuda":
        return torch.device(name)
    if not n_devices:
        raise DeviceError("--device cuda: no GPU is available here; use --device cpu or auto")
    if local_rank >= n_devices:
        raise DeviceError(
            f"process {local_rank + 1} of this machine has no GPU: start at most {n_devices} on it"
            " (torchrun --nproc-per-node), or use --device cpu"
        )
    return torch.device("cuda", local_rank)


@contextmanager
def process_group(device: torch.device, timeout: timedelta = TIMEOUT) -> Iterator[Group]:
    """Join the job that torchrun's environment variables describe, and yield its Group.

    Without them, or for a job of one process, yield a Group of size 1. device: where the tensors of
    all_reduce lie. All processes leave the context together. If one leaves it by an exception, the
    others raise BytenmtError at their next collective operation. Also raises BytenmtError if the
    processes do not find each other within `timeout`.
    """
    rank_text = os.environ.get("RANK")
    size_text = os.environ.get("WORLD_SIZE")
    group = Group(int(rank_text), int(size_text)) if rank_text and size_text else SINGLE_PROCESS
    if group.size == 1:
        yield SINGLE_PROCESS
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    try:
        store, rank, size = next(rendezvous("env://", timeout=timeout))
        # torchrun keeps the store when it restarts a job, with the addresses of dead processes in
        # it.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.PrefixStore(f"attempt {attempt}", store)  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        raise BytenmtError(
            f"the processes of the job did not meet ({error}): start it again"
        ) from None
    try:
        group.barrier()  # one that left at once would cut off another that is still connecting
        yield group
        group.barrier()
    except BaseException as error:
        if not group.is_leader:
            time.sleep(EXIT_DELAY.total_seconds())
        assert dist.group.WORLD is not None
        dist.group.WORLD.abort()  # destroying it could wait for the others
        dist.destroy_process_group()
        if isinstance(error, dist.DistError) or (
            isinstance(error, RuntimeError) and "gloo" in str(error)
        ):
            raise BytenmtError(LOST_PROCESS) from None
        raise
    dist.destroy_process_group()
