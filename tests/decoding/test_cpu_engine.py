"""The CPU engine's own memory and precisions; test_engines.py has what it shares with the others."""

import numpy as np
import pytest
import torch
from cpu_engines import ALL, model, packed, run, some_requests
from python_engine import STAND_INS

from bytenmt.checkpoints.quantize import quantise
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.kernels import elementwise
from bytenmt.decoding.cpu.reader import CpuReader
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.reader import TorchReader
from bytenmt.program.instructions import Field, Op


def test_numbers_that_are_none_stay_none_in_numpy() -> None:
    """NaN stays NaN as in compiled code, so a diverged model is recognised."""
    x, y = np.array([1, np.nan, 3], np.float32), np.zeros(3, np.float32)
    for function in (elementwise.relu, elementwise.tanh, elementwise.sigmoid):
        STAND_INS[function](y.ctypes.data, x.ctypes.data, 3)
        assert np.isnan(y).tolist() == [False, True, False]
    assert np.isnan(STAND_INS[elementwise.row_max](x.ctypes.data, 3))


def test_sentences_may_come_later_and_longer() -> None:
    """A longer source and output than there was room for moves what is running, and changes nothing."""
    of, options = packed(model("bahdanau")), Options(beam=2, n_best=2)
    first, later = Request(b"abc", 40), Request(b"abcdefgh" * 9, 90, b"prefix")
    expected = [run(NumbaEngine([of], options, 1), [request])[0] for request in (first, later)]
    engine = NumbaEngine([of], options, 2)
    (early,) = engine.admit([first])
    engine.advance(3)
    (late,) = engine.admit([later])
    actual: dict[int, list[Hypothesis]] = {}
    while len(actual) < 2:
        engine.advance(1)
        actual.update(engine.finished())
    assert [actual[early], actual[late]] == expected


def test_sources_that_take_several_calls_of_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of growing size, prepared together: what the later ones need leaves the earlier ones whole."""
    monkeypatch.setattr("bytenmt.decoding.cpu.session.SCANNED_TOGETHER", 400)
    of, options = packed(model("bahdanau")), Options()
    # Longest first: 250 columns, then 390.
    requests = [Request(b"a" * n, 12) for n in (249, 194, 194)]
    expected = [run(NumbaEngine([of], options, 1), [request])[0] for request in requests]
    assert run(NumbaEngine([of], options, 3), requests) == expected


@pytest.mark.parametrize("name", ["bytenet-wide", "convs2s", "luong", "bahdanau"])
def test_int8_is_the_model_of_its_rounded_weights(name: str) -> None:
    """Every matrix of the step and the encoder rounded by rows, everything else as it was: what rounding the
    inputs, too, costs on the mean is a few hundredths in the log-probability of a byte."""
    of, rounded = model(name), model(name)
    with torch.no_grad():
        for key, parameter in rounded.named_parameters():
            if parameter.dim() > 1 and key != "embedding.weight":
                q, scales = quantise(parameter.flatten(1).numpy())
                parameter.copy_(torch.from_numpy(q * scales[:, None]).view_as(parameter))
    texts = [request.source or b"" for request in some_requests(8)]
    ours = CpuReader([packed(of, "int8")]).score_texts(texts, texts[::-1])
    theirs = TorchReader([rounded], torch.device("cpu")).score_texts(texts, texts[::-1])
    apart = np.concatenate([a.log_p - b.log_p for a, b in zip(ours, theirs, strict=True)])
    assert 0 < np.abs(apart).mean() < 5e-2 and np.abs(apart).max() < 0.3


@pytest.mark.slow
def test_every_instruction_is_used() -> None:
    """The architectures together; an instruction that none needs would not be tested."""
    actual: set[int] = set()
    for name in ALL:
        both = packed(model(name)).program
        for program in (both.encode, both.step):
            actual |= set(program.instructions[:, Field.OP].tolist())
    assert actual == {int(op) for op in Op}
