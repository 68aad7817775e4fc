"""Fixtures of the tests of layers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """PyTorch with one and with two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """watch(place, *names): return a list of the calls of functions of a module or class."""
    called: list[str] = []

    def noting(name: str, function: Any) -> Any:
        def noted(*arguments: Any) -> Any:
            called.append(name)
            return function(*arguments)

        return noted

    def watch_functions(place: Any, *names: str) -> list[str]:
        for name in names:
            monkeypatch.setattr(place, name, noting(name, getattr(place, name)))
        return called

    return watch_functions
