"""No control character comes out of a search, in either engine, but TAB and what a prefix forces."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from made_up import Distribution, FakeDecoder, few_bytes
from made_up_engine import small_config, small_model

from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.interface import Engine, Hypothesis, Options, Request
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode
from bytenmt.language.generate import generate

CPU = torch.device("cpu")
C0 = bytes(range(0x20)) + b"\x7f"
C1 = b"\xc2\x80\x85\x9b\x9f\xa0"
HOSTILE = b"\x1b[31m" + "\x9b\x7f\x00é\x85".encode()
SEARCHES = {
    "greedy": Options(),
    "beam": Options(beam=3, n_best=3),
    "sample": Options(sample=True, temperature=1.5),
    "no repeats": Options(beam=2, no_repeat_ngram_size=1),
}


def controls(text: bytes) -> set[str]:
    """Return the control characters of a valid text."""
    return {c for c in text.decode() if unicodedata.category(c) == "Cc"}


def decoded(engine: Engine, requests: list[Request]) -> list[list[Hypothesis]]:
    found = dict(decode(engine, requests))
    return [found[index] for index in range(len(requests))]


def loves_controls(alphabet: bytes) -> Distribution:
    """Return a model under which these bytes are likely and all others unlikely."""
    return few_bytes(1, alphabet, end=-2.0, floor=-12.0)


@pytest.mark.parametrize("alphabet", [C0, C1], ids=["C0", "C1"])
@pytest.mark.parametrize("search", SEARCHES)
def test_a_line_has_no_controls_but_tabs(search: str, alphabet: bytes) -> None:
    """From a distribution that would write nothing else."""
    engine = TorchEngine([FakeDecoder([loves_controls(alphabet)])], SEARCHES[search], 4, CPU)
    found = decoded(engine, [Request(b"0", limit, number=limit) for limit in (0, 1, 2, 3, 9, 40)])
    texts = [hypothesis.text for hypotheses in found for hypothesis in hypotheses]
    assert set().union(*map(controls, texts)) <= {"\t"} and any(texts)
    if alphabet == C1:
        assert any("\xa0".encode() in text for text in texts)  # the first after them


def test_an_endless_text_has_line_ends_too() -> None:
    """And no other."""
    model = FakeDecoder([few_bytes(1, C0)])
    runtime = replace(
        runtime_from_models([], CPU, has_source=False), make_engine=partial(TorchEngine, [model], device=CPU)
    )
    assert controls(b"".join(generate(runtime, n_bytes=200))) == {"\t", "\n", "\r"}


@pytest.mark.parametrize("search", SEARCHES)
def test_what_a_prefix_forces_comes_whatever_it_is(search: str) -> None:
    """Both engines write a forced control character and continue after it, also if the limit leaves no
    room.
    """
    of, options = small_model("luong").float(), SEARCHES[search]
    prefixes = [HOSTILE, b"\x00", "\x80".encode(), b"a\x7f", b"\t"]
    requests = [
        Request(b"abc", len(prefix) + room, prefix, number=room) for prefix in prefixes for room in (0, 1, 12)
    ]
    arrays = {name: weight.detach().numpy() for name, weight in of.named_parameters()}
    packed = pack_model(arrays, small_config("luong").model, "fp32")
    ours = decoded(NumbaEngine([packed], options, 4), requests)
    theirs = decoded(TorchEngine([of], options, 4, CPU), requests)
    for request, mine, other in zip(requests, ours, theirs, strict=True):
        assert [h.text for h in mine] == [h.text for h in other]
        assert all(h.text.startswith(request.prefix) and np.isfinite(h.score) for h in mine)
        assert all(controls(h.text[len(request.prefix) :]) <= {"\t"} for h in mine)
