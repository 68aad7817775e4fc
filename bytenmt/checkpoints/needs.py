"""The memory that a model needs, counted from its configuration before it is allocated, and what there is.

Linux grants memory that is not there and kills the process that uses it: so it must be counted.
"""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

from bytenmt.architectures.parameters import n_parameters
from bytenmt.architectures.section import ModelSection
from bytenmt.errors import BytenmtError

NUMBER = 4  # bytes of a float32
TRAINED = 4  # numbers for each weight in training: itself, its gradient, and what the optimiser keeps of it
CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def weight_bytes(config: ModelSection) -> int:
    """Return the bytes of a model's weights in float32."""
    return NUMBER * n_parameters(config)


def training_bytes(config: ModelSection) -> int:
    """Return the bytes of everything that training keeps beside its batches."""
    return TRAINED * weight_bytes(config)


def machine_bytes() -> int:
    """Return the bytes that this process may allocate at most: the machine's memory, or less where its
    control group or its shell has a limit."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in CGROUPS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            found.append(int(Path(name).read_text()))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        used = 0
        with contextlib.suppress(OSError):  # not on Linux
            used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        found.append(max(0, limit - used))
    return min(found)


def require(n_bytes: int, what: str, advice: str) -> None:
    """Raise BytenmtError where the machine has less memory than n_bytes.

    what, advice: for the message, who needs the memory and what to do.
    """
    here = machine_bytes()
    if n_bytes > here:
        raise BytenmtError(
            f"{what} needs {_in_words(n_bytes)} of memory, this machine has {_in_words(here)}: {advice}"
        )


def _in_words(n_bytes: int) -> str:
    """Write a number of bytes for people."""
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.0f} MB"
