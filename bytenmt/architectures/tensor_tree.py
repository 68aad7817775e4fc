"""Memories and states as trees of tensors: mapped, selected and joined by rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

Tree = TypeVar(
    "Tree", bound=tuple[Any, ...]
)  # NamedTuples of tensors and of such tuples, rows first


def tensors(tree: NamedTuple | tuple[object, ...]) -> list[Tensor]:
    """List the tensors of a memory or state, depth first."""
    leaves: list[Tensor] = []
    for part in tree:
        if isinstance(part, Tensor):
            leaves.append(part)
        elif isinstance(part, tuple):
            leaves.extend(tensors(part))
    return leaves


def map_tensors(function: Callable[..., Tensor], *trees: Tree) -> Tree:
    """Apply a function to each tensor of a tree, or to the tensors in the same place of several
    trees.

    Returns a tree of the results, of the first tree's type.
    """
    parts = [
        function(*same) if isinstance(same[0], Tensor) else map_tensors(function, *same)
        for same in zip(*trees, strict=True)
    ]
    kind: Any = type(trees[0])
    return cast(Tree, kind(parts) if kind is tuple else kind._make(parts))


def select(tree: Tree, rows: Tensor) -> Tree:
    """Return a copy of the given rows, (k,) int64, of each tensor of a memory or state, in this
    order."""
    return map_tensors(lambda part: part[rows], tree)


def concatenate(trees: Sequence[Tree]) -> Tree:
    """Concatenate several memories or states by rows; a copy.

    Where axis 1 differs (columns of the source), the shorter are padded with zeros: every memory
    knows the length of its sources.
    """

    def concatenated(*parts: Tensor) -> Tensor:
        width = max(part.shape[1] for part in parts) if parts[0].dim() > 1 else 0
        return torch.cat([_widened(part, width) for part in parts])

    return map_tensors(concatenated, *trees)


def place(tree: Tree, rows: Tensor, fresh: Tree) -> None:
    """Overwrite the given rows, (k,) int64, of each tensor of `tree` with the k rows of `fresh`, in
    place.

    Axis 1 of `fresh` may be shorter; it is padded with zeros.
    """
    for old, new in zip(tensors(tree), tensors(fresh), strict=True):
        old.index_copy_(0, rows, _widened(new, old.shape[1] if old.dim() > 1 else 0))


def _widened(part: Tensor, width: int) -> Tensor:
    """(n, w, ...) padded with zeros to (n, width, ...); (n,) as it is."""
    if part.dim() == 1 or part.shape[1] == width:
        return part
    return torch.cat(
        [part, part.new_zeros(len(part), width - part.shape[1], *part.shape[2:])], dim=1
    )
