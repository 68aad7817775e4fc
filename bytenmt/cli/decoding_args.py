"""What the options of translate and evaluate mean together: a Translator, and the form of its answers.

Knows the options by name; prints nothing, and imports PyTorch only where an engine or an alignment needs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bytenmt import __version__
from bytenmt.cli.line_filter import OutputFormat, plain
from bytenmt.cli.output_formats import JsonLines, n_best_list
from bytenmt.config.schema import ATTENTIVE, architecture, fingerprint
from bytenmt.decoding.choice import precision_of
from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.loading import Runtime
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError
from bytenmt.utf8 import first_invalid

if TYPE_CHECKING:
    from bytenmt.distributed import Group

OF_SAMPLING = ("temperature", "top_k", "top_p", "seed")
OF_THE_ENGINE = ("engine", "precision", "draft")


def engine_spec(decoding: Mapping[str, Any], device: str, threads: int | None) -> EngineSpec:
    """The engine that is asked for."""
    return EngineSpec(decoding["engine"], device, decoding["precision"], threads, decoding["draft"])


def settings(decoding: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a Translator: what was given, without what chooses the engine. Raises BytenmtError for
    what does not go together or would be ignored."""
    given = {name: value for name, value in decoding.items() if value is not None}
    beam, n_best = given.get("beam", 1), given.get("n_best", 1)
    if beam == 1 and "length_penalty" in given:
        raise BytenmtError(
            "--length-penalty would be ignored by greedy search: give --beam-size 2 or more with it"
        )
    if n_best > beam:
        raise BytenmtError(f"--n-best {n_best} of --beam-size {beam}: give --beam-size {n_best} or more")
    for name in OF_SAMPLING:
        if name in given and not given.get("sample"):
            raise BytenmtError(f"--{name.replace('_', '-')} would be ignored: give --sample with it")
    if "prefix" in given:
        given["prefix"] = utf8(given["prefix"], "--prefix")
        if b"\n" in given["prefix"] or b"\r" in given["prefix"]:
            raise BytenmtError("--prefix holds a line end: a translation is one line")
    return {name: value for name, value in given.items() if name not in OF_THE_ENGINE}


def utf8(text: str, option: str) -> bytes:
    """What a command line has as text, as the bytes that they were. Raises BytenmtError."""
    data = text.encode("utf-8", "surrogateescape")
    at = first_invalid(data)
    if at >= 0:
        raise BytenmtError(f"{option} is not UTF-8: its byte {at} is 0x{data[at]:02X}; give valid text")
    return data


def translator(runtime: Runtime, given: Mapping[str, Any], group: Group | None) -> Translator:
    """The Translator of loaded runs; given: see settings."""
    return Translator.of_runtime(runtime, group=group, **given)


def form(
    name: str, stream: bool, alignment: bool | None, given: Mapping[str, Any], group: Group | None
) -> OutputFormat | None:
    """How answers are written, None for a text that is shown while it is decoded. Raises BytenmtError for
    what does not go together."""
    if alignment is not None and name != "jsonl":
        raise BytenmtError("--alignment would be ignored: give --format jsonl with it")
    n_best = given.get("n_best", 1)
    if not stream:
        return JsonLines(n_best) if name == "jsonl" else n_best_list if n_best > 1 else plain
    if name != "text":
        raise BytenmtError(f"--stream shows plain text: drop it, or --format {name}")
    if given.get("beam", 1) > 1:
        raise BytenmtError("--stream shows what is sure to stay: drop it, or --beam-size")
    if group is not None:
        raise BytenmtError("--stream is for one process: drop it, or start it without torchrun")
    return None


def with_alignment(shape: OutputFormat | None, runtime: Runtime, wanted: bool | None) -> OutputFormat | None:
    """The same form, with alignments where it has room for them and one of the runs has attention; wanted:
    None where it was not said. Raises BytenmtError where they are wanted and cannot be had."""
    if not isinstance(shape, JsonLines) or wanted is False:
        return shape
    files = [run.file for run in runtime.runs if architecture(run.config.model) in ATTENTIVE]
    if wanted and not files:
        raise BytenmtError("--alignment: no run here has attention: drop it")
    if not files:
        return shape
    from bytenmt.evaluation.alignment import Aligner

    return replace(shape, align=Aligner.load(files, runtime.spec.device).links)


def made_with(
    runtime: Runtime,
    asked: Translator,
    shape: OutputFormat | None,
    buffer_size: int,
    errors: str,
) -> Callable[[], dict[str, Any]]:
    """What makes all that the bytes of a translation depend on besides its lines, as JSON values by their
    options' names."""

    spec = runtime.spec

    def make() -> dict[str, Any]:
        return {
            "version": __version__,
            "models": [_sha256(run.file) for run in runtime.runs],
            "engine": spec.engine,
            "device": spec.device,
            "precision": [precision_of(run.precision, spec) for run in runtime.runs],
            "draft": spec.draft,
            "threads": spec.threads if spec.engine == "torch" else None,  # numba's give the same bits
            "processes": asked.group.size if asked.group else 1,
            "format": "stream" if shape is None else "jsonl" if isinstance(shape, JsonLines) else "text",
            "alignment": isinstance(shape, JsonLines) and shape.align is not None,
            "buffer-size": buffer_size,
            "errors": errors,
            "prefix": asked.prefix.decode(),
            "max-len-a": asked.max_len_a,
            "max-len-b": asked.max_len_b,
            "max-source-bytes": asked.max_source_bytes,
            "max-tokens": asked.max_tokens,
        } | {name.replace("_", "-"): value for name, value in asdict(asked.options).items()}

    return make


def _sha256(file: Path) -> str:
    """Of a weights file that was read just now. Raises BytenmtError."""
    try:
        with open(file, "rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise BytenmtError(f"{file} has gone while it was read ({error.strerror}): start again") from None


def provenance(runtime: Runtime) -> list[str]:
    """What a score was made with, besides its signature."""
    told = []
    for run in runtime.runs:
        told += [f"configuration {fingerprint(run.config)}", f"update {run.facts.get('update', 'unknown')}"]
        told += [] if run.precision == "fp32" else [f"weights {run.precision}"]
        told.append(f"engine {runtime.spec.engine} {precision_of(run.precision, runtime.spec)}")
    return told
