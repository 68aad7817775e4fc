"""Open the models and texts of a command, and check them before the work starts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bytenmt.architectures.section import architecture
from bytenmt.cli.console import CONSOLE
from bytenmt.config.schema import fingerprint
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.text_file import TextFile, repair_warning
from bytenmt.decoding.engine_selection import precision_of
from bytenmt.decoding.interface import SAMPLING_SETTINGS, EngineSpec
from bytenmt.decoding.loading import LoadedRun, Runtime, load_runs, n_threads
from bytenmt.errors import BytenmtError
from bytenmt.translation.kept_spans import SourceLine
from bytenmt.translation.line_batch import TranslationResult
from bytenmt.translation.settings import Settings, option_name
from bytenmt.translation.translator import Translator


def check_settings(values: Mapping[str, Any]) -> Settings:
    """Return translation settings from option values by name, such as {"beam": 4}.

    Options that are missing have their defaults. Warns of options without effect. Raises
    BytenmtError for a value that is not allowed.
    """
    for name in values:
        if name in SAMPLING_SETTINGS and not values.get("sample"):
            CONSOLE.warn(f"{option_name(name)} has no effect without --sample")
    return Settings.from_dict(values, option_name)


def load_models(runs: Sequence[Path], spec: EngineSpec) -> Runtime:
    """Load run folders or weights files, several as an ensemble; -v describes them on stderr.

    spec: the engine, device, precision and threads to decode with.
    """
    began = time.monotonic()
    runtime = load_runs(runs, spec, CONSOLE)
    seconds = time.monotonic() - began
    spec = runtime.spec
    for run in runtime.runs:
        name = architecture(run.config.model)
        CONSOLE.detail(f"{run.file}: {name}, {_update(run)}, stored in {run.precision}")
    precisions = ", ".join(dict.fromkeys(precision_of(run.precision, spec) for run in runtime.runs))
    engine = f"engine {spec.engine} on {spec.device}, {precisions}"
    if spec.device == "cpu":
        engine = f"{engine}, {n_threads(spec)} threads"
    CONSOLE.detail(f"{engine}; loaded in {seconds:.2f} s")
    return runtime


def provenance(runtime: Runtime) -> list[str]:
    """Return texts about loaded models and their engine, for a report of results.

    They are, for each model, "configuration DIGEST", "update N", the number of its last training
    update, "weights PRECISION" unless that is fp32, and "engine NAME PRECISION".
    """
    lines = []
    for run in runtime.runs:
        lines += [f"configuration {fingerprint(run.config)}", _update(run)]
        if run.precision != "fp32":
            lines.append(f"weights {run.precision}")
        lines.append(f"engine {runtime.spec.engine} {precision_of(run.precision, runtime.spec)}")
    return lines


def _update(run: LoadedRun) -> str:
    return "update unknown" if run.facts.update is None else f"update {run.facts.update}"


def check_source(run: Path, has_source: bool, src: object) -> None:
    """Raise BytenmtError where pairs cannot be scored: by a language model, or without a source.

    run: the model, for messages. has_source: False for a language model. src: source text or None.
    """
    if not has_source:
        raise BytenmtError(f"{run} is a language model: evaluate it with `bytenmt predict`")
    if src is None:
        raise BytenmtError(f"{run} is a translation model: give the source text by --src")


def open_text(path: Path, may_be_empty: bool = False) -> TextFile:
    """Open a text file, or a named pipe, which is read to its end.

    Invalid UTF-8 in some lines is replaced by U+FFFD, with a warning. Raises DataError if so many
    lines are invalid that the text must be in another encoding, or if it is empty and must not be.
    """
    text = TextFile.open(path)
    if len(text) or not may_be_empty:
        text.check_content()
    if len(text.repaired):
        CONSOLE.warn(repair_warning(text.path, len(text.repaired), len(text)))
    return text


def open_pairs(src: Path | None, tgt: Path) -> ParallelCorpus:
    """Open parallel files, or targets alone (src None), as a corpus of all lines, even empty."""
    source = None if src is None else open_text(src)
    return ParallelCorpus.from_texts(source, open_text(tgt), keep_empty=True)


def translate_lines(
    translator: Translator, lines: Sequence[SourceLine], size: int
) -> list[TranslationResult]:
    """Return a result for each line, in order; a progress bar moves after each `size` lines."""
    results: list[TranslationResult] = []
    with CONSOLE.bar(len(lines), " lines") as bar:
        for first in range(0, len(lines), size):
            results += translator.translate_lines(lines[first : first + size], first)
            bar.advance(len(results) - first)
    return results
