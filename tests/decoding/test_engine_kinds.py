"""The records of engines (decoding.engine_kinds), and the selection by them
(decoding.engine_selection)."""

from dataclasses import replace
from importlib import import_module

import pytest

from bytenmt.decoding import engine_selection
from bytenmt.decoding.engine_kinds import DEVICES, ENGINES, EngineKind
from bytenmt.decoding.engine_selection import precision_of, select_engine
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.errors import BytenmtError, DeviceError


@pytest.mark.parametrize("kind", ENGINES.values(), ids=list(ENGINES))
def test_a_record_is_complete(kind: EngineKind) -> None:
    module, _, function = kind.loader.partition(":")
    assert callable(getattr(import_module(module), function))
    assert kind.devices and set(kind.devices) <= set(DEVICES)
    for stored in ("fp32", "int8"):
        assert precision_of(stored, EngineSpec(kind.name)) in kind.precisions


def test_every_device_has_an_engine_for_modules() -> None:
    """So that a model without a program can be decoded wherever PyTorch is installed."""
    for device in DEVICES:
        assert any(device in kind.devices and not kind.runs_programs for kind in ENGINES.values())


@pytest.mark.parametrize(
    ("engine", "device", "on_cpu", "on_gpu"),
    [
        (AUTO, AUTO, "numba cpu", "cuda-graph cuda"),
        (AUTO, "cpu", "numba cpu", "numba cpu"),
        (AUTO, "cuda", "no GPU", "cuda-graph cuda"),
        ("torch", AUTO, "torch cpu", "torch cuda"),
        ("torch", "cpu", "torch cpu", "torch cpu"),
        ("numba", AUTO, "numba cpu", "numba cpu"),
        ("numba", "cuda", "runs on the CPU", "runs on the CPU"),
        ("cuda-graph", AUTO, "no GPU", "cuda-graph cuda"),
        ("cuda-graph", "cpu", "runs on a GPU", "runs on a GPU"),
    ],
)
def test_select_engine(
    engine: str, device: str, on_cpu: str, on_gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for has_gpu, expected in ((False, on_cpu), (True, on_gpu)):
        monkeypatch.setattr(engine_selection, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        try:
            spec = select_engine(EngineSpec(engine, device))
            assert f"{spec.engine} {spec.device}" == expected
            assert select_engine(spec) == spec
        except (BytenmtError, DeviceError) as error:
            assert expected in str(error)


def test_a_model_without_a_program_is_decoded_by_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_gpu, engine in ((False, "torch"), (True, "cuda-graph")):
        monkeypatch.setattr(engine_selection, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        assert select_engine(EngineSpec(), runs_programs=False).engine == engine
        spec = replace(EngineSpec(), device="cpu")
        assert select_engine(spec, runs_programs=False).engine == "torch"
