"""Small models, sentences, and all engines run over them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from invariants import LUONG, VARIANTS, AnyModel, build

from bytenmt.decoding.cpu import interpreter
from bytenmt.decoding.cpu.compilation import compile_kernels, compiled_search_step
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.numpy_kernels import numpy_interpreter
from bytenmt.decoding.cpu.packing import PackedModel, pack_model
from bytenmt.decoding.interface import Engine, Hypothesis, Options, Request
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode

CPU = torch.device("cpu")

MORE: dict[str, dict[str, Any]] = {
    "luong-dot": {"arch": "luong", "d_embedding": 5, "d_hidden": 7, "n_layers": 3, "score": "dot"},
    "seq2seq-shallow": {"arch": "seq2seq", "d_embedding": 5, "d_hidden": 7, "n_encoder_layers": 3},
    "seq2seq-lstm-every-step": {
        "arch": "seq2seq",
        "d_embedding": 5,
        "d_hidden": 6,
        "cell": "lstm",
        "context": "every_step",
        "n_decoder_layers": 2,
    },
    "seq2seq-cho-deep": VARIANTS["seq2seq-cho"]
    | {"n_layers": 2, "gru_reset": "after", "read_out_kind": "linear"},
    "luong-deep": {"arch": "luong", "d_embedding": 5, "d_hidden": 6, "n_layers": 1, "n_decoder_layers": 3},
    "luong-dot-inside": LUONG
    | {"score": "dot", "attention": "local-p", "attention_window": 5, "gaussian": "inside"},
    "luong-places-in-a-window": LUONG
    | {
        "attention": "local-m",
        "attention_window": 3,
        "gaussian": "after",
        "score": "location",
        "n_locations": 9,
        "location_softmax": "twice",
        "reverse_source": True,
    },
    # Whole panels and a little more than one, odd and even numbers of inputs.
    "bytenet-wide": {
        "arch": "bytenet",
        "d_embedding": 33,
        "d_channels": 65,
        "n_sets": 1,
        "dilations": [1, 2, 4],
    },
    "convs2s-pooling-wide": VARIANTS["convs2s-pooling"] | {"d_embedding": 37, "pooling_width": 5},
    "seq2seq-wide": {"arch": "seq2seq", "d_embedding": 64, "d_hidden": 128, "gru_reset": "after"},
}
# The Transformer has no program for the CPU engine.
ALL = {name: one for name, one in {**VARIANTS, **MORE}.items() if one["arch"] != "transformer"}


def model(name: str, seed: int = 0) -> AnyModel:
    """Return a float32 model, so that both engines have the same weights."""
    scale = 0.4 if name in VARIANTS else 0.1
    return build(ALL[name], seed, scale).float()


def packed(of: AnyModel, precision: str = "fp32") -> PackedModel:
    """Return a model for the CPU engine, whose kernels are compiled by one process, the others wait."""
    compile_kernels()
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


KINDS = ("torch", "torch, compiled search", "fixed slots", "numba", "numpy")


def engine(kind: str, models: Sequence[AnyModel], options: Options, capacity: int = 3) -> Engine:
    """Return an engine of one of KINDS."""
    if kind in ("numba", "numpy"):
        run = interpreter.run if kind == "numba" else numpy_interpreter()
        return NumbaEngine([packed(of) for of in models], options, capacity, run=run)
    if kind == "fixed slots":
        return CudaGraphEngine(models, options, capacity, CPU, rehearsed)
    step = compiled_search_step() if kind == "torch, compiled search" else None
    return TorchEngine(models, options, capacity, CPU, search=step)


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
    actual: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]], tolerance: float = 1e-4
) -> None:
    """Texts are equal, and scores to a tolerance."""
    assert [[h.text for h in of] for of in actual] == [[h.text for h in of] for of in expected]
    for one, other in zip(actual, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert abs(a.log_probability - b.log_probability) < tolerance
            assert abs(a.score - b.score) < tolerance
