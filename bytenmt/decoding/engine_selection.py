"""Select the engine, device and precision for this machine.

PyTorch is imported only where a GPU driver is installed.
"""

from __future__ import annotations

import os
from dataclasses import replace

from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.errors import BytenmtError, DeviceError

PLACES = {"numba": ("cpu", "the CPU"), "cuda-graph": ("cuda", "a GPU")}  # of engines with only one
DRIVERS = (
    "/dev/nvidiactl",
    "/dev/dxg",
)  # devices of which one is there where a GPU is (dxg: under Windows)


def select_engine(spec: EngineSpec) -> EngineSpec:
    """Return the spec with AUTO replaced by an engine and a device of this machine; precision stays
    as it is.

    Raises DeviceError for a device that is not available, BytenmtError for settings that exclude
    each other.
    """
    engine = spec.engine
    place, words = PLACES.get(engine, (spec.device, ""))
    if spec.device not in (AUTO, place):
        raise BytenmtError(f"--engine {engine} runs on {words}: drop --device {spec.device}")
    uses_gpu = place != "cpu" and has_gpu()
    if place == "cuda" and not uses_gpu:
        option = "--device cuda" if spec.device == place else f"--engine {engine}"
        raise DeviceError(f"{option}: no GPU is available here; use auto")
    if engine == AUTO:
        engine = "cuda-graph" if uses_gpu else "numba"
    return replace(spec, engine=engine, device="cuda" if uses_gpu else "cpu")


def n_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def has_gpu() -> bool:
    """Return whether PyTorch finds a GPU; without a driver PyTorch is not imported."""
    if not any(os.path.exists(name) for name in DRIVERS):
        return False
    try:
        import torch
    except ModuleNotFoundError:  # an installation for the CPU
        return False
    return torch.cuda.is_available()


def precision_of(stored: str, spec: EngineSpec) -> str:
    """Return the precision in which an engine computes: "fp32", "bf16" or "int8".

    stored: that of the matrices in the weights file, which decides for numba if spec.precision is
    AUTO.
    spec: its engine is not AUTO.
    """
    if spec.precision != AUTO:
        return spec.precision
    by_engine = {
        "numba": "int8" if stored == "int8" else "fp32",
        "cuda-graph": "bf16",
        "torch": "fp32",
    }
    return by_engine[spec.engine]
