"""Small models for the CPU engine beside PyTorch, sentences, and both engines run over them."""

from __future__ import annotations

import random
from typing import Any

import torch
from invariants import LUONG, VARIANTS, AnyModel, build

from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import PackedModel, pack_model
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode

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
    | {"n_layers": 2, "encoder_reset": "after", "read_out_kind": "linear"},
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


def ours(of: AnyModel, requests: list[Request], options: Options, capacity: int = 4, **more: Any) -> Any:
    return run(NumbaEngine([packed(of, **more)], options, capacity), requests)


def theirs(of: AnyModel, requests: list[Request], options: Options, capacity: int = 4) -> Any:
    return run(TorchEngine([of], options, capacity, torch.device("cpu")), requests)


def run(engine: Any, requests: list[Request]) -> list[list[Hypothesis]]:
    found = dict(decode(engine, requests))
    return [found[index] for index in range(len(requests))]
