"""The CPU engine: what the plain PyTorch engine yields, whatever stands beside a sentence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cpu_engines import ALL, model, ours, packed, run, some_requests, theirs
from fast_variants import by_variant
from invariants import VARIANTS, WITHOUT_SOURCE, build, make
from rotation import rotated

from bytenmt.checkpoints.rounding import quantise
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.kernels import elementwise
from bytenmt.decoding.cpu.numpy_kernels import STAND_INS, numpy_interpreter
from bytenmt.decoding.cpu.reader import CpuReader
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.pytorch.reader import TorchReader
from bytenmt.decoding.search.state import RUNNING
from bytenmt.errors import BytenmtError
from bytenmt.kernel_constants import PRECISIONS
from bytenmt.program.instructions import Column, Op
from bytenmt.utf8 import BOS, EOS

pytestmark = pytest.mark.compiles_kernels


def agree(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]], tolerance: float = 1e-4) -> None:
    assert [[h.text for h in of] for of in actual] == [[h.text for h in of] for of in expected]
    for one, other in zip(actual, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert abs(a.log_probability - b.log_probability) < tolerance
            assert abs(a.score - b.score) < tolerance


SEARCHES = {
    "greedy": Options(),
    "beam": Options(beam=3, n_best=3),
    "wide beam, long texts": Options(beam=5, n_best=2, length_penalty=1.5),
    "samples": Options(beam=2, n_best=2, sample=True, temperature=1.5, seed=3),
    "top k and p": Options(sample=True, top_k=20, top_p=0.8, temperature=0.7),
    "no repeats": Options(beam=2, n_best=2, no_repeat_ngram_size=2),
}
EXACT = [
    "bahdanau",
    "seq2seq-cho",
    "luong-local-p",
    "luong-concat",
    "bytenet-wide",
    "convs2s-uneven",
    "bytenet-multiplicative",
    "convs2s-pooling",
    "recurrent-bytenet-both",
]


@by_variant(("name", "search"), rotated(list(ALL), list(SEARCHES), 1))
def test_texts_and_scores_are_those_of_plain_pytorch(name: str, search: str) -> None:
    """All options and all architectures, sentences taking the places of others; texts equal, scores to
    1e-4 over up to 25 bytes."""
    source = name not in WITHOUT_SOURCE
    of, options, requests = model(name), SEARCHES[search], some_requests(9, source)
    agree(ours(of, requests, options), theirs(of, requests, options))


@pytest.mark.slow
@by_variant(("name", "search"), rotated(list(ALL)[::-1], list(SEARCHES), 1))
def test_kernels_in_numpy_yield_the_same(name: str, search: str) -> None:
    """NumPy kernels, which share no code with the compiled ones, give the same results under the uncompiled
    interpreter and search.
    """
    of, options = packed(model(name)), SEARCHES[search]
    requests = some_requests(4, name not in WITHOUT_SOURCE, limit=10)
    actual = run(NumbaEngine([of], options, 3, run=numpy_interpreter()), requests)
    agree(actual, run(NumbaEngine([of], options, 3), requests))


@by_variant("name", ALL)
def test_without_a_source(name: str) -> None:
    of, options = model(name, seed=1), Options(beam=2, n_best=2)
    requests = some_requests(3, source=False)
    agree(ours(of, requests, options), theirs(of, requests, options))


@pytest.mark.parametrize("beam", [2, 4, 8])
def test_no_beam_is_below_greedy_on_a_confident_model(beam: int) -> None:
    """Its end is never impossible, and so among the best few at every step: where the search stopped as soon
    as four texts had ended, four of these twelve lines were worse than greedy."""
    of = model("seq2seq")
    with torch.no_grad():
        of.decoder.output.weight.mul_(2)
        of.decoder.output.bias.mul_(2)
        of.decoder.output.weight[EOS], of.decoder.output.bias[EOS] = 0, 5
    requests = [request._replace(limit=25) for request in some_requests(12)]
    greedy = ours(of, requests, Options())
    for actual, (best,) in zip(ours(of, requests, Options(beam=beam)), greedy, strict=True):
        assert actual[0].score >= best.score - 1e-4


def test_a_window_that_holds_every_source_changes_no_bit() -> None:
    """local-m has global attention's weights; a narrow window yields something else."""
    options, requests = Options(beam=2, n_best=2), some_requests(8)
    actual = []
    for more in (
        {},
        {"attention": "local-m", "attention_window": 60},
        {"attention": "local-m", "attention_window": 1},
    ):
        of = build(VARIANTS["luong"] | more).float()
        actual.append(ours(of, requests, options))
    assert actual[0] == actual[1] != actual[2]


def test_a_forced_prefix_and_an_empty_limit() -> None:
    requests = [Request("각".encode(), 12, "é🙂".encode()), Request(b"", 0), Request(b"abc", 3, b"xyz")]
    for options in (Options(), Options(beam=3, n_best=3), Options(sample=True)):
        of = model("bahdanau")
        actual = ours(of, requests, options)
        agree(actual, theirs(of, requests, options))
        assert actual[0][0].text.startswith("é🙂".encode()) and actual[2][0].text == b"xyz"


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 3])
def test_models_of_different_architectures_vote(beam: int) -> None:
    models = [model("luong"), model("bytenet"), model("seq2seq-every-step", seed=2)]
    options, requests = Options(beam=beam, n_best=beam), some_requests(6)
    actual = run(NumbaEngine([packed(of) for of in models], options, 3), requests)
    agree(actual, run(TorchEngine(models, options, 3, torch.device("cpu")), requests))
    in_numpy = NumbaEngine([packed(of) for of in models], options, 3, run=numpy_interpreter())
    agree(run(in_numpy, requests), actual)


def test_numbers_that_are_none_stay_none_in_numpy() -> None:
    """NaN stays NaN as in compiled code, so a diverged model is recognised."""
    x, y = np.array([1, np.nan, 3], np.float32), np.zeros(3, np.float32)
    for function in (elementwise.relu, elementwise.tanh, elementwise.sigmoid):
        STAND_INS[function](y.ctypes.data, x.ctypes.data, 3)
        assert np.isnan(y).tolist() == [False, True, False]
    assert np.isnan(STAND_INS[elementwise.row_max](x.ctypes.data, 3))


IN_BYTES = [("int8", name) for name in ("bahdanau", "luong", "convs2s")]  # attend to what is kept so


@by_variant(("precision", "name"), [*rotated(PRECISIONS, EXACT), *IN_BYTES])
def test_to_the_last_bit_whatever_stands_beside_it(name: str, precision: str) -> None:
    """Alone, among others, with two threads: the same numbers, not only nearly."""
    of, requests = packed(model(name), precision), some_requests(11)
    options = Options(beam=2, n_best=2)
    alone = [run(NumbaEngine([of], options, 1), [request])[0] for request in requests]
    for capacity, threads in ((11, 1), (4, 1), (3, 2)):
        assert run(NumbaEngine([of], options, capacity, threads), requests) == alone


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


def test_a_ring_stays_where_it_is_when_beams_reorder() -> None:
    """A step of b beams writes one column a beam into each ring, and moves nothing."""
    of = model("bytenet")
    engine = NumbaEngine([packed(of)], Options(beam=4), 1)
    engine.admit([Request(b"abcdefgh", 60)])
    (working,) = engine._models
    reordered = 0
    for _ in range(30):
        before, address = working._past.copy(), working._past.ctypes.data
        engine.advance(1)
        reordered += engine.state.parent[0].tolist() != [0, 1, 2, 3]
        rings = sum(ring.width for ring in working.packed.program.rings)
        assert working._past.ctypes.data == address
        assert np.count_nonzero(before != working._past) <= 4 * rings
    assert reordered > 5


@pytest.mark.parametrize("name", ["bytenet", "convs2s", "luong"])
def test_logits(name: str) -> None:
    """A step's logits are PyTorch's to 1e-5, along the text that is decoded."""
    of = model(name)
    source = b"some text"
    engine = NumbaEngine([packed(of)], Options(), 1)
    (handle,) = engine.admit([Request(source, 20)])
    src = torch.tensor([[*source, 0xFF]], dtype=torch.uint8)
    with torch.no_grad():
        memory = of.encode(src, torch.tensor([len(source) + 1]))
        state = of.start(memory)
        last = BOS
        for _ in range(12):
            expected, state = of(torch.tensor([[last]], dtype=torch.uint8), memory, state)
            engine.advance(1)
            actual = engine.state.logits[0, 0]
            assert np.abs(actual - expected.numpy()[0, 0]).max() < 1e-5
            if engine.state.state[0] != RUNNING:
                break
            last = engine.so_far(handle)[-1]


def test_int8_is_the_model_of_its_rounded_weights() -> None:
    """Every matrix of the step and the encoder rounded by rows, everything else as it was: what rounding the
    inputs, too, costs on the mean is a few hundredths in the log-probability of a byte."""
    of, rounded = model("bytenet-wide"), build(ALL["bytenet-wide"], 0, 0.1).float()
    with torch.no_grad():
        for name, parameter in rounded.named_parameters():
            if parameter.dim() > 1 and name != "embedding.weight":
                q, scales = quantise(parameter.flatten(1).numpy())
                parameter.copy_(torch.from_numpy(q * scales[:, None]).view_as(parameter))
    texts = [request.source or b"" for request in some_requests(8)]
    ours = CpuReader([packed(of, "int8")]).texts(texts, texts[::-1])
    theirs = TorchReader([rounded], torch.device("cpu")).texts(texts, texts[::-1])
    apart = np.concatenate([a.log_p - b.log_p for a, b in zip(ours, theirs, strict=True)])
    assert 0 < np.abs(apart).mean() < 5e-2 and np.abs(apart).max() < 0.3


@pytest.mark.parametrize("name", ["convs2s", "luong", "bahdanau"])
def test_coarse_inputs_are_near(name: str) -> None:
    """Inputs of 8 bits: log-probabilities of the same texts to a few hundredths on the mean; where weights
    are random one in a hundred is 0.3 away."""
    of, requests = model(name), some_requests(16)
    fine, coarse = (ours(of, requests, Options(), precision=one) for one in ("fp32", "int8"))
    pairs = [(a[0], b[0]) for a, b in zip(fine, coarse, strict=True) if a[0].text == b[0].text]
    assert len(pairs) >= 8  # random weights have many near-ties
    apart = [abs(a.log_probability - b.log_probability) for a, b in pairs]
    assert 0 < np.mean(apart) < 0.1 and max(apart) < 0.5


@pytest.mark.parametrize("options", [Options(), Options(beam=3), Options(sample=True)])
@pytest.mark.parametrize(
    ("name", "weight"),
    [
        ("seq2seq", "decoder.output.weight"),
        ("luong-local-p", "decoder.position.v"),
        ("luong-inside", "decoder.position.v"),
    ],
)
def test_a_model_that_has_diverged_is_told(options: Options, name: str, weight: str) -> None:
    of = model(name)
    with torch.no_grad():
        of.get_parameter(weight).view(-1)[2] = torch.nan
    with pytest.raises(BytenmtError, match="are NaN"):
        ours(of, some_requests(2), options)


@pytest.mark.slow
def test_every_output_is_utf_8_within_its_limit() -> None:
    """Random weights, temperature 2, every limit from 1 to 40."""
    of, options = packed(model("luong")), Options(sample=True, temperature=2.0)
    n_bytes = 0
    for limit in range(1, 41):
        requests = [Request(b"abc", limit, number=number) for number in range(20)]
        for hypotheses in run(NumbaEngine([of], options, 20), requests):
            text = hypotheses[0].text
            text.decode()
            assert len(text) <= limit and b"\n" not in text and b"\r" not in text
            n_bytes += len(text)
    assert n_bytes > 5_000


def test_what_is_sure_of_a_running_sentence() -> None:
    """The committed part of a running sentence only grows and is a prefix of the result."""
    engine = NumbaEngine([packed(make("convs2s").float())], Options(), 1)
    (handle,) = engine.admit([Request(b"abcdef", 30)])
    seen = []
    while not (done := engine.finished()):
        seen.append(engine.so_far(handle))
        engine.advance(1)
    text = done[0][1][0].text
    assert seen == [text[:n] for n in range(len(seen))] and len(seen) > 1


def test_places() -> None:
    engine = NumbaEngine([packed(model("seq2seq"))], Options(), 2)
    assert engine.room() == 2
    engine.admit(some_requests(1))
    assert engine.room() == 1
    with pytest.raises(ValueError, match="room for 1"):
        engine.admit(some_requests(2))


def test_who_is_dropped_gives_its_place_back() -> None:
    """A cancelled sentence gives no result; the other sentences of the batch and later ones are not
    affected.
    """
    of, requests = model("convs2s"), [Request(text, 20) for text in (b"ab c", b"c a", b"bb", b"a")]
    expected = run(NumbaEngine([packed(of)], Options(), 1), requests)
    engine = NumbaEngine([packed(of)], Options(), 3)
    one, two, three = engine.admit(requests[:3])
    engine.advance(2)
    engine.drop(two)
    assert engine.room() == 1
    (four,) = engine.admit(requests[3:])
    engine.advance(21)
    actual = dict(engine.finished())
    assert actual.keys() == {one, three, four} and engine.room() == 3
    assert [actual[one], actual[three], actual[four]] == [expected[0], *expected[2:]]


@pytest.mark.slow
def test_every_instruction_is_used() -> None:
    """The architectures together; an instruction that none needs would not be tested."""
    actual: set[int] = set()
    for name in ALL:
        both = packed(model(name)).program
        for program in (both.encode, both.step):
            actual |= set(program.instructions[:, Column.OP].tolist())
    assert actual == {int(op) for op in Op}


def test_sources_that_take_several_calls_of_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of growing size, prepared together: what the later ones need leaves the earlier ones whole."""
    monkeypatch.setattr("bytenmt.decoding.cpu.session.SCANNED_TOGETHER", 400)
    of, options = packed(model("bahdanau")), Options()
    # Longest first: 250 columns, then 390.
    requests = [Request(b"a" * n, 12) for n in (249, 194, 194)]
    expected = [run(NumbaEngine([of], options, 1), [request])[0] for request in requests]
    assert run(NumbaEngine([of], options, 3), requests) == expected
