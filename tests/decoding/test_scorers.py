"""Given texts: the compiled scorer against plain PyTorch, and that against the model's own
distribution."""

from collections.abc import Sequence

import invariants
import numpy as np
import pytest
import torch
from cpu_engines import packed as packed_for_cpu
from fast_variants import by_variant
from invariants import AnyModel, build
from python_engine import numpy_kernels
from variants import VARIANTS, WITHOUT_SOURCE

from bytenmt.decoding.cpu.packing import PackedModel
from bytenmt.decoding.cpu.scorer import CpuScorer
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.decoding.scorer import TextScores
from bytenmt.utf8 import EOS

CPU = torch.device("cpu")
# The Transformer has no program for the CPU engine.
SELF_ATTENTIVE = invariants.SELF_ATTENTIVE
WITH_SOURCE = [name for name in invariants.WITH_SOURCE if name not in SELF_ATTENTIVE]
ALONE = [name for name in WITHOUT_SOURCE if name not in SELF_ATTENTIVE]
SOURCES = ["가나 b".encode(), b"one two three", b"", b"q" * 40, b"\xc0ab", "é😀".encode()] * 2
TEXTS = [b"x", "다 다라".encode(), b"abcdefg" * 15, b"", bytes(range(250)), b"zz"] * 2
ENDED = [text + bytes([EOS]) for text in TEXTS]
STREAM = bytes(range(256)) + b"The quick brown fox, " * 20


def both(name: str) -> tuple[list[AnyModel], list[PackedModel]]:
    """A model of a variant in fp32, and the same packed."""
    model = build(VARIANTS[name]).float()
    return [model], [packed_for_cpu(model)]


def check_equal(actual: Sequence[TextScores], expected: Sequence[TextScores]) -> None:
    """Each byte to rounding, which goes with the largest logits, and its place in the order but for
    ties."""
    largest = max(1.0, *(float(-one.log_p.min()) for one in expected))
    for one, other in zip(actual, expected, strict=True):
        assert np.allclose(one.log_p, other.log_p, rtol=0, atol=2e-6 * largest)
        assert one.rank.shape == other.rank.shape and np.mean(one.rank != other.rank) < 0.02


def check_same_bits(actual: Sequence[TextScores], expected: Sequence[TextScores]) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert np.array_equal(one.log_p, other.log_p) and np.array_equal(one.rank, other.rank)


def check_attention(
    actual: list[dict[int, np.ndarray]], expected: list[dict[int, np.ndarray]]
) -> None:
    """The weights of each layer that has some."""
    for layers, others in zip(actual, expected, strict=True):
        assert layers.keys() == others.keys()
        assert all(np.allclose(layers[number], others[number], atol=1e-4) for number in layers)


@by_variant("name", WITH_SOURCE)
def test_translations_cost_what_they_cost_in_pytorch(name: str) -> None:
    models, packed = both(name)
    expected = TorchScorer(models, CPU).score_texts(SOURCES, ENDED)
    actual = CpuScorer(packed).score_texts(SOURCES, ENDED)
    check_equal(actual, expected)
    n_bytes, largest = sum(map(len, ENDED)), max(float(-one.log_p.min()) for one in expected)
    sums = [sum(float(one.log_p.sum()) for one in readings) for readings in (actual, expected)]
    assert sums[0] / n_bytes == pytest.approx(sums[1] / n_bytes, abs=1e-6 * max(1.0, largest / 20))
    check_same_bits(CpuScorer(packed, threads=2).score_texts(SOURCES[4:5], ENDED[4:5]), actual[4:5])


@pytest.mark.parametrize("name", ["luong", "convs2s"])
def test_little_memory_changes_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One text after another, where all of them have no room at once."""
    _, packed = both(name)
    pairs = [(source, text) for source, text in zip(SOURCES, TEXTS, strict=True) if text]
    scorer = CpuScorer(packed)
    whole, weights = scorer.score_texts(SOURCES, ENDED), scorer.attention_weights(pairs)
    monkeypatch.setattr("bytenmt.decoding.cpu.scorer.MAX_HELD_VALUES", 1)
    scorer = CpuScorer(packed)
    check_same_bits(scorer.score_texts(SOURCES, ENDED), whole)
    for layers, others in zip(scorer.attention_weights(pairs), weights, strict=True):
        assert all(np.array_equal(layers[number], others[number]) for number in layers)


@by_variant("name", ALONE)
def test_a_stream_costs_what_it_costs_in_pytorch(name: str) -> None:
    """However it is cut, and texts of their own beside it."""
    models, packed = both(name)
    whole = TorchScorer(models, CPU).open_stream().read(STREAM)
    for size in (1, 100, 1024):
        stream = CpuScorer(packed).open_stream()
        parts = [stream.read(STREAM[at : at + size]) for at in range(0, len(STREAM), size)]
        check_equal([TextScores(*map(np.concatenate, zip(*parts, strict=True)))], [whole])
    expected = TorchScorer(models, CPU).score_texts(None, ENDED)
    check_equal(CpuScorer(packed).score_texts(None, ENDED), expected)


@pytest.mark.parametrize("names", [("bahdanau", "convs2s"), ("bytenet", "convs2s")])
def test_several_models_decide_together(names: tuple[str, str]) -> None:
    pairs = [both(name) for name in names]
    models, packed = [pair[0][0] for pair in pairs], [pair[1][0] for pair in pairs]
    together = TorchScorer(models, CPU).score_texts(SOURCES, ENDED)
    check_equal(CpuScorer(packed).score_texts(SOURCES, ENDED), together)
    each = [TorchScorer([model], CPU).score_texts(SOURCES, ENDED) for model in models]
    for one, other, mean in zip(*each, together, strict=True):
        expected = (np.exp(one.log_p) + np.exp(other.log_p)) / 2
        assert np.allclose(np.exp(mean.log_p), expected, rtol=1e-5)


ATTENTIVE = [name for name in WITH_SOURCE if hasattr(build(VARIANTS[name]), "forward_aligned")]
ATTENTIVE = [name for name in ATTENTIVE if VARIANTS[name].get("attention") != "off"]


@by_variant("name", ATTENTIVE)
def test_attention_goes_where_it_goes_in_pytorch(name: str) -> None:
    models, packed = both(name)
    pairs = [(source, text) for source, text in zip(SOURCES[:6], TEXTS, strict=False) if text]
    expected = TorchScorer(models, CPU).attention_weights(pairs)
    actual = CpuScorer(packed).attention_weights(pairs)
    check_attention(actual, expected)
    for (source, text), layers in zip(pairs, actual, strict=True):
        assert all(weights.shape == (len(text), len(source) + 1) for weights in layers.values())


WITH_ALL_KERNELS = [
    *("seq2seq", "seq2seq-every-step", "seq2seq-lstm", "bahdanau", "luong", "luong-concat"),
    *("luong-local-p", "luong-inside", "luong-twice", "luong-local-m", "bytenet", "bytenet-add"),
    *("bytenet-multiplicative", "recurrent-bytenet-both", "convs2s", "convs2s-ngrams"),
    *("convs2s-pooling", "convs2s-conv", "convs2s-ngrams-alone", "seq2seq-ngrams-alone"),
    "luong-alone",
]


@pytest.mark.slow
@by_variant("name", WITH_ALL_KERNELS)
def test_kernels_in_numpy_read_the_same(name: str) -> None:
    """NumPy kernels, which share no code with the compiled ones, give the same scores."""
    _, packed = both(name)
    texts = [text[-40:] for text in ENDED[:6]]  # NumPy takes a step for each byte
    sources = SOURCES[:6] if name in WITH_SOURCE else None
    rows = zip(SOURCES[:6], texts, strict=True)
    pairs = [(source, text[:-1]) for source, text in rows if text[:-1]]
    scorer = CpuScorer(packed)

    def read() -> tuple[list[TextScores], list[dict[int, np.ndarray]]]:
        readings = [*scorer.score_texts(sources, texts)]
        if sources is None:
            readings.append(scorer.open_stream().read(STREAM[200:300]))
        return readings, scorer.attention_weights(pairs) if name in ATTENTIVE else []

    with numpy_kernels():
        expected, expected_weights = read()
    actual, weights = read()
    check_equal(actual, expected)
    check_attention(weights, expected_weights)


@pytest.mark.parametrize("name", ["seq2seq", "bytenet"])
def test_probabilities_sum_to_one_and_ranks_order_them(name: str) -> None:
    """All 256 bytes at one place: what is read before and after has no part in it."""
    models, packed = both(name)
    for scorer in (TorchScorer(models, CPU), CpuScorer(packed)):
        texts = [b"abc" + bytes([byte]) + b"z" for byte in range(256)]
        readings = scorer.score_texts([b"source"] * 256, texts)
        log_p = np.array([reading.log_p[3] for reading in readings])
        assert np.isclose(np.exp(log_p).sum(), 1, rtol=1e-5)
        order = np.argsort(-log_p, kind="stable")
        ranks = [int(reading.rank[3]) for reading in readings]
        assert ranks == np.argsort(order, kind="stable").tolist()
