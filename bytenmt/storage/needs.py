"""What a model needs, told from its configuration before any of it is taken, and what memory there is.

Linux grants memory that is not there and kills the process that uses it: so it must be counted. Knows sizes
told by configurations; allocates nothing.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bytenmt.config.schema import ByteNetConfig, ConvS2SConfig, LuongConfig, ModelConfig, architecture
from bytenmt.errors import BytenmtError
from bytenmt.storage.parameters import TABLE, n_parameters, parameter_shapes, unbuilt

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


def decoder_weights(config: ModelConfig) -> int:
    """Numbers that a decode step reads: the decoder's weights, the tables of look-ups left out."""
    return sum(map(math.prod, _of_decoder(config)))


def step_cost(config: ModelConfig, source_bytes: int) -> int:
    """Multiply-accumulates of one decode step of one row with so long a source."""
    attention = _ATTENTION.get(architecture(config))
    if architecture(config) not in _STATES:
        return unbuilt(config).step_cost(source_bytes)
    products = sum(math.prod(shape) for shape in _of_decoder(config) if len(shape) > 1)
    return products + (attention(config, source_bytes) if attention and config.source else 0)


def receptive_field(config: ModelConfig) -> int | None:
    """Target bytes that a prediction can depend on; None: all of them."""
    if isinstance(config, ByteNetConfig):
        reach = (config.kernel_width - 1) * sum(config.decoder_schedule) + config.ngram_reach
        return 1 + reach if config.decoder_schedule else None
    if isinstance(config, ConvS2SConfig):
        reach = sum((kernel_width - 1) * dilation for _, kernel_width, dilation in config.decoder_stack)
        return 1 + reach + config.ngram_reach
    return None if architecture(config) in _STATES else unbuilt(config).receptive_field()


def _of_decoder(config: ModelConfig) -> list[tuple[int, ...]]:
    """The shapes of its parameters, a table that it shares with the embedding among them."""
    if architecture(config) not in _STATES:
        return [tuple(p.shape) for p in unbuilt(config).decoder.parameters()]
    shapes = parameter_shapes(config)
    own = [shape for name, shape in shapes.items() if name.startswith("decoder.")]
    return [*own, shapes[TABLE]] if config.tie_embedding else own


def _luong_attention(config: LuongConfig, source_bytes: int) -> int:
    columns, by_location = source_bytes, config.score == "location"
    if by_location:
        columns = min(columns, config.n_locations)
    if config.local:
        columns = min(columns, 2 * config.window + 1)
    products = 1 if by_location else 2  # with values alone, or with keys as well
    return products * columns * config.d_hidden if config.attends else 0


_ATTENTION: Mapping[str, Callable[[Any, int], int]] = {
    "bahdanau": lambda config, n: n * (config.d_attention + 2 * config.d_hidden),
    "luong": _luong_attention,
    "convs2s": lambda config, n: 2 * n * config.d_embedding * sum(config.attends),
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
