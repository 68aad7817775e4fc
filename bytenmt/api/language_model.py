"""A byte language model for programs: score the bytes of a text, and sample texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, AnyStr

import numpy as np

from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.loading import Runtime, load_runs
from bytenmt.errors import SettingError, printable
from bytenmt.language.generate import generate
from bytenmt.language.surprisal import CHUNK, Surprise, stream
from bytenmt.reporter import SILENT, Reporter

if TYPE_CHECKING:  # it imports PyTorch
    from bytenmt.architectures.base import Model

NOTHING = Surprise(np.zeros(0, np.uint8), np.zeros(0), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A byte language model: a run that was trained without a source, or an ensemble of such runs.

    >>> model = LanguageModel.load("runs/text")
    >>> costs = model.surprisal("a cat")
    >>> len(costs.bits), bool((costs.bits > 0).all())
    (5, True)
    >>> text = model.generate("a c", 9, seed=1)
    >>> text.startswith("a c"), text == model.generate("a c", 9, seed=1)
    (True, True)
    """

    runtime: Runtime

    def __repr__(self) -> str:
        return f"<LanguageModel of {', '.join(printable(run.file) for run in self.runtime.runs)}>"

    @classmethod
    def load(cls, *runs: str | Path, reporter: Reporter = SILENT, **engine: Any) -> LanguageModel:
        """Load a model from run folders or weights files. Raises BytenmtError.

        engine: engine, device, precision and threads, as of Translator.load.
        """
        runtime = load_runs(runs, EngineSpec(**engine), reporter)
        if runtime.has_source:
            raise SettingError(f"{runs[0]} is a translation model, not a language model: use Translator")
        return cls(runtime)

    def surprisal(self, text: str | bytes) -> Surprise:
        """Return the cost of each byte given all bytes before it: its bits, and its rank among the 256."""
        data = text.encode() if isinstance(text, str) else text
        return Surprise.joined([NOTHING, *self.stream([data])])

    def model(self, device: str = "cpu") -> Model[Any, Any]:
        """Return the PyTorch module, weights loaded, in evaluation mode; of an ensemble its first model."""
        from bytenmt.checkpoints.checkpoint import build
        from bytenmt.checkpoints.weights import read_run

        file, stored = read_run(self.runtime.runs[0].file)
        return build(stored, file).to(device).eval()

    def stream(self, pieces: Iterable[bytes], chunk: int = CHUNK) -> Iterator[Surprise]:
        """Yield the costs of a text that comes in pieces and may be endless, in constant memory.

        chunk: bytes that the model reads at once.
        """
        return stream(self.runtime.reader(), pieces, chunk)

    def generate(self, prompt: AnyStr, n_bytes: int = 1000, **sampling: Any) -> AnyStr:
        """Return the prompt and up to n_bytes more, sampled byte by byte and ending in a whole character.

        sampling: temperature, top_k, top_p and seed.
        """
        data = prompt.encode() if isinstance(prompt, str) else prompt
        drawn = b"".join(generate(self.runtime, data, n_bytes, **sampling))
        return drawn.decode() if isinstance(prompt, str) else drawn
