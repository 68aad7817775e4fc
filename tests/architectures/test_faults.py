"""Tests of the tests: plant a fault that public re-implementations made, see the invariant fail.

Each fault is an edit of a function's source; the invariants that should notice it must raise
AssertionError. They pass without it in test_contract.py and test_reference.py. Tests
tests/helpers/invariants.py (check_steps, check_padding and the others).
"""

from __future__ import annotations

import inspect
import textwrap
from importlib import import_module
from typing import Any

import invariants
import pytest
from fast_variants import by_variant
from invariants import make

# Of each fault its name, the models in which it is planted, and the checks that notice it, with
# what they say; then a function, a part of its source, and what stands there instead.
FAULTS = """
statistics over time, F.1 | bytenet | \
causality: before a NaN, autoregressive: before a change, padding
architectures.bytenet.model ResidualBlock._before | norm_in, x | \
norm_in, x - x.mean(dim=1, keepdim=True)
a causal convolution shifted by one | bytenet convs2s | causality: before a NaN, steps
layers.convolution Convolution.causal | append(x | append(torch.cat([x[:, 1:], x[:, -1:]], dim=1)
an input shifted twice, F.9 | ALL | autoregressive: right after a change, causality: does not reach
layers.embedding ByteEmbedding.forward | ids.int() | \
torch.cat([ids[:, :1], ids[:, :-1]], dim=1).int()
predictions that depend on no byte, F.8 | ALL | \
autoregressive: right after a change, source_matters: source
layers.embedding ByteEmbedding.forward | ids.int() | torch.full_like(ids, 65).int()
half of the taps gone, F.7 | bytenet convs2s | receptive_field: receptive field
layers.convolution Convolution._convolve | , weight, | \
, weight * (torch.arange(self.kernel_width) > 0),
no mask before a convolution, F.3 | bytenet convs2s | padding, reference
layers.convolution Convolution.centred | x * mask[:, :, None] | x
a mask before the first convolution alone, F.3 | bytenet | padding
architectures.bytenet.model ByteNet.encode | block.centred(x, mask) | \
block.centred(x, mask); mask = mask >= 0
a mask before the first convolution alone, F.3 | convs2s | padding
architectures.convs2s.encoder GatedEncoder.forward | (z, mask) | (z, mask); mask = mask >= 0
a dilation that is left out | convs2s-dilated | reference: sentence
layers.convolution Convolution.centred | self.dilation | 1
an even kernel that looks further to the left | convs2s-uneven | reference: sentence
layers.convolution Convolution.centred | reach // 2, reach - reach // 2 | \
reach - reach // 2, reach // 2
weight on padding, F.6 | bahdanau luong convs2s | padding, reference
layers.attention masked_softmax | , -torch.inf | & False, 0.0
a window without its Gaussian | luong-local-p luong-inside | reference: sentence
layers.attention gaussian | -2 * | 0 *
weights made to add up to one after the Gaussian, A.3 | luong-local-p | reference: sentence
layers.attention attend | * factors.to(weights.dtype) | \
* factors / (weights * factors).sum(-1, True)
local-m that counts from the beginning of each call | luong-local-m | steps: cut into
architectures.luong.model Luong._read_with_feeding | = state.position | = 0 * state.position
places of a source turned round | luong-location luong-local-m | reference
architectures.luong.config LuongConfig.by_place | self.is_local or self.by_location | False
a reversed source that begins with its padding | seq2seq bahdanau luong-concat | padding
layers.recurrent reverse | lengths[:, None] | x.shape[1]
the final state read after the padding | seq2seq luong | padding
layers.recurrent last_states | lengths - 1 | -1
unfolding by the batch's longest sentence, F.4 | bytenet | padding: alone and in a batch, reference
architectures.bytenet.model ByteNet.unfolded_len | src_len.double() | src_len.max().double()
the last column past |t^|, F.12 | bytenet | reference: sentence
architectures.bytenet.model ByteNet._columns | unfolded_len[:, None] | unfolded_len[:, None] - 1
ConvS2S' sqrt(m) with m the batch's width | convs2s | padding
architectures.convs2s.model DecoderLayer.attend | memory.source_len[ | \
memory.source_len.max().expand(len(memory.keys))[
a mean that reads padding | convs2s-pooling | padding
architectures.convs2s.encoder mean_pool | x * mask[:, :, None] | x
a ring that is not written | bytenet convs2s | steps: cut into
layers.rings RingTaps.append | ring[self.row_numbers, self.write] = new | pass
a ring shorter than the taps reach | bytenet convs2s | steps, reorder
layers.rings ring_capacity | + 1 | - 1 or 1
a column whose row is not made its owner | bytenet convs2s | reorder: after reordering
layers.rings Clock.advance | self.ancestors.scatter(1, new, torch.zeros_like(new)) | self.ancestors
distances copied without how far the row has come | bytenet convs2s | reorder: after reordering
layers.rings Clock.reorder | self.ancestors[parents] + moved[:, None] | self.ancestors[parents]
ancestors that are ignored | bytenet convs2s | reorder: after reordering
layers.rings RingTaps.from_clock | row_numbers + clock.ancestors | row_numbers + 0 * clock.ancestors
a reordering that is none | ALL | reorder: after reordering
architectures.base Model.reorder | return cast(S, | return state or cast(S,
a reordering that moves the positions alone | recurrent-bytenet-decoder | reorder
architectures.base Model.reorder | each[parents] for | each for
a reordering that moves the rings | bytenet convs2s | rings_in_place: copied
architectures.base Model.reorder | part  # never | \
Rings(tuple(each[parents] for each in part.buffers))  #
rows that are selected in another order | ALL | moved_rows
architectures.tensor_tree select | part[rows] | part[rows.flip(0)]
a state written where gradients need it | bytenet convs2s | state_kept
layers.rings RingTaps.append | torch.is_grad_enabled() | False
a step at another position than in training, E.3 | convs2s | steps: cut into
layers.embedding PositionEmbedding.forward | positions.clamp | \
(positions + (positions.shape[-1] == 1)).clamp
a chunk that begins again at position 0 | convs2s | cut: cut into
layers.embedding PositionEmbedding.forward | positions.clamp | \
(positions - positions.flatten()[0]).clamp
an LSTM whose c starts each call at zero | seq2seq-lstm | steps, reference: sentence
layers.recurrent RecurrentLayer.read | *before) | before[0], *(0 * part for part in before[1:]))
weight norm over all channels, F.16 | convs2s | reference: sentence
layers.weight_norm WeightNorm._weight | self.v.flatten(1).norm(dim=1) | self.v.norm()
z where 1 - z belongs | seq2seq seq2seq-every-step bahdanau | reference: sentence
layers.recurrent GRU.runner | if self.update == "keep": | if self.update != "keep":
the reset on the other side of the product | seq2seq seq2seq-every-step bahdanau | \
reference: sentence
layers.recurrent GRU.runner | self.reset == "before": | self.reset != "before":
a context outside of the reset | seq2seq-cho | reference: sentence
layers.recurrent GRU.runner | x[..., 3 * d :]) | x[..., 3 * d :] / r)
s_i where the paper has s_{i-1} | bahdanau | reference: sentence
architectures.bahdanau.model Bahdanau._written | == "previous" | != "previous"
a residual without the square root of a half | convs2s | reference: sentence
architectures.convs2s.model ConvS2S.forward_aligned | layer.residual(x)) * ROOT_HALF | \
layer.residual(x))
"""


ALL = "seq2seq bahdanau luong bytenet convs2s"
ROWS = [line.split(" | ") for line in FAULTS.strip().splitlines()]
CASES = [
    (name, what, caught, edit)
    for (what, models, caught), edit in zip(ROWS[::2], ROWS[1::2], strict=True)
    for name in models.replace("ALL", ALL).split()
]


def edit_function(place: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a function, named by its module and itself, the code of its edited source, wherever it
    is used."""
    module_name, _, path = place.partition(" ")
    module = import_module(f"bytenmt.{module_name}")
    function: Any = module
    for part in path.split("."):
        function = vars(function)[part]
    function = getattr(function, "fget", getattr(function, "__func__", function))
    source = textwrap.dedent(inspect.getsource(function))
    assert old in source, f"{place} has no {old!r}"
    scope: dict[str, Any] = {}
    exec(source.replace(old, new), vars(module), scope)
    (edited,) = scope.values()
    edited = getattr(edited, "fget", getattr(edited, "__func__", edited))
    monkeypatch.setattr(function, "__code__", edited.__code__)


@by_variant(("name", "fault", "caught", "edit"), CASES)
def test_a_fault_is_caught(
    name: str, fault: str, caught: str, edit: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, old, new = edit
    edit_function(place, old, new, monkeypatch)
    for check, _, message in (one.partition(": ") for one in caught.split(", ")):
        with pytest.raises((AssertionError, IndexError, RuntimeError), match=message or None):
            getattr(invariants, f"check_{check}")(make(name))
