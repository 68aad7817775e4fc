"""Training on the model's own bytes (train.teacher_forcing below 1): which bytes are read."""

from __future__ import annotations

import invariants
import pytest
import torch

from bytenmt.training.losses import draw_inputs


@pytest.mark.parametrize("name", ["seq2seq-cho", "seq2seq-lstm", "bahdanau", "luong", "convs2s"])
def test_each_byte_that_is_read_is_the_true_one_or_the_models_own(name: str) -> None:
    """An own byte is the likeliest after all that was read before it, own bytes among it: teacher forcing of
    what was drawn tells each of them. Their share is what it should be."""
    model = invariants.make(name)
    src, src_len = invariants.some_sources([5, 9, 3, 7, 2, 4, 4, 8])
    true = invariants.some_inputs(8, 30)
    torch.manual_seed(0)
    with torch.no_grad():
        drawn = draw_inputs(model, model.encode(src, src_len), true, 0.6)
    likeliest = invariants.whole(model, src, src_len, drawn)[:, :-1].argmax(dim=-1).to(torch.uint8)
    own = drawn[:, 1:] == likeliest
    assert torch.equal(drawn[:, 0], true[:, 0])
    assert bool((own | (drawn[:, 1:] == true[:, 1:])).all())
    assert float(own.float().mean()) == pytest.approx(0.4, abs=0.1)
    before = invariants.whole(model, src, src_len, true)[:, :-1].argmax(dim=-1)
    assert not torch.equal(
        before.to(torch.uint8)[own], likeliest[own]
    )  # not of the true bytes: no two passes


def test_bytes_are_drawn_as_the_model_predicts_them() -> None:
    """The first own byte of many rows has the frequencies of the predictions."""
    model = invariants.make("bahdanau")
    with torch.no_grad():
        model.decoder.output.weight.mul_(2)  # type: ignore[union-attr, operator]
    src, src_len = invariants.some_sources([5] * 4000)
    src[:] = src[0]
    true = invariants.some_inputs(4000, 2)
    torch.manual_seed(0)
    with torch.no_grad():
        drawn = draw_inputs(model, model.encode(src, src_len), true, 0.0, "drawn")[:, 1]
    expected = invariants.whole(model, src[:1], src_len[:1], true[:1, :1])[0, 0].softmax(dim=-1)
    found = torch.bincount(drawn.int(), minlength=256) / len(drawn)
    assert float((found - expected).abs().max()) < 5 * (0.25 / len(drawn)) ** 0.5
    assert float(expected.max()) < 0.9 and len(drawn.unique()) > 5
