"""Tests of the tests: plant a fault that public re-implementations made, see the invariant fail.

Each fault is patched in, then the invariants that should notice it must raise AssertionError. The same
invariants pass unpatched in test_contract.py, test_reference.py and test_pytorch_engines.py.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import invariants
import pytest
import torch
from fast_variants import by_variant
from invariants import (
    VARIANTS,
    AnyModel,
    check_autoregressive,
    check_causality,
    check_padding,
    check_receptive_field,
    check_reference,
    check_reorder,
    check_rings_in_place,
    check_source_matters,
    check_steps,
    make,
)
from torch import Tensor, nn

from bytenmt.architectures.bahdanau import model as bahdanau
from bytenmt.architectures.bytenet import model as bytenet
from bytenmt.architectures.bytenet.model import ByteNet
from bytenmt.architectures.convs2s import encoder as convs2s_encoder
from bytenmt.architectures.convs2s import model as convs2s
from bytenmt.architectures.luong import model as luong
from bytenmt.architectures.luong.config import LuongConfig
from bytenmt.architectures.luong.model import Luong
from bytenmt.architectures.seq2seq import model as seq2seq
from bytenmt.layers import convolution, recurrent
from bytenmt.layers.convolution import Clock, Convolution, RingTaps, WeightNorm
from bytenmt.layers.embedding import PositionEmbedding
from bytenmt.layers.recurrent import GRU

Patch = pytest.MonkeyPatch
Check = Callable[[AnyModel], None]

ALL = ["seq2seq", "bahdanau", "luong", "bytenet", "convs2s"]
CONVOLUTIONAL = ["bytenet", "convs2s"]
ATTENTIVE = ["bahdanau", "luong", "convs2s"]
THE_MODEL = object()  # stands for a model's own class


class Fault(NamedTuple):
    """A fault in a function of `owners`, classes or modules, by its name.

    planted: called with the original and its arguments. models: in which it is planted. caught: by which
    checks, and what each of them says.
    """

    owners: Sequence[Any]
    name: str
    planted: Callable[..., Any]
    models: Sequence[str]
    caught: Sequence[tuple[Check, str]]


def assert_caught(check: Check, model: AnyModel, message: str = "") -> None:
    """The invariant fails, and for a reason of its own."""
    with pytest.raises(AssertionError, match=message or None):
        check(model)


def over_time(_: Any, self: nn.LayerNorm, x: Tensor) -> Tensor:
    centred = x - x.mean(dim=1, keepdim=True)
    scale = (centred.square().mean(dim=1, keepdim=True) + self.eps).sqrt()
    return centred / scale * self.weight + self.bias


def narrow(causal: Any, self: Convolution, x: Tensor, ring: Tensor, taps: RingTaps) -> Any:
    weight = self.plain if self.normed is None else self.normed.v
    assert weight is not None
    with torch.no_grad():
        weight[:, 0] = 0
    return causal(self, x, ring, taps)


def normalised_again(attend: Any, scores: Tensor, values: Any, mask: Tensor, factors: Tensor) -> Any:
    weights = attend(scores, values, mask, factors)[1]
    return values(weights / weights.sum(dim=-1, keepdim=True)), weights


def by_width(attend: Any, self: Any, h: Tensor, g: Tensor, memory: Any, mask: Tensor) -> Any:
    width = torch.full_like(memory.source_len, memory.keys.shape[1])
    return attend(self, h, g, memory._replace(source_len=width), mask)


def own_rows(from_clock: Any, *given: Any) -> RingTaps:
    taps: RingTaps = from_clock(*given)
    return taps._replace(rows=torch.arange(len(taps.rows))[:, None].expand_as(taps.rows))


def copied_rings(reorder: Any, *given: Any) -> Any:
    moved = reorder(*given)
    return moved._replace(rings=tuple(ring.clone() for ring in moved.rings))


def off_in_steps(forward: Any, self: Any, positions: Tensor) -> Tensor:
    one_step = positions.dim() == 2 and positions.shape[1] == 1
    found: Tensor = forward(self, positions + 1 if one_step else positions)
    return found


def cells_of_zero(forward: Any, self: Any, tgt: Tensor, memory: Any, state: Any) -> Any:
    depth, zero = self.config.decoder_depth, torch.zeros_like(state.hidden[0])
    return forward(self, tgt, memory, state._replace(hidden=(*state.hidden[:depth], *[zero] * depth)))


def wrong_axis(_: Any, self: WeightNorm) -> Tensor:
    return self.v / self.v.norm(dim=0, keepdim=True) * self.g.view(-1, *[1] * (self.v.dim() - 1))


def mirrored(centred: Any, self: Convolution, x: Tensor, mask: Tensor) -> Any:
    if self.kernel_width % 2:
        return centred(self, x, mask)
    late = torch.cat([torch.zeros_like(x[:, :1]), x * mask[:, :, None]], dim=1)
    return centred(self, late, torch.ones_like(late[..., 0], dtype=torch.bool))[:, :-1]


def check_two_pieces(model: AnyModel) -> None:
    invariants.check_cut(model, [3, 4], False)


STEPS, REORDERED = (check_steps, "steps and the whole"), (check_reorder, "after reordering")
EQUATIONS, PADDING = (check_reference, "sentence"), (check_padding, "")
FAULTS: dict[str, Fault] = {
    "statistics over time, F.1": Fault(
        [nn.LayerNorm],
        "forward",
        over_time,
        ["bytenet"],
        [(check_causality, "before a NaN"), (check_autoregressive, "before a change"), PADDING],
    ),
    "a causal convolution shifted by one": Fault(
        [Convolution],
        "causal",
        lambda causal, self, x, *rest: causal(self, torch.cat([x[:, 1:], x[:, -1:]], dim=1), *rest),
        CONVOLUTIONAL,
        [(check_causality, "before a NaN"), (check_steps, "")],
    ),
    "an input shifted twice, F.9": Fault(
        [THE_MODEL],
        "forward",
        lambda forward, self, tgt, *rest: forward(self, torch.cat([tgt[:, :1], tgt[:, :-1]], dim=1), *rest),
        ALL,
        [(check_autoregressive, "right after a change"), (check_causality, "does not reach")],
    ),
    "predictions from the source alone, F.8": Fault(
        [THE_MODEL],
        "forward",
        lambda forward, self, tgt, *rest: forward(self, torch.full_like(tgt, 65), *rest),
        ALL,
        [(check_autoregressive, "right after a change")],
    ),
    "a memory that is always the same": Fault(
        [THE_MODEL],
        "encode",
        lambda encode, self, src, src_len: encode(self, torch.full_like(src, 65), src_len),
        ALL,
        [(check_source_matters, "source byte")],
    ),
    "half of the taps gone, F.7": Fault(
        [Convolution], "causal", narrow, CONVOLUTIONAL, [(check_receptive_field, "receptive field")]
    ),
    "no mask before a convolution, F.3": Fault(
        [Convolution],
        "centred",
        lambda centred, self, x, mask: centred(self, x, torch.ones_like(mask)),
        CONVOLUTIONAL,
        [PADDING, (check_reference, "")],
    ),
    "weight on padding, F.6": Fault(
        [bahdanau, luong, convs2s],
        "attend",
        lambda attend, scores, values, mask: attend(scores, values, torch.ones_like(mask)),
        ATTENTIVE,
        [PADDING, (check_reference, "")],
    ),
    "a window without its Gaussian": Fault(
        [luong],
        "gaussian",
        lambda gaussian, distance, window: torch.ones_like(distance),
        ["luong-local-p", "luong-inside"],
        [EQUATIONS],
    ),
    "weights normalised after the Gaussian, A.3": Fault(
        [luong], "attend", normalised_again, ["luong-local-p"], [EQUATIONS]
    ),
    "local-m that counts from the beginning of each call": Fault(
        [Luong],
        "forward",
        lambda forward, self, tgt, memory, state: forward(
            self, tgt, memory, state._replace(position=torch.zeros_like(state.position))
        ),
        ["luong-local-m"],
        [STEPS],
    ),
    "a reversed source that begins with its padding": Fault(
        [seq2seq, bahdanau, luong],
        "reverse",
        lambda reverse, x, lengths: x.flip(1),
        ["seq2seq", "bahdanau", "luong-concat"],
        [PADDING],
    ),
    "the final state read after the padding": Fault(
        [recurrent], "last_states", lambda last_states, x, lengths: x[:, -1], ["seq2seq", "luong"], [PADDING]
    ),
    "unfolding by the batch's longest sentence, F.4": Fault(
        [ByteNet],
        "unfolded_len",
        lambda unfolded_len, self, src_len: unfolded_len(self, src_len.max().expand_as(src_len)),
        ["bytenet"],
        [(check_padding, "alone and in a batch"), (check_reference, "")],
    ),
    "ConvS2S' sqrt(m) with m the batch's width": Fault(
        [convs2s.DecoderLayer], "attend", by_width, ["convs2s"], [PADDING]
    ),
    "a mean that reads padding": Fault(
        [convs2s_encoder],
        "mean_pool",
        lambda mean_pool, x, mask, *sizes: mean_pool(x, torch.ones_like(mask), *sizes),
        ["convs2s-pooling"],
        [PADDING],
    ),
    "a recurrent ByteNet whose reordering moves the positions alone": Fault(
        [ByteNet],
        "reorder",
        lambda _, self, state, parents: state._replace(clock=state.clock.reorder(parents)),
        ["recurrent-bytenet-decoder"],
        [(check_reorder, "")],
    ),
    "a ring that is not written": Fault(
        [Convolution],
        "causal",
        lambda causal, self, x, ring, taps: (causal(self, x, ring.clone(), taps)[0], ring),
        CONVOLUTIONAL,
        [STEPS],
    ),
    # (k-1)r columns would still do for one chunk that reads all before it writes; one less does not.
    "a ring shorter than the taps reach": Fault(
        [convolution, bytenet, convs2s],
        "ring_capacity",
        lambda _, kernel_width, dilation: max(1, (kernel_width - 1) * dilation - 1),
        CONVOLUTIONAL,
        [(check_steps, ""), (check_reorder, "")],
    ),
    "a column whose row is not made its owner": Fault(
        [Clock],
        "advance",
        lambda _, self, t: Clock(self.position + t, self.ancestors),
        CONVOLUTIONAL,
        [REORDERED],
    ),
    "distances copied without how far the row has come": Fault(
        [Clock],
        "reorder",
        lambda _, self, parents: Clock(self.position[parents], self.ancestors[parents]),
        CONVOLUTIONAL,
        [REORDERED],
    ),
    "a reordering that moves the rings": Fault(
        [THE_MODEL], "reorder", copied_rings, CONVOLUTIONAL, [(check_rings_in_place, "copied")]
    ),
    "a step at another position than in training, E.3": Fault(
        [PositionEmbedding], "forward", off_in_steps, ["convs2s"], [STEPS]
    ),
    "a chunk that begins again at position 0": Fault(
        [PositionEmbedding],
        "forward",
        lambda forward, self, positions: forward(self, positions - positions.flatten()[0]),
        ["convs2s"],
        [(check_two_pieces, "cut into")],
    ),
    "the last column past |t^|, F.12": Fault(
        [ByteNet],
        "_columns",
        lambda columns, self, memory, positions: columns(
            self, memory._replace(unfolded_len=memory.unfolded_len - 1), positions
        ),
        ["bytenet"],
        [EQUATIONS],
    ),
    "an LSTM whose c starts each call at zero": Fault(
        [seq2seq.Seq2Seq], "forward", cells_of_zero, ["seq2seq-lstm"], [(check_steps, ""), EQUATIONS]
    ),
    "weight norm over the wrong axis, F.16": Fault(
        [WeightNorm], "_weight", wrong_axis, ["convs2s"], [EQUATIONS]
    ),
    "an even kernel that looks further to the left": Fault(
        [Convolution], "centred", mirrored, ["convs2s-uneven"], [EQUATIONS]
    ),
}


@by_variant(("fault", "name"), [(fault, name) for fault, one in FAULTS.items() for name in one.models])
def test_a_fault_is_caught(fault: str, name: str, monkeypatch: Patch) -> None:
    owners, attribute, planted, _, caught = FAULTS[fault]
    for owner in (type(make(name)) if one is THE_MODEL else one for one in owners):
        original = getattr(owner, attribute)
        monkeypatch.setattr(owner, attribute, lambda *given, original=original: planted(original, *given))
    for check, message in caught:
        assert_caught(check, make(name), message)


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
    assert_caught(check_padding, model)


@pytest.mark.parametrize("name", ["luong-location", "luong-local-m"])
def test_places_of_the_source_turned_round_are_caught(name: str, monkeypatch: Patch) -> None:
    """A place in the order in which the encoder reads is not one in the text."""
    monkeypatch.setattr(LuongConfig, "by_place", False)
    assert_caught(check_reference, make(name))


def test_a_dilation_that_is_left_out_is_caught(monkeypatch: Patch) -> None:
    """A missing dilation in ConvS2S' encoder, which does not change any receptive field, is detected."""
    centred = Convolution.centred

    def dense(self: Convolution, x: Tensor, mask: Tensor) -> Tensor:
        monkeypatch.setattr(self, "dilation", 1)
        return centred(self, x, mask)

    monkeypatch.setattr(Convolution, "centred", dense)
    assert_caught(check_reference, make("convs2s-dilated"), "sentence")


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
    check_reorder(make(name))  # with that column it is right
    for module in (convolution, bytenet, convs2s):
        monkeypatch.setattr(module, "ring_capacity", small)
    check_steps(make(name))  # and without beams it needs none
    assert_caught(check_reorder, make(name), "after reordering")


@by_variant("name", ALL)
def test_reordering_forgotten_is_caught(name: str, monkeypatch: Patch) -> None:
    """Beams that keep another's past; by the contract and by the search's scores."""
    model = invariants.build(VARIANTS[name], seed=11, scale=0.9)
    monkeypatch.setattr(type(model), "reorder", lambda self, state, parents: state)
    assert_caught(check_reorder, model, "after reordering")
    assert_caught(lambda m: invariants.check_search(m, beam=4), model, "off by")


@by_variant("name", CONVOLUTIONAL)
def test_ancestors_ignored_is_caught(name: str, monkeypatch: Patch) -> None:
    """Taps read from the row's own ring whatever its ancestors."""
    of = RingTaps.from_clock
    monkeypatch.setattr(RingTaps, "from_clock", staticmethod(lambda *given: own_rows(of, *given)))
    assert_caught(check_reorder, make(name), "after reordering")
    check_steps(make(name))  # without beams nothing shows


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
    check_reorder(make(name))
    with pytest.raises((AssertionError, IndexError)):
        invariants.check_moved_rows(make(name))


@by_variant("name", CONVOLUTIONAL)
def test_a_state_written_under_gradients_is_caught(name: str, monkeypatch: Patch) -> None:
    """The fast path's in-place write where gradients need the old state."""
    causal = Convolution.causal

    def in_place(self: Convolution, x: Tensor, ring: Tensor, taps: RingTaps) -> tuple[Tensor, Tensor]:
        y, new = causal(self, x, ring, taps)
        ring.detach().copy_(new.detach())
        return y, new

    monkeypatch.setattr(Convolution, "causal", in_place)
    with pytest.raises((AssertionError, RuntimeError)):
        invariants.check_state_kept(make(name))


@pytest.mark.parametrize(
    ("attribute", "values"), [("update", ("take", "keep")), ("reset", ("after", "before"))]
)
@pytest.mark.parametrize("name", ["seq2seq", "seq2seq-every-step", "bahdanau"])
def test_another_gru_is_caught(name: str, attribute: str, values: tuple[str, str]) -> None:
    """z where 1 - z belongs; the reset after the product instead of before it, and the other way round."""
    model = make(name)
    for module in model.modules():
        if isinstance(module, GRU):
            setattr(module, attribute, values[getattr(module, attribute) == values[0]])
    assert_caught(check_reference, model, "sentence")


def test_a_context_outside_of_the_reset_is_caught() -> None:
    """tanh(W e + C c + r * (U h)) where Cho's decoder has r * (U h + C c)."""
    model: Any = make("seq2seq-cho")
    model.decoder.layers[0].d_inside = 0
    assert_caught(check_reference, model, "sentence")


def test_the_other_read_out_is_caught(monkeypatch: Patch) -> None:
    """s_i where the paper has s_{i-1}."""
    paper: Any = make("bahdanau")
    written = bahdanau.Bahdanau._written
    swapped = lambda self, before, after, seen: written(self, after, before, seen)  # noqa: E731
    check_reference(paper)
    monkeypatch.setattr(bahdanau.Bahdanau, "_written", swapped)
    assert_caught(check_reference, paper, "sentence")


def test_an_unscaled_residual_is_caught(monkeypatch: Patch) -> None:
    """Without the square root of a half."""
    monkeypatch.setattr(convs2s, "ROOT_HALF", 1.0)
    assert_caught(check_reference, make("convs2s"), "sentence")
