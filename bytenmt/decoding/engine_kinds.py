"""The kinds of engines: a record each, with all that the rest of the program knows of them.

To add an engine, add its record to ENGINES and write the function that its `loader` names. The
choices of --engine and --precision, their help and their errors, the selection by `auto` and the
loading of models follow from the record. Imports nothing heavy.
"""

from __future__ import annotations

from typing import NamedTuple

DEVICES = {"cpu": "the CPU", "cuda": "a GPU"}  # with their names in messages


class EngineKind(NamedTuple):
    """A kind of engine: where and in which precisions it runs, and how models are loaded for it."""

    name: str  # its name in --engine
    description: str  # for --help
    devices: tuple[str, ...]  # some of DEVICES
    precisions: tuple[str, ...]  # in which it computes
    default_precision: str | None  # None: that of the matrices in the weights file
    # Whether it runs models as programs (lists of instructions, see architectures/*/program.py),
    # without PyTorch; if not, it runs PyTorch modules.
    runs_programs: bool
    # "module:function". The function takes the weights files with their contents, the EngineSpec
    # and a Reporter, and returns the EngineFunctions of loading.py.
    loader: str


# By name. `auto` takes the last one that runs on the device, and that can run the models.
ENGINES = {
    kind.name: kind
    for kind in (
        EngineKind(
            name="torch",
            description="PyTorch",
            devices=("cpu", "cuda"),
            precisions=("fp32", "bf16"),
            default_precision="fp32",
            runs_programs=False,
            loader="bytenmt.decoding.pytorch.loading:load_torch",
        ),
        EngineKind(
            name="cuda-graph",
            description="PyTorch with CUDA graphs",
            devices=("cuda",),
            precisions=("fp32", "bf16"),
            default_precision="bf16",
            runs_programs=False,
            loader="bytenmt.decoding.pytorch.loading:load_cuda_graph",
        ),
        EngineKind(
            name="numba",
            description="compiled CPU kernels",
            devices=("cpu",),
            precisions=("fp32", "int8"),
            default_precision=None,
            runs_programs=True,
            loader="bytenmt.decoding.cpu.loading:load_numba",
        ),
    )
}
# All precisions, in the order of the engines.
PRECISIONS = tuple(dict.fromkeys(name for kind in ENGINES.values() for name in kind.precisions))


def engine_help() -> str:
    """Return the --help text of the option --engine: the names of all engines, described."""
    kinds = [f"{kind.name} ({kind.description})" for kind in ENGINES.values()]
    listed = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
    return f"Inference engine: {listed}; auto takes the fastest one for the device."


def precision_help() -> str:
    """Return the --help text of the option --precision: each engine's precisions and default."""
    allowed = "; ".join(
        f"{' or '.join(kind.precisions)} with {kind.name}" for kind in ENGINES.values()
    )
    defaults = [
        f"{kind.default_precision or 'that of the file'} with {kind.name}"
        for kind in ENGINES.values()
    ]
    listed = f"{', '.join(defaults[:-1])} and {defaults[-1]}"
    return f"Precision of the weights: {allowed}. auto is {listed}."
