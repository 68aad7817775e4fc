"""Small models, sentences, and all engines run over them."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numba
import torch
from invariants import AnyModel, build
from variants import MORE, VARIANTS

from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.library import load_engine
from bytenmt.decoding.cpu.packing import PackedModel, pack_model
from bytenmt.decoding.engine import Engine
from bytenmt.decoding.interface import Hypothesis, Request, SearchOptions
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode

CPU = torch.device("cpu")

# The Transformer has no program for the CPU engine.
ALL = {name: one for name, one in {**VARIANTS, **MORE}.items() if one["arch"] != "transformer"}


def model(name: str, seed: int = 0) -> AnyModel:
    """Return a float32 model, so that both engines have the same weights."""
    scale = 0.4 if name in VARIANTS else 0.1
    return build(ALL[name], seed, scale).float()


def from_python(function: Any) -> Any:
    """Return a function that only compiled code can call with a wrapper that Python can call."""
    return numba.njit(lambda *arguments: function(*arguments))


def packed(of: AnyModel, precision: str = "fp32") -> PackedModel:
    """Return a model for the CPU engine; one process compiles its kernels, the others wait."""
    load_engine()
    tensors = {name: p.detach().numpy() for name, p in of.named_parameters()}
    return pack_model(tensors, of.config, precision)


def some_requests(n: int, source: bool = True, seed: int = 0, limit: int = 25) -> list[Request]:
    """Sources of 0 to 30 bytes of text, among them Hangul and emoji."""
    draw = random.Random(seed)
    made = []
    for number in range(n):
        text = "".join(draw.choices("ab c각🙂é", k=draw.randrange(12))).encode()
        made.append(Request(text if source else None, draw.randrange(limit), number=number))
    return made


KINDS = ("torch", "fixed slots", "numba")


def engine(
    kind: str, models: Sequence[AnyModel], options: SearchOptions, capacity: int = 3
) -> Engine:
    """Return an engine of one of KINDS."""
    if kind == "numba":
        return NumbaEngine([packed(of) for of in models], options, capacity)
    if kind == "fixed slots":
        return CudaGraphEngine(models, options, capacity, CPU, rehearsed)
    return TorchEngine(models, options, capacity, CPU)


def rehearsed(step: Callable[[], None]) -> Callable[[], None]:
    """Emulate a CUDA graph without recording it: by a few passes, as before a capture."""
    for _ in range(3):
        step()
    return step


def run(engine: Engine, requests: Sequence[Request]) -> list[list[Hypothesis]]:
    found = dict(decode(engine, requests))
    assert len(found) == len(requests)
    return [found[index] for index in range(len(requests))]


def agree(
    actual: Sequence[Sequence[Hypothesis]],
    expected: Sequence[Sequence[Hypothesis]],
    tolerance: float = 1e-4,
) -> None:
    """Texts are equal, and scores to a tolerance."""
    assert [[h.text for h in of] for of in actual] == [[h.text for h in of] for of in expected]
    for one, other in zip(actual, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert abs(a.log_probability - b.log_probability) < tolerance
            assert abs(a.score - b.score) < tolerance
