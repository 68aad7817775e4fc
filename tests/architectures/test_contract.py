"""The contract that all architectures obey (architectures/base.py), over several of their options."""

from __future__ import annotations

from typing import Any

import invariants
import pytest
import torch
from fast_variants import by_variant
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import PARALLEL, VARIANTS, WITH_SOURCE, WITHOUT_SOURCE, make
from rotation import rotated

from bytenmt.architectures.base import Model
from bytenmt.architectures.costs import receptive_field, step_cost
from bytenmt.architectures.tensor_tree import tensors

every_model = by_variant("name", VARIANTS)
every_parallel_model = by_variant("name", PARALLEL)


class ModelsByName(dict[str, Model[Any, Any]]):
    """Models that are made when they are first asked for: collecting tests needs none."""

    def __missing__(self, name: str) -> Model[Any, Any]:
        return self.setdefault(name, make(name))


MODELS = ModelsByName()
N_EXAMPLES = 4  # of each of fifty models, whose states are all cut by the same code
pieces_of_text = st.lists(st.integers(1, 5), min_size=1, max_size=6)


@every_model
def test_steps_equal_teacher_forcing(name: str) -> None:
    """Step by step equals one call over the whole."""
    invariants.check_steps(MODELS[name])


@every_model
@settings(max_examples=N_EXAMPLES)
@given(pieces=pieces_of_text, gradients=st.booleans())
def test_any_cut_equals_the_whole(name: str, pieces: list[int], gradients: bool) -> None:
    """Splitting the sequence at any position does not change the result, with and without gradients."""
    invariants.check_cut(MODELS[name], pieces, gradients)


@every_model
def test_a_state_given_with_gradients_is_kept(name: str) -> None:
    """With gradients forward returns a fresh state; shapes are constant."""
    invariants.check_state_kept(MODELS[name])


@every_model
def test_gradients_are_the_same_in_pieces(name: str) -> None:
    """Gradients flow through the state: pieces give the gradients of the whole."""
    model = make(name)
    src, src_len = invariants.some_sources([4, 7])
    tgt = invariants.some_inputs(2, 9)
    found = []
    for pieces in ([9], [1, 3, 5]):
        model.zero_grad()
        logits = invariants.in_pieces(model, src, src_len, tgt, pieces)
        logits.log_softmax(dim=-1)[..., 65].sum().backward()
        found.append(invariants.gradients(model))
    assert found[0].keys() == found[1].keys() == dict(model.named_parameters()).keys()
    for key, gradient in found[0].items():
        invariants.assert_same(found[1][key], gradient, key)


@every_model
def test_causality(name: str) -> None:
    """A NaN at t+1 touches nothing at or before t."""
    invariants.check_causality(MODELS[name])


@every_model
def test_autoregressive(name: str) -> None:
    """A target byte changes the prediction of its successor."""
    invariants.check_autoregressive(MODELS[name])


@by_variant("name", WITH_SOURCE)
def test_source_matters(name: str) -> None:
    """Each source byte changes the predictions."""
    invariants.check_source_matters(MODELS[name])


@every_model
def test_padding_and_batch_mates_change_nothing(name: str) -> None:
    """Alone, in a batch, padded wider with rubbish: the same."""
    invariants.check_padding(MODELS[name])


@every_model
def test_rows_permute_freely(name: str) -> None:
    """The order of a batch does not matter."""
    invariants.check_permutation(MODELS[name])


@every_model
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_beams_share_a_memory(name: str, beam: int) -> None:
    """A memory of n rows serves n * beam rows."""
    invariants.check_beams(MODELS[name], beam)


@by_variant(("name", "seed"), rotated([*VARIANTS], range(3), 1))
def test_reordered_beams_equal_teacher_forcing(name: str, seed: int) -> None:
    """Random reorderings, steps and chunks: each row is what its own bytes give."""
    invariants.check_reorder(MODELS[name], seed=seed)


@every_model
def test_reordered_beams_with_gradients(name: str) -> None:
    """Reordering gives the same result when every state is a new tensor."""
    invariants.check_reorder(MODELS[name], calls=8, gradients=True)


@every_parallel_model
def test_rings_stay_where_they_are(name: str) -> None:
    """Neither a step nor a reordering copies a ring."""
    invariants.check_rings_in_place(MODELS[name])


@every_parallel_model
def test_receptive_field(name: str) -> None:
    """Found by probing, it equals the formula."""
    invariants.check_receptive_field(MODELS[name])


@by_variant("name", sorted(set(VARIANTS) - set(PARALLEL)))
def test_recurrent_models_see_everything(name: str) -> None:
    """No receptive field is claimed, and the first byte still matters at the 30th."""
    model = MODELS[name]
    assert receptive_field(model.config) is None
    src, src_len = invariants.some_sources([4])
    tgt = invariants.some_inputs(1, 30)
    other = tgt.clone()
    other[0, 1] ^= 1
    a, b = (invariants.whole(model, src, src_len, x)[:, -1] for x in (tgt, other))
    assert float((a - b).abs().max()) > 0


@pytest.mark.parametrize(
    ("name", "left", "right"),
    # sum of (k-1) r // 2 to the left, and what is left of (k-1) r to the right
    [("bytenet", 6, 6), ("bytenet-short", 1, 3), ("convs2s", 2, 2), ("convs2s-uneven", 1, 3)],
)
def test_encoder_receptive_field(name: str, left: int, right: int) -> None:
    """A source byte reaches exactly the encoder columns that the kernels let it reach."""
    model = make(name)
    src, src_len = invariants.some_sources([24])
    at = 12
    other = src.clone()
    other[0, at] ^= 3
    with torch.no_grad():
        a, b = model.encode(src, src_len)[0], model.encode(other, src_len)[0]
    touched = (a - b).abs().amax(dim=-1)[0].gt(1e-13).nonzero().flatten().tolist()
    width = a.shape[1] if "convs2s" in name else int(model.encode(src, src_len)[1])
    # an output column reads `left` columns before it, so a byte reaches `left` columns after it
    assert touched == [i for i in range(at - right, at + left + 1) if i < width]


@every_model
def test_without_a_source(name: str) -> None:
    """A byte language model under the same contract."""
    invariants.check_without_source(MODELS[name])


@by_variant("name", WITHOUT_SOURCE)
def test_a_model_without_a_source_takes_none(name: str) -> None:
    """The model has only the weights of its embedding and decoder, all of which learn; a source is
    refused.
    """
    model = MODELS[name]
    assert all(key.startswith(("embedding.", "decoder.")) for key, _ in model.named_parameters())
    assert step_cost(model.config, 1000) == step_cost(model.config, 0)
    with pytest.raises(ValueError, match="without"):
        model.encode(*invariants.some_sources([5]))


@pytest.mark.slow
@every_model
def test_evaluation_is_deterministic_and_training_drops(name: str) -> None:
    """Dropout belongs to training mode alone."""
    model = invariants.build(VARIANTS[name] | {"dropout": 0.5})
    src, src_len = invariants.some_sources([5])
    tgt = invariants.some_inputs(1, 6)
    expected = invariants.whole(model, src, src_len, tgt)
    invariants.assert_same(invariants.whole(model, src, src_len, tgt), expected, "twice")
    model.train()
    invariants.assert_differ(
        invariants.whole(model, src, src_len, tgt).flatten(1), expected.flatten(1), "training"
    )


@every_model
def test_state_and_cost_are_counted(name: str) -> None:
    """A row's first state is as large as that of a sentence; a longer source never makes a step cheaper."""
    model = MODELS[name]
    src, src_len = invariants.some_sources([5])
    state = model.start(invariants.encode(model, src, src_len))
    assert [part.shape for part in model.first_state()] == [part.shape for part in tensors(state)]
    assert 0 < step_cost(model.config, 1) <= step_cost(model.config, 100)


@every_model
def test_rows_can_be_moved(name: str) -> None:
    """Memories and states are selected, concatenated and placed by sentences, beams and all."""
    invariants.check_moved_rows(MODELS[name])
