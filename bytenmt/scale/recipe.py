"""A translator as several processes make it, each for itself: on another machine, or on another core.

Knows runs and settings by name, because names travel; the kernels of a machine are compiled by one of its
processes, while the others wait. Knows no rows and no engine for data sets.
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
class Recipe:
    """runs: folders or weights files that decide together; spec: of the engine; settings: by their names, as
    Settings.of takes them."""

    runs: tuple[str, ...]
    spec: EngineSpec = field(default_factory=EngineSpec)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def load(self, reporter: Reporter = SILENT) -> Translator:
        """The translator, in this process. Raises BytenmtError."""
        settings = Settings.of(self.settings)
        runtime = load_runs(self.runs, self.spec, reporter)
        if not runtime.source:
            raise BytenmtError(f"{self.runs[0]} was trained without a source: it cannot translate")
        return Translator.of_runtime(runtime, settings)
