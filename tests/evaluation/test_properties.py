"""The table of properties: what it claims of each model, counted and probed on small ones of all variants."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch
from command_line import invoke
from fast_variants import by_variant
from invariants import VARIANTS, WITH_SOURCE, AnyModel, build, encode, some_inputs, some_sources
from torch import Tensor
from torch.nn import ModuleList
from torch.utils.flop_counter import FlopCounterMode

from bytenmt.architectures.bahdanau import model as bahdanau
from bytenmt.architectures.bytenet import model as bytenet
from bytenmt.architectures.convs2s import model as convs2s
from bytenmt.architectures.convs2s.encoder import TanhLayer
from bytenmt.architectures.luong import model as luong
from bytenmt.architectures.parameters import step_cost
from bytenmt.architectures.registry import BUILT_IN
from bytenmt.architectures.tensor_tree import tensors
from bytenmt.evaluation.properties import IN_FIELD, IN_WINDOW, properties
from bytenmt.layers import recurrent
from bytenmt.utf8 import BOS, EOS

LENGTHS = ((4, 4), (7, 4), (4, 7))
# How a path grows with S and T, to within a constant, by its letters.
GROWTH: dict[str, Callable[[int, int], int]] = {
    "S + T": lambda s, t: s + t,
    "S": lambda s, t: s,
    "T": lambda s, t: t,
    "c": lambda s, t: 0,
    "1": lambda s, t: 0,
}
NO_SOURCE = torch.zeros(1, 0, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)


def of_dot(matrix: Any, vector: Any, *rest: Any, **more: Any) -> int:
    """A matrix times a vector, which PyTorch's counter leaves out."""
    return 2 * int(torch.tensor(matrix).prod())


def products(model: AnyModel, s: int, t: int) -> int:
    """Multiply-adds of a sentence's encoding and of t decode steps, a byte each."""
    src, src_len = some_sources([s]) if model.config.source else NO_SOURCE  # type: ignore[union-attr]
    tgt = some_inputs(1, t)
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mv: of_dot})
    with torch.no_grad(), counter:
        memory = encode(model, src, src_len)
        state = model.start(memory)
        for column in tgt.split(1, dim=1):
            _, state = model(column, memory, state)
    return counter.get_total_flops() // 2


# ---- the probe of paths
#
# Every layer, recurrent step and attention passes its value on unchanged and its gradient times a small
# number e. A path through L of them then contributes e^L to the gradient, and the shortest path dominates:
# between two values of e the gradient grows by (e_1 / e_2)^L. The probe uses where layers pass on their
# outputs, but none of the claims about path lengths.

LARGE, SMALL = 1e-11, 1e-12  # so small that no factor of a longer way makes up for its length


def damped(x: Any, by: float) -> Any:
    """x itself, its gradient multiplied; of a tuple, of its tensors that have one."""
    if isinstance(x, tuple):
        return tuple(damped(part, by) for part in x)
    return x.detach() + (x - x.detach()) * by if x.requires_grad else x


@contextmanager
def damping(by: float) -> Iterator[None]:
    """Every layer, step and attention damps. The ring that a causal convolution hands on is its input's
    past, not another layer."""

    def all_of(outputs: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *inputs, **more: damped(outputs(*inputs, **more), by)

    def first_of(outputs: Callable[..., Any]) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            x, ring = outputs(*inputs)
            return damped(x, by), ring

        return call

    def steps_of(looped: Callable[..., Any]) -> Callable[..., Any]:
        return lambda step: looped(all_of(step))

    # Of the encoder's layers the residual branch is damped with the rest.
    places: list[tuple[Any, str, Callable[..., Any]]] = [(recurrent, "looped", steps_of)]
    places += [(module, "attend", all_of) for module in (bahdanau, luong, convs2s)]
    places += [(TanhLayer, "centred", all_of), (convs2s.DecoderLayer, "residual_branch", all_of)]
    for block in (*bytenet.BLOCKS.values(), convs2s.GatedLayer):
        places += [(block, "centred", all_of), (block, "causal", first_of)]
    with ExitStack() as stack:
        for owner, name, wrap in places:
            stack.enter_context(patch.object(owner, name, wrap(getattr(owner, name))))
        yield


def gradients(
    model: AnyModel, s: int, t: int, values: Callable[[Any, Tensor], list[Tensor]]
) -> list[list[Tensor]]:
    """Return the largest gradient by each embedded source byte (s,) and target byte (t,), float64, of each
    number that `values` computes from the memory and the logits (1, t, 256).

    A model may read the source in another order: its bytes are known by what they are.
    """
    looked_up: list[Tensor] = []
    read: list[Tensor] = []

    def look_up(module: Any, inputs: tuple[Tensor], outputs: Tensor) -> None:
        read.append(inputs[0])
        looked_up.append(outputs)

    source = torch.tensor([[*(range(65, 65 + s - 1)), EOS]], dtype=torch.uint8)
    target = torch.tensor([[BOS, *range(66, 65 + t)]], dtype=torch.uint8)
    with model.embedding.register_forward_hook(look_up):
        memory = encode(model, source, torch.tensor([s]))
        logits, _ = model(target, memory, model.start(memory))
    order = read[0][0].tolist()
    places = [order.index(byte) for byte in source[0].tolist()] if len(looked_up) > 1 else []
    results = []
    for value in values(memory, logits):
        found = torch.autograd.grad(value, looked_up, allow_unused=True, retain_graph=True)
        sizes = [
            torch.zeros(x.shape[1]) if g is None else g[0].abs().amax(dim=-1)
            for g, x in zip(found, looked_up, strict=True)
        ]
        results.append([sizes[0][places], sizes[-1]])
    return results


def weighed(x: Tensor) -> Tensor:
    """A sum in which nothing cancels by chance."""
    return (x * torch.linspace(1, 2, x.numel(), dtype=x.dtype).view_as(x)).sum()


def longest_paths(model: AnyModel, s: int, t: int) -> list[int]:
    """From a source byte and from a target byte to a prediction that depends on it: the most, over all such
    pairs, of what the shortest way between them passes."""
    found, longest = [], [0, 0]
    for by in (LARGE, SMALL):
        with damping(by):
            found.append(gradients(model, s, t, lambda _, logits: [weighed(x) for x in logits[0]]))
    for sides in zip(*found, strict=True):
        for side, (large, small) in enumerate(zip(*sides, strict=True)):
            seen = (large > 0) & (small > 0)
            lengths = torch.where(seen, (large / small).log() / math.log(LARGE / SMALL), 0.0)
            assert float((lengths - lengths.round()).abs().amax()) < 0.05, lengths
            longest[side] = max(longest[side], int(lengths.round().amax()))
    return longest


def seen_by_column(model: AnyModel, s: int, column: int) -> list[int]:
    """The source bytes that a column of the encoder depends on. Where the memory has none, it is one of the
    highest layer's, in the order in which it is read."""
    tops: list[Tensor] = []
    stack: Any = model.encoder
    top = stack[-1] if isinstance(stack, ModuleList) else stack

    def values(memory: Any, logits: Tensor) -> list[Tensor]:
        kept = [part for part in tensors(memory) if part.dim() == 3 and part.requires_grad]
        columns = [part for part in kept if part.shape[1] >= s] or tops
        return [sum(weighed(part[0, column]) for part in columns)]  # type: ignore[list-item]

    with top.register_forward_hook(
        lambda *called: tops.extend(part for part in tensors(called[-1:]) if part.dim() == 3)
    ):
        return gradients(model, s, 1, values)[0][0].nonzero().flatten().tolist()


# ---- the claims

# Self-attention is computed in blocks, which also compute what is masked, and layers are passed by sums that
# the probe of paths does not know: of the Transformer the fields alone are measured. N-grams are looked up.
MEASURED = [name for name in VARIANTS if not name.startswith("transformer") and "ngrams" not in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_operations_grow_as_claimed(name: str) -> None:
    """With both lengths doubled and doubled again: linear in each alone; in their product as well where S·T
    is claimed, and nowhere else; by as much as step_cost tells."""
    model = build(VARIANTS[name])
    claimed = properties(model.config)  # type: ignore[arg-type]
    assert claimed is not None
    in_t = [products(model, 6, t) for t in (2, 4, 8)]
    assert in_t[2] - in_t[1] == 2 * (in_t[1] - in_t[0]) > 0
    if name not in WITH_SOURCE:
        assert "S" not in claimed.time
        return
    # It is linear where all places are taken; ByteNet's |t^| is rounded up.
    seen = max(20 if "bytenet" in name else 10, VARIANTS[name].get("n_locations", 0))
    in_s = [products(model, s, 2) for s in (seen, 2 * seen, 4 * seen)]
    columns = abs(in_s[2] - in_s[1] - 2 * (in_s[1] - in_s[0]))
    assert columns <= 0.05 * (in_s[2] - in_s[1])
    if claimed.path_s is not None and claimed.path_s.letters == IN_WINDOW:
        assert claimed.time != "S·T"
        return  # this form of the model computes what lies outside as well, and throws it away
    together = products(model, 4 * seen, 4) - in_s[2] - in_t[1] + in_t[0]
    assert together == 2 * (step_cost(model.config, 4 * seen) - step_cost(model.config, 6))
    assert (together > 0) == (claimed.time == "S·T")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MEASURED if name in WITH_SOURCE])
def test_paths_are_as_long_as_claimed(name: str) -> None:
    """Longer lengths make the longest shortest way longer as the letters say; c is its length."""
    model = build(VARIANTS[name], scale=0.2)  # of 0.4 some weights of an attention are below all rounding
    claimed = properties(model.config)  # type: ignore[arg-type]
    assert claimed is not None and claimed.path_s is not None
    found = [longest_paths(model, s, t) for s, t in LENGTHS]
    for side, path in enumerate((claimed.path_s, claimed.path_t)):
        if path.letters in (IN_WINDOW, IN_FIELD):
            continue  # beyond them a way is longer
        if path.number is not None:
            assert {lengths_of[side] for lengths_of in found} == {path.number}
        constants = {
            lengths_of[side] - GROWTH[path.letters](s, t)
            for lengths_of, (s, t) in zip(found, LENGTHS, strict=True)
        }
        assert len(constants) == 1, f"{path.letters}: {found}"
        if path.letters == "1":  # beside it a recurrent encoder's own layers, which the letters leave out
            config: Any = model.config
            depth = getattr(config, "encoder_depth", 0) or getattr(config, "n_encoder_layers", 1)
            layers = depth if claimed.nets.startswith("RNN") else 0
            assert constants == {1 + layers}


@by_variant("name", WITH_SOURCE)
def test_the_encoders_field_is_as_wide_as_claimed(name: str) -> None:
    """The bytes with a gradient are so many, around a column; those of an n-gram, which is looked up, have
    none, and are claimed besides. Of the decoder's field test_contract.py has the same."""
    reach = max(VARIANTS[name].get("ngrams", [1])) - 1
    model = build({key: value for key, value in VARIANTS[name].items() if not key.startswith("ngram")})
    net, full = model.config.structure().encoder, build(VARIANTS[name]).config.structure().encoder
    width = 2 * (net.field or 5) + 3
    at = width // 2
    seen = seen_by_column(model, width, at)
    if net.field is not None:
        assert full.field == net.field + reach
        assert at in seen and seen[-1] - seen[0] + 1 == net.field
    elif net.reads in ("both ways", "all at once"):
        assert seen == list(range(width))
    elif net.reads == "forwards":
        assert seen == list(range(at + 1))
    else:  # in the order of the text, or in that in which it is read
        assert seen[0] in (at, width - 2 - at) and seen == list(range(seen[0], width - 1))


def test_the_table_is_of_the_configured_models(tmp_path: Any) -> None:
    """All by default; others by name or from a run; what is not known of an option is not told."""
    said = invoke("info --properties").stdout.splitlines()
    assert [line.split()[0] for line in said[1:7]] == [*BUILT_IN]
    assert [re.split("  +", line)[2] for line in said[2:5]] == ["S·T", "S·T", "cS + cT"]
    paper = invoke("info --properties --preset paper bytenet").stdout
    assert re.split("  +", paper.splitlines()[1]) == [
        *("bytenet", "CNN/CNN", "cS + cT", "yes", "c = 60", "c = 30", "373 bytes", "373 bytes")
    ]
    for words in ("info", "info luong bytenet"):
        assert invoke(words).exit_code in (1, 2)
