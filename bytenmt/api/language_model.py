"""A byte language model as a value: what a text costs it, and text drawn from it. Knows runtimes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, AnyStr

import numpy as np

from bytenmt.decoding.interface import AUTO, OFF, EngineSpec
from bytenmt.decoding.loading import Runtime, load_runs
from bytenmt.errors import SettingError
from bytenmt.language.generate import generate
from bytenmt.language.surprisal import CHUNK, Surprise, stream
from bytenmt.reporter import SILENT, Reporter

NOTHING = Surprise(np.zeros(0, np.uint8), np.zeros(0), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A run without a source, or several that decide together.

    >>> model = LanguageModel.load("runs/text")
    >>> found = model.surprisal("a cat")
    >>> len(found.bits), bool((found.bits > 0).all())
    (5, True)
    >>> text = model.generate("a c", 9, seed=1)
    >>> text.startswith("a c"), text == model.generate("a c", 9, seed=1)
    (True, True)
    """

    runtime: Runtime

    @classmethod
    def load(
        cls,
        *runs: str | Path,
        engine: str = AUTO,
        device: str = AUTO,
        precision: str = AUTO,
        threads: int | None = None,
        reporter: Reporter = SILENT,
    ) -> LanguageModel:
        """Of run folders or weights files; see Translator.load. Raises BytenmtError."""
        runtime = load_runs(runs, EngineSpec(engine, device, precision, threads, OFF), reporter)
        if runtime.source:
            raise SettingError(f"{runs[0]} was trained with a source: use Translator")
        return cls(runtime)

    def surprisal(self, text: str | bytes) -> Surprise:
        """What each byte costs after all before it: bits, and its rank among the 256."""
        data = text.encode() if isinstance(text, str) else text
        return Surprise.joined([NOTHING, *self.stream([data])])

    def stream(self, pieces: Iterable[bytes], chunk: int = CHUNK) -> Iterator[Surprise]:
        """The same of a text that may be endless, as it comes; in constant memory."""
        return stream(self.runtime.reader(), pieces, chunk)

    def generate(self, prompt: AnyStr, n_bytes: int = 1000, **sampling: Any) -> AnyStr:
        """The prompt and n bytes more, drawn byte by byte, whole characters; sampling: temperature, top_k,
        top_p and seed."""
        data = prompt.encode() if isinstance(prompt, str) else prompt
        drawn = b"".join(generate(self.runtime, data, n_bytes, **sampling))
        return drawn.decode() if isinstance(prompt, str) else drawn
