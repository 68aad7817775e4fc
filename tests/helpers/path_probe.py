"""Measure by gradients how long the paths from input bytes to a prediction are, and which inputs it depends
on. Every layer, recurrent step and attention passes its value on unchanged and its gradient times a small
number e. A path through L of them then contributes e^L to the gradient, and the shortest path dominates:
between two values of e the gradient grows by (e_1 / e_2)^L. The probe uses where layers pass on their
outputs, but none of the claims about path lengths.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from invariants import AnyModel, encode
from torch import Tensor
from torch.nn import ModuleList

from bytenmt.architectures.bahdanau import model as bahdanau
from bytenmt.architectures.bytenet import model as bytenet
from bytenmt.architectures.convs2s import model as convs2s
from bytenmt.architectures.convs2s.encoder import TanhLayer
from bytenmt.architectures.luong import model as luong
from bytenmt.architectures.tensor_tree import tensors
from bytenmt.layers import recurrent
from bytenmt.utf8 import BOS, EOS

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

    places: list[tuple[Any, str, Callable[..., Any]]] = [
        (module, "attend", all_of) for module in (bahdanau, luong, convs2s)
    ]
    places.append((recurrent, "looped", steps_of))
    for block in (*bytenet.BLOCKS.values(), convs2s.GatedLayer):
        places += [(block, "centred", all_of), (block, "causal", first_of)]
    places.append((TanhLayer, "centred", all_of))
    places.append(
        (convs2s.DecoderLayer, "residual_branch", all_of)
    )  # the encoder's own is damped with the rest
    patches = [patch.object(owner, name, wrap(getattr(owner, name))) for owner, name, wrap in places]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


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

    hook = model.embedding.register_forward_hook(look_up)
    source = torch.tensor([[*(range(65, 65 + s - 1)), EOS]], dtype=torch.uint8)
    target = torch.tensor([[BOS, *range(66, 65 + t)]], dtype=torch.uint8)
    try:
        memory = encode(model, source, torch.tensor([s]))
        logits, _ = model(target, memory, model.start(memory))
    finally:
        hook.remove()
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


def path_lengths(model: AnyModel, s: int, t: int) -> list[list[Tensor]]:
    """Return the length of the shortest path to each of t predictions from each source byte (s,) and each
    target byte (t,); 0 if there is none.
    """
    found = []
    for by in (LARGE, SMALL):
        with damping(by):
            found.append(gradients(model, s, t, lambda _, logits: [_weighed(x) for x in logits[0]]))
    return [
        [_length(large, small) for large, small in zip(*of_prediction, strict=True)]
        for of_prediction in zip(*found, strict=True)
    ]


def _length(large: Tensor, small: Tensor) -> Tensor:
    """From the gradients of two dampings; one that is zero stays so."""
    there = (large > 0) & (small > 0)
    lengths = torch.where(there, (large / small).log() / math.log(LARGE / SMALL), 0.0)
    assert float((lengths - lengths.round()).abs().amax()) < 0.05, lengths
    return lengths.round().long()


def longest_paths(model: AnyModel, s: int, t: int) -> tuple[int, int]:
    """From a source byte and from a target byte to a prediction that depends on it: the most, over all such
    pairs, of what the shortest way between them passes."""
    lengths = path_lengths(model, s, t)
    of_source, of_target = (max(int(each[side].max()) for each in lengths) for side in range(2))
    return of_source, of_target


def _weighed(x: Tensor) -> Tensor:
    """A sum in which nothing cancels by chance."""
    return (x * torch.linspace(1, 2, x.numel(), dtype=x.dtype).view_as(x)).sum()


def seen_by_column(model: AnyModel, s: int, column: int) -> list[int]:
    """The source bytes that a column of the encoder depends on. Where the memory has none, it is one of the
    highest layer's, in the order in which it is read."""
    tops: list[Tensor] = []
    stack: Any = model.encoder
    top = stack[-1] if isinstance(stack, ModuleList) else stack
    hook = top.register_forward_hook(
        lambda *called: tops.extend(part for part in tensors(called[-1:]) if part.dim() == 3)
    )

    def values(memory: Any, logits: Tensor) -> list[Tensor]:
        kept = [part for part in tensors(memory) if part.dim() == 3 and part.requires_grad]
        columns = [part for part in kept if part.shape[1] >= s] or tops
        return [sum(_weighed(part[0, column]) for part in columns)]  # type: ignore[list-item]

    try:
        return gradients(model, s, 1, values)[0][0].nonzero().flatten().tolist()
    finally:
        hook.remove()


def seen_by_prediction(model: AnyModel, t: int) -> list[int]:
    """The target bytes that the last of t predictions depends on."""
    return (
        gradients(model, 3, t, lambda _, logits: [_weighed(logits[0, -1])])[0][1].nonzero().flatten().tolist()
    )
