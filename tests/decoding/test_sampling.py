"""Sampling and n-gram blocking: against the same written with NumPy integers and plain lists."""

from dataclasses import replace

import numpy as np
import pytest
from cpu_engines import from_python, run
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_up import (
    NO_SENTINELS,
    FakeDecoder,
    Sentinels,
    fake_engine,
    few_bytes,
    float32,
    is_past_end,
    random_distribution,
    repeats,
)
from reference_draw import naive_draw, naive_text, splitmix

from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.decoding.search.ngram_blocking import block_ngrams
from bytenmt.decoding.search.sampling import draw_byte, uniform
from bytenmt.decoding.search.state import SearchParams, Workspace
from bytenmt.sentinels import SENTINELS
from bytenmt.splitmix import mixed
from bytenmt.utf8 import ACCEPT, UTF8_NEXT

draw_compiled, block_compiled = from_python(draw_byte), from_python(block_ngrams)
uniform_compiled = from_python(uniform)


def test_splitmix64_as_published() -> None:
    """The first numbers from seed 0, as its authors' C code prints them, of our generator and of
    the reference, to which the plan of an epoch is held as well."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    reference = splitmix(0)
    for k, number in enumerate(published):
        state = (k * 0x9E3779B97F4A7C15) % 2**64
        assert mixed(state) == reference() == number
        assert uniform_compiled(np.uint64(state), 0) == (number >> 40) / 2**24


# ---- one draw

SHAPES = [
    SearchOptions(sample=True),
    SearchOptions(sample=True, temperature=0.3),
    SearchOptions(sample=True, temperature=2.0, top_k=7),
    SearchOptions(sample=True, top_p=0.6),
    SearchOptions(sample=True, temperature=1.7, top_k=20, top_p=0.8),
    SearchOptions(sample=True, top_k=1),
    SearchOptions(sample=True, top_p=1e-9),
]


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), options=st.sampled_from(SHAPES), n_allowed=st.integers(1, 256))
def test_a_draw_is_the_naive_one(seed: int, options: SearchOptions, n_allowed: int) -> None:
    """The first byte, in their order, at which the running sum exceeds its share of the total; of
    equal bytes the lower ones are kept, and at both ends of the range none that is not allowed is
    drawn."""
    log_p, draw = random_distribution(seed, peak=2.0, grain=0.5)(b""), np.random.default_rng(seed)
    log_p[draw.permutation(256)[n_allowed:]] = -np.inf
    params, work = SearchParams.from_options(options), Workspace.allocate(1, 0)
    for u in (0.0, *draw.random(5), 1 - 2**-24):
        work.allowed[:] = log_p > -np.inf
        assert draw_compiled(log_p, work, params, u) == naive_draw(log_p, u, options)


# ---- whole texts


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
    seed: int, beam: int, shape: SearchOptions, prefix: bytes, more: int | bytes
) -> None:
    """Byte for byte and score for score, each text by its own draws, whatever stands beside it;
    sorted by score. more: characters that do not repeat, or sentinels, of which the likeliest
    pending one is drawn with EOS's probability where that is higher."""
    rule, n = (Sentinels(more), 0) if isinstance(more, bytes) else (NO_SENTINELS, more)
    options = replace(shape, beam=beam, n_best=beam, seed=seed << 53, no_repeat_ngram_size=n)
    letters = few_bytes(seed, "ab é한환".encode() + rule.symbols, end=-2.0, floor=-30.0)
    distributions = [
        float32(one) for one in (random_distribution(seed, peak=2.0, end=4.0), letters)
    ]
    requests = [Request(b"%d" % (i % 2) + rule.symbols, 14, prefix, number=9 - i) for i in range(3)]
    results = run(fake_engine(FakeDecoder(distributions), options=options, capacity=2), requests)
    for i, hypotheses in enumerate(results):
        log_p = distributions[i % 2]
        expected = [naive_text(log_p, requests[i], text, options, rule) for text in range(beam)]
        expected.sort(key=lambda pair: -pair[1] / (len(pair[0]) + 1))
        assert [h.text for h in hypotheses] == [text for text, _ in expected]
        for h, (text, total) in zip(hypotheses, expected, strict=True):
            assert h.log_probability == pytest.approx(total, abs=1e-5)
            assert h.score == pytest.approx(total / (len(text) + 1), abs=1e-5)
            assert h.is_past_end == is_past_end(log_p, rule, text, len(prefix))


# ---- n-gram blocking


@pytest.mark.slow
@settings(max_examples=100)
@given(
    text=st.text(st.sampled_from("ab é한환👍👎"), max_size=25),
    n=st.integers(1, 5),
    cut=st.integers(0, 3),
)
def test_blocked_bytes_are_those_that_repeat(text: str, n: int, cut: int) -> None:
    data = text.encode()
    data = data[: max(0, len(data) - cut)]
    state = ACCEPT
    for byte in data:
        state = int(UTF8_NEXT[state, byte])
    params = SearchParams.from_options(SearchOptions(no_repeat_ngram_size=n))
    expected = np.array([repeats(data, byte, n) for byte in range(256)])
    allowed = np.ones(256, np.bool_)
    block_compiled(np.frombuffer(data, np.uint8), params, state, allowed, np.empty(256, np.bool_))
    assert (allowed == ~expected).all()
