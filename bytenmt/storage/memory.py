"""What a model needs in memory, computed before any of it is taken, and what this machine has.

Linux grants memory that is not there and kills the process that uses it: so it must be counted. Knows sizes
told by configurations; allocates nothing.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bytenmt.config.schema import ByteNetConfig, ConvS2SConfig, ModelConfig, architecture
from bytenmt.errors import BytenmtError
from bytenmt.storage.parameters import n_parameters, unbuilt

NUMBER = 4  # bytes of a float32
TRAINED = 4  # numbers for each weight in training: itself, its gradient, and what the optimiser keeps of it
CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def weight_bytes(config: ModelConfig) -> int:
    """Of a model's weights in float32."""
    return NUMBER * n_parameters(config)


def training_bytes(config: ModelConfig) -> int:
    """Of all that training keeps beside its batches."""
    return TRAINED * weight_bytes(config)


def state_bytes(config: ModelConfig) -> int:
    """Of a decoder's state in float32, a row (a beam of a sentence)."""
    arch = architecture(config)
    return NUMBER * _STATES[arch](config) if arch in _STATES else unbuilt(config).state_bytes()


def _bytenet(config: ByteNetConfig) -> int:
    """Numbers in the rings of the convolutions, or in the states of the recurrent layers."""
    rings = sum((config.kernel_width - 1) * r + 1 for r in config.decoder_schedule)
    return config.d_channels * (rings + 2 * config.decoder_recurrence)


def _convs2s(config: ConvS2SConfig) -> int:
    layers = config.decoder_layers
    widths = [layers[0][0], *(width for width, _ in layers)]  # of the layers' inputs
    rings = zip(widths, config.decoder_stack, strict=False)
    return sum(width * ((kernel_width - 1) * dilation + 1) for width, (_, kernel_width, dilation) in rings)


_STATES: Mapping[str, Callable[[Any], int]] = {
    "seq2seq": lambda config: config.n_states * config.d_hidden,
    "bahdanau": lambda config: config.d_hidden,
    "luong": lambda config: (2 * config.decoder_depth + int(config.attends)) * config.d_hidden,
    "bytenet": _bytenet,
    "convs2s": _convs2s,
}


def machine_bytes() -> int:
    """What this process may have at most: the machine's memory, or less where its group or its shell has a
    limit."""
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
    """Raise BytenmtError where the machine has not so much memory. what: needs it; advice: what to do."""
    here = machine_bytes()
    if n_bytes > here:
        raise BytenmtError(
            f"{what} needs {_told(n_bytes)} of memory, this machine has {_told(here)}: {advice}"
        )


def _told(n_bytes: int) -> str:
    """For people."""
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.0f} MB"
