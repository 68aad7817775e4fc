"""Test the score of each byte of a hypothesis: the model's own log-probability, in every engine and
search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from cpu_engines import model, packed, run, some_requests
from invariants import whole

from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.translator import Translator
from bytenmt.utf8 import BOS, EOS

SEARCHES = {
    "greedy": Options(byte_scores=True),
    "beam": Options(beam=3, n_best=3, byte_scores=True),
    "samples": Options(beam=2, n_best=2, sample=True, seed=3, byte_scores=True),
}
ENGINES = ("numba", "torch")
NAMES = ("bytenet", "convs2s-uneven", "bytenet-multiplicative", "bahdanau", "luong")


def engine(which: str, of: Any, options: Options, capacity: int = 3) -> Any:
    if which == "numba":
        return NumbaEngine([packed(of)], options, capacity)
    return TorchEngine([of], options, capacity, torch.device("cpu"))


def teacher_forced(of: Any, source: bytes, text: bytes) -> np.ndarray:
    """The model's log-probability of each byte of the text and of EOS, all read in one call."""
    src = torch.tensor([[*source, EOS]], dtype=torch.uint8)
    tgt = torch.tensor([[BOS, *text]], dtype=torch.uint8)
    logits = whole(of, src, torch.tensor([src.shape[1]]), tgt)[0].log_softmax(dim=-1)
    return logits[torch.arange(len(text) + 1), torch.tensor([*text, EOS])].numpy()


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("which", ENGINES)
def test_a_byte_costs_what_the_model_says(search: str, which: str) -> None:
    """Also where rows change places and texts go on from others' beams."""
    options = SEARCHES[search]
    for name in NAMES:
        of, requests = model(name), some_requests(5, limit=15)
        for request, hypotheses in zip(requests, run(engine(which, of, options), requests), strict=True):
            for one in hypotheses:
                expected = teacher_forced(of, request.source or b"", one.text)
                np.testing.assert_allclose(one.byte_scores, expected, atol=1e-4)
                assert sum(one.byte_scores) == pytest.approx(one.log_probability, abs=1e-9)


def rehearsed(step: Callable[[], None]) -> Callable[[], None]:
    """Replace a captured graph by the step itself, which is run a few times first."""
    for _ in range(3):
        step()
    return step


def test_they_are_told_where_they_are_asked_for() -> None:
    of, requests = model("bahdanau"), some_requests(2)
    assert not run(engine("torch", of, Options()), requests)[0][0].byte_scores
    assert not run(engine("numba", of, Options()), requests)[0][0].byte_scores
    fixed = CudaGraphEngine([of], SEARCHES["beam"], 2, torch.device("cpu"), rehearsed)
    expected = run(engine("torch", of, SEARCHES["beam"]), requests)
    for one, other in zip(run(fixed, requests), expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.text == b.text
            np.testing.assert_allclose(a.byte_scores, b.byte_scores, atol=1e-4)


class Priced:
    """An engine of one sentence, each of whose bytes costs its place, its end 100."""

    capacity = 1

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def room(self) -> int:
        return 1

    def admit(self, requests: list[Request]) -> list[int]:
        self.asked = requests
        return [0]

    def advance(self, n_steps: int) -> None:
        pass

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        text = self.asked[0].source or b""
        scores = *map(float, range(len(text))), 100.0
        return [(0, [Hypothesis(text, sum(scores), 0.0, scores)])]

    def so_far(self, handle: int) -> bytes:
        return b""


def test_pieces_of_a_line_share_their_ends() -> None:
    translator = Translator(lambda capacity: Priced(), longest_source=4)
    ((found,),) = translator.n_best([b"one two"])
    assert found.text == b"one two" and found.byte_scores == (0, 1, 2, 0, 0, 1, 2, 200)
    assert sum(found.byte_scores) == found.log_probability
