"""Tests of the tests: plant a fault that public re-implementations made, see the invariant fail.

Each fault is patched in, then the invariant that should notice it must raise AssertionError. The
same invariants pass unpatched in test_contract.py, test_reference.py and
test_scheduler_and_search.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import invariants
import pytest
import torch
from fast_variants import by_variant
from invariants import VARIANTS, AnyModel, make
from torch import Tensor, nn

from bytenmt.architectures.bahdanau import model as bahdanau
from bytenmt.architectures.bytenet import model as bytenet
from bytenmt.architectures.bytenet.model import ByteNet
from bytenmt.architectures.convs2s import encoder as convs2s_encoder
from bytenmt.architectures.convs2s import model as convs2s
from bytenmt.architectures.luong import model as luong
from bytenmt.architectures.luong.config import LuongConfig
from bytenmt.architectures.seq2seq import model as seq2seq
from bytenmt.layers import convolution, recurrent
from bytenmt.layers.attention import attend
from bytenmt.layers.convolution import Clock, Convolution, RingTaps, WeightNorm
from bytenmt.layers.embedding import PositionEmbedding
from bytenmt.layers.recurrent import GRU

Patch = pytest.MonkeyPatch
Check = Callable[[AnyModel], None]

ALL = ["seq2seq", "bahdanau", "luong", "bytenet", "convs2s"]
CONVOLUTIONAL = ["bytenet", "convs2s"]
ATTENTIVE = ["bahdanau", "luong", "convs2s"]


def assert_caught(check: Check, model: AnyModel, message: str | None = None) -> None:
    """The invariant fails, and for a reason of its own."""
    with pytest.raises(AssertionError, match=message):
        check(model)


# ---- causality and shifts


def test_normalising_over_time_is_caught(monkeypatch: Patch) -> None:
    """F.1: statistics over time let the future into the past."""

    def over_time(self: nn.LayerNorm, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=1, keepdim=True)
        scale = (centred.square().mean(dim=1, keepdim=True) + self.eps).sqrt()
        return centred / scale * self.weight + self.bias

    monkeypatch.setattr(nn.LayerNorm, "forward", over_time)
    assert_caught(invariants.check_causality, make("bytenet"), "before a NaN")
    assert_caught(invariants.check_autoregressive, make("bytenet"), "before a change")
    assert_caught(invariants.check_padding, make("bytenet"))


@by_variant("name", CONVOLUTIONAL)
def test_looking_one_byte_ahead_is_caught(name: str, monkeypatch: Patch) -> None:
    """A causal convolution shifted by one."""
    causal = Convolution.causal

    def ahead(self: Convolution, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        return causal(self, torch.cat([x[:, 1:], x[:, -1:]], dim=1), ring, taps)

    monkeypatch.setattr(Convolution, "causal", ahead)
    assert_caught(invariants.check_causality, make(name), "before a NaN")
    assert_caught(invariants.check_steps, make(name))


@by_variant("name", ALL)
def test_a_lag_of_one_byte_is_caught(name: str, monkeypatch: Patch) -> None:
    """F.9: an input shifted twice."""
    model = make(name)
    forward = type(model).forward

    def late(self: AnyModel, tgt: Tensor, memory: Any, state: Any) -> Any:
        return forward(self, torch.cat([tgt[:, :1], tgt[:, :-1]], dim=1), memory, state)

    monkeypatch.setattr(type(model), "forward", late)
    assert_caught(invariants.check_autoregressive, model, "right after a change")
    assert_caught(invariants.check_causality, model, "does not reach")


@by_variant("name", ALL)
def test_a_decoder_that_ignores_its_input_is_caught(name: str, monkeypatch: Patch) -> None:
    """F.8: predictions from the source alone."""
    model = make(name)
    forward = type(model).forward

    def deaf(self: AnyModel, tgt: Tensor, memory: Any, state: Any) -> Any:
        return forward(self, torch.full_like(tgt, 65), memory, state)

    monkeypatch.setattr(type(model), "forward", deaf)
    assert_caught(invariants.check_autoregressive, model, "right after a change")


@by_variant("name", ALL)
def test_a_decoder_that_ignores_its_source_is_caught(name: str, monkeypatch: Patch) -> None:
    """A memory that is always the same."""
    model = make(name)
    encode = type(model).encode

    def blind(self: AnyModel, src: Tensor, src_len: Tensor) -> Any:
        return encode(self, torch.full_like(src, 65), src_len)

    monkeypatch.setattr(type(model), "encode", blind)
    assert_caught(invariants.check_source_matters, model, "source byte")


@by_variant("name", CONVOLUTIONAL)
def test_a_narrower_masked_kernel_is_caught(name: str, monkeypatch: Patch) -> None:
    """F.7: half of the kernel's taps gone, so that the receptive field is not the formula's."""
    causal = Convolution.causal

    def narrow(self: Convolution, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        weight = self.plain if self.normed is None else self.normed.v
        assert weight is not None
        with torch.no_grad():
            weight[:, 0] = 0
        return causal(self, x, ring, taps)

    monkeypatch.setattr(Convolution, "causal", narrow)
    assert_caught(invariants.check_receptive_field, make(name), "receptive field")


# ---- padding


@by_variant("name", CONVOLUTIONAL)
def test_a_mask_forgotten_before_a_convolution_is_caught(name: str, monkeypatch: Patch) -> None:
    """F.3: biases make padding non-zero again."""
    centred = Convolution.centred

    def unmasked(self: Convolution, x: Tensor, mask: Tensor) -> Tensor:
        return centred(self, x, torch.ones_like(mask))

    monkeypatch.setattr(Convolution, "centred", unmasked)
    assert_caught(invariants.check_padding, make(name))
    assert_caught(invariants.check_reference, make(name))


@by_variant("name", CONVOLUTIONAL)
def test_masking_the_first_convolution_only_is_caught(name: str, monkeypatch: Patch) -> None:
    """F.3: masking the embeddings once is not enough."""
    centred = Convolution.centred
    model: Any = make(name)
    stack = model.encoder.blocks if name == "bytenet" else model.encoder.layers

    def once(self: Convolution, x: Tensor, mask: Tensor) -> Tensor:
        first = self is stack[0].convolution
        return centred(self, x, mask if first else torch.ones_like(mask))

    monkeypatch.setattr(Convolution, "centred", once)
    assert_caught(invariants.check_padding, model)


@by_variant("name", ATTENTIVE)
def test_a_mask_forgotten_in_attention_is_caught(name: str, monkeypatch: Patch) -> None:
    """F.6: weight on padding."""

    def unmasked(scores: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return attend(scores, values, torch.ones_like(mask))

    for module in (bahdanau, luong, convs2s):
        monkeypatch.setattr(module, "attend", unmasked)
    assert_caught(invariants.check_padding, make(name))
    assert_caught(invariants.check_reference, make(name))


@pytest.mark.parametrize("name", ["luong-local-p", "luong-inside"])
def test_a_gaussian_left_out_is_caught(name: str, monkeypatch: Patch) -> None:
    """A window without it is another attention."""
    monkeypatch.setattr(luong, "gaussian", lambda distance, window: torch.ones_like(distance))
    assert_caught(invariants.check_reference, make(name))


def test_weights_normalised_after_the_gaussian_is_caught(monkeypatch: Patch) -> None:
    """A.3: they are not, in the paper."""

    def whole(scores: Tensor, values: Any, mask: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
        weights = attend(scores, values, mask, factors)[1]
        return values(weights / weights.sum(dim=-1, keepdim=True)), weights

    monkeypatch.setattr(luong, "attend", whole)
    assert_caught(invariants.check_reference, make("luong-local-p"))


@pytest.mark.parametrize("name", ["luong-location", "luong-local-m"])
def test_places_of_the_source_turned_round_are_caught(name: str, monkeypatch: Patch) -> None:
    """A place in the order in which the encoder reads is not one in the text."""
    monkeypatch.setattr(LuongConfig, "by_place", False)
    assert_caught(invariants.check_reference, make(name))


def test_a_forgotten_place_in_the_target_is_caught(monkeypatch: Patch) -> None:
    """local-m that counts from the beginning of each call."""
    forward = luong.Luong.forward

    def forgetful(self: Any, tgt: Tensor, memory: Any, state: Any) -> Any:
        return forward(self, tgt, memory, state._replace(position=torch.zeros_like(state.position)))

    monkeypatch.setattr(luong.Luong, "forward", forgetful)
    assert_caught(invariants.check_steps, make("luong-local-m"), "steps and the whole")


@pytest.mark.parametrize("name", ["seq2seq", "bahdanau", "luong-concat"])
def test_turning_the_padding_too_is_caught(name: str, monkeypatch: Patch) -> None:
    """A reversed source that begins with its padding."""

    def flip(x: Tensor, lengths: Tensor) -> Tensor:
        return x.flip(1)

    for module in (seq2seq, bahdanau, luong):
        monkeypatch.setattr(module, "reverse", flip)
    assert_caught(invariants.check_padding, make(name))


@pytest.mark.parametrize("name", ["seq2seq", "luong"])
def test_the_last_column_instead_of_the_sentences_last_is_caught(name: str, monkeypatch: Patch) -> None:
    """The final state read after the padding."""

    def last_column(x: Tensor, lengths: Tensor | None) -> Tensor:
        return x[:, -1]

    monkeypatch.setattr(recurrent, "last", last_column)
    assert_caught(invariants.check_padding, make(name))


def test_unfolding_by_the_batch_width_is_caught(monkeypatch: Patch) -> None:
    """F.4: |t^| from the longest sentence of the batch."""
    unfolded_len = ByteNet.unfolded_len

    def of_the_batch(self: ByteNet, src_len: Tensor) -> Tensor:
        return unfolded_len(self, src_len.max().expand_as(src_len))

    monkeypatch.setattr(ByteNet, "unfolded_len", of_the_batch)
    assert_caught(invariants.check_padding, make("bytenet"), "alone and in a batch")
    assert_caught(invariants.check_reference, make("bytenet"))


def test_counting_padding_in_the_contexts_scale_is_caught(monkeypatch: Patch) -> None:
    """ConvS2S' sqrt(m) with m the batch's width."""
    attend_ = convs2s.DecoderLayer.attend

    def by_width(self: Any, h: Tensor, g: Tensor, memory: Any, mask: Tensor) -> Tensor:
        width = torch.full_like(memory.source_len, memory.keys.shape[1])
        return attend_(self, h, g, memory._replace(source_len=width), mask)

    monkeypatch.setattr(convs2s.DecoderLayer, "attend", by_width)
    assert_caught(invariants.check_padding, make("convs2s"))


def test_a_mean_that_reads_padding_is_caught(monkeypatch: Patch) -> None:
    """ConvS2S' pooling encoder without its mask."""
    pooled = convs2s_encoder.pooled
    blind = lambda x, mask, *sizes: pooled(x, torch.ones_like(mask), *sizes)  # noqa: E731
    monkeypatch.setattr(convs2s_encoder, "pooled", blind)
    assert_caught(invariants.check_padding, make("convs2s-pooling"))


def test_a_dilation_that_is_left_out_is_caught(monkeypatch: Patch) -> None:
    """A missing dilation in ConvS2S' encoder, which does not change any receptive field, is detected."""
    centred = Convolution.centred

    def dense(self: Convolution, x: Tensor, mask: Tensor) -> Tensor:
        monkeypatch.setattr(self, "dilation", 1)
        return centred(self, x, mask)

    monkeypatch.setattr(Convolution, "centred", dense)
    assert_caught(invariants.check_reference, make("convs2s-dilated"), "sentence")


# ---- state


def test_recurrent_columns_that_stay_behind_are_caught(monkeypatch: Patch) -> None:
    """A recurrent ByteNet whose reordering moves the positions alone."""

    def clock_alone(self: ByteNet, state: Any, parents: Tensor) -> Any:
        return state._replace(clock=state.clock.reorder(parents))

    monkeypatch.setattr(ByteNet, "reorder", clock_alone)
    assert_caught(invariants.check_reorder, make("recurrent-bytenet-decoder"))


@by_variant("name", CONVOLUTIONAL)
def test_a_ring_that_is_not_written_is_caught(name: str, monkeypatch: Patch) -> None:
    """Steps that forget what they read."""
    causal = Convolution.causal

    def forgetful(self: Convolution, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        return causal(self, x, ring.clone(), taps)[0], ring

    monkeypatch.setattr(Convolution, "causal", forgetful)
    assert_caught(invariants.check_steps, make(name), "steps and the whole")


@by_variant("name", CONVOLUTIONAL)
def test_a_ring_that_is_too_small_is_caught(name: str, monkeypatch: Patch) -> None:
    """A ring shorter than the taps reach: a column is overwritten before its last reading.

    (k-1)r columns would still do for one chunk that reads all before it writes; one less does not.
    """

    def too_small(kernel_width: int, dilation: int) -> int:
        return max(1, (kernel_width - 1) * dilation - 1)

    for module in (convolution, bytenet, convs2s):
        monkeypatch.setattr(module, "ring_capacity", too_small)
    assert_caught(invariants.check_steps, make(name))
    assert_caught(invariants.check_reorder, make(name))


@by_variant("name", CONVOLUTIONAL)
def test_a_ring_overwritten_by_another_beam_is_caught(name: str, monkeypatch: Patch) -> None:
    """Rows that read and write one after another need one column more than (k-1)r."""
    causal = Convolution.causal

    def one_by_one(self: Convolution, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        if x.shape[1] > 1:
            return causal(self, x, ring, taps)
        outputs = []
        for i, column in enumerate(x):
            old = ring[taps.rows[i], taps.slots[i]]
            outputs.append(self._convolve(torch.cat([old, column])[None], taps.dilation))
            ring[i, taps.write[i]] = column
        return torch.cat(outputs), ring

    def small(kernel_width: int, dilation: int) -> int:
        return max(1, (kernel_width - 1) * dilation)

    monkeypatch.setattr(Convolution, "causal", one_by_one)
    invariants.check_reorder(make(name))  # with that column it is right
    for module in (convolution, bytenet, convs2s):
        monkeypatch.setattr(module, "ring_capacity", small)
    invariants.check_steps(make(name))  # and without beams it needs none
    assert_caught(invariants.check_reorder, make(name), "after reordering")


@by_variant("name", ALL)
def test_reordering_forgotten_is_caught(name: str, monkeypatch: Patch) -> None:
    """Beams that keep another's past; by the contract and by the search's scores."""
    model = invariants.build(VARIANTS[name], seed=11, scale=0.9)
    monkeypatch.setattr(type(model), "reorder", lambda self, state, parents: state)
    assert_caught(invariants.check_reorder, model, "after reordering")
    assert_caught(lambda m: invariants.check_search(m, beam=4), model, "off by")


@by_variant("name", CONVOLUTIONAL)
def test_ancestors_ignored_is_caught(name: str, monkeypatch: Patch) -> None:
    """Taps read from the row's own ring whatever its ancestors."""
    of = RingTaps.from_clock

    def own_rows(clock: Clock, t: int, kernel_width: int, dilation: int) -> RingTaps:
        taps = of(clock, t, kernel_width, dilation)
        rows = torch.arange(len(taps.rows))[:, None].expand_as(taps.rows)
        return taps._replace(rows=rows)

    monkeypatch.setattr(RingTaps, "from_clock", staticmethod(own_rows))
    assert_caught(invariants.check_reorder, make(name), "after reordering")
    invariants.check_steps(make(name))  # without beams nothing shows


@by_variant("name", CONVOLUTIONAL)
def test_ancestors_not_advanced_is_caught(name: str, monkeypatch: Patch) -> None:
    """A row that wrote a column is not made that column's owner."""
    monkeypatch.setattr(Clock, "advance", lambda self, t: Clock(self.position + t, self.ancestors))
    assert_caught(invariants.check_reorder, make(name), "after reordering")


@by_variant("name", CONVOLUTIONAL)
def test_ancestors_that_stay_behind_are_caught(name: str, monkeypatch: Patch) -> None:
    """A reordering that copies a row's distances without adding how far the row has come."""

    def reorder(self: Clock, parents: Tensor) -> Clock:
        return Clock(self.position[parents], self.ancestors[parents])

    monkeypatch.setattr(Clock, "reorder", reorder)
    assert_caught(invariants.check_reorder, make(name), "after reordering")


@by_variant("name", CONVOLUTIONAL)
def test_absolute_ancestors_are_caught(name: str, monkeypatch: Patch) -> None:
    """Row numbers instead of distances: right until rows move."""
    of, advance = RingTaps.from_clock, Clock.advance

    def own(clock: Clock) -> Tensor:
        return torch.arange(len(clock.position))[:, None]

    def start(rows: int, history: int, device: torch.device) -> Clock:
        zero = torch.zeros(rows, dtype=torch.int64)
        return Clock(zero, torch.arange(rows)[:, None].repeat(1, history))

    def relative(clock: Clock) -> Clock:
        return clock._replace(ancestors=clock.ancestors - own(clock))

    def advance_(self: Clock, t: int) -> Clock:
        after = advance(relative(self), t)
        return after._replace(ancestors=after.ancestors + own(after))

    monkeypatch.setattr(Clock, "start", staticmethod(start))
    monkeypatch.setattr(Clock, "advance", advance_)
    monkeypatch.setattr(Clock, "reorder", lambda self, p: Clock(self.position[p], self.ancestors[p]))
    monkeypatch.setattr(
        RingTaps, "from_clock", staticmethod(lambda clock, *sizes: of(relative(clock), *sizes))
    )
    invariants.check_reorder(make(name))
    with pytest.raises((AssertionError, IndexError)):
        invariants.check_moved_rows(make(name))


@by_variant("name", CONVOLUTIONAL)
def test_a_copied_ring_is_caught(name: str, monkeypatch: Patch) -> None:
    """A reordering that moves the rings."""
    model = make(name)
    reorder = type(model).reorder

    def copying(self: AnyModel, state: Any, parents: Tensor) -> Any:
        moved = reorder(self, state, parents)
        return moved._replace(rings=tuple(ring.clone() for ring in moved.rings))

    monkeypatch.setattr(type(model), "reorder", copying)
    assert_caught(invariants.check_rings_in_place, model, "copied")


@by_variant("name", CONVOLUTIONAL)
def test_a_state_written_under_gradients_is_caught(name: str, monkeypatch: Patch) -> None:
    """The fast path's in-place write where gradients need the old state."""
    causal = Convolution.causal

    def in_place(self: Convolution, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        y, new = causal(self, x, ring, taps)
        ring.detach().copy_(new.detach())
        return y, new

    model, kept = make(name), invariants.check_state_kept
    monkeypatch.setattr(Convolution, "causal", in_place)
    with pytest.raises((AssertionError, RuntimeError)):
        kept(model)


def test_a_position_off_by_one_is_caught(monkeypatch: Patch) -> None:
    """E.3: the position of a step is not the position of training."""
    forward = PositionEmbedding.forward

    def off(self: PositionEmbedding, positions: Tensor) -> Tensor:
        one_step = positions.dim() == 2 and positions.shape[1] == 1
        return forward(self, positions + 1 if one_step else positions)

    monkeypatch.setattr(PositionEmbedding, "forward", off)
    assert_caught(invariants.check_steps, make("convs2s"), "steps and the whole")


def test_a_position_from_the_chunk_is_caught(monkeypatch: Patch) -> None:
    """A chunk that begins again at position 0."""
    forward = PositionEmbedding.forward

    def again(self: PositionEmbedding, positions: Tensor) -> Tensor:
        return forward(self, positions - positions.flatten()[0])

    monkeypatch.setattr(PositionEmbedding, "forward", again)
    assert_caught(lambda model: invariants.check_cut(model, [3, 4], False), make("convs2s"), "cut into")


# ---- equations, against NumPy


def test_the_last_column_past_the_end_is_caught(monkeypatch: Patch) -> None:
    """F.12: past |t^| the last encoder column instead of zero."""
    columns = ByteNet._columns

    def clamped(self: ByteNet, memory: Any, positions: Tensor) -> Tensor:
        return columns(self, memory._replace(unfolded_len=memory.unfolded_len - 1), positions)

    monkeypatch.setattr(ByteNet, "_columns", clamped)
    assert_caught(invariants.check_reference, make("bytenet"), "sentence")


@pytest.mark.parametrize("name", ["seq2seq", "seq2seq-every-step", "bahdanau"])
def test_swapped_update_gates_are_caught(name: str) -> None:
    """z where 1 - z belongs."""
    model = make(name)
    for module in model.modules():
        if isinstance(module, GRU):
            module.update = "take" if module.update == "keep" else "keep"
    assert_caught(invariants.check_reference, model, "sentence")


@pytest.mark.parametrize("name", ["seq2seq", "seq2seq-every-step", "bahdanau"])
def test_the_other_reset_is_caught(name: str) -> None:
    """Reset after the product instead of before it, and the other way round."""
    model = make(name)
    for module in model.modules():
        if isinstance(module, GRU):
            module.reset = "after" if module.reset == "before" else "before"
    assert_caught(invariants.check_reference, model, "sentence")


def test_a_context_outside_of_the_reset_is_caught() -> None:
    """tanh(W e + C c + r * (U h)) where Cho's decoder has r * (U h + C c)."""
    model: Any = make("seq2seq-cho")
    model.decoder.layers[0].d_inside = 0
    assert_caught(invariants.check_reference, model, "sentence")


def test_cells_that_are_not_handed_on_are_caught(monkeypatch: Patch) -> None:
    """An LSTM whose c starts each call at zero."""
    forward = seq2seq.Seq2Seq.forward

    def forgetful(self: Any, tgt: Tensor, memory: Any, state: Any) -> Any:
        kept = state.hidden.clone()
        kept[:, self.config.decoder_depth :] = 0
        return forward(self, tgt, memory, state._replace(hidden=kept))

    monkeypatch.setattr(seq2seq.Seq2Seq, "forward", forgetful)
    assert_caught(invariants.check_steps, make("seq2seq-lstm"))
    assert_caught(invariants.check_reference, make("seq2seq-lstm"), "sentence")


def test_the_other_read_out_is_caught(monkeypatch: Patch) -> None:
    """s_i where the paper has s_{i-1}."""
    paper: Any = make("bahdanau")
    current = invariants.build(VARIANTS["bahdanau"] | {"read_out": "current"})
    forward = bahdanau.Bahdanau.forward

    def other(self: Any, tgt: Tensor, memory: Any, state: Any) -> Any:
        self.config, kept = current.config, self.config
        try:
            return forward(self, tgt, memory, state)
        finally:
            self.config = kept

    invariants.check_reference(paper)
    monkeypatch.setattr(bahdanau.Bahdanau, "forward", other)
    assert_caught(invariants.check_reference, paper, "sentence")


def test_weight_norm_over_the_wrong_axis_is_caught(monkeypatch: Patch) -> None:
    """F.16: lengths per input instead of per output channel."""

    def wrong(self: WeightNorm) -> Tensor:
        length = self.v.norm(dim=0, keepdim=True)
        return self.v / length * self.g.view(-1, *[1] * (self.v.dim() - 1))

    monkeypatch.setattr(WeightNorm, "_weight", wrong)
    assert_caught(invariants.check_reference, make("convs2s"), "sentence")


def test_an_unscaled_residual_is_caught(monkeypatch: Patch) -> None:
    """Without the square root of a half."""
    monkeypatch.setattr(convs2s, "HALF", 1.0)
    assert_caught(invariants.check_reference, make("convs2s"), "sentence")


def test_an_even_kernel_off_centre_is_caught(monkeypatch: Patch) -> None:
    """An even kernel that looks further to the left than to the right."""
    centred = Convolution.centred

    def mirrored(self: Convolution, x: Tensor, mask: Tensor) -> Tensor:
        if self.kernel_width % 2:
            return centred(self, x, mask)
        late = torch.cat([torch.zeros_like(x[:, :1]), x * mask[:, :, None]], dim=1)
        return centred(self, late, torch.ones_like(late[..., 0], dtype=torch.bool))[:, :-1]

    monkeypatch.setattr(Convolution, "centred", mirrored)
    assert_caught(invariants.check_reference, make("convs2s-uneven"), "sentence")
