"""Each sentinel of a source is written once: held against searches and enumerations in plain lists that share
nothing with the package, and for models of all architectures in every engine.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from cpu_engines import model, packed
from hypothesis import given
from hypothesis import strategies as st
from invariants import VARIANTS, build, whole
from made_up import (
    Distribution,
    FakeDecoder,
    Sentinels,
    few_bytes,
    missing,
    naive_beam,
    naive_greedy,
    random_distribution,
)
from reference_draw import naive_draw, naive_uniform

from bytenmt.decoding.cpu.compilation import compiled_search_step
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.numpy_kernels import numpy_interpreter
from bytenmt.decoding.interface import Engine, Hypothesis, Options, Request
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode, stream_characters
from bytenmt.sentinels import SENTINELS
from bytenmt.utf8 import BOS, EOS

CPU = torch.device("cpu")
A, B, C = SENTINELS[:1], SENTINELS[1:2], SENTINELS[2:3]
STEPS: dict[str, Callable[[], Any]] = {"compiled": compiled_search_step, "python": lambda: None}
each_step = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)


def search(
    step: Callable[[], Any], log_p: Distribution, request: Request, options: Options
) -> list[Hypothesis]:
    """Search by one made-up distribution."""
    engine = TorchEngine([FakeDecoder([log_p])], options, 1, CPU, search=step())
    return run(engine, [request])[0]


def run(engine: Engine, requests: list[Request]) -> list[list[Hypothesis]]:
    found = dict(decode(engine, requests))
    return [found[index] for index in range(len(requests))]


def float32(log_p: Distribution) -> Distribution:
    """Numbers that the compiled search does not round."""
    return lambda prefix: log_p(prefix).astype(np.float32).astype(np.float64)


def is_past_end(log_p: Distribution, rule: Sentinels, text: bytes, n_prefix: int = 0) -> bool:
    """Would the model have ended the text before one of its bytes, while sentinels were pending?"""
    rows = [(log_p(text[:k]), text[k], rule.pending(text[:k])) for k in range(n_prefix, len(text))]
    return any(bool(pending) and row[EOS] > row[byte] for row, byte, pending in rows)


@st.composite
def rules(draw: st.DrawFn) -> Sentinels:
    """Up to four of the eight sentinels in any order, and pairs that do not contradict each other."""
    some = bytes(draw(st.lists(st.sampled_from(SENTINELS), max_size=4, unique=True)))
    pairs = (
        draw(st.lists(st.tuples(st.sampled_from(some), st.sampled_from(some)), max_size=3)) if some else []
    )
    return Sentinels(some, tuple({(a, b) for a, b in pairs if some.index(a) < some.index(b)}))


def request(rule: Sentinels, limit: int, prefix: bytes = b"") -> Request:
    pairs = tuple((first - SENTINELS[0], second - SENTINELS[0]) for first, second in rule.pairs)
    return Request(b"0" + rule.bytes, limit, prefix, pairs=pairs)


@pytest.mark.slow
@each_step
@given(
    seed=st.integers(0, 10_000),
    rule=rules(),
    limit=st.integers(0, 9),
    beam=st.integers(1, 5),
    end=st.sampled_from([-30.0, 0.0, 5.0, 12.0]),
    prefix=st.sampled_from(["", "a", "é", "a한"]),
    n_written=st.integers(0, 2),
    length_penalty=st.sampled_from([0.0, 1.0, 1.7]),
)
def test_it_is_the_search_in_plain_lists(
    step: Callable[[], Any],
    seed: int,
    rule: Sentinels,
    limit: int,
    beam: int,
    end: float,
    prefix: str,
    n_written: int,
    length_penalty: float,
) -> None:
    """Both searches give the same texts in their order, with the model's own log-probabilities; also where
    the limit has no room for more than the sentinels, and where the prefix has some of them already."""
    log_p = float32(random_distribution(seed, end=end))
    forced = prefix.encode() + rule.bytes[:n_written]
    options = Options(beam=beam, n_best=beam, length_penalty=length_penalty)
    found = search(step, log_p, request(rule, max(limit, len(forced)), forced), options)
    most = max(limit, len(forced) + len(rule.bytes))
    if beam == 1:
        expected = [naive_greedy(log_p, most, forced, sentinels=rule)]
    else:
        expected = naive_beam(log_p, most, beam, beam, forced, length_penalty=length_penalty, sentinels=rule)
    assert [one.text for one in found] == [text for text, _ in expected]
    for one, (text, total) in zip(found, expected, strict=True):
        assert one.log_probability == pytest.approx(total, abs=1e-5)
        assert one.is_past_end == is_past_end(log_p, rule, text, len(forced))


@each_step
@given(seed=st.integers(0, 10_000), rule=rules(), temperature=st.sampled_from([0.7, 1.5]))
def test_samples_are_those_of_the_loop_in_plain_lists(
    step: Callable[[], Any], seed: int, rule: Sentinels, temperature: float
) -> None:
    """The likeliest pending sentinel is drawn with EOS's probability where that is higher."""
    log_p, one = float32(random_distribution(seed, end=5.0)), request(rule, 8)
    options = Options(beam=2, n_best=2, sample=True, seed=seed, temperature=temperature, top_p=0.9)
    expected = []
    for k in range(2):
        text, total = b"", 0.0
        while True:
            row, masked = log_p(text), np.full(256, -np.inf)
            for byte, value in rule.rankings(text, row, 8).items():
                masked[byte] = value
            byte = naive_draw(masked, naive_uniform(seed, one.number, k, len(text)), options)
            total += row[byte]
            if byte == EOS:
                break
            text += bytes([byte])
        expected.append((text, total / (len(text) + 1)))
    expected.sort(key=lambda pair: -pair[1])
    found = search(step, log_p, one, options)
    assert [one.text for one in found] == [text for text, _ in expected]
    assert [one.score for one in found] == pytest.approx([score for _, score in expected], abs=1e-5)


@each_step
@pytest.mark.parametrize("pairs", [(), ((A[0], B[0]),)])
@pytest.mark.parametrize("end", [-30.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all(
    step: Callable[[], Any], pairs: tuple[tuple[int, int], ...], end: float
) -> None:
    """Compare with all texts of four bytes that have both sentinels, ranked by their log-probability, with
    that of EOS in the place of the likeliest pending sentinel's where it is higher."""
    rule, letters, limit = Sentinels(A + B, pairs), "aé".encode(), 4
    log_p = float32(few_bytes(3, letters + rule.bytes, end=end))
    scores = {}
    for length in range(2, limit + 1):
        for text in map(bytes, product(letters + rule.bytes, repeat=length)):
            plain = bytes(byte for byte in text if byte in letters)
            rankings = [rule.rankings(text[:k], log_p(text[:k]), limit) for k in range(length + 1)]
            bytes_and_end = [*text, EOS]
            if missing(plain) == 0 and all(b in r for b, r in zip(bytes_and_end, rankings, strict=True)):
                total = sum(r[byte] for byte, r in zip(bytes_and_end, rankings, strict=True))
                scores[text] = total / (length + 1)
    assert len(scores) > 8 and all(text.count(A) == text.count(B) == 1 for text in scores)
    found = search(step, log_p, request(rule, limit), Options(beam=100, n_best=8))
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


@each_step
@pytest.mark.parametrize("beam", [1, 4])
def test_sentinels_stand_where_the_model_wants_them(step: Callable[[], Any], beam: int) -> None:
    """One that the model writes itself is not flagged; one that it leaves out comes at the end, flagged."""
    rule, options = Sentinels(A + B), Options(beam=beam)
    for answer, expected, is_flagged in (
        (b"so " + B + b", " + A + "é".encode(), None, False),
        (b"so", b"so" + A + B, True),
        (b"so " + B + b"!", b"so " + B + b"!" + A, True),
    ):
        best = search(step, sure_of(answer), request(rule, 30), options)[0]
        assert (best.text, best.is_past_end) == (expected or answer, is_flagged)
        assert best.score > best.log_probability / (len(best.text) + 1) or not is_flagged
    # A closing one is not written before its opening one, whatever the model says.
    best = search(step, sure_of(B + b"x" + A), request(rule._replace(pairs=((A[0], B[0]),)), 30), options)[0]
    assert best.text.index(A) < best.text.index(B)


# ---- models in all engines

ARCHITECTURES = ("seq2seq", "bahdanau", "luong", "bytenet", "convs2s-uneven")
SEARCHES = {
    "greedy": Options(byte_scores=True),
    "beam": Options(beam=4, n_best=4, byte_scores=True),
    "samples": Options(beam=2, n_best=2, sample=True, temperature=1.5, top_k=20, seed=3, byte_scores=True),
}


def engines(name: str, options: Options, capacity: int = 3) -> dict[str, Engine]:
    of = model(name)
    return {
        "torch": TorchEngine([of], options, capacity, CPU),
        "torch, compiled search": TorchEngine([of], options, capacity, CPU, search=compiled_search_step()),
        "fixed slots": CudaGraphEngine([of], options, capacity, CPU, lambda step: step),
        "numba": NumbaEngine([packed(of)], options, capacity),
        "numpy": NumbaEngine([packed(of)], options, capacity, run=numpy_interpreter()),
    }


def some_requests(n: int, seed: int) -> list[Request]:
    """Sources of up to eight sentinels among text, with short limits; some with pairs or a prefix."""
    draw, requests = random.Random(seed), []
    for number in range(n):
        some = draw.sample(list(SENTINELS), draw.choice([0, 1, 2, 3, 8]))
        parts = [*(bytes([one]) for one in some), *("a", "b ", "각", "🙂")[: draw.randrange(5)]]
        parts = [part if isinstance(part, bytes) else part.encode() for part in parts]
        draw.shuffle(parts)
        pairs = tuple(
            (first - SENTINELS[0], second - SENTINELS[0])
            for first, second in zip(some[::2], some[1::2], strict=False)
            if draw.random() < 0.7
        )
        prefix = draw.choice([b"", b"", "é".encode(), b"x" + bytes(some[:1])])
        limit = max(len(prefix), draw.choice([0, 3, 12, 25]))
        requests.append(Request(b"".join(parts), limit, prefix, number, pairs))
    return requests


def check(one: Request, hypothesis: Hypothesis) -> None:
    """Check what is true by construction."""
    source, text = one.source or b"", hypothesis.text
    text.translate(None, SENTINELS).decode()
    for part in text.translate(bytes(A[0] if byte in SENTINELS else byte for byte in range(256))).split(A):
        part.decode()  # no sentinel inside a character
    assert sorted(byte for byte in text if byte in SENTINELS) == sorted(
        byte for byte in source if byte in SENTINELS
    ), "not each sentinel once"
    for first, second in one.pairs:
        assert text.index(SENTINELS[first]) < text.index(SENTINELS[second]), "closed before it was opened"
    n_sentinels = sum(byte in SENTINELS for byte in source)
    assert len(text) <= max(one.limit, len(one.prefix) + n_sentinels), "over the limit"
    assert text.startswith(one.prefix)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("how", SEARCHES)
def test_every_engine_writes_each_sentinel_once(name: str, how: str) -> None:
    """With the same texts and flags in all engines, and the model's own log-probability of each byte."""
    requests, options = some_requests(9, seed=sum(map(ord, name + how))), SEARCHES[how]
    results = {which: run(engine, requests) for which, engine in engines(name, options).items()}
    for one, hypotheses in zip(requests, results["torch"], strict=True):
        for hypothesis in hypotheses:
            check(one, hypothesis)
            expected = teacher_forced(name, one.source or b"", hypothesis.text)
            np.testing.assert_allclose(hypothesis.byte_scores, expected, atol=1e-4)
            assert hypothesis.log_probability == pytest.approx(expected.sum(), abs=1e-3)
    for which, other in results.items():
        for mine, theirs in zip(results["torch"], other, strict=True):
            assert [(one.text, one.is_past_end) for one in mine] == [
                (one.text, one.is_past_end) for one in theirs
            ], which
            scores = [one.score for one in mine]
            assert [one.score for one in theirs] == pytest.approx(scores, abs=1e-4), which


def teacher_forced(name: str, source: bytes, text: bytes) -> np.ndarray:
    """The model's log-probability of each byte of the text and of EOS, all read in one call."""
    src, tgt = (torch.tensor([list(one)], dtype=torch.uint8) for one in ([*source, EOS], [BOS, *text]))
    logits = whole(model(name), src, torch.tensor([src.shape[1]]), tgt)[0].log_softmax(dim=-1)
    return logits[torch.arange(len(text) + 1), torch.tensor([*text, EOS])].detach().numpy()


def test_the_transformer_writes_each_sentinel_once() -> None:
    of, requests = build(VARIANTS["transformer"], 1, 0.4).float(), some_requests(9, seed=5)
    for options in SEARCHES.values():
        results = [
            run(TorchEngine([of], options, 3, CPU, search=step()), requests) for step in STEPS.values()
        ]
        for one, *both in zip(requests, *results, strict=True):
            assert [h.text for h in both[0]] == [h.text for h in both[1]]
            for hypothesis in both[0]:
                check(one, hypothesis)


@pytest.mark.parametrize("how", SEARCHES)
def test_mates_with_sentinels_change_nothing(how: str) -> None:
    """A sentence without sentinels has the same bits beside others with them as alone."""
    requests = some_requests(8, seed=2)
    plain = [one for one in requests if not set(one.source or b"") & set(SENTINELS)]
    assert 0 < len(plain) < 8
    together, alone = (run(engines("luong", SEARCHES[how], 8)["numba"], some) for some in (requests, plain))
    assert [together[requests.index(one)] for one in plain] == alone


def test_a_stream_is_cut_between_characters() -> None:
    """Parts are whole characters and sentinels, and make the greedy text."""
    one = some_requests(40, seed=3)[7]._replace(limit=40)
    for engine in engines("luong", Options(), 1).values():
        parts = list(stream_characters(engine, one))
        assert all(part.translate(None, SENTINELS).decode() or part for part in parts)
    assert b"".join(parts) == run(engines("luong", Options(), 1)["torch"], [one])[0][0].text
