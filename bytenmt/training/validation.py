"""Decoding for a validation: with the live weights, and in no more time than there is for it.

On a CPU the compiled engine decodes, whose kernels are compiled beside the training; plain PyTorch elsewhere,
where there is no program for a model, and until the kernels are there.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from bytenmt.architectures.base import Model
from bytenmt.architectures.registry import has_program
from bytenmt.checkpoints.checkpoint import weights
from bytenmt.config.schema import Config
from bytenmt.decoding.cpu.fallback import EngineProxy
from bytenmt.decoding.cpu.packing import PackedModel, pack_model
from bytenmt.decoding.engines import n_threads
from bytenmt.decoding.interface import Engine, EngineSpec, Options
from bytenmt.decoding.loading import Runtime, runtime_from_models
from bytenmt.decoding.translator import Translator
from bytenmt.distributed import SINGLE_PROCESS, Group

SHARE = 0.05  # of the training time that decoding for validations may take, and as much again for scoring
ALWAYS = 2.0  # seconds that decoding may take in any training: the share of 40 seconds
LAST = 10.0  # seconds that the last validation of a run may decode, whatever the others took
FEWEST = 6  # lines that are decoded together at least


def seconds_left(training: float, used: float) -> float:
    """Return the seconds left for validation after `training` seconds, of which validations took `used`."""
    return max(ALWAYS, SHARE * training) - used


class LiveDecoder:
    """Translates with the weights that a model has at the moment.

    device: where it is; group: the processes that share the lines.
    To be stopped.
    """

    def __init__(
        self,
        model: Model[Any, Any],
        config: Config,
        device: torch.device,
        group: Group = SINGLE_PROCESS,
    ) -> None:
        self._model, self._config, self._device, self._group = model, config, device, group
        self._compilation = None
        if device.type == "cpu" and has_program(config.model):
            from bytenmt.decoding.cpu.compilation import Compilation

            leads = os.environ.get("LOCAL_RANK", "0") == "0"
            self._compilation = Compilation(self._packed(), config.model.source, leads)

    def stop(self) -> None:
        """End what works beside the training."""
        if self._compilation is not None:
            self._compilation.stop()

    def translate(
        self, lines: Sequence[bytes], seconds: float, at_least_some: bool = False
    ) -> tuple[list[str], float]:
        """Translate the first lines, as many as there are seconds for: all of them, or their first half,
        quarter and so on. Returns the translations and the seconds that they took.

        seconds: inf for all, and by the engine that is the same in every run, for which it waits as long as
        it is compiled. at_least_some: translate the first few lines even if they take longer.

        Half of the lines are decoded before all of them, and cost about as much as the other half: no
        estimate is needed. Called by all processes.
        """
        if seconds <= 0 and not at_least_some:
            return [], 0.0
        if self._compilation is not None:
            self._compilation.done(wait=seconds == math.inf)
        begun = time.monotonic()
        runtime = self._runtime()
        found: list[str] = []
        for end in steps(len(lines), seconds):
            needed = at_least_some and not found
            passed = time.monotonic() - begun
            if not self._group.broadcast(needed or 2 * passed <= seconds):
                break
            until = math.inf if needed else begun + seconds
            more = self._share(runtime, lines[len(found) : end], until)
            if more is None:
                break
            found += more
        return found, time.monotonic() - begun

    def _share(self, runtime: Runtime, lines: Sequence[bytes], until: float) -> list[str] | None:
        """All translations, of which each process makes its share; None where one has run out of time."""
        maker = runtime.engine_maker

        def timed(options: Options) -> Any:
            return lambda capacity: _Timed(maker(options)(capacity), until)

        translator = Translator.from_runtime(Runtime(timed, runtime.has_source, runtime.max_source_bytes))
        own: list[bytes] | None = None
        with suppress(OutOfTime):
            own = translator.translate(lines[self._group.rank :: self._group.size])
        every = self._group.gather_all(own)
        whole = [b""] * len(lines)
        for rank, part in enumerate(every):
            if part is None:
                return None
            whole[rank :: self._group.size] = part
        return [text.decode() for text in whole]

    def _runtime(self) -> Runtime:
        """Ready to decode."""
        limit = self._config.data.max_source_bytes
        if self._compilation is None or not self._compilation.done():
            return replace(runtime_from_models([self._model], self._device), max_source_bytes=limit)
        from bytenmt.decoding.cpu.engine import NumbaEngine

        threads = min(torch.get_num_threads(), n_threads(EngineSpec("numba", "cpu")))
        packed = [self._packed()]
        return Runtime(lambda options: partial(NumbaEngine, packed, options, threads=threads), True, limit)

    def _packed(self) -> PackedModel:
        """The weights of this moment, in fp32."""
        arrays = {name: part.detach().float().cpu().numpy() for name, part in weights(self._model).items()}
        return pack_model(arrays, self._config.model, "fp32")


def steps(n: int, seconds: float) -> list[int]:
    """Yield the numbers of lines, out of n, after which to look at the clock.

    Each is half of the next and at least FEWEST; only n where time does not matter.
    """
    ends = [n]
    while seconds < math.inf and ends[0] >= 2 * FEWEST:
        ends.insert(0, ends[0] // 2)
    return ends


class OutOfTime(Exception):
    """Decoding has taken the seconds that it had."""


class _Timed(EngineProxy):
    """An engine that raises OutOfTime when the clock has passed `until`."""

    def __init__(self, engine: Engine, until: float) -> None:
        super().__init__(engine)
        self._until = until

    def advance(self, n_steps: int) -> None:
        if time.monotonic() > self._until:
            raise OutOfTime
        super().advance(n_steps)
