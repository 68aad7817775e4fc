"""Sampling and n-gram blocking: against the same written with NumPy integers and plain lists."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from compiled_calls import from_python
from cpu_engines import run
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_up import (
    NO_SENTINELS,
    Distribution,
    FakeDecoder,
    Sentinels,
    few_bytes,
    float32,
    is_past_end,
    random_distribution,
    repeats,
)
from python_engine import as_python
from reference_draw import naive_draw, naive_text, naive_uniform, splitmix

from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.search.ngram_blocking import block_ngrams
from bytenmt.decoding.search.sampling import draw_byte, uniform
from bytenmt.decoding.search.state import SearchParams
from bytenmt.sentinels import SENTINELS
from bytenmt.splitmix import draw_key, mixed
from bytenmt.utf8 import ACCEPT, UTF8_NEXT

CPU = torch.device("cpu")
draw_compiled = from_python(draw_byte)
draw_uniform = as_python(uniform)


def uniform_of(key: int, step: int) -> float:
    with np.errstate(over="ignore"):  # of uint64
        return float(draw_uniform(np.uint64(key % 2**64), step))


# ---- the hash


@given(
    seed=st.integers(0, 2**64 - 1),
    number=st.integers(0, 2**40),
    text=st.integers(0, 100),
    step=st.integers(0, 100_000),
)
def test_uniform_numbers_are_splitmix64s(seed: int, number: int, text: int, step: int) -> None:
    found = uniform_of(draw_key(seed, number, text), step)
    assert found == naive_uniform(seed, number, text, step)


def test_splitmix64_as_published() -> None:
    """The first numbers from seed 0, as its authors' C code prints them, of our generator and of the
    reference, to which the plan of an epoch is held as well."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    reference = splitmix(0)
    for k, number in enumerate(published):
        state = (k * 0x9E3779B97F4A7C15) % 2**64
        assert mixed(state) == reference() == number
        assert uniform_of(state, 0) == (number >> 40) / 2**24


# ---- one draw

SHAPES = [
    Options(sample=True),
    Options(sample=True, temperature=0.3),
    Options(sample=True, temperature=2.0, top_k=7),
    Options(sample=True, top_p=0.6),
    Options(sample=True, temperature=1.7, top_k=20, top_p=0.8),
    Options(sample=True, top_k=1),
    Options(sample=True, top_p=1e-9),
]


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), options=st.sampled_from(SHAPES), step=st.integers(0, 50))
def test_a_draw_is_the_naive_one(seed: int, options: Options, step: int) -> None:
    """The first byte, in their order, at which the running sum exceeds its share of the total."""
    log_p = random_distribution(seed, peak=2.0, grain=0.5)(b"")
    params = SearchParams.from_options(options)
    for text in range(5):
        u = naive_uniform(seed, 3, text, step)
        assert draw_compiled(log_p, log_p > -np.inf, params, u) == naive_draw(log_p, u, options)


@pytest.mark.slow
@pytest.mark.parametrize(("u", "drawn"), [(0.0, 40), (1 - 2**-24, 42)])
def test_the_ends_of_the_range_draw_what_may_come(u: float, drawn: int) -> None:
    """Never a byte without probability, at the lowest number nor at the highest."""
    log_p = np.full(256, -np.inf)
    log_p[40:43] = 0.0
    params = SearchParams.from_options(Options(sample=True))
    assert draw_compiled(log_p, log_p > -np.inf, params, u) == drawn


@pytest.mark.parametrize(("top_k", "top_p", "n"), [(5, 1.0, 5), (0, 0.5, 128), (10, 0.21, 3)])
def test_equal_bytes_are_kept_in_their_order(top_k: int, top_p: float, n: int) -> None:
    """Among equal probabilities the lower byte is kept; top_p keeps as few bytes as reach it."""
    params = SearchParams.from_options(Options(sample=True, top_k=top_k, top_p=top_p))
    flat, allowed = np.zeros(256), np.ones(256, np.bool_)
    drawn = {draw_compiled(flat, allowed, params, share) for share in np.arange(0, 1, 1 / 512)}
    assert drawn == set(range(n))


# ---- whole texts


def sampled(
    distributions: list[Distribution], requests: list[Request], options: Options, capacity: int = 100
) -> list[list[Hypothesis]]:
    engine = TorchEngine([FakeDecoder(distributions)], options, capacity, CPU)
    return run(engine, requests)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    seed=st.integers(0, 1000),
    beam=st.integers(1, 3),
    shape=st.sampled_from(SHAPES[:5]),
    prefix=st.sampled_from([b"", "한a".encode()]),
    more=st.sampled_from([0, 2, SENTINELS[:1], SENTINELS[1:4]]),
)
@example(0, 1, SHAPES[0], "한a".encode(), SENTINELS[:1])
def test_sampled_texts_are_the_naive_ones(
    seed: int, beam: int, shape: Options, prefix: bytes, more: int | bytes
) -> None:
    """Byte for byte and score for score, each text by its own draws; sorted by score.

    more: characters that do not repeat, or sentinels, of which the likeliest pending one is drawn with EOS's
    probability where that is higher.
    """
    rule, n = (Sentinels(more), 0) if isinstance(more, bytes) else (NO_SENTINELS, more)
    options = replace(shape, beam=beam, n_best=beam, seed=seed, no_repeat_ngram_size=n)
    letters = few_bytes(seed, "ab é한환".encode() + rule.bytes, end=-2.0, floor=-30.0)
    distributions = [float32(one) for one in (random_distribution(seed, peak=2.0, end=4.0), letters)]
    requests = [Request(b"%d" % i + rule.bytes, 14, prefix, number=7 + i) for i in range(2)]
    for i, hypotheses in enumerate(sampled(distributions, requests, options)):
        expected = [naive_text(distributions[i], requests[i], text, options, rule) for text in range(beam)]
        expected.sort(key=lambda pair: -pair[1] / (len(pair[0]) + 1))
        assert [h.text for h in hypotheses] == [text for text, _ in expected]
        for h, (text, total) in zip(hypotheses, expected, strict=True):
            assert h.log_probability == pytest.approx(total, abs=1e-5)
            assert h.score == pytest.approx(total / (len(text) + 1), abs=1e-5)
            assert h.is_past_end == is_past_end(distributions[i], rule, text, len(prefix))


@pytest.mark.slow
def test_a_sample_depends_on_its_number_and_seed_alone() -> None:
    """Not on batch mates, places, or the order of requests; and on both of them it does depend."""
    distribution = random_distribution(4, peak=2.0, end=3.0)
    requests = [Request(b"0", 20, number=i) for i in range(12)]
    options = Options(beam=2, n_best=2, sample=True, seed=1)
    found = sampled([distribution], requests, options)
    assert len({h.text for hypotheses in found for h in hypotheses}) == 24
    assert found == sampled([distribution], requests, options, capacity=3)
    assert found == sampled([distribution], requests[::-1], options, capacity=5)[::-1]
    assert found[4] == sampled([distribution], [requests[4]], options)[0]
    wide = sampled([distribution], requests, replace(options, beam=5, n_best=5))
    assert set(found[4]) <= set(wide[4])
    other = sampled([distribution], requests, replace(options, seed=2))
    assert not {h.text for some in other for h in some} & {h.text for some in found for h in some}


# ---- n-gram blocking


@pytest.mark.slow
@settings(max_examples=100)
@given(text=st.text(st.sampled_from("ab é한환👍👎"), max_size=25), n=st.integers(1, 5), cut=st.integers(0, 3))
def test_blocked_bytes_are_those_that_repeat(text: str, n: int, cut: int) -> None:
    data = text.encode()
    data = data[: max(0, len(data) - cut)]
    state = ACCEPT
    for byte in data:
        state = int(UTF8_NEXT[state, byte])
    params = SearchParams.from_options(Options(no_repeat_ngram_size=n))
    expected = np.array([repeats(data, byte, n) for byte in range(256)])
    allowed = np.ones(256, np.bool_)
    as_python(block_ngrams)(np.frombuffer(data, np.uint8), params, state, allowed)
    assert (allowed == ~expected).all()
