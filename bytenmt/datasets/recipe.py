"""A picklable description of a translator, with which other processes and machines load it.

Of the processes of a machine one compiles the kernels, while the others wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.decoding.settings import Settings
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError
from bytenmt.reporter import SILENT, Reporter


@dataclass(frozen=True)
class TranslatorSpec:
    """The models, engine and settings from which a worker process loads a Translator.

    runs: run folders or weights files that decide together. spec: the engine. settings: by their names, as
    for Settings.from_dict.
    """

    runs: tuple[str, ...]
    spec: EngineSpec = field(default_factory=EngineSpec)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def load(self, reporter: Reporter = SILENT) -> Translator:
        """Load the translator in this process. Raises BytenmtError."""
        settings = Settings.from_dict(self.settings)
        runtime = load_runs(self.runs, self.spec, reporter)
        if not runtime.has_source:
            raise BytenmtError(
                f"{self.runs[0]} is a language model and cannot translate: give a translation model"
            )
        return Translator.from_runtime(runtime, settings)
