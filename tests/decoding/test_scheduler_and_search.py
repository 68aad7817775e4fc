"""The decode loop and the search: with the five models, and with made-up distributions of known outcome."""

from __future__ import annotations

import invariants
import numpy as np
import pytest
import torch
from fast_variants import by_variant
from hypothesis import given
from hypothesis import strategies as st
from invariants import VARIANTS, WITH_SOURCE, AnyModel, make
from made_up import (
    Distribution,
    FakeDecoder,
    few_bytes,
    naive_beam,
    naive_greedy,
    normalised,
    random_distribution,
)
from rotation import rotated

from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import STOP_TEST_EVERY, decode
from bytenmt.errors import BytenmtError
from bytenmt.utf8 import EOS

CPU = torch.device("cpu")


def some_options(beam: int, length_penalty: float = 1.0) -> Options:
    """A search that yields all its hypotheses."""
    return Options(beam=beam, n_best=beam, length_penalty=length_penalty)


def run(
    distributions: list[Distribution],
    limits: list[int],
    options: Options,
    prefixes: list[bytes] | None = None,
    capacity: int = 100,
) -> list[list[Hypothesis]]:
    """Sentence i follows distributions[i]."""
    engine = TorchEngine([FakeDecoder(distributions)], options, capacity, CPU)
    prefixes = prefixes or [b""] * len(limits)
    parts = enumerate(zip(limits, prefixes, strict=True))
    requests = [Request(str(i).encode(), limit, prefix, number=i) for i, (limit, prefix) in parts]
    return in_order(engine, requests)


def in_order(engine: TorchEngine, requests: list[Request]) -> list[list[Hypothesis]]:
    found = dict(decode(engine, requests))
    assert sorted(found) == list(range(len(requests)))
    return [found[i] for i in range(len(requests))]


def check_output(results: list[list[Hypothesis]], limits: list[int], beam: int) -> None:
    """Check the invariants of any search's results."""
    for hypotheses, limit in zip(results, limits, strict=True):
        assert 1 <= len(hypotheses) <= beam
        assert len({found.text for found in hypotheses}) == len(hypotheses), "not distinct"
        scores = [found.score for found in hypotheses]
        assert scores == sorted(scores, reverse=True), "not sorted"
        for found in hypotheses:
            found.text.decode("utf-8")
            assert len(found.text) <= limit
            assert b"\n" not in found.text and b"\r" not in found.text


@by_variant(("name", "beam"), rotated(WITH_SOURCE, [1, 2, 3, 6], 1))
def test_scores_are_teacher_forced_scores(name: str, beam: int) -> None:
    """Every hypothesis' log-probability is what the model gives its bytes."""
    invariants.check_search(peaky(name), beam)


def peaky(name: str) -> AnyModel:
    """A model whose next byte depends strongly on what came before, so that beams change places."""
    return invariants.build(VARIANTS[name], seed=11, scale=0.9)


@pytest.mark.parametrize("name", ["seq2seq", "bahdanau", "luong", "bytenet", "convs2s"])
def test_beams_do_change_places(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above means something: the search reorders, and not only at the first step."""
    model, moved = peaky(name), 0
    reorder = type(model).reorder

    def counting(self: AnyModel, state: object, parents: torch.Tensor) -> object:
        nonlocal moved
        moved += int((parents.view(-1, 4) % 4 != torch.arange(4)).any(dim=1).sum())
        return reorder(self, state, parents)

    monkeypatch.setattr(type(model), "reorder", counting)
    requests = invariants.some_requests([7, 3, 5], [14, 9, 11])
    in_order(TorchEngine([model], some_options(4), 3, CPU), requests)
    assert moved >= 6


@pytest.mark.slow
@by_variant("name", WITH_SOURCE)
def test_models_batch_mates_change_nothing(name: str) -> None:
    """A sentence decoded alone gives what it gives beside others, and at a place that another has left."""
    model, options = peaky(name), some_options(3)
    requests = invariants.some_requests([7, 3, 12, 1, 4], [9, 6, 3, 8, 7])
    alone = [in_order(TorchEngine([model], options, 1, CPU), [request])[0] for request in requests]
    together = in_order(TorchEngine([model], options, 3, CPU), requests)
    for one, other in zip(alone, together, strict=True):
        assert [found.text for found in one] == [found.text for found in other]
        for a, b in zip(one, other, strict=True):
            assert a.log_probability == pytest.approx(b.log_probability, abs=1e-9)


@pytest.mark.slow
@by_variant("name", WITH_SOURCE)
def test_model_greedy_is_the_naive_loop(name: str) -> None:
    """Beam 1 on a model is the most probable allowed byte, again and again."""
    model = peaky(name)
    src, src_len = invariants.some_sources([6])

    def log_p(prefix: bytes) -> np.ndarray:
        tgt = torch.tensor([[0xFE, *prefix]], dtype=torch.uint8)
        row = invariants.whole(model, src, src_len, tgt)[0, -1].log_softmax(dim=-1)
        return row.numpy()

    engine = TorchEngine([model], Options(), 1, CPU)
    found = in_order(engine, invariants.some_requests([6], [12]))[0][0]
    text, total = naive_greedy(log_p, 12)
    assert found.text == text
    assert found.log_probability == pytest.approx(total, abs=1e-9)


def test_a_float32_model_searches_too() -> None:
    """Scores agree within the precision of float32."""
    model = make("convs2s").float()
    src, src_len = invariants.some_sources([7, 3])
    engine = TorchEngine([model], some_options(3), 2, CPU)
    for i, hypotheses in decode(engine, invariants.some_requests([7, 3], [10, 10])):
        source = src[i : i + 1, : int(src_len[i])]
        for found in hypotheses:
            expected = invariants.log_probability(model, source, found.text)
            assert found.log_probability == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("name", ["seq2seq", "bahdanau", "luong", "bytenet", "convs2s"])
def test_a_model_without_a_source_searches_too(name: str) -> None:
    """Its hypotheses' scores are those of a byte language model."""
    model = peaky(name)
    engine = TorchEngine([model], some_options(3), 2, CPU)
    nothing = torch.zeros(1, 0, dtype=torch.uint8)
    for hypotheses in in_order(engine, [Request(None, limit) for limit in (5, 9, 12)]):
        for found in hypotheses:
            expected = invariants.log_probability(model, nothing, found.text)
            assert found.log_probability == pytest.approx(expected, abs=1e-9)


PREFIXES = [b"", b"a", "é".encode(), "a한".encode()]


@given(
    seed=st.integers(0, 10_000),
    limit=st.integers(0, 12),
    end=st.sampled_from([-30.0, 0.0, 5.0]),
    grain=st.sampled_from([0.0, 4.0]),
    prefix=st.sampled_from(PREFIXES),
)
def test_greedy_is_the_naive_loop(seed: int, limit: int, end: float, grain: float, prefix: bytes) -> None:
    """Beam 1 is the most probable allowed byte, again and again; of equals the lowest."""
    log_p, limit = random_distribution(seed, end=end, grain=grain), max(limit, len(prefix))
    found = run([log_p], [limit], Options(), [prefix])[0]
    text, total = naive_greedy(log_p, limit, prefix)
    assert [h.text for h in found] == [text]
    assert found[0].log_probability == pytest.approx(total, abs=1e-9)
    assert found[0].score == pytest.approx(total / (len(text) + 1), abs=1e-9)


LETTERS_OF_MANY_BYTES = "ab é한환👍👎".encode()


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    limit=st.integers(10, 30),
    beam=st.integers(1, 3),
    n=st.integers(1, 4),
    prefix=st.sampled_from([b"", "한한한".encode(), b"abab"]),
)
def test_the_repetition_guard_is_the_naive_one(
    seed: int, limit: int, beam: int, n: int, prefix: bytes
) -> None:
    """No n characters twice, whatever their bytes; the prefix is free."""
    log_p = few_bytes(seed, LETTERS_OF_MANY_BYTES, end=-6.0, floor=-40.0)
    found = run([log_p], [limit], Options(beam=beam, no_repeat_ngram_size=n), [prefix])[0]
    if beam == 1:
        expected = [naive_greedy(log_p, limit, prefix, n)]
    else:
        expected = naive_beam(log_p, limit, beam, 1, prefix, n)
    assert [h.text for h in found] == [text for text, _ in expected]
    assert found[0].log_probability == pytest.approx(expected[0][1], abs=1e-9)


@pytest.mark.slow
def test_the_guard_never_empties_the_choice() -> None:
    """Two bytes begin 64 characters each: when all are used up, inside the next one the ban is dropped."""
    full = random_distribution(3, end=-200.0)

    def log_p(prefix: bytes) -> np.ndarray:
        logits = full(prefix).copy()
        logits[0xC3] += 100.0
        return normalised(logits)

    found = run([log_p], [140], Options(no_repeat_ngram_size=1))[0][0]
    text, total = naive_greedy(log_p, 140, n=1)
    assert found.text == text and found.log_probability == pytest.approx(total, abs=1e-9)
    characters = text.decode()
    assert len(set(characters[:64])) == 64 and len(set(characters)) < len(characters)


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    limits=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    beam=st.integers(1, 6),
    end=st.sampled_from([-30.0, 0.0, 5.0, 10.0]),
)
def test_output_is_always_sound(seed: int, limits: list[int], beam: int, end: float) -> None:
    """Whatever the distribution: valid UTF-8 within the limit, sorted, distinct, true scores."""
    distributions = [random_distribution(seed + i, end=end) for i in range(len(limits))]
    results = run(distributions, limits, some_options(beam))
    check_output(results, limits, beam)
    for log_p, hypotheses in zip(distributions, results, strict=True):
        for found in hypotheses:
            bytes_taken = enumerate([*found.text, EOS])
            total = sum(log_p(found.text[:i])[byte] for i, byte in bytes_taken)
            assert found.log_probability == pytest.approx(total, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [254, 255, 256, 258, 300])
def test_output_is_sound_with_a_large_limit(limit: int) -> None:
    """However much room there is, a forbidden byte stays forbidden."""
    distributions = [random_distribution(seed, end=-30.0) for seed in (1, 2)]
    check_output(run(distributions, [limit, 3], some_options(2)), [limit, 3], 2)


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), beam=st.integers(1, 4))
def test_batch_mates_change_nothing(seed: int, beam: int) -> None:
    """A sentence alone gives exactly what it gives beside others with other limits."""
    distributions = [random_distribution(seed + i, end=4.0) for i in range(3)]
    limits = [3, 20, 9]
    together = run(distributions, limits, some_options(beam))
    for log_p, limit, expected in zip(distributions, limits, together, strict=True):
        assert run([log_p], [limit], some_options(beam))[0] == expected


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
def test_length_penalty_ranks_as_documented(length_penalty: float) -> None:
    """score = log_probability / (bytes + 1) ** length_penalty, and the ranking is by it."""
    distributions = [random_distribution(seed, end=3.0) for seed in range(4)]
    limits = [9] * 4
    results = run(distributions, limits, some_options(4, length_penalty))
    check_output(results, limits, 4)
    for found in (found for hypotheses in results for found in hypotheses):
        expected = found.log_probability / (len(found.text) + 1) ** length_penalty
        assert found.score == pytest.approx(expected, abs=1e-12)


def test_length_penalty_prefers_longer_text() -> None:
    """Two texts: the short one is more probable, the long one is better a byte."""

    def log_p(prefix: bytes) -> np.ndarray:
        p = np.full(256, 1e-12)
        if prefix == b"":
            p[EOS], p[ord("a")] = 0.55, 0.45
        elif len(prefix) < 4:
            p[ord("a")] = 1.0
        else:
            p[EOS] = 1.0
        return np.log(p)

    assert run([log_p], [8], some_options(3, 0.0))[0][0].text == b""
    assert run([log_p], [8], some_options(3, 1.0))[0][0].text == b"aaaa"


@pytest.mark.parametrize("beam", [1, 4])
def test_eos_is_forced_at_the_limit(beam: int) -> None:
    """A model that never ends is ended at the limit, between characters."""
    never = random_distribution(3, end=-1000.0)
    for limit in range(6):
        texts = [found.text for found in run([never], [limit], some_options(beam))[0]]
        assert all(limit - 3 <= len(text) <= limit for text in texts)
        assert any(len(text) == limit for text in texts)

    def only_wide(prefix: bytes) -> np.ndarray:
        """Nothing but U+1F600 for ever, or an end."""
        logits = np.full(256, -100.0)
        logits["😀".encode()[len(prefix) % 4]] = 0.0
        logits[EOS] = -50.0
        return normalised(logits)

    for limit in range(4, 13):
        assert run([only_wide], [limit], some_options(beam))[0][0].text.startswith(
            "😀".encode() * (limit // 4)
        )


def test_eos_never_inside_a_character() -> None:
    """However probable, EOS waits for the character's end."""

    def log_p(prefix: bytes) -> np.ndarray:
        logits = np.full(256, -20.0)
        logits[0xC3 if not prefix else EOS] = 20.0
        return normalised(logits)

    text = run([log_p], [5], Options())[0][0].text
    assert len(text) == 2 and text[0] == 0xC3
    text.decode()


def test_the_loop_stops_early() -> None:
    """Once all sentences are done, no step up to the limit is wasted but the few between looks."""
    decoder = FakeDecoder([random_distribution(seed, end=20.0) for seed in range(3)])
    requests = [Request(str(i).encode(), limit) for i, limit in enumerate((300, 200, 100))]
    in_order(TorchEngine([decoder], Options(beam=2), 3, CPU), requests)
    assert len(decoder.rows) <= 2 * STOP_TEST_EVERY


@pytest.mark.parametrize("bad", [[True], [False, True, False]])
@pytest.mark.parametrize("options", [Options(), Options(beam=2), Options(beam=2, sample=True)])
def test_not_a_number_is_one_clear_error(options: Options, bad: list[bool]) -> None:
    """A diverged model is told of, not decoded, wherever it shows."""

    def log_p(prefix: bytes) -> np.ndarray:
        return np.full(256, np.nan)

    distributions = [log_p if nan else random_distribution(1, end=9.0) for nan in bad]
    with pytest.raises(BytenmtError, match="diverged"):
        run(distributions, [4] * len(bad), options)


@pytest.mark.slow
@pytest.mark.parametrize("options", [Options(), Options(beam=2)])
def test_a_long_sentence_does_not_hold_up_short_ones(options: Options) -> None:
    """Waiting sentences take the places of those that are done, while a long one goes on; what it and they
    yield is what each yields alone; done rows leave the batch."""
    never, soon = random_distribution(1, end=-1000.0), random_distribution(2, end=8.0)
    decoder = FakeDecoder([never if i == 1 else soon for i in range(30)])
    requests = [Request(str(i).encode(), 300 if i == 1 else 30) for i in range(30)]
    order = []
    found = {}
    for i, hypotheses in decode(TorchEngine([decoder], options, 4, CPU), requests):
        order.append(i)
        found[i] = hypotheses
    assert order[-1] == 1 and sorted(order) == list(range(30))
    assert max(decoder.rows) == 4 * options.beam and min(decoder.rows) == options.beam
    assert len(decoder.rows) < 320, "the short ones have waited for the long one"
    for i in (0, 1, 29):
        assert found[i] == in_order(TorchEngine([decoder], options, 1, CPU), [requests[i]])[0]


def test_an_abandoned_loop_does_no_harm() -> None:
    """Sentences that nobody waits for any more are decoded and forgotten."""
    decoder = FakeDecoder([random_distribution(seed, end=6.0) for seed in range(9)])
    engine = TorchEngine([decoder], Options(), 3, CPU)
    requests = [Request(str(i).encode(), 20) for i in range(9)]
    next(decode(engine, requests))
    assert in_order(engine, requests[3:]) == in_order(TorchEngine([decoder], Options(), 3, CPU), requests[3:])


# ---- several models


@pytest.mark.parametrize("options", [Options(), Options(beam=3, n_best=3), Options(beam=2, sample=True)])
def test_models_vote_by_the_mean_of_their_probabilities(options: Options) -> None:
    """Three decoders yield what one yields whose distribution is their mean."""
    voices = [[random_distribution(10 * k + i, end=6.0) for i in range(4)] for k in range(3)]

    def mean_of(log_ps: tuple[Distribution, ...]) -> Distribution:
        return lambda prefix: np.log(np.mean([np.exp(log_p(prefix)) for log_p in log_ps], axis=0))

    requests = [Request(str(i).encode(), 15, number=i) for i in range(4)]
    together = FakeDecoder([mean_of(log_ps) for log_ps in zip(*voices, strict=True)])
    expected = in_order(TorchEngine([together], options, 2, CPU), requests)
    found = in_order(TorchEngine([FakeDecoder(voice) for voice in voices], options, 2, CPU), requests)
    for one, other in zip(found, expected, strict=True):
        assert [h.text for h in one] == [h.text for h in other]
        for a, b in zip(one, other, strict=True):
            assert a.log_probability == pytest.approx(b.log_probability, abs=1e-9)


@pytest.mark.slow
def test_any_architectures_vote_together() -> None:
    """A hypothesis' log-probability is that of the five models' mean, step by step."""
    models = [peaky(name) for name in ("seq2seq", "bahdanau", "luong", "bytenet", "convs2s")]
    lengths = [7, 3, 5]
    src, src_len = invariants.some_sources(lengths)
    engine = TorchEngine(models, some_options(3), 2, CPU)
    for i, hypotheses in decode(engine, invariants.some_requests(lengths, [14, 9, 11])):
        for found in hypotheses:
            tgt = torch.tensor([[0xFE, *found.text]], dtype=torch.uint8)
            logits = [invariants.whole(m, src[i : i + 1], src_len[i : i + 1], tgt)[0] for m in models]
            p = torch.stack([part.softmax(dim=-1) for part in logits]).mean(dim=0)
            expected = float(p[torch.arange(len(tgt[0])), [*found.text, EOS]].log().sum())
            assert found.log_probability == pytest.approx(expected, abs=1e-9)


# ---- a running sentence


@pytest.mark.parametrize("options", [Options(), Options(sample=True)])
def test_the_bytes_so_far_begin_the_text(options: Options) -> None:
    for seed in range(6):
        decoder = FakeDecoder([few_bytes(seed, b"ab\xc3\xa9", end=-1.0)])
        engine = TorchEngine([decoder], options, 2, CPU)
        handle, _ = engine.admit([Request(b"0", 20, b"ab"), Request(b"0", 9, number=1)])
        seen = []
        while not (done := dict(engine.finished())).get(handle):
            seen.append(engine.so_far(handle))
            engine.advance(1)
        text = done[handle][0].text
        assert seen == [text[:n] for n in range(len(text) + 1)] and text.startswith(b"ab")
