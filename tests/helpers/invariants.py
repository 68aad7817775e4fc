"""Invariants of every model, as functions that raise AssertionError.

test_contract.py runs them over all models; test_faults.py plants faults and expects them to fail.
Everything is float64 with random parameters, so that no zero hides a mistake.
"""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import torch
from reference import REFERENCES
from torch import Tensor
from variants import VARIANTS, WITHOUT_SOURCE, Variant

from bytenmt.architectures.base import Model
from bytenmt.architectures.registry import build_model
from bytenmt.architectures.section import architecture
from bytenmt.architectures.tensor_tree import concatenate, place, select, tensors
from bytenmt.config.schema import parse_config
from bytenmt.utf8 import BOS, EOS

AnyModel = Model[Any, Any]

TOLERANCE = 1e-9
NAN_ID = 0xF9  # a byte that no test text contains

WITH_SOURCE = [name for name in VARIANTS if name not in WITHOUT_SOURCE]
CONVOLUTIONAL = [name for name in VARIANTS if name.startswith(("bytenet", "convs2s"))]
SELF_ATTENTIVE = [name for name in VARIANTS if name.startswith("transformer")]
PARALLEL = CONVOLUTIONAL + SELF_ATTENTIVE


def build(options: Variant, seed: int = 0, scale: float = 0.4) -> AnyModel:
    """A model in float64 and evaluation mode with all its parameters disturbed."""
    torch.manual_seed(seed)
    model = build_model(parse_config({"model": options}).model).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return model


def gradients(model: AnyModel) -> dict[str, Tensor]:
    """Return a copy of each parameter's gradient.

    Those of n-gram tables are collected row by row; they are added up one by one and forgotten.
    """
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    tables = model.embedding.ngrams
    if tables is not None and tables.gradients:
        dense = torch.zeros_like(tables.weight)
        for rows, gradient in tables.gradients:
            of_orders = gradient.to(dense.dtype).repeat_interleave(rows.shape[1], dim=0)
            dense.index_add_(0, rows.flatten().long(), of_orders)
        found["embedding.ngrams.weight"] = dense.detach()
        tables.gradients.clear()
    return found


def make(name: str, seed: int = 0) -> AnyModel:
    """One of VARIANTS."""
    return build(VARIANTS[name], seed)


def some_bytes(n: int, t: int, seed: int = 0) -> Tensor:
    """(n, t) uint8, none of them a control symbol."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, 240, (n, t), generator=generator).to(torch.uint8)


def some_sources(lengths: list[int], width: int = 0, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Padded sources of these lengths, EOS included, with rubbish where the padding is."""
    src = some_bytes(len(lengths), max(width, *lengths), seed)
    for row, length in zip(src, lengths, strict=True):
        row[length - 1] = EOS
    return src, torch.tensor(lengths)


def some_inputs(rows: int, t: int, seed: int = 2) -> Tensor:
    """Decoder inputs (rows, t) uint8, BOS first."""
    tgt = some_bytes(rows, t, seed)
    tgt[:, 0] = BOS
    return tgt


def encode(model: AnyModel, src: Tensor, src_len: Tensor) -> Any:
    """The memory; of a model without a source, that of no source."""
    if not model.config.source:
        src = src[:, :0]
        src_len = torch.zeros_like(src_len)
    return model.encode(src, src_len)


def whole(model: AnyModel, src: Tensor, src_len: Tensor, tgt: Tensor) -> Tensor:
    """Teacher forcing in one call, without gradients."""
    with torch.no_grad():
        memory = encode(model, src, src_len)
        state = model.start(memory, len(tgt) // len(src))
        logits: Tensor = model(tgt, memory, state)[0]
        return logits


def in_pieces(
    model: AnyModel, src: Tensor, src_len: Tensor, tgt: Tensor, pieces: list[int]
) -> Tensor:
    """Compute the logits `pieces` columns per call, with gradients if they are enabled."""
    memory = encode(model, src, src_len)
    return go_on(model, tgt, memory, model.start(memory, len(tgt) // len(src)), pieces)


def go_on(
    model: AnyModel, tgt: Tensor, memory: Any, state: Any, pieces: int | list[int] = 1
) -> Tensor:
    """Return the logits of tgt (rows, t), in pieces, from a state on."""
    logits = []
    for piece in torch.split(tgt, pieces, dim=1):
        part, state = model(piece, memory, state)
        logits.append(part)
    return torch.cat(logits, dim=1)


def assert_same(a: Tensor, b: Tensor, what: str) -> None:
    """Equal within TOLERANCE, and numbers."""
    assert a.shape == b.shape, f"{what}: shapes {tuple(a.shape)} and {tuple(b.shape)}"
    assert bool(a.isfinite().all() and b.isfinite().all()), f"{what}: not finite"
    difference = float((a - b).abs().max())
    assert difference <= TOLERANCE, f"{what}: differ by {difference:.3g}"


def assert_differ(a: Tensor, b: Tensor, what: str) -> None:
    """Every row of a and b (rows, d) differs by something that is not rounding."""
    difference = float((a - b).abs().amax(dim=-1).min())
    assert difference > 1e-7, f"{what}: differ by {difference:.3g} only"


def check_cut(model: AnyModel, pieces: Sequence[int] = (3, 4), gradients: bool = False) -> None:
    """The sequence in these pieces equals the whole."""
    src, src_len = some_sources([4, 7, 3])
    tgt = some_inputs(3, sum(pieces))
    with torch.set_grad_enabled(gradients):
        cut = in_pieces(model, src, src_len, tgt, [*pieces]).detach()
    assert_same(cut, whole(model, src, src_len, tgt), f"cut into {pieces}")


def check_steps(model: AnyModel) -> None:
    """Step by step equals teacher forcing."""
    check_cut(model, [1] * 15)


def check_causality(model: AnyModel) -> None:
    """A NaN at t touches nothing before t, nothing of another row, and something from t on.

    Self-attention weighs later columns with 0, which times NaN is NaN: there a large vector stands
    in its place.
    """
    poison = 1e30 if architecture(model.config) == "transformer" else torch.nan
    src, src_len = some_sources([6, 4])
    t = 9
    clean = some_inputs(2, t)
    expected = whole(model, src, src_len, clean)
    weight = model.embedding.weight
    for at in range(t):
        tgt = clean.clone()
        tgt[0, at] = NAN_ID
        kept = weight[NAN_ID].detach().clone()
        with torch.no_grad():
            weight[NAN_ID] = poison * torch.arange(1, weight.shape[1] + 1)
        try:
            logits = whole(model, src, src_len, tgt)
        finally:
            with torch.no_grad():
                weight[NAN_ID] = kept
        if at:
            assert_same(logits[0, :at], expected[0, :at], f"before a NaN at {at}")
        assert_same(logits[1], expected[1], f"the row beside a NaN at {at}")
        reached = (logits[0, at] - expected[0, at]).abs() < 1e-7
        assert not bool(reached.all()), f"a NaN at {at} does not reach its output"


def check_autoregressive(model: AnyModel) -> None:
    """An input byte changes the prediction made right after reading it, and none before."""
    src, src_len = some_sources([6])
    t = 8
    tgt = some_inputs(1, t)
    expected = whole(model, src, src_len, tgt)
    for at in range(1, t):
        other = tgt.clone()
        other[0, at] ^= 1
        logits = whole(model, src, src_len, other)
        assert_same(logits[:, :at], expected[:, :at], f"before a change at {at}")
        assert_differ(logits[:, at], expected[:, at], f"right after a change at {at}")


def check_source_matters(model: AnyModel) -> None:
    """A change of any source byte changes the first or a later prediction."""
    src, src_len = some_sources([6])
    tgt = some_inputs(1, 8)
    expected = whole(model, src, src_len, tgt)
    for at in range(5):
        other = src.clone()
        other[0, at] ^= 1
        logits = whole(model, other, src_len, tgt)
        assert_differ(logits.flatten(1), expected.flatten(1), f"source byte {at} changed")


def check_padding(model: AnyModel) -> None:
    """A sentence alone, in a batch, and in a batch padded wider with rubbish gives the same."""
    lengths = [3, 11, 1, 6]
    tgt = some_inputs(4, 13)
    src, src_len = some_sources(lengths)
    together = whole(model, src, src_len, tgt)
    wide = torch.cat([src, some_bytes(4, 7, seed=9)], dim=1)
    assert_same(whole(model, wide, src_len, tgt), together, "padded wider")
    for i, length in enumerate(lengths):
        rows = slice(i, i + 1)
        alone = whole(model, src[rows, :length], src_len[rows], tgt[rows])
        assert_same(alone, together[rows], f"sentence {i} alone and in a batch")


def check_beams(model: AnyModel, beam: int = 3) -> None:
    """n sentences with n * beam rows equal each sentence repeated `beam` times."""
    src, src_len = some_sources([5, 2, 8])
    tgt = some_inputs(3 * beam, 10)
    repeated = src.repeat_interleave(beam, 0), src_len.repeat_interleave(beam, 0)
    assert_same(whole(model, src, src_len, tgt), whole(model, *repeated, tgt), "beams")


def check_reorder(
    model: AnyModel, beam: int = 3, calls: int = 18, seed: int = 0, gradients: bool = False
) -> None:
    """After any reorderings within sentences, a row is what teacher forcing of its bytes gives."""
    random_ = random.Random(seed)
    lengths = [5, 8]
    src, src_len = some_sources(lengths)
    rows = beam * len(lengths)
    with torch.set_grad_enabled(gradients):
        memory = encode(model, src, src_len)
        state = model.start(memory, beam)
        read = [b""] * rows
        for call in range(calls):
            t = random_.choice([1, 1, 1, 1, 2, 3])
            if call:
                parents = [i // beam * beam + random_.randrange(beam) for i in range(rows)]
                state = model.reorder(state, torch.tensor(parents))
                read = [read[parent] for parent in parents]
            new = some_bytes(rows, t, seed=1000 * seed + call)
            if call == 0:
                new[:, 0] = BOS
            read = [old + bytes(row.tolist()) for old, row in zip(read, new, strict=True)]
            logits, state = model(new, memory, state)
            tgt = torch.tensor([list(row) for row in read], dtype=torch.uint8)
            expected = whole(model, src, src_len, tgt)[:, -t:]
            assert_same(logits.detach(), expected, f"call {call} after reordering")


def check_rings_in_place(model: AnyModel) -> None:
    """Without gradients, steps and reorderings never move or resize a ring."""
    src, src_len = some_sources([5, 8])
    with torch.no_grad():
        memory = encode(model, src, src_len)
        state: Any = model.start(memory, 2)
        kept = state.rings.buffers  # alive, so that a copy cannot take the same place in memory
        for step in range(6):
            state = model.reorder(state, torch.tensor([1, 1, 2, 2]))
            _, state = model(some_bytes(4, 1, seed=step), memory, state)
    places = [
        [(ring.data_ptr(), ring.shape) for ring in rings] for rings in (kept, state.rings.buffers)
    ]
    assert places[0] == places[1], "a ring was copied"


def check_state_kept(model: AnyModel) -> None:
    """With gradients, forward leaves the state that it was given as it was; shapes never change."""
    src, src_len = some_sources([5, 8])
    memory = encode(model, src, src_len)
    _, state = model(some_inputs(4, 5), memory, model.start(memory, 2))
    before = [part.detach().clone() for part in tensors(state)]
    for t in (1, 4):
        _, after = model(some_bytes(4, t), memory, state)
        for old, now, new in zip(before, tensors(state), tensors(after), strict=True):
            assert torch.equal(old, now), "forward changed a state that gradients need"
            assert old.shape == new.shape, "a state changed its shape"


def check_receptive_field(model: AnyModel) -> None:
    """Probing each input byte finds exactly the receptive field that the model claims."""
    claimed = model.config.receptive_field
    assert claimed is not None
    t = claimed + 4
    src, src_len = some_sources([4])
    tgt = some_inputs(1, t).repeat(t + 1, 1)  # row i with byte i changed, the last row with none
    tgt[torch.arange(t), torch.arange(t)] ^= 3
    changed = whole(model, src, src_len, tgt)[:, -1]
    difference = (changed[:-1] - changed[-1]).abs().amax(dim=-1)
    seen = (difference > 1e-13).nonzero().flatten()
    assert int(seen.max()) == t - 1, "the newest byte is not seen"
    found = t - int(seen.min())
    assert found == claimed, f"receptive field: claimed {claimed}, found {found}"


def check_reference(model: AnyModel, lengths: tuple[int, ...] = (5, 12, 1), t: int = 11) -> None:
    """A padded batch agrees with the NumPy computation of each of its sentences.

    lengths: of the sources; () for one sentence without a source.
    """
    options = msgspec.to_builtins(model.config)
    parameters = {name: p.detach().numpy() for name, p in model.named_parameters()}
    src = torch.zeros(1, 0, dtype=torch.uint8)
    src_len = torch.zeros(1, dtype=torch.int64)
    if lengths:
        src, src_len = some_sources(list(lengths))
    tgt = some_inputs(len(src), t)
    logits = whole(model, src, src_len, tgt)
    for i, length in enumerate(src_len.tolist()):
        source = bytes(src[i, :length].tolist())
        expected = REFERENCES[options["arch"]](parameters, options, source, bytes(tgt[i].tolist()))
        assert_same(logits[i], torch.from_numpy(np.asarray(expected)), f"sentence {i}")


def log_probability(model: AnyModel, source: Tensor, text: bytes) -> float:
    """The teacher-forced log-probability of text and EOS; source (1, s)."""
    tgt = torch.tensor([[BOS, *text]], dtype=torch.uint8)
    truth = torch.tensor([[*text, EOS]])
    logits = whole(model, source, torch.tensor([source.shape[1]]), tgt).log_softmax(dim=-1)
    return float(logits.gather(2, truth[:, :, None]).sum())


def check_moved_rows(model: AnyModel, beam: int = 2) -> None:
    """Selected, concatenated and placed sentences go on as if they had always been there."""
    lengths = [9, 4, 6]
    src, src_len = some_sources(lengths)
    tgt = some_inputs(3 * beam, 9)
    # Beams change places.
    swap = torch.tensor([1, 0] * 3) + torch.arange(0, 6, 2).repeat_interleave(2)
    swapped = tgt[swap]
    expected = whole(model, src, src_len, torch.cat([swapped[:, :4], tgt[:, 4:]], dim=1))[:, 4:]

    def begun(i: int, width: int = 0) -> tuple[Any, Any]:
        """Sentence i after four bytes and a reordering."""
        length = max(lengths[i], width)
        memory = encode(model, src[i : i + 1, :length], src_len[i : i + 1])
        _, state = model(tgt[i * beam : (i + 1) * beam, :4], memory, model.start(memory, beam))
        return memory, model.reorder(state, torch.tensor([1, 0]))

    def check(memory: Any, state: Any, order: list[int], what: str) -> None:
        rows = torch.tensor(order)[:, None] * beam + torch.arange(beam)
        logits = go_on(model, tgt[rows.view(-1), 4:], memory, state)
        assert_same(logits, expected[rows.view(-1)], what)

    with torch.no_grad():
        memory, state = (concatenate(parts) for parts in zip(*map(begun, (1, 0, 2)), strict=True))
        rows = torch.tensor([4, 5, 0, 1])
        check(select(memory, torch.tensor([2, 0])), select(state, rows), [2, 1], "selected")
        place(memory, torch.tensor([1]), begun(1)[0])
        place(state, torch.tensor([2, 3]), begun(1)[1])
        check(memory, state, [1, 1, 2], "placed and concatenated")
