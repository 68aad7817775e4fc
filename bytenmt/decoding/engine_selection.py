"""Select the engine, device and precision for this machine.

PyTorch is imported only where a GPU driver is installed.
"""

from __future__ import annotations

import os
from dataclasses import replace

from bytenmt.decoding.engine_kinds import DEVICES, ENGINES
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.errors import BytenmtError, DeviceError

# Device files, one of which exists where a driver for a GPU is installed (dxg: under Windows).
DRIVERS = ("/dev/nvidiactl", "/dev/dxg")


def select_engine(spec: EngineSpec, runs_programs: bool = True) -> EngineSpec:
    """Return the spec with an AUTO engine or device replaced by the fastest one of this machine.

    The precision stays as it is. runs_programs: whether AUTO may be the engine that runs a model as
    a program, a list of instructions, which not every architecture has. Raises DeviceError for a
    device that is not available, BytenmtError for an engine that does not run on the device.
    """
    devices = tuple(DEVICES) if spec.engine == AUTO else ENGINES[spec.engine].devices
    if spec.device != AUTO:
        if spec.device not in devices:
            places = " or ".join(DEVICES[device] for device in devices)
            raise BytenmtError(
                f"--engine {spec.engine} runs on {places}: drop --device {spec.device}"
            )
        devices = (spec.device,)
    device = "cuda" if "cuda" in devices and has_gpu() else "cpu"
    if device not in devices:
        option = "--device cuda" if spec.device == "cuda" else f"--engine {spec.engine}"
        raise DeviceError(f"{option}: no GPU is available here; use auto")
    engine = spec.engine
    if engine == AUTO:  # the last one is the fastest
        kinds = [kind for kind in ENGINES.values() if device in kind.devices]
        engine = [kind.name for kind in kinds if runs_programs or not kind.runs_programs][-1]
    return replace(spec, engine=engine, device=device)


def n_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def has_gpu() -> bool:
    """Return whether PyTorch finds a GPU; without a GPU driver PyTorch is not even imported."""
    if not any(os.path.exists(name) for name in DRIVERS):
        return False
    try:
        import torch
    except ModuleNotFoundError:  # an installation for the CPU
        return False
    return torch.cuda.is_available()


def precision_of(stored: str, spec: EngineSpec) -> str:
    """Return the precision in which the engine of `spec` computes: "fp32", "bf16" or "int8".

    spec: with an engine that is not AUTO. Where its precision is AUTO, the engine's default is
    returned, or, if it has none, `stored`: the precision of the matrices in the weights file.
    """
    if spec.precision != AUTO:
        return spec.precision
    kind = ENGINES[spec.engine]
    precision = kind.default_precision or stored
    return precision if precision in kind.precisions else kind.precisions[0]
