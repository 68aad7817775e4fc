"""Memories and states as trees of tensors: mapped, selected and joined by rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

# NamedTuples of tensors and of such tuples, rows first
Tree = TypeVar("Tree", bound=tuple[Any, ...])


def tensors(tree: NamedTuple | tuple[object, ...]) -> list[Tensor]:
    """List the tensors of a model's memory or state, a nested tuple of tensors, depth first."""
    leaves: list[Tensor] = []
    for part in tree:
        if isinstance(part, Tensor):
            leaves.append(part)
        elif isinstance(part, tuple):
            leaves.extend(tensors(part))
    return leaves


def map_tensors(function: Callable[..., Tensor], *trees: Tree) -> Tree:
    """Apply a function to the tensors at the same place of each tree; return a tree of results.

    Trees: nested tuples of tensors, such as a model's memory or state, all of one structure.
    """
    parts = [
        function(*same) if isinstance(same[0], Tensor) else map_tensors(function, *same)
        for same in zip(*trees, strict=True)
    ]
    kind: Any = type(trees[0])
    return cast(Tree, kind(parts) if kind is tuple else kind._make(parts))


def select(tree: Tree, rows: Tensor) -> Tree:
    """Copy the rows with the numbers `rows`, (k,) int64, of each tensor of a memory or state.

    tree: a nested tuple of tensors; the result has the same structure, with k rows in each.
    """
    return map_tensors(lambda part: part[rows], tree)


def concatenate(trees: Sequence[Tree]) -> Tree:
    """Concatenate memories or states of a model, nested tuples of tensors, by rows; return a copy.

    Where axis 1 (columns of the source) differs, the shorter ones are padded with zeros, since
    every memory has the lengths of its sources.
    """

    def concatenated(*parts: Tensor) -> Tensor:
        if parts[0].dim() == 1:
            return torch.cat(parts)
        width = max(part.shape[1] for part in parts)
        return torch.cat([_widened(part, width) for part in parts])

    return map_tensors(concatenated, *trees)


def place(tree: Tree, rows: Tensor, fresh: Tree) -> None:
    """Overwrite rows of each tensor of a memory or state in place with the k rows of `fresh`.

    tree, fresh: nested tuples of tensors of one structure; rows (k,) int64: row numbers in `tree`.
    Axis 1 of `fresh` may be shorter; it is padded with zeros.
    """
    for old, new in zip(tensors(tree), tensors(fresh), strict=True):
        if old.dim() > 1:
            new = _widened(new, old.shape[1])
        old.index_copy_(0, rows, new)


def _widened(part: Tensor, width: int) -> Tensor:
    """Pad axis 1 of (n, w, ...) with zeros to (n, width, ...)."""
    if part.shape[1] == width:
        return part
    zeros = part.new_zeros(len(part), width - part.shape[1], *part.shape[2:])
    return torch.cat([part, zeros], dim=1)
