"""Beam search held against what shares nothing with it: every text there is, a search in plain lists, and
what must be true of any result; compiled, and as the Python that it was compiled from. Then faults are
planted, to see each caught.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up import (
    Distribution,
    FakeDecoder,
    everything,
    few_bytes,
    naive_beam,
    naive_greedy,
    peaked_distribution,
    random_distribution,
)
from rotation import rotated

from bytenmt.decoding.cpu.compilation import compiled_search_step
from bytenmt.decoding.interface import Engine, Hypothesis, Options, Request
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode
from bytenmt.decoding.search import beam_search
from bytenmt.decoding.search.host_search import SearchStep, python_search_step
from bytenmt.decoding.search.state import SearchState
from bytenmt.jit import as_python
from bytenmt.utf8 import EOS

Models = Sequence[Sequence[Distribution]]  # of each model one distribution a sentence
Make = Callable[[Models, Options], Engine]


def uncompiled(models: Models, options: Options, step: SearchStep | None = None) -> Engine:
    decoders = [FakeDecoder(list(model)) for model in models]
    return TorchEngine(decoders, options, 3, torch.device("cpu"), search=step)


def compiled(models: Models, options: Options) -> Engine:
    return uncompiled(models, options, compiled_search_step())


FORMS: dict[str, Make] = {"compiled": compiled, "python": uncompiled}
each_form = pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)


def float32(log_p: Distribution) -> Distribution:
    """Numbers that the compiled search does not round."""
    return lambda prefix: log_p(prefix).astype(np.float32).astype(np.float64)


def search(
    make: Make, models: Models, limits: Sequence[int], options: Options, prefix: bytes = b""
) -> list[list[Hypothesis]]:
    """Sentence i follows distribution i of each model."""
    requests = [Request(str(i).encode(), limit, prefix, number=i) for i, limit in enumerate(limits)]
    found = dict(decode(make(models, options), requests))
    return [found[i] for i in range(len(limits))]


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


def check_sound(make: Make, beam: int, seed: int = 0) -> None:
    """All hypotheses are there, distinct, sorted, and each score is that of its own text."""
    distributions = [random_distribution(seed + i, end=4.0) for i in range(3)]
    options = Options(beam=beam, n_best=beam)
    for log_p, found in zip(distributions, search(make, [distributions], [9, 5, 12], options), strict=True):
        assert len({h.text for h in found}) == len(found) == beam, "not distinct, or not all"
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True), "not sorted"
        for h in found:
            total = sum(log_p(h.text[:i])[byte] for i, byte in enumerate([*h.text, EOS]))
            assert h.log_probability == pytest.approx(total, abs=1e-5), "a score of another text"
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


@pytest.mark.slow
@each_form
@given(seed=st.integers(0, 10_000), limit=st.integers(0, 12), end=st.sampled_from([-3.0, 5.0, 8.0]))
def test_beam_1_is_greedy_search(make: Make, seed: int, limit: int, end: float) -> None:
    """Beam 1 takes the most likely byte and stops when that is EOS, even if another text has a higher
    score.
    """
    log_p = float32(random_distribution(seed, peak=1.0, end=end))
    (found,) = search(make, [[log_p]], [limit], Options())[0]
    text, total = naive_greedy(log_p, limit)
    assert found.text == text and found.log_probability == pytest.approx(total, abs=1e-6)


@each_form
@pytest.mark.parametrize("beam", [2, 4, 7])
def test_hypotheses_are_sound(make: Make, beam: int) -> None:
    check_sound(make, beam)


PREFIXES = [b"", b"a", "é".encode(), "a한".encode()]


@pytest.mark.slow
@each_form
@given(
    seed=st.integers(0, 10_000),
    limit=st.integers(0, 9),
    beam=st.integers(2, 5),
    n_best=st.integers(1, 5),
    end=st.sampled_from([-30.0, 5.0, 10.0, 14.0]),
    grain=st.sampled_from([0.0, 4.0]),
    prefix=st.sampled_from(PREFIXES),
    length_penalty=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
)
def test_it_is_the_search_in_plain_lists(
    make: Make,
    seed: int,
    limit: int,
    beam: int,
    n_best: int,
    end: float,
    grain: float,
    prefix: bytes,
    length_penalty: float,
) -> None:
    """The n best, in their order, where it ends and where many candidates are equal."""
    log_p, limit = float32(random_distribution(seed, end=end, grain=grain)), max(limit, len(prefix))
    n_best = min(n_best, beam)
    options = Options(beam=beam, n_best=n_best, length_penalty=length_penalty)
    found = search(make, [[log_p]], [limit], options, prefix)[0]
    expected = naive_beam(log_p, limit, beam, n_best, prefix, length_penalty=length_penalty)
    assert [h.text for h in found] == [text for text, _ in expected]
    for h, (_, total) in zip(found, expected, strict=True):
        assert h.log_probability == pytest.approx(total, abs=1e-6)


# ---- planted faults


def caught(check: Callable[..., None], make: Make, *arguments: Any) -> None:
    """The property fails, and for a reason of its own."""
    with pytest.raises(AssertionError):
        check(make, *arguments)


def with_fault(monkeypatch: pytest.MonkeyPatch, name: str, fault: Callable[[Any], Any]) -> Make:
    """Return an engine whose search has another function of that name. fault: makes it of the right one."""
    right = as_python(getattr(beam_search, name))
    monkeypatch.setattr(beam_search, name, fault(right))
    step = python_search_step()
    return lambda models, options: uncompiled(models, options, step)


def test_stopping_when_as_many_have_ended_as_there_are_beams_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A confident model's early ends fill the list before the answer ends."""

    def too_early(right: Any) -> Any:
        return lambda search, params, slot, best: (
            search.n_finished[slot] >= params.beam or right(search, params, slot, best)
        )

    caught(check_never_below_greedy, with_fault(monkeypatch, "is_search_over", too_early), 3, 1.0, 1)


def test_a_dropped_length_penalty_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypotheses ranked by their log-probability alone."""

    def dropped(right: Any) -> Any:
        return lambda search, params, *rest: right(search, params._replace(length_penalty=0.0), *rest)

    caught(check_exhaustive, with_fault(monkeypatch, "finish_hypothesis", dropped), 1, 2.0, 3, b"")


def test_finished_rows_that_are_not_reordered_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hypothesis that remembers its rank, not the beam from which it came."""

    def by_rank(right: Any) -> Any:
        return lambda search, params, slot, ranking, total, beam: right(
            search, params, slot, ranking, total, int(search.n_finished[slot]) % params.beam
        )

    caught(check_sound, with_fault(monkeypatch, "finish_hypothesis", by_rank), 4)


def test_beams_that_all_begin_alive_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are equal: every hypothesis stands there once for each beam."""
    begin = SearchState.begin

    def all_alive(self: SearchState, slot: int, *rest: Any, **named: Any) -> None:
        begin(self, slot, *rest, **named)
        self.score[slot] = 0.0

    monkeypatch.setattr(SearchState, "begin", all_alive)
    caught(check_sound, uncompiled, 4)
