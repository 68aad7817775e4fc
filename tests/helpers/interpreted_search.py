"""The CPU engine's search without its models and without a compiler: its beam_search.py read as plain Python,
over made-up distributions. What holds for the PyTorch search can be asked of it, and faults can be planted.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from made_up import Distribution

import bytenmt.decoding.cpu.search.beam_search
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.cpu.search.drafter import Drafter, gather_rows
from bytenmt.decoding.cpu.search.slots import DONE, FREE, Rules, SearchState
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.splitmix import draw_key

FILE = Path(bytenmt.decoding.cpu.search.beam_search.__file__)
WITH = ("candidates", "constraints", "ngram_blocking", "owing", "sampling")  # files beside it


def interpreted() -> ModuleType:
    """A fresh copy of the module whose functions are Python's own. What is compiled elsewhere is replaced."""
    files = [uncompiled(FILE.with_name(f"{name}.py")) for name in WITH]
    copy = uncompiled(FILE)
    for one in (*files, copy):
        for beside in files:
            vars(one).update({key: vars(beside)[key] for key in vars(one).keys() & functions(beside)})
    candidates: Any = files[WITH.index("candidates")]
    candidates.largest = largest
    copied: Any = copy
    copied.log_softmax = mean_of_models
    copied.learn = lambda *_: None
    return copy


def functions(module: ModuleType) -> set[str]:
    """The names of those that a file has of its own."""
    return {
        name for name, part in vars(module).items() if getattr(part, "__module__", "") == "interpreted_choose"
    }


def uncompiled(file: Path) -> ModuleType:
    """A fresh copy of a module without its compiler."""
    copy = ModuleType("interpreted_choose")
    source = re.sub(
        "@(compiled|allocating|inlined|inlined_allocating)\n", "", file.read_text(encoding="utf-8")
    )
    exec(compile(source, str(file), "exec", dont_inherit=True), vars(copy))
    return copy


def mean_of_models(logits: np.ndarray, row: int, merged: np.ndarray) -> None:
    """The models' mean probability, from logits that are log-probabilities."""
    merged[:] = np.logaddexp.reduce(logits[:, row], axis=0) - np.log(len(logits))


def largest(address: int, n: int) -> np.float32:
    """Of n numbers at an address; NaN if one is."""
    return np.frombuffer((ctypes.c_float * n).from_address(address), np.float32).max()


class InterpretedEngine(NumbaEngine):
    """As NumbaEngine, but each of its models is a list of distributions, of which a sentence follows the one
    whose number its source is. plant: changes the module before it is used."""

    def __init__(
        self,
        models: Sequence[Sequence[Distribution]],
        options: Options,
        capacity: int,
        plant: Callable[[Any], None] = lambda module: None,
    ) -> None:
        self.capacity = capacity
        self._options, self._rules = options, Rules.of(options)
        self._speculates = False
        self._distributions = models
        self._search = SearchState.make(capacity, options.beam, len(models), length=0, prefix=0)
        self._search = self._search._replace(logits=self._search.logits.astype(np.float64))
        self._drafter = Drafter.of(None, capacity * options.beam)
        self._handles, self._n_admitted = {}, 0
        self._follows = [0] * capacity  # the distribution of each place
        self._search_module: Any = interpreted()
        plant(self._search_module)
        self.n_steps = 0

    def admit(self, requests: list[Request]) -> list[int]:
        logits = self._search.logits
        self._grow(requests)
        self._search = self._search._replace(logits=logits)
        free = np.flatnonzero(self._search.state == FREE)[: len(requests)].tolist()
        for place, request in zip(free, requests, strict=True):
            keys = [draw_key(self._options.seed, request.number, text) for text in range(self._options.beam)]
            owed = None if self._options.tracker is None else request.constraint
            self._search.begin(
                place, request.limit, request.prefix, keys, self._options.sample, constraint=owed
            )
            self._follows[place] = int((request.source or b"").strip() or b"0")
        handles = list(range(self._n_admitted, self._n_admitted + len(requests)))
        self._n_admitted += len(requests)
        self._handles.update(zip(handles, free, strict=True))
        return handles

    def advance(self, n_steps: int) -> None:
        search, module = self._search, self._search_module
        for _ in range(n_steps):
            gather_rows.py_func(search)
            if not search.n_rows[0]:
                return
            self.n_steps += 1
            for row, (place, beam, _) in enumerate(search.rows[: search.n_rows[0]]):
                text = self._text_of(place, beam)
                for model, distributions in enumerate(self._distributions):
                    search.logits[model, row] = distributions[self._follows[place]](text)
            module.choose_bytes(search, self._rules, self._drafter)

    def finished(self) -> list[tuple[int, list[Hypothesis]]]:
        done = [(h, place) for h, place in self._handles.items() if self._search.state[place] == DONE]
        return super().finished() if done else []

    def _text_of(self, place: int, beam: int) -> bytes:
        """What a row has read."""
        return self._search.text(place, int(self._search.step[place]), int(beam))
