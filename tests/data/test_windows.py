"""Texts as streams: what is read of them, and what their bytes cost.

Tests data/windows.py (Streams, serial_windows, shuffled_windows).
"""

from typing import Any

import invariants
import numpy as np
import pytest
import torch
from fast_variants import by_variant, rotated
from hypothesis import given
from hypothesis import strategies as st
from small_runs import CPU, config
from variants import WITHOUT_SOURCE

from bytenmt.architectures.registry import build_model
from bytenmt.data.windows import Streams, WindowBatch, serial_windows, shuffled_windows
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.language.surprisal import stream_surprisal
from bytenmt.training.language_model import LanguageModelObjective, text_bits
from bytenmt.utf8 import BOS

TEXT = ("model.source=false", "train.window=20")
sizes = st.lists(st.integers(1, 60), min_size=1, max_size=3)


def texts_of(lengths: list[int]) -> list[Any]:
    """Texts of these lengths in which no two neighbours repeat: 0, 1, 2 … and BOS' value among
    them."""
    every = np.arange(sum(lengths)) % 256
    return np.split(every.astype(np.uint8), np.cumsum(lengths)[:-1])


def check_rows(window: WindowBatch, texts: list[Any], fresh_rows: bool) -> None:
    """Each byte is read right before its successor is to be told; BOS where a text or a fresh row
    begins."""
    whole = np.concatenate(texts)
    begins = {0, *np.cumsum([len(text) for text in texts])[:-1].tolist()}
    for read, truth in zip(window.read.tolist(), window.truth.tolist(), strict=True):
        places = [at for at in range(len(whole)) if whole[at] == truth[0]]
        for j, byte in enumerate(read):
            place = (places[0] + j) % len(whole)
            opens = place in begins or fresh_rows and j == 0
            assert truth[j] == whole[place]
            assert byte == (BOS if opens else whole[place - 1])


@given(lengths=sizes, n_rows=st.integers(1, 7), width=st.integers(1, 9), epoch=st.integers(0, 3))
def test_rows_read_on(lengths: list[int], n_rows: int, width: int, epoch: int) -> None:
    """Contiguous streams: a row goes on where it stopped, no byte comes twice, and what is left
    over is less than a window a row; an epoch may be taken up at any batch, by any share of the
    rows."""
    texts = texts_of(lengths)
    streams = Streams(texts)
    n_rows = min(n_rows, max(1, sum(lengths) // width))
    plan = n_rows, range(n_rows), width, 5, epoch
    if sum(lengths) < width:
        return
    found = list(serial_windows(streams, *plan))
    assert [window.fresh for window in found] == [True] + [False] * (len(found) - 1)
    for window in found:
        check_rows(window, texts, window.fresh)
    for before, after in zip(found, found[1:], strict=False):
        expected = (before.truth[:, -1].astype(int) + 1) % sum(lengths)
        assert (after.truth[:, 0] == expected).all()
    seen = np.concatenate([window.truth.ravel() for window in found])
    assert len(np.unique(seen)) == len(seen) > sum(lengths) - n_rows * width - n_rows
    again = list(serial_windows(streams, n_rows, range(0, n_rows, 2), width, 5, epoch, first=1))
    assert len(again) == len(found) - 1
    assert all((a.truth == b.truth[::2]).all() for a, b in zip(again, found[1:], strict=True))


@given(
    lengths=st.lists(st.integers(12, 60), min_size=1, max_size=3),
    context=st.integers(0, 5),
    width=st.integers(1, 6),
    n_rows=st.integers(1, 4),
)
def test_windows_tile_each_text(lengths: list[int], context: int, width: int, n_rows: int) -> None:
    """Windows keep within their text; a text's first one counts from its first byte; of the others
    each byte counts once at most; and every byte counts."""
    texts = texts_of(lengths)
    streams = Streams(texts)
    plan = context, width, 5, 1
    found = list(shuffled_windows(streams, n_rows, range(n_rows), *plan))
    counted, firsts, every = list[int](), list[int](), set[int]()
    for window in found:
        assert window.fresh and window.truth.shape[1] == context + width
        check_rows(window, texts, False)
        for read, truth, skipped in zip(window.read, window.truth, window.skipped, strict=True):
            firsts += [int(truth[0])] * int(read[0] == BOS and skipped == 0)
            counted += truth[skipped:].tolist() if skipped or not context else []
            every |= {*truth[skipped:].tolist()}
            assert skipped == 0 or context <= skipped < context + width
            begin, end = np.searchsorted(np.cumsum(lengths), truth[[0, -1]], "right")
            assert begin == end
    assert set(firsts) >= {int(text[0]) for text in texts}
    if context:
        assert len(set(counted)) == len(counted)
    assert len(every) == sum(lengths)
    halves = [
        list(shuffled_windows(streams, n_rows, range(rank, n_rows, 2), *plan, first=1))
        for rank in range(2)
    ]
    for whole, even, odd in zip(found[1:], *halves, strict=True):
        assert (even.truth == whole.truth[::2]).all() and (odd.truth == whole.truth[1::2]).all()


def test_epochs_differ() -> None:
    """Another epoch or seed has other windows in another order; the same ones are the same."""
    streams = Streams([np.arange(250).astype(np.uint8)])

    def first(seed: int, epoch: int) -> list[Any]:
        return next(shuffled_windows(streams, 3, range(3), 2, 5, seed, epoch)).truth.tolist()

    assert first(1, 0) == first(1, 0) and first(1, 0) not in (first(1, 1), first(2, 0))
    serial = [next(serial_windows(streams, 3, range(3), 5, 1, epoch)) for epoch in range(4)]
    assert len({window.truth[0, 0] for window in serial}) > 1


@pytest.mark.parametrize("name", ["seq2seq-alone", "luong-alone"])
def test_the_state_is_carried(name: str) -> None:
    """Two windows one behind the other have the nats of one of both; the gradient ends between
    them."""
    model: Any = invariants.build(WITHOUT_SOURCE[name])
    arch = WITHOUT_SOURCE[name]["arch"]
    objective = LanguageModelObjective(config(arch, *TEXT, "train.label_smoothing=0.1"))
    text = invariants.some_bytes(1, 41).numpy()
    read, truth, none = text[:, :-1], text[:, 1:], np.zeros(1, np.int64)
    whole = objective.gradients(model, [WindowBatch(read, truth, none, True)], 40)
    first = objective.gradients(model, [WindowBatch(read[:, :25], truth[:, :25], none, True)], 40)
    model.zero_grad()
    rest = objective.gradients(model, [WindowBatch(read[:, 25:], truth[:, 25:], none, False)], 40)
    assert float(first + rest) == pytest.approx(float(whole), abs=1e-9)
    alone = objective.gradients(model, [WindowBatch(read[:, 25:], truth[:, 25:], none, True)], 40)
    assert abs(float(alone - rest)) > 1e-6
    seen = set(text[0, 25:-1].tolist())
    touched = {i for i in range(256) if bool(model.embedding.weight.grad[i].any())}
    assert touched == seen


def test_what_is_context_only_costs_nothing() -> None:
    settings = config("convs2s", *TEXT, "model.encoder_layers=[]", "model.dropout=0.0")
    model: Any = build_model(settings.model)
    objective = LanguageModelObjective(settings)
    text = invariants.some_bytes(2, 31).numpy()
    whole = WindowBatch(text[:, :-1], text[:, 1:], np.array([12, 0]), True)
    no_source = torch.zeros(2, 0, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)
    with torch.no_grad():
        memory = model.encode(*no_source)
        logits, _ = model(torch.from_numpy(whole.read), memory, model.start(memory))
    truth = torch.from_numpy(whole.truth).long()[:, :, None]
    log_p = logits.log_softmax(-1).gather(2, truth)[:, :, 0]
    expected = -float(log_p[0, 12:].sum() + log_p[1].sum())
    assert whole.counts == (0, 48, 0)
    assert float(objective.gradients(model, [whole], 48)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
@by_variant(("name", "n"), rotated([*WITHOUT_SOURCE], [1, 700, 5000, 2047]))
def test_validation_is_prediction(name: str, n: int) -> None:
    """Read side by side a text costs what it costs as one stream."""
    torch.manual_seed(n)
    model = invariants.build(WITHOUT_SOURCE[name], scale=0.2)
    text = invariants.some_bytes(1, n).numpy()[0]
    parts = stream_surprisal(TorchScorer([model], CPU), [text.tobytes()])
    expected = sum(part.bits.sum() for part in parts)
    assert text_bits(model, text, CPU) == pytest.approx(expected, rel=1e-6)
