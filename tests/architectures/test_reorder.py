"""Model.reorder of architectures.base: what of a state is reordered, by the types of its parts."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.layers.rings import Clock, Rings

PARENTS = torch.tensor([1, 1])


class Part(NamedTuple):
    """A state of some parts."""

    first: Any
    second: Any = ()


def reorder(*parts: Any) -> Part:
    return Model.reorder(None, Part(*parts), PARENTS)  # type: ignore[arg-type]


def columns() -> Tensor:
    return torch.tensor([[1.0], [2.0]])


def test_rings_stay_whatever_their_field_is_called() -> None:
    rings = Rings((columns(),))
    state = reorder(Clock.start(2, 3, torch.device("cpu")), rings)
    assert state.second is rings and state.first.ancestors.tolist() == [[1] * 3, [0] * 3]


def test_all_other_tensors_follow_their_rows() -> None:
    state = reorder(columns(), (columns(), columns()))
    assert all(part.tolist() == [[2], [2]] for part in (state.first, *state.second))


@pytest.mark.parametrize(
    "state",
    [
        (Clock.start(2, 3, torch.device("cpu")), (columns(),)),  # a tuple in place of Rings
        (Rings((columns(),)), columns()),
    ],
)
def test_rings_and_a_clock_need_each_other(state: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError, match="Part: Rings need a Clock"):
        reorder(*state)
