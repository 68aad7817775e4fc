"""The contract that all architectures obey, over several of their options.

Tests architectures/base.py (Model.encode, start, forward, reorder; AttentiveModel.forward_aligned).
"""

from collections.abc import Callable, Iterable
from functools import cache, partial

import invariants
import pytest
from fast_variants import by_variant, rotated
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import PARALLEL, WITH_SOURCE, AnyModel, check_reorder, make
from variants import VARIANTS, WITHOUT_SOURCE

model_of = cache(make)  # by the variant's name; collecting tests makes none
pieces_of_text = st.lists(st.integers(1, 5), min_size=1, max_size=6)


def check_recurrence(model: AnyModel) -> None:
    """No receptive field is claimed."""
    assert model.config.receptive_field is None


def check_no_source(model: AnyModel) -> None:
    """A model that is made without a source has only the weights of its embedding and decoder."""
    assert all(key.startswith(("embedding.", "decoder.")) for key, _ in model.named_parameters())


RECURRENT = sorted(set(VARIANTS) - set(PARALLEL))
# What holds, for which models; each check says it in its own words.
CONTRACT: dict[str, tuple[Callable[[AnyModel], None], Iterable[str]]] = {
    "steps equal teacher forcing": (invariants.check_steps, VARIANTS),
    "a state given with gradients is kept": (invariants.check_state_kept, VARIANTS),
    "causality": (invariants.check_causality, VARIANTS),
    "autoregressive": (invariants.check_autoregressive, VARIANTS),
    "each source byte matters": (invariants.check_source_matters, WITH_SOURCE),
    "padding and batch mates change nothing": (invariants.check_padding, VARIANTS),
    "five beams share a memory": (partial(invariants.check_beams, beam=5), VARIANTS),
    "reordered with gradients": (partial(check_reorder, calls=8, gradients=True), VARIANTS),
    "rings stay where they are": (invariants.check_rings_in_place, PARALLEL),
    "the receptive field is the formula's": (invariants.check_receptive_field, PARALLEL),
    "recurrent models claim no receptive field": (check_recurrence, RECURRENT),
    "made without a source": (check_no_source, WITHOUT_SOURCE),
    "rows can be moved": (invariants.check_moved_rows, VARIANTS),
}


PROMISES = [(promise, name) for promise, (_, names) in CONTRACT.items() for name in names]


@by_variant(("promise", "name"), PROMISES)
def test_the_contract(promise: str, name: str) -> None:
    CONTRACT[promise][0](model_of(name))


@by_variant("name", VARIANTS)
@settings(max_examples=4)  # of each of fifty models, whose states are all cut by the same code
@given(pieces=pieces_of_text, gradients=st.booleans())
def test_any_cut_equals_the_whole(name: str, pieces: list[int], gradients: bool) -> None:
    invariants.check_cut(model_of(name), pieces, gradients)


@by_variant("name", VARIANTS)
def test_gradients_are_the_same_in_pieces(name: str) -> None:
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


@by_variant(("name", "seed"), rotated([*VARIANTS], range(3), 1))
def test_reordered_beams_equal_teacher_forcing(name: str, seed: int) -> None:
    invariants.check_reorder(model_of(name), seed=seed)


@pytest.mark.slow
@by_variant("name", VARIANTS)
def test_evaluation_is_deterministic_and_training_drops(name: str) -> None:
    model = invariants.build(VARIANTS[name] | {"dropout": 0.5})
    src, src_len = invariants.some_sources([5])
    tgt = invariants.some_inputs(1, 6)
    expected = invariants.whole(model, src, src_len, tgt)
    invariants.assert_same(invariants.whole(model, src, src_len, tgt), expected, "twice")
    model.train()
    found = invariants.whole(model, src, src_len, tgt)
    invariants.assert_differ(found.flatten(1), expected.flatten(1), "training")
