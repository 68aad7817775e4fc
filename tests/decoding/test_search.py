"""The search held against what shares nothing with it: every text there is, a search in plain lists, and what
must be true of any result; compiled, and as the Python that it was compiled from. Then faults are planted, to
see each caught.
"""

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from cpu_engines import run
from fast_variants import rotated
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import (
    NO_SENTINELS,
    Distribution,
    FakeDecoder,
    Sentinels,
    everything,
    few_bytes,
    float32,
    is_past_end,
    logits_to_log_p,
    missing,
    naive_beam,
    naive_greedy,
    peaked_distribution,
    random_distribution,
)
from python_engine import as_python, python_search

from bytenmt.decoding.interface import Engine, Hypothesis, Options, Request
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import STOP_TEST_EVERY, decode
from bytenmt.decoding.search import beam_search
from bytenmt.decoding.search.state import SearchState
from bytenmt.errors import BytenmtError
from bytenmt.sentinels import SENTINELS
from bytenmt.utf8 import EOS

Models = Sequence[Sequence[Distribution]]  # of each model one distribution a sentence
Make = Callable[[Models, Options], Engine]
CPU = torch.device("cpu")
A, B = SENTINELS[:1], SENTINELS[1:2]


def compiled(models: Models, options: Options) -> TorchEngine:
    return TorchEngine([FakeDecoder(list(model)) for model in models], options, 3, CPU)


def uncompiled(models: Models, options: Options) -> Engine:
    engine = compiled(models, options)
    engine.run_search = python_search()
    return engine


FORMS: dict[str, Make] = {"compiled": compiled, "python": uncompiled}
each_form = pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)


def search(
    make: Make, models: Models, limits: Sequence[int], options: Options, prefix: bytes = b""
) -> list[list[Hypothesis]]:
    """Sentence i follows distribution i of each model."""
    requests = [Request(str(i).encode(), limit, prefix, number=i) for i, limit in enumerate(limits)]
    return run(make(models, options), requests)


def mean_of(models: Models, sentence: int) -> Distribution:
    """Return the distribution of an ensemble for a sentence."""
    voices = [model[sentence] for model in models]
    return lambda prefix: (
        np.logaddexp.reduce([log_p(prefix) for log_p in voices], axis=0) - np.log(len(voices))
    )


# ---- the properties


LETTERS = "abé".encode()


def check_exhaustive(
    make: Make, n_models: int, length_penalty: float, n_best: int, prefix: bytes, seed: int = 0
) -> None:
    """A beam with room for every prefix finds the n best of all texts there are, best first."""
    models = [[few_bytes(100 * seed + 10 * k + i, LETTERS) for i in range(2)] for k in range(n_models)]
    options = Options(beam=60, n_best=n_best, length_penalty=length_penalty)
    for i, found in enumerate(search(make, models, [4, 3], options, prefix)):
        log_p = mean_of(models, i)
        all_texts = everything(log_p, LETTERS, limit=(4, 3)[i])
        texts = {text: total for text, total in all_texts.items() if text.startswith(prefix)}
        expected = sorted(texts, key=lambda text: -texts[text] / (len(text) + 1) ** length_penalty)[:n_best]
        assert [h.text for h in found] == expected, "not the best of all texts"
        for h in found:
            assert h.log_probability == pytest.approx(texts[h.text], abs=1e-5)
            assert h.score == pytest.approx(texts[h.text] / (len(h.text) + 1) ** length_penalty, abs=1e-5)


def check_never_below_greedy(make: Make, beam: int, length_penalty: float, n_best: int) -> None:
    """On confident models whose every step offers an early EOS among the best few."""
    answers = ["a longer answer, 한글".encode(), b"short", b"twenty-three characters"]
    distributions = [peaked_distribution(beam + i, answer) for i, answer in enumerate(answers)]
    options = Options(beam=beam, n_best=min(n_best, beam), length_penalty=length_penalty)
    for log_p, found in zip(distributions, search(make, [distributions], [60] * 3, options), strict=True):
        text, total = naive_greedy(log_p, 60)
        assert found[0].score >= total / (len(text) + 1) ** length_penalty - 1e-5, "below greedy"
        assert found[0].text in answers


def check_sound(
    make: Make, beam: int, limits: tuple[int, ...] = (9, 5, 12), end: float = 4.0, seed: int = 0
) -> None:
    """All hypotheses are there, distinct, sorted, valid lines within their limit, and each score is that of
    its own text."""
    distributions = [float32(random_distribution(seed + i, end=end)) for i in range(len(limits))]
    options = Options(beam=beam, n_best=beam)
    results = search(make, [distributions], limits, options)
    for log_p, limit, found in zip(distributions, limits, results, strict=True):
        assert len({h.text for h in found}) == len(found), "not distinct"
        assert len(found) == beam or limit == 0, "not all"
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True), "not sorted"
        for h in found:
            assert (
                len(h.text) <= limit and not set(h.text) & set(b"\r\n") and isinstance(h.text.decode(), str)
            )
            total = sum(log_p(h.text[:i])[byte] for i, byte in enumerate([*h.text, EOS]))
            assert h.log_probability == pytest.approx(total, abs=1e-4), "a score of another text"
            assert h.score == pytest.approx(total / (len(h.text) + 1), abs=1e-5), "another ranking"


CASES = [(1, 0.0, 1, b""), (1, 0.6, 5, b"a"), (1, 1.0, 3, b""), (2, 1.0, 4, "é".encode()), (3, 2.0, 2, b"")]


@pytest.mark.slow
@each_form
@pytest.mark.parametrize(
    ("n_models", "length_penalty", "n_best", "prefix", "seed"),
    [(*case, seed) for case, seed in rotated(CASES, range(3), 1)],
)
def test_a_wide_beam_finds_the_best_of_all(
    make: Make, n_models: int, length_penalty: float, n_best: int, prefix: bytes, seed: int
) -> None:
    check_exhaustive(make, n_models, length_penalty, n_best, prefix, seed)


@pytest.mark.slow
@each_form
@pytest.mark.parametrize(
    ("beam", "how"), rotated([2, 3, 5, 12], [(0.6, 1), (1.0, 1), (1.4, 3), (0.6, 3), (1.0, 3), (1.4, 1)], 2)
)
def test_no_beam_is_below_greedy_on_a_confident_model(make: Make, beam: int, how: tuple[float, int]) -> None:
    length_penalty, n_best = how
    check_never_below_greedy(make, beam, length_penalty, n_best)


@each_form
@pytest.mark.parametrize(
    ("beam", "limits", "end"),
    [
        (2, (9, 5, 12), 4.0),
        (4, (9, 5, 12), 4.0),
        (7, (9, 0, 12), -30.0),
        (2, (255, 3, 256), -30.0),  # numbers that eight bits do not hold
        (1, (300,), -1000.0),
    ],
)
def test_hypotheses_are_sound(make: Make, beam: int, limits: tuple[int, ...], end: float) -> None:
    check_sound(make, beam, limits, end)


@st.composite
def rules(draw: st.DrawFn) -> Sentinels:
    """Up to four of the eight sentinels in any order, and pairs that do not contradict each other."""
    some = bytes(draw(st.lists(st.sampled_from(SENTINELS), max_size=4, unique=True)))
    pairs = (
        draw(st.lists(st.tuples(st.sampled_from(some), st.sampled_from(some)), max_size=3)) if some else []
    )
    return Sentinels(some, tuple({(a, b) for a, b in pairs if some.index(a) < some.index(b)}))


def request(rule: Sentinels, limit: int, prefix: bytes = b"", number: int = 0) -> Request:
    pairs = tuple((first - SENTINELS[0], second - SENTINELS[0]) for first, second in rule.pairs)
    return Request(b"0" + rule.bytes, limit, prefix, number, pairs)


@pytest.mark.slow
@each_form
@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    rule=st.one_of(st.just(NO_SENTINELS), rules()),
    limit=st.integers(0, 12),
    beam=st.integers(1, 5),
    n_best=st.integers(1, 5),
    end=st.sampled_from([-30.0, 0.0, 5.0, 10.0, 14.0]),
    grain=st.sampled_from([0.0, 4.0]),
    prefix=st.sampled_from(["", "a", "é", "a한"]),
    n_written=st.integers(0, 2),
    length_penalty=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
)
def test_it_is_the_search_in_plain_lists(
    make: Make,
    seed: int,
    rule: Sentinels,
    limit: int,
    beam: int,
    n_best: int,
    end: float,
    grain: float,
    prefix: str,
    n_written: int,
    length_penalty: float,
) -> None:
    """Texts are the same in their order, with the model's own log-probabilities: where candidates are equal,
    where the limit has no room for more than the sentinels, and where the prefix has some of them. Beam 1
    takes the most likely byte and stops when that is EOS, even if another text has a higher score."""
    log_p = float32(random_distribution(seed, end=end, grain=grain))
    forced = prefix.encode() + rule.bytes[:n_written]
    n_best, limit = min(n_best, beam), max(limit, len(forced))
    options = Options(beam=beam, n_best=n_best, length_penalty=length_penalty)
    (found,) = run(make([[log_p]], options), [request(rule, limit, forced)])
    most = max(limit, len(forced) + len(rule.bytes))
    if beam == 1:
        expected = [naive_greedy(log_p, most, forced, rule=rule)]
    else:
        expected = naive_beam(log_p, most, beam, n_best, forced, length_penalty=length_penalty, rule=rule)
    assert [one.text for one in found] == [text for text, _ in expected]
    for one, (text, total) in zip(found, expected, strict=True):
        assert one.log_probability == pytest.approx(total, abs=1e-5)
        assert one.is_past_end == is_past_end(log_p, rule, text, len(forced))


@pytest.mark.slow
@each_form
@settings(max_examples=12)
@given(
    seed=st.integers(0, 10_000),
    limit=st.integers(10, 30),
    beam=st.integers(1, 3),
    n=st.integers(1, 4),
    prefix=st.sampled_from([b"", "한한한".encode(), b"abab"]),
)
def test_no_n_characters_come_twice(
    make: Make, seed: int, limit: int, beam: int, n: int, prefix: bytes
) -> None:
    log_p = float32(few_bytes(seed, "ab é한환👍👎".encode(), end=-6.0, floor=-40.0))
    ((found,),) = search(make, [[log_p]], [limit], Options(beam=beam, no_repeat_ngram_size=n), prefix)
    expected = [naive_greedy(log_p, limit, prefix, n)]
    if beam > 1:
        expected = naive_beam(log_p, limit, beam, 1, prefix, n)
    assert found.text == expected[0][0]
    assert found.log_probability == pytest.approx(expected[0][1], abs=1e-4)


@pytest.mark.slow
def test_blocking_never_empties_the_choice() -> None:
    """Two bytes begin 64 characters each: when all are used up, inside the next one the ban is dropped."""
    full = random_distribution(3, end=-200.0)

    def log_p(prefix: bytes) -> np.ndarray:
        logits = full(prefix).copy()
        logits[0xC3] += 100.0
        return logits_to_log_p(logits)

    rounded = float32(log_p)
    ((found,),) = search(uncompiled, [[rounded]], [140], Options(no_repeat_ngram_size=1))
    text, total = naive_greedy(rounded, 140, n=1)
    assert found.text == text and found.log_probability == pytest.approx(total, abs=1e-9)
    characters = text.decode()
    assert len(set(characters[:64])) == 64 and len(set(characters)) < len(characters)


@pytest.mark.parametrize("alphabet", [bytes(range(0x20)) + b"\x7f", b"\xc2\x80\x85\x9b\x9f\xa0"])
@pytest.mark.parametrize(
    "options", [Options(), Options(beam=3, n_best=3), Options(sample=True), Options(no_repeat_ngram_size=1)]
)
def test_no_control_character_but_tab_comes_out(options: Options, alphabet: bytes) -> None:
    """From a distribution that would write nothing else."""
    log_p, limits = few_bytes(1, alphabet, end=-2.0, floor=-12.0), (0, 1, 2, 3, 9, 40)
    texts = [h.text.decode() for found in search(uncompiled, [[log_p] * 6], limits, options) for h in found]
    controls = {c for text in texts for c in text if unicodedata.category(c) == "Cc"}
    assert controls <= {"\t"} and any(texts)
    assert any("\xa0" in text for text in texts) == (alphabet[0] == 0xC2)  # the first after them


# ---- sentinels


@pytest.mark.slow
@each_form
@pytest.mark.parametrize("pairs", [(), ((A[0], B[0]),)])
@pytest.mark.parametrize("end", [-30.0, 1.0])
def test_a_wide_beam_finds_the_best_with_sentinels(
    make: Make, pairs: tuple[tuple[int, int], ...], end: float
) -> None:
    """Compare with all texts of four bytes that have both sentinels, ranked by their log-probability, with
    that of EOS in the place of the likeliest pending sentinel's where it is higher."""
    rule, letters, limit = Sentinels(A + B, pairs), "aé".encode(), 4
    log_p = float32(few_bytes(3, letters + rule.bytes, end=end))
    rankings = cache(lambda text: rule.rankings(text, log_p(text), limit))
    scores = {}
    for length in range(2, limit + 1):
        for text in map(bytes, product(letters + rule.bytes, repeat=length)):
            plain = bytes(byte for byte in text if byte in letters)
            steps = [(rankings(text[:k]), byte) for k, byte in enumerate([*text, EOS])]
            if missing(plain) == 0 and all(byte in ranked for ranked, byte in steps):
                scores[text] = sum(ranked[byte] for ranked, byte in steps) / (length + 1)
    assert len(scores) > 8 and all(text.count(A) == text.count(B) == 1 for text in scores)
    (found,) = run(make([[log_p]], Options(beam=100, n_best=8)), [request(rule, limit)])
    best = sorted(scores, key=lambda text: -scores[text])[:8]
    assert [one.text for one in found] == best
    assert [one.score for one in found] == pytest.approx([scores[text] for text in best], abs=1e-5)


def sure_of(answer: bytes) -> Distribution:
    """A model that goes on with its answer also after a sentinel that is not in it."""

    def log_p(prefix: bytes) -> np.ndarray:
        rest, written = np.full(256, 1e-6), bytes(b for b in prefix if b in answer or b not in SENTINELS)
        if answer.startswith(written):
            rest[[*answer, EOS][len(written)]] += 1
        return np.log(rest / rest.sum())

    return log_p


@each_form
@pytest.mark.parametrize("beam", [1, 4])
def test_sentinels_stand_where_the_model_wants_them(make: Make, beam: int) -> None:
    """One that the model writes itself is not flagged; one that it leaves out comes at the end, flagged."""
    rule, options = Sentinels(A + B), Options(beam=beam)
    for answer, expected, is_flagged in (
        (b"so " + B + b", " + A + "é".encode(), None, False),
        (b"so", b"so" + A + B, True),
        (b"so " + B + b"!", b"so " + B + b"!" + A, True),
    ):
        ((best,),) = run(make([[sure_of(answer)]], options), [request(rule, 30)])
        assert (best.text, best.is_past_end) == (expected or answer, is_flagged)
        assert best.score > best.log_probability / (len(best.text) + 1) or not is_flagged
    # A closing one is not written before its opening one, whatever the model says.
    pair = rule._replace(pairs=((A[0], B[0]),))
    ((best,),) = run(make([[sure_of(B + b"x" + A)]], options), [request(pair, 30)])
    assert best.text.index(A) < best.text.index(B)


# ---- the loop


def test_the_loop_stops_early() -> None:
    decoder = FakeDecoder([random_distribution(seed, end=20.0) for seed in range(3)])
    requests = [Request(str(i).encode(), limit) for i, limit in enumerate((300, 200, 100))]
    run(TorchEngine([decoder], Options(beam=2), 3, CPU), requests)
    assert len(decoder.rows) <= 2 * STOP_TEST_EVERY


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
    ((best,),) = run(TorchEngine([decoder], Options(beam=3), 1, CPU), [Request(b"0", 300)])
    assert best.text == b"baaaa" and len(decoder.rows) <= 5 * STOP_TEST_EVERY


@pytest.mark.parametrize("bad", [[True], [False, True, False]])
@pytest.mark.parametrize("options", [Options(), Options(beam=2), Options(beam=2, sample=True)])
def test_not_a_number_is_one_clear_error(options: Options, bad: list[bool]) -> None:
    def log_p(prefix: bytes) -> np.ndarray:
        return np.full(256, np.nan)

    distributions = [log_p if nan else random_distribution(1, end=9.0) for nan in bad]
    with pytest.raises(BytenmtError, match="diverged"):
        search(uncompiled, [distributions], [4] * len(bad), options)


@pytest.mark.slow
@pytest.mark.parametrize("options", [Options(), Options(beam=2)])
def test_a_long_sentence_does_not_hold_up_short_ones(options: Options) -> None:
    """Waiting sentences take the places of those that are done, while a long one goes on; what it and they
    yield is what each yields alone; done rows leave the batch."""
    never, soon = random_distribution(1, end=-1000.0), random_distribution(2, end=8.0)
    decoder = FakeDecoder([never if i == 1 else soon for i in range(30)])
    requests = [Request(str(i).encode(), 300 if i == 1 else 30) for i in range(30)]
    found = dict(decode(TorchEngine([decoder], options, 4, CPU), requests))
    assert [*found][-1] == 1 and sorted(found) == list(range(30))
    assert max(decoder.rows) == 4 * options.beam and min(decoder.rows) == options.beam
    assert len(decoder.rows) < 320, "the short ones have waited for the long one"
    for i in (0, 1, 29):
        assert found[i] == run(TorchEngine([decoder], options, 1, CPU), [requests[i]])[0]


# ---- planted faults


def too_early(right: Any) -> Any:
    """Stop when as many have ended as there are beams: a confident model's early ends fill the list before
    the answer ends."""
    return lambda search, params, slot, best: (
        search.n_finished[slot] >= params.beam or right(search, params, slot, best)
    )


def without_length_penalty(right: Any) -> Any:
    """Rank hypotheses by their log-probability alone."""
    return lambda search, params, *rest: right(search, params._replace(length_penalty=0.0), *rest)


def of_its_rank(right: Any) -> Any:
    """A hypothesis remembers its rank, not the beam from which it came."""
    return lambda search, params, slot, ranking, total, beam: right(
        search, params, slot, ranking, total, int(search.n_finished[slot]) % params.beam
    )


def all_alive(right: Any) -> Any:
    """Beams that all begin alive are equal: every hypothesis stands there once for each beam."""

    def fill_slot(self: SearchState, slot: int, *rest: Any, **named: Any) -> None:
        right(self, slot, *rest, **named)
        self.score[slot] = 0.0

    return fill_slot


@pytest.mark.parametrize(
    ("owner", "name", "fault", "check", "arguments"),
    [
        (beam_search, "is_search_over", too_early, check_never_below_greedy, (3, 1.0, 1)),
        (beam_search, "finish_hypothesis", without_length_penalty, check_exhaustive, (1, 2.0, 3, b"")),
        (beam_search, "finish_hypothesis", of_its_rank, check_sound, (4,)),
        (SearchState, "fill_slot", all_alive, check_sound, (4,)),
    ],
)
def test_faults_are_caught(
    owner: Any,
    name: str,
    fault: Callable[[Any], Any],
    check: Callable[..., None],
    arguments: tuple[Any, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A property of the uncompiled search fails, for a reason of its own."""
    monkeypatch.setattr(owner, name, fault(as_python(getattr(owner, name))))
    with pytest.raises(AssertionError):
        check(uncompiled, *arguments)
