"""The search held against what shares nothing with it: every text there is, and a search in plain
lists."""

import numpy as np
import pytest
from cpu_engines import run
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_up import (
    NO_SENTINELS,
    FakeDecoder,
    Sentinels,
    everything,
    fake_engine,
    few_bytes,
    float32,
    is_past_end,
    logits_to_log_p,
    naive_beam,
    naive_greedy,
    random_distribution,
)

from bytenmt.decoding.cpu.library import search_step
from bytenmt.decoding.interface import Request, SearchOptions
from bytenmt.decoding.scheduler import STOP_TEST_EVERY, decode
from bytenmt.decoding.search.state import SearchParams, SearchState
from bytenmt.sentinels import SENTINELS
from bytenmt.utf8 import EOS

A, B, C = SENTINELS[:1], SENTINELS[1:2], SENTINELS[2:3]


def request(rule: Sentinels, limit: int, prefix: bytes = b"", number: int = 0) -> Request:
    """A source that follows distribution `number`."""
    pairs = tuple((first - SENTINELS[0], second - SENTINELS[0]) for first, second in rule.pairs)
    return Request(b"%d" % number + rule.symbols, limit, prefix, number, pairs)


# ---- the properties


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_models", "length_penalty", "n_best", "prefix", "rule", "end", "n_texts"),
    [
        (1, 0.0, 1, b"", NO_SENTINELS, 0.0, 49),
        (1, 0.6, 5, b"a", NO_SENTINELS, 0.0, 20),
        (2, 1.0, 4, "é".encode(), NO_SENTINELS, 0.0, 8),
        (3, 2.0, 2, b"", NO_SENTINELS, 0.0, 49),
        (1, 1.0, 8, b"", Sentinels(A + B), -30.0, 68),
        (1, 1.0, 8, b"", Sentinels(A + B), 1.0, 68),
        (2, 0.6, 8, b"", Sentinels(A + B, ((A[0], B[0]),)), 1.0, 34),
        (1, 1.0, 8, b"", Sentinels(A + B + C, ((A[0], C[0]), (B[0], C[0]))), 1.0, 18),
    ],
)
def test_a_wide_beam_finds_the_best_of_all(
    n_models: int,
    length_penalty: float,
    n_best: int,
    prefix: bytes,
    rule: Sentinels,
    end: float,
    n_texts: int,
) -> None:
    """A beam with room for every text of a few bytes finds the n best of them, best first."""
    letters, limits = "abé".encode(), (4, 3)
    models = [
        [few_bytes(10 * k + i, letters + rule.symbols, end) for i in range(2)]
        for k in range(n_models)
    ]
    options = SearchOptions(beam=100, n_best=n_best, length_penalty=length_penalty)
    engine = fake_engine(*map(FakeDecoder, models), options=options, capacity=3)
    results = run(engine, [request(rule, limit, prefix, i) for i, limit in enumerate(limits)])
    for i, found in enumerate(results):

        def mean(text: bytes, i: int = i) -> np.ndarray:
            """The distribution of the ensemble."""
            return np.logaddexp.reduce([model[i](text) for model in models]) - np.log(n_models)

        texts = everything(mean, letters + rule.symbols, limits[i], prefix, rule)
        assert i or len(texts) == n_texts
        scores = {
            text: ranking / (len(text) + 1) ** length_penalty
            for text, (ranking, _) in texts.items()
        }
        best = sorted(scores, key=lambda text: -scores[text])[:n_best]
        assert [one.text for one in found] == best
        for one in found:
            assert one.score == pytest.approx(scores[one.text], abs=1e-5)
            assert one.log_probability == pytest.approx(texts[one.text][1], abs=1e-5)


@st.composite
def rules(draw: st.DrawFn) -> Sentinels:
    """Up to four of the eight sentinels in any order, and pairs that do not contradict others."""
    some = bytes(draw(st.lists(st.sampled_from(SENTINELS), max_size=4, unique=True)))
    if not some:
        return NO_SENTINELS
    pairs = draw(st.lists(st.tuples(st.sampled_from(some), st.sampled_from(some)), max_size=3))
    return Sentinels(some, tuple({(a, b) for a, b in pairs if some.index(a) < some.index(b)}))


LETTERS = "ab é한환👍👎".encode()
CONTROLS = bytes(range(0x20)) + b"\x7f\xc2\x80\x85\x9b\x9f\xa0"


@pytest.mark.slow
@settings(max_examples=150)
@given(
    seed=st.integers(0, 10_000),
    alphabet=st.sampled_from([b"", b"", LETTERS, CONTROLS]),
    rule=st.one_of(st.just(NO_SENTINELS), rules()),
    n=st.sampled_from([0, 0, 0, 1, 2, 3]),
    limit=st.integers(0, 16),
    beam=st.integers(1, 5),
    n_best=st.integers(1, 5),
    end=st.sampled_from([-30.0, 0.0, 5.0, 10.0, 14.0]),
    grain=st.sampled_from([0.0, 4.0]),
    prefix=st.sampled_from(["", "a", "é", "a한", "한한한", "abab"]),
    n_written=st.integers(0, 2),
    length_penalty=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
)
# A beam that eight bits do not hold.
@example(1, LETTERS, NO_SENTINELS, 0, 150, 2, 2, -30.0, 0.0, "", 0, 1.0)
def test_it_is_the_search_in_plain_lists(
    seed: int,
    alphabet: bytes,
    rule: Sentinels,
    n: int,
    limit: int,
    beam: int,
    n_best: int,
    end: float,
    grain: float,
    prefix: str,
    n_written: int,
    length_penalty: float,
) -> None:
    """Texts are the same in their order, with the model's own log-probabilities: where candidates
    are equal, where the limit has no room for more than the sentinels, where the prefix has some of
    them, where n characters would come again, and where the model would write control characters.
    Beam 1 takes the most likely byte and stops when that is EOS, even if another text has a higher
    score."""
    log_p = float32(random_distribution(seed, end=end, grain=grain))
    if n or alphabet:
        log_p = float32(few_bytes(seed, LETTERS if n else alphabet, min(end, -6.0), floor=-40.0))
        rule, limit = NO_SENTINELS, 2 * limit
    forced = prefix.encode() + rule.symbols[:n_written]
    n_best, limit = min(n_best, beam), max(limit, len(forced))
    options = SearchOptions(
        beam=beam, n_best=n_best, length_penalty=length_penalty, no_repeat_ngram_size=n
    )
    engine = fake_engine(FakeDecoder([log_p]), options=options)
    (found,) = run(engine, [request(rule, limit, forced)])
    most = max(limit, len(forced) + len(rule.symbols))
    if beam == 1:
        expected = [naive_greedy(log_p, most, forced, n, rule)]
    else:
        expected = naive_beam(log_p, most, beam, n_best, forced, n, length_penalty, rule)
    assert [one.text for one in found] == [text for text, _ in expected]
    for one, (text, total) in zip(found, expected, strict=True):
        assert one.log_probability == pytest.approx(total, abs=1e-4)
        assert one.is_past_end == is_past_end(log_p, rule, text, len(forced))


def test_a_finished_hypothesis_has_the_mark_of_its_own_beam() -> None:
    """Beam 1 takes beam 0's place in the step in which beam 0 ends, past the end that the model
    wished."""
    search = SearchState.allocate(1, 2, 0, 60, 0)
    params = SearchParams.from_options(SearchOptions(beam=2, n_best=2))
    search.fill_slot(0, Request(A + b"x", 40), None)
    for rows in (
        ({EOS: -1.2, ord("a"): -1.0, A[0]: -9.0}, {}),
        ({A[0]: -0.9, EOS: -5.0}, {ord("b"): -0.1, EOS: -5.0}),
        ({EOS: -0.7}, {ord("c"): -0.01, EOS: -6.0}),
    ):
        search.n_rows[0], search.row_slot[:2], search.log_p[:] = 2, 0, -50.0
        for row, of_bytes in enumerate(rows):
            search.log_p[row, list(of_bytes)] = list(of_bytes.values())
        search_step(search, params)
    assert search.n_finished[0] == 1
    assert search.finished_past_end[0, 0] and not search.past_end[0, 0]


@pytest.mark.slow
def test_blocking_never_empties_the_choice() -> None:
    """Two bytes begin 64 characters each: when all are used up, inside the next one the ban is
    dropped."""
    full = random_distribution(3, end=-200.0)

    def log_p(prefix: bytes) -> np.ndarray:
        logits = full(prefix).copy()
        logits[0xC3] += 100.0
        return logits_to_log_p(logits)

    rounded, options = float32(log_p), SearchOptions(no_repeat_ngram_size=1)
    engine = fake_engine(FakeDecoder([rounded]), options=options)
    ((found,),) = run(engine, [request(NO_SENTINELS, 140)])
    text, total = naive_greedy(rounded, 140, n=1)
    assert found.text == text and found.log_probability == pytest.approx(total, abs=1e-9)
    characters = text.decode()
    assert len(set(characters[:64])) == 64 and len(set(characters)) < len(characters)


# ---- the loop


def test_beam_search_does_not_wait_for_an_unlikely_text_of_endless_likely_bytes() -> None:
    """The search goes on for about twice the bytes of the best text."""

    def log_p(prefix: bytes) -> np.ndarray:
        p = np.full(256, 1e-6)
        if prefix == b"":
            p[ord("b")], p[ord("c")], p[ord("a")] = 0.6, 0.39, 0.01
        else:
            p[ord("a") if prefix[:1] == b"a" or len(prefix) < 5 else EOS] = 0.999
        return np.log(p / p.sum())

    decoder = FakeDecoder([log_p])
    ((best,),) = run(fake_engine(decoder, options=SearchOptions(beam=3)), [Request(b"0", 300)])
    assert best.text == b"baaaa" and len(decoder.rows) <= 5 * STOP_TEST_EVERY


@pytest.mark.slow
@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(beam=2)])
def test_a_long_sentence_does_not_hold_up_short_ones(options: SearchOptions) -> None:
    """Waiting sentences take the places of those that are done, while a long one goes on; what it
    and they yield is what each yields alone; done rows leave the batch."""
    never, soon = random_distribution(1, end=-1000.0), random_distribution(2, end=8.0)
    decoder = FakeDecoder([never if i == 1 else soon for i in range(30)])
    requests = [Request(str(i).encode(), 300 if i == 1 else 30) for i in range(30)]
    found = dict(decode(fake_engine(decoder, options=options, capacity=4), requests))
    assert [*found][-1] == 1 and sorted(found) == list(range(30))
    assert max(decoder.rows) == 4 * options.beam and min(decoder.rows) == options.beam
    assert len(decoder.rows) < 320, "the short ones have waited for the long one"
    for i in (0, 1, 29):
        assert found[i] == run(fake_engine(decoder, options=options), [requests[i]])[0]
