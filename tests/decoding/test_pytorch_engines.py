"""The PyTorch engines: what they keep where, and that the captured step equals the reference."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import invariants
import pytest
import torch
from cpu_engines import agree, rehearsed, run
from fast_variants import by_variant, rotated
from invariants import WITH_SOURCE, AnyModel
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from variants import VARIANTS

from bytenmt.architectures.tensor_tree import map_tensors, tensors
from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.decoding.pytorch.cuda_graph import Capture, CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.pytorch.forward import PassInputs, encode_requests, forward

CPU = torch.device("cpu")
ARCHITECTURES = ["seq2seq", "bahdanau", "luong", "bytenet", "convs2s"]
MANY_OPTIONS = [
    SearchOptions(),
    SearchOptions(no_repeat_ngram_size=1),
    SearchOptions(beam=3, n_best=2, length_penalty=0.7),
    SearchOptions(beam=2, no_repeat_ngram_size=2),
    SearchOptions(beam=2, n_best=2, sample=True, temperature=1.5, top_k=50, top_p=0.9),
]
PAIRS = list(zip(ARCHITECTURES, MANY_OPTIONS, strict=True))


def traced(step: Callable[[], None]) -> Callable[[], None]:
    """Emulate a CUDA graph on the CPU: a few warm-up steps, then one whose operations and tensors
    are recorded and replayed without running Python again.
    """
    for _ in range(3):
        step()

    def once() -> torch.Tensor:
        step()
        return torch.zeros(0)

    recorded: Callable[[], None] = make_fx(once)()
    return recorded


def peaky(name: str) -> AnyModel:
    return invariants.build(VARIANTS[name], seed=11, scale=0.9)


def requests_for(lengths: list[int], limits: list[int]) -> list[Request]:
    """Sources of these lengths; every third begins as it is told."""
    src, _ = invariants.some_sources(lengths)
    sources, prefixes = (bytes(row.tolist()) for row in src), [b"", b"", "é".encode()]
    rows = enumerate(zip(sources, lengths, limits, strict=True))
    return [Request(source[: n - 1], limit, prefixes[i % 3], i) for i, (source, n, limit) in rows]


# ---- the captured step


def check_captured(name: str, options: SearchOptions, capture: Capture) -> None:
    """Places that are taken again, a longer source while others run, and a second call on the same
    engine."""
    model = peaky(name)
    engine = CudaGraphEngine([model], options, 3, CPU, capture)
    for lengths in ([7, 3, 80, 5, 2], [4, 65]):
        requests = requests_for(lengths, [9, 5, 7, 6, 4][: len(lengths)])
        agree(run(engine, requests), run(TorchEngine([model], options, 2, CPU), requests), 1e-9)


@pytest.mark.slow
@by_variant(("name", "options"), PAIRS[3:4])
def test_the_captured_step_equals_plain_pytorch(name: str, options: SearchOptions) -> None:
    check_captured(name, options, traced)


@pytest.mark.slow
@by_variant(("name", "options"), rotated(WITH_SOURCE, MANY_OPTIONS, 1))
def test_fixed_places_equal_plain_pytorch(name: str, options: SearchOptions) -> None:
    check_captured(name, options, rehearsed)


@pytest.mark.slow
@by_variant(("name", "options"), PAIRS)
def test_a_longer_source_comes_while_others_run(name: str, options: SearchOptions) -> None:
    """They go on from where they were, beside other columns; the new step's rehearsal leaves no
    trace."""
    model, requests = peaky(name), requests_for([7, 3, 80, 150, 5], [16] * 5)
    engine = CudaGraphEngine([model], options, 5, CPU, rehearsed)
    handles = []
    for some in (requests[:2], requests[2:3], requests[3:4], requests[4:]):
        handles += engine.admit(some)
        engine.advance(1)
    assert not engine.finished(), "the test means nothing unless they still run"
    engine.advance(30)
    actual = dict(engine.finished())
    expected = run(TorchEngine([model], options, 4, CPU), requests)
    agree([actual[handle] for handle in handles], expected, 1e-9)


@pytest.mark.slow
def test_a_longer_output_takes_longer_buffers() -> None:
    model, options = peaky("bytenet"), SearchOptions(beam=2, no_repeat_ngram_size=2)
    requests = requests_for([7, 3, 5, 6, 4], [7, 6, 30, 9, 50])
    engine = CudaGraphEngine([model], options, 2, CPU, rehearsed)
    agree(run(engine, requests), run(TorchEngine([model], options, 5, CPU), requests), 1e-9)


@by_variant(("name", "options"), PAIRS)
def test_captured_buffers_never_move(name: str, options: SearchOptions) -> None:
    engine = CudaGraphEngine([peaky(name)], options, 3, CPU, lambda step: step)
    waiting = requests_for([7, 3, 5, 9, 2], [9] * 5)
    engine.admit(waiting[:2])
    before = engine._plans[64]  # alive, so that nothing else can take its memory
    kept = [(part.data_ptr(), part.shape, part.stride()) for part in tensors(before[:3])]
    engine.advance(3)
    engine.admit(waiting[2:3])
    engine.advance(100)
    assert len(engine.finished()) == 3
    engine.admit(waiting[3:])
    engine.advance(2)
    now = engine._plans[64][:3]
    assert [(part.data_ptr(), part.shape, part.stride()) for part in tensors(now)] == kept


READS_OF_THE_HOST = {"_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "item"}


class OnDevice(TorchDispatchMode):
    """Ensures that no operation touches the host: no tensor there, no number read, no waiting."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.partition(".")[0]
        assert name not in READS_OF_THE_HOST
        for part in torch.utils._pytree.tree_leaves((args, kwargs)):
            if isinstance(part, torch.Tensor):
                assert part.device.type == "meta", f"{name} has a tensor on the host"
                is_mask = name == "index" and part.dtype == torch.bool and part is not args[0]
                assert not is_mask, "an index of booleans"
        return func(*args, **(kwargs or {}))


ROWS = zip(WITH_SOURCE, cycle(MANY_OPTIONS), cycle([None, b"some bytes"]), strict=False)


@pytest.mark.slow
@by_variant(("name", "options", "source"), ROWS)
def test_no_pass_touches_the_host(name: str, options: SearchOptions, source: bytes | None) -> None:
    """On a device without data reading a number fails, and a tensor made on the host is seen."""
    meta, model = torch.device("meta"), invariants.make(name).bfloat16()
    requests = [Request(source, 20), Request(source, 10)]
    with torch.no_grad():
        encoded = encode_requests([model], requests, options.beam, CPU) * 2
        states = map_tensors(lambda part: part.to(meta), encoded)
        models = [model.to(meta)] * 2
        shapes = [part.shape for part in tensors(states)]
        numbers = torch.zeros(2, options.beam, dtype=torch.int64, device=meta)
        inputs = PassInputs(numbers.to(torch.uint8), numbers)
        with OnDevice():
            for _ in range(2):
                log_p, states = forward(models, states, inputs, options)
                assert log_p.shape == (2, options.beam, 256)
                assert [part.shape for part in tensors(states)] == shapes


# ---- plain PyTorch


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_bf16_searches_too(name: str) -> None:
    """Scores are sums of float32 log-probabilities; they agree with the teacher-forced ones to
    rounding."""
    lengths, exact, half = [7, 3], invariants.make(name), invariants.make(name).bfloat16()
    src, _ = invariants.some_sources(lengths)
    engine = TorchEngine([half], SearchOptions(beam=2, n_best=2), 2, CPU)
    for i, hypotheses in enumerate(run(engine, requests_for(lengths, [10, 10]))):
        for actual in hypotheses:
            expected = invariants.log_probability(exact, src[i : i + 1, : lengths[i]], actual.text)
            assert actual.log_probability == pytest.approx(expected, rel=0.05, abs=0.05)
