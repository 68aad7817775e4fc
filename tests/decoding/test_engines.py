"""Every engine gives the texts and scores of plain PyTorch, with sentinels and without, takes slots
and gives them back.
"""

import random
from itertools import product

import numpy as np
import pytest
import torch
from cpu_engines import ALL, KINDS, agree, engine, model, packed, run, some_requests
from fast_variants import by_variant, rotated
from invariants import whole
from variants import WITHOUT_SOURCE

from bytenmt.checkpoints.quantize import quantise
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.scorer import CpuScorer
from bytenmt.decoding.interface import Hypothesis, Request, SearchOptions
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.errors import BytenmtError
from bytenmt.kernel_constants import PRECISIONS
from bytenmt.sentinels import SENTINELS
from bytenmt.utf8 import BOS, EOS

pytestmark = pytest.mark.compiles_kernels
each_kind = pytest.mark.parametrize("kind", KINDS)
SAMPLED = SearchOptions(sample=True)
SEARCHES = {
    "greedy": SearchOptions(),
    "beam": SearchOptions(beam=3, n_best=3),
    "wide beam, long texts": SearchOptions(beam=5, n_best=2, length_penalty=1.5),
    "samples": SearchOptions(beam=2, n_best=2, sample=True, temperature=1.5, seed=3),
    "top k and p": SearchOptions(sample=True, top_k=20, top_p=0.8, temperature=0.7),
    "no repeats": SearchOptions(beam=2, n_best=2, no_repeat_ngram_size=2),
}


@by_variant(("name", "search"), rotated(list(ALL), list(SEARCHES), 1))
def test_texts_and_scores_are_those_of_plain_pytorch(name: str, search: str) -> None:
    """All options and all architectures, with a source and without, sentences taking the places of
    others; scores to 1e-4."""
    of, options = model(name), SEARCHES[search]
    with_sources = some_requests(7, name not in WITHOUT_SOURCE, limit=18)
    for requests in (with_sources, some_requests(2, source=False, seed=1)):
        expected = run(engine("torch", [of], options, 4), requests)
        for kind in ("numba", "fixed slots"):
            agree(run(engine(kind, [of], options, 4), requests), expected)


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 3])
def test_models_of_different_architectures_vote(beam: int) -> None:
    models = [model("luong"), model("bytenet"), model("seq2seq-every-step", seed=2)]
    options, requests = SearchOptions(beam=beam, n_best=beam), some_requests(5, limit=10)
    expected = run(engine("torch", models, options), requests)
    for kind in KINDS:
        agree(run(engine(kind, models, options), requests), expected)


EXACT = [
    *("bahdanau", "seq2seq-cho", "luong-local-p", "luong-concat", "bytenet-wide", "convs2s-uneven"),
    *("bytenet-multiplicative", "convs2s-pooling", "recurrent-bytenet-both"),
]
# Attention reads what is kept in int8.
IN_BYTES = [("int8", name) for name in ("bahdanau", "luong", "convs2s")]


@by_variant(("precision", "name"), [*rotated(PRECISIONS, EXACT), *IN_BYTES])
def test_to_the_last_bit_whatever_stands_beside_it(name: str, precision: str) -> None:
    of, requests = packed(model(name), precision), [*some_requests(8), *with_sentinels(4, seed=2)]
    options = SearchOptions(beam=2, n_best=2)
    alone = [run(NumbaEngine([of], options, 1), [request])[0] for request in requests]
    for capacity, threads in ((12, 1), (4, 1), (3, 2)):
        assert run(NumbaEngine([of], options, capacity, threads), requests) == alone


# ---- slots


@each_kind
def test_slots_are_taken_and_given_back(kind: str) -> None:
    """Admission takes them, `finished` and `drop` free them, and nothing changes for other
    sentences."""
    of, options = model("luong"), SearchOptions()
    requests = [Request(text, 20) for text in (b"ab c", b"c a", b"bb", b"a")]
    expected = run(engine("torch", [of], options, 1), requests)
    one = engine(kind, [of], options, 3)
    assert one.room() == one.capacity == 3
    assert one.finished() == [] and one.admit([]) == []
    first, second, third = one.admit(requests[:3])
    with pytest.raises(ValueError, match="room for 0"):
        one.admit(requests[3:])
    one.advance(2)
    one.drop(second)
    assert one.room() == 1
    (fourth,) = one.admit(requests[3:])
    one.advance(25)
    assert one.room() == 0, "a slot is not free before its sentence has been taken out"
    actual = dict(one.finished())
    assert actual.keys() == {first, third, fourth} and one.room() == 3 and one.finished() == []
    agree([actual[first], actual[third], actual[fourth]], [expected[0], *expected[2:]])
    assert not set(one.admit(requests[:3])) & {first, second, third, fourth}


@each_kind
@pytest.mark.parametrize("options", [SearchOptions(), SAMPLED])
def test_the_bytes_so_far_begin_the_text(kind: str, options: SearchOptions) -> None:
    one = engine(kind, [model("convs2s")], options)
    handle, _ = one.admit([Request(b"abcdef", 12, b"ab"), Request(b"0", 9, number=1)])
    seen = []
    while not (done := dict(one.finished())).get(handle):
        seen.append(one.so_far(handle))
        one.advance(1)
    text = done[handle][0].text
    assert seen == [text[:n] for n in range(len(text) + 1)] and text.startswith(b"ab")


# ---- texts


@each_kind
@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(beam=3, n_best=3), SAMPLED])
def test_a_forced_prefix_and_an_empty_limit(kind: str, options: SearchOptions) -> None:
    """A prefix comes whatever it is, also control characters; none follows it."""
    prefixes = [b"", "é🙂".encode(), b"\x1b[31m" + "\x9b\x7f\x00é\x85".encode(), b"a\x7f", b"\t"]
    cases = product(prefixes, (0, 1, 9))
    requests = [Request(b"abc", len(prefix) + room, prefix, room) for prefix, room in cases]
    of = model("bahdanau")
    actual = run(engine(kind, [of], options), requests)
    agree(actual, run(engine("torch", [of], options), requests))
    for request, (best, *_) in zip(requests, actual, strict=True):
        assert best.text.startswith(request.prefix) and len(best.text) <= request.limit
        rest = best.text[len(request.prefix) :]
        assert all(byte >= 0x20 and byte != 0x7F or byte == ord("\t") for byte in rest)


DIVERGED = [
    *(("seq2seq", "decoder.output.weight"), ("luong-local-p", "decoder.position.v")),
    ("luong-inside", "decoder.position.v"),
]


@pytest.mark.parametrize(("kind", "case"), rotated(list(KINDS), DIVERGED))
@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(beam=3), SAMPLED])
def test_a_diverged_model_is_told(kind: str, case: tuple[str, str], options: SearchOptions) -> None:
    of = model(case[0])
    with torch.no_grad():
        of.get_parameter(case[1]).view(-1)[2] = torch.nan
    with pytest.raises(BytenmtError, match="are NaN"):
        run(engine(kind, [of], options), some_requests(2))


# ---- sentinels

ARCHITECTURES = ("seq2seq", "bahdanau", "luong", "bytenet", "convs2s-uneven")


def with_sentinels(n: int, seed: int) -> list[Request]:
    """Sources of up to eight sentinels in text, with short limits; some with pairs or a prefix."""
    draw, requests = random.Random(seed), []
    for number in range(n):
        some = draw.sample(list(SENTINELS), draw.choice([0, 1, 2, 3, 8]))
        words = [word.encode() for word in ("a", "b ", "각", "🙂")[: draw.randrange(5)]]
        parts = [*(bytes([one]) for one in some), *words]
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


def teacher_forced(name: str, source: bytes, text: bytes) -> np.ndarray:
    """The model's log-probability of each byte of the text and of EOS, all read in one call."""
    src = torch.tensor([[*source, EOS]], dtype=torch.uint8)
    tgt = torch.tensor([[BOS, *text]], dtype=torch.uint8)
    logits = whole(model(name), src, torch.tensor([src.shape[1]]), tgt)[0].log_softmax(dim=-1)
    return logits[torch.arange(len(text) + 1), torch.tensor([*text, EOS])].detach().numpy()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), rotated(ARCHITECTURES, ["greedy", "beam", "samples"], 1))
def test_every_engine_writes_the_same_sentinels(name: str, how: str) -> None:
    """All engines write the same texts and flags, with the model's own log-probabilities."""
    requests = with_sentinels(9, seed=sum(map(ord, name + how)))
    options, of = SEARCHES[how], model(name)
    results = {kind: run(engine(kind, [of], options), requests) for kind in KINDS}
    for one, hypotheses in zip(requests, results["torch"], strict=True):
        for hypothesis in hypotheses:
            expected = teacher_forced(name, one.source or b"", hypothesis.text)
            assert hypothesis.log_probability == pytest.approx(expected.sum(), abs=1e-3)
    for actual in results.values():
        agree(actual, results["torch"])
        for mine, other in zip(actual, results["torch"], strict=True):
            assert [one.is_past_end for one in mine] == [one.is_past_end for one in other]


# ---- the CPU engine's own memory and precisions


def test_sentences_may_come_later_and_longer() -> None:
    """A longer source and output than there was room for moves what is running, and changes
    nothing."""
    of, options = packed(model("bahdanau")), SearchOptions(beam=2, n_best=2)
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


def test_sources_that_take_several_calls_of_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of growing size, prepared together: what the later ones need leaves the earlier ones
    whole."""
    monkeypatch.setattr("bytenmt.decoding.cpu.session.MAX_RECURRENT_COLUMNS", 400)
    of, options = packed(model("bahdanau")), SearchOptions()
    # Longest first: 250 columns, then 390.
    requests = [Request(b"a" * n, 12) for n in (249, 194, 194)]
    expected = [run(NumbaEngine([of], options, 1), [request])[0] for request in requests]
    assert run(NumbaEngine([of], options, 3), requests) == expected


@pytest.mark.parametrize("name", ["bytenet-wide", "convs2s", "luong", "bahdanau"])
def test_int8_is_the_model_of_its_rounded_weights(name: str) -> None:
    """Every matrix of the step and the encoder rounded by rows, everything else as it was: what
    rounding the inputs, too, costs on the mean is a few hundredths in the log-probability of a
    byte."""
    of, rounded = model(name), model(name)
    with torch.no_grad():
        for key, parameter in rounded.named_parameters():
            if parameter.dim() > 1 and key != "embedding.weight":
                q, scales = quantise(parameter.flatten(1).numpy())
                parameter.copy_(torch.from_numpy(q * scales[:, None]).view_as(parameter))
    texts = [request.source or b"" for request in some_requests(8)]
    ours = CpuScorer([packed(of, "int8")]).score_texts(texts, texts[::-1])
    theirs = TorchScorer([rounded], torch.device("cpu")).score_texts(texts, texts[::-1])
    apart = np.concatenate([a.log_p - b.log_p for a, b in zip(ours, theirs, strict=True)])
    assert 0 < np.abs(apart).mean() < 5e-2 and np.abs(apart).max() < 0.3
