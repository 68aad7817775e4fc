"""The decode loop: with the five models, and with made-up distributions of known outcome."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache
from itertools import product

import invariants
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import VARIANTS, AnyModel, make
from torch import Tensor

from bytenmt.alphabet import EOS
from bytenmt.engines.eager import EagerStepper
from bytenmt.errors import BytenmtError
from bytenmt.search import Hypothesis, search

Distribution = Callable[[bytes], np.ndarray]  # a prefix -> 256 log-probabilities


def normalised(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def random_distribution(seed: int, peak: float = 4.0, end: float = 0.0) -> Distribution:
    """Any bytes at all, forbidden ones too; a prefix always gives the same."""

    def log_p(prefix: bytes) -> np.ndarray:
        generator = np.random.default_rng(zlib.crc32(prefix, seed))
        logits = peak * generator.normal(size=256)
        logits[EOS] += end
        return normalised(logits)

    return log_p


def few_bytes(seed: int, alphabet: bytes) -> Distribution:
    """Only these bytes and EOS have any probability."""
    full = random_distribution(seed, peak=1.5)

    def log_p(prefix: bytes) -> np.ndarray:
        logits = np.full(256, -np.inf)
        kept = [*alphabet, EOS]
        logits[kept] = full(prefix)[kept]
        return normalised(logits)

    return log_p


class FakeStepper:
    """Sentence i follows distributions[i]. Keeps each row's prefix and reorders it as told."""

    def __init__(self, distributions: list[Distribution], beam: int) -> None:
        self.n, self.beam, self.device = len(distributions), beam, torch.device("cpu")
        self.distributions = distributions
        self.prefixes = [[b""] * beam for _ in distributions]
        self.steps = 0

    def step(self, last: Tensor, parents: Tensor | None) -> Tensor:
        if parents is not None:
            self.prefixes = [
                [prefixes[parent] for parent in row]
                for prefixes, row in zip(self.prefixes, parents.tolist(), strict=True)
            ]
        if self.steps:  # the first byte is BOS
            self.prefixes = [
                [prefix + bytes([byte]) for prefix, byte in zip(prefixes, row, strict=True)]
                for prefixes, row in zip(self.prefixes, last.tolist(), strict=True)
            ]
        self.steps += 1
        rows = [
            [log_p(prefix) for prefix in prefixes]
            for log_p, prefixes in zip(self.distributions, self.prefixes, strict=True)
        ]
        return torch.from_numpy(np.array(rows))


def run(
    distributions: list[Distribution], limits: list[int], beam: int, length_penalty: float = 1.0
) -> list[list[Hypothesis]]:
    return search(FakeStepper(distributions, beam), torch.tensor(limits), length_penalty)


@lru_cache(maxsize=100_000)
def missing(begun: bytes) -> int | None:
    """Bytes that would make this valid UTF-8 at the least; None if none can. By trying."""
    for more in range(4):
        for first in b"\x80\x8f\x90\x9f\xa0\xbf":
            try:
                (begun + (bytes([first]) + b"\x80" * 3)[:more]).decode()
            except UnicodeDecodeError:
                continue
            return more
    return None


def may_follow(text: bytes, byte: int, limit: int) -> bool:
    """Is there valid UTF-8 without a line's end, `limit` bytes at most, that goes on like this?"""
    if byte == EOS:
        return missing(text[-4:]) == 0 or missing(text) == 0
    if byte in b"\r\n":
        return False
    more = missing(text + bytes([byte]))
    return more is not None and len(text) + 1 + more <= limit


def naive_greedy(log_p: Distribution, limit: int) -> tuple[bytes, float]:
    """The most probable allowed byte, again and again."""
    text, total = b"", 0.0
    while True:
        row = log_p(text)
        allowed = [byte for byte in range(256) if may_follow(text, byte, limit)]
        byte = max(allowed, key=lambda b: row[b])
        total += row[byte]
        if byte == EOS:
            return text, total
        text += bytes([byte])


def naive_beam(log_p: Distribution, limit: int, beam: int) -> list[tuple[bytes, float]]:
    """Beam search in plain lists, length penalty 1. A text may end if its EOS is among the best
    `beam` candidates; the best `beam` others go on. Over when `beam` have ended, or none that goes
    on can still beat the best."""
    going, ended = [(b"", 0.0)], []
    while going and len(ended) < beam:
        candidates = []
        for text, total in going:
            row = log_p(text)
            followers = [byte for byte in range(256) if may_follow(text, byte, limit)]
            candidates += [(total + row[byte], text, byte) for byte in followers]
        candidates.sort(key=lambda c: -c[0])
        ended += [(text, total) for total, text, byte in candidates[:beam] if byte == EOS]
        ended.sort(key=lambda e: -e[1] / (len(e[0]) + 1))
        on = [(text + bytes([byte]), total) for total, text, byte in candidates if byte != EOS]
        going = on[:beam]
        best = ended[0][1] / (len(ended[0][0]) + 1) if ended else -np.inf
        if not going or going[0][1] / (limit + 1) <= best:
            break
    return ended[:beam]


def everything(log_p: Distribution, alphabet: bytes, limit: int) -> dict[bytes, float]:
    """The log-probability of every valid text over a few bytes."""
    found = {}
    for length in range(limit + 1):
        for letters in product(alphabet, repeat=length):
            text = bytes(letters)
            if missing(text) == 0:
                steps = [log_p(text[:i])[byte] for i, byte in enumerate([*text, EOS])]
                found[text] = float(sum(steps))
    return found


def check_output(results: list[list[Hypothesis]], limits: list[int], beam: int) -> None:
    """What holds of any search's results."""
    for hypotheses, limit in zip(results, limits, strict=True):
        assert 1 <= len(hypotheses) <= beam
        assert len({found.text for found in hypotheses}) == len(hypotheses), "not distinct"
        scores = [found.score for found in hypotheses]
        assert scores == sorted(scores, reverse=True), "not sorted"
        for found in hypotheses:
            found.text.decode("utf-8")
            assert len(found.text) <= limit
            assert b"\n" not in found.text and b"\r" not in found.text


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("beam", [1, 2, 3, 6])
def test_scores_are_teacher_forced_scores(name: str, beam: int) -> None:
    """Every hypothesis' log-probability is what the model gives its bytes."""
    invariants.check_search(peaky(name), beam)


def peaky(name: str) -> AnyModel:
    """A model whose next byte depends strongly on what came before, so that beams change places."""
    return invariants.build(VARIANTS[name], seed=11, scale=0.9)


@pytest.mark.parametrize("name", ["seq2seq", "bahdanau", "luong", "bytenet", "convs2s"])
def test_beams_do_change_places(name: str) -> None:
    """The test above means something: the search reorders, and not only at the first step."""
    model = peaky(name)
    src, src_len = invariants.some_sources([7, 3, 5])
    stepper = EagerStepper(model, src, src_len, 4)
    real_step, moved = stepper.step, 0

    def step(last: Tensor, parents: Tensor | None) -> Tensor:
        nonlocal moved
        if parents is not None:
            moved += int((parents != torch.arange(4)).any(dim=1).sum())
        return real_step(last, parents)

    stepper.step = step  # type: ignore[method-assign]
    search(stepper, torch.tensor([14, 9, 11]))
    assert moved >= 6


@pytest.mark.parametrize("name", VARIANTS)
def test_models_batch_mates_change_nothing(name: str) -> None:
    """A sentence decoded alone gives what it gives in a batch."""
    model = peaky(name)
    lengths, limits = [7, 3, 5], [14, 9, 11]
    src, src_len = invariants.some_sources(lengths)
    together = search(EagerStepper(model, src, src_len, 3), torch.tensor(limits))
    for i, length in enumerate(lengths):
        stepper = EagerStepper(model, src[i : i + 1, :length], src_len[i : i + 1], 3)
        alone = search(stepper, torch.tensor(limits[i : i + 1]))[0]
        assert [found.text for found in alone] == [found.text for found in together[i]]
        for a, b in zip(alone, together[i], strict=True):
            assert a.log_probability == pytest.approx(b.log_probability, abs=1e-9)


@pytest.mark.parametrize("name", VARIANTS)
def test_model_greedy_is_the_naive_loop(name: str) -> None:
    """Beam 1 on a model is the most probable allowed byte, again and again."""
    model = peaky(name)
    src, src_len = invariants.some_sources([6])

    def log_p(prefix: bytes) -> np.ndarray:
        tgt = torch.tensor([[0xFE, *prefix]], dtype=torch.uint8)
        row = invariants.whole(model, src, src_len, tgt)[0, -1].log_softmax(dim=-1)
        return row.numpy()

    found = search(EagerStepper(model, src, src_len, 1), torch.tensor([12]))[0][0]
    text, total = naive_greedy(log_p, 12)
    assert found.text == text
    assert found.log_probability == pytest.approx(total, abs=1e-9)


@given(seed=st.integers(0, 10_000), limit=st.integers(0, 12), end=st.sampled_from([-30.0, 0.0, 5.0]))
def test_greedy_is_the_naive_loop(seed: int, limit: int, end: float) -> None:
    """Beam 1 is the most probable allowed byte, again and again."""
    log_p = random_distribution(seed, end=end)
    found = run([log_p], [limit], beam=1)[0]
    text, total = naive_greedy(log_p, limit)
    assert [h.text for h in found] == [text]
    assert found[0].log_probability == pytest.approx(total, abs=1e-9)
    assert found[0].score == pytest.approx(total / (len(text) + 1), abs=1e-9)


@given(
    seed=st.integers(0, 10_000),
    limit=st.integers(0, 9),
    beam=st.integers(2, 5),
    end=st.sampled_from([-30.0, 5.0, 10.0, 14.0]),
)
def test_beam_search_is_the_naive_one(seed: int, limit: int, beam: int, end: float) -> None:
    """All hypotheses, in their order, are those of a beam search written with lists."""
    log_p = random_distribution(seed, end=end)
    found = run([log_p], [limit], beam)[0]
    expected = naive_beam(log_p, limit, beam)
    assert [h.text for h in found] == [text for text, _ in expected]
    for h, (_, total) in zip(found, expected, strict=True):
        assert h.log_probability == pytest.approx(total, abs=1e-9)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    limits=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    beam=st.integers(1, 6),
    end=st.sampled_from([-30.0, 0.0, 5.0, 10.0]),
)
def test_output_is_always_sound(seed: int, limits: list[int], beam: int, end: float) -> None:
    """Whatever the distribution: valid UTF-8 within the limit, sorted, distinct, true scores."""
    distributions = [random_distribution(seed + i, end=end) for i in range(len(limits))]
    results = run(distributions, limits, beam)
    check_output(results, limits, beam)
    for log_p, hypotheses in zip(distributions, results, strict=True):
        for found in hypotheses:
            bytes_taken = enumerate([*found.text, EOS])
            total = sum(log_p(found.text[:i])[byte] for i, byte in bytes_taken)
            assert found.log_probability == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("limit", [254, 255, 256, 258, 300])
def test_output_is_sound_with_a_large_limit(limit: int) -> None:
    """However much room there is, a forbidden byte stays forbidden."""
    distributions = [random_distribution(seed, end=-30.0) for seed in (1, 2)]
    check_output(run(distributions, [limit, 3], beam=2), [limit, 3], 2)


@given(seed=st.integers(0, 10_000), beam=st.integers(1, 4))
def test_batch_mates_change_nothing(seed: int, beam: int) -> None:
    """A sentence alone gives exactly what it gives beside others with other limits."""
    distributions = [random_distribution(seed + i, end=4.0) for i in range(3)]
    limits = [3, 20, 9]
    together = run(distributions, limits, beam)
    for log_p, limit, expected in zip(distributions, limits, together, strict=True):
        assert run([log_p], [limit], beam)[0] == expected


LETTERS = b"ab\xc3\xa9\n"


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_wide_beam_finds_the_best_of_all(seed: int, length_penalty: float) -> None:
    """With room for every prefix, the best hypothesis is the best of all valid texts."""
    log_p = few_bytes(seed, LETTERS)
    texts = everything(log_p, LETTERS.replace(b"\n", b""), limit=4)
    best = max(texts, key=lambda text: texts[text] / (len(text) + 1) ** length_penalty)
    found = run([log_p], [4], beam=120, length_penalty=length_penalty)[0]
    assert found[0].text == best
    assert found[0].log_probability == pytest.approx(texts[best], abs=1e-9)
    check_output([found], [4], 120)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
def test_length_penalty_ranks_as_documented(length_penalty: float) -> None:
    """score = log_probability / (bytes + 1) ** length_penalty, and the ranking is by it."""
    distributions = [random_distribution(seed, end=3.0) for seed in range(4)]
    limits = [9] * 4
    results = run(distributions, limits, 4, length_penalty)
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

    assert run([log_p], [8], beam=3, length_penalty=0.0)[0][0].text == b""
    assert run([log_p], [8], beam=3, length_penalty=1.0)[0][0].text == b"aaaa"


@pytest.mark.parametrize("beam", [1, 4])
def test_eos_is_forced_at_the_limit(beam: int) -> None:
    """A model that never ends is ended at the limit, between characters."""
    never = random_distribution(3, end=-1000.0)
    for limit in range(6):
        texts = [found.text for found in run([never], [limit], beam)[0]]
        assert all(limit - 3 <= len(text) <= limit for text in texts)
        assert any(len(text) == limit for text in texts)

    def only_wide(prefix: bytes) -> np.ndarray:
        """Nothing but U+1F600 for ever, or an end."""
        logits = np.full(256, -100.0)
        logits["😀".encode()[len(prefix) % 4]] = 0.0
        logits[EOS] = -50.0
        return normalised(logits)

    for limit in range(4, 13):
        assert run([only_wide], [limit], beam)[0][0].text.startswith("😀".encode() * (limit // 4))


def test_eos_never_inside_a_character() -> None:
    """However probable, EOS waits for the character's end."""

    def log_p(prefix: bytes) -> np.ndarray:
        logits = np.full(256, -20.0)
        logits[0xC3 if not prefix else EOS] = 20.0
        return normalised(logits)

    text = run([log_p], [5], beam=1)[0][0].text
    assert len(text) == 2 and text[0] == 0xC3
    text.decode()


def test_the_loop_stops_early() -> None:
    """Once all sentences are done, no step up to the limit is wasted but the few between looks."""
    stepper = FakeStepper([random_distribution(seed, end=20.0) for seed in range(3)], beam=2)
    search(stepper, torch.tensor([1000, 500, 100]))
    assert stepper.steps <= 16


def test_not_a_number_is_one_clear_error() -> None:
    """A diverged model is told of, not decoded."""

    def log_p(prefix: bytes) -> np.ndarray:
        return np.full(256, np.nan)

    with pytest.raises(BytenmtError, match="diverged"):
        run([log_p], [4], beam=2)


def test_a_float32_model_searches_too() -> None:
    """In float32 the scores agree to float32's precision."""
    model = make("convs2s").float()
    src, src_len = invariants.some_sources([7, 3])
    for i, hypotheses in enumerate(search(EagerStepper(model, src, src_len, 3), torch.tensor([10, 10]))):
        source = src[i : i + 1, : int(src_len[i])]
        for found in hypotheses:
            expected = invariants.log_probability(model, source, found.text)
            assert found.log_probability == pytest.approx(expected, abs=1e-3)
