"""Turn the options of translate and evaluate into settings, an engine and an output format.

Imports PyTorch only if an engine or an alignment needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from bytenmt.cli.console import detail, say
from bytenmt.cli.line_filter import OutputFormat, plain
from bytenmt.cli.output_formats import Flagged, JsonRecords, Judged, n_best_list
from bytenmt.config.schema import architecture, fingerprint
from bytenmt.decoding.engine_selection import precision_of
from bytenmt.decoding.engines import n_threads
from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.loading import LoadedRun, Runtime
from bytenmt.decoding.setting_table import TABLE
from bytenmt.decoding.settings import Settings
from bytenmt.errors import BytenmtError
from bytenmt.utf8 import first_invalid

if TYPE_CHECKING:
    from bytenmt.distributed import Group
    from bytenmt.evaluation.judge import Judge


class Answers(NamedTuple):
    """The options that describe the output; each field is named like its option.

    alignment: None if neither --alignment nor --no-alignment was given.
    """

    format: str = "text"
    alignment: bool | None = None
    with_source: bool = False
    character_bits: bool = False
    flag_above: float | None = None
    stream: bool = False


OF_THE_ENGINE = ("engine", "precision", "reverse")


def engine_spec(decoding: Mapping[str, Any], device: str, threads: int | None) -> EngineSpec:
    """Return the engine that the options ask for."""
    return EngineSpec(decoding["engine"], device, decoding["precision"], threads, decoding.get("reverse"))


def settings(decoding: Mapping[str, Any], answers: Answers | None = None) -> Settings:
    """Return the settings of the search from the options; the options of the engine are left out.

    Raises BytenmtError for options that contradict each other or would be ignored.
    """
    given = named_settings(decoding, answers)
    return Settings.from_dict(given, lambda name: TABLE[name].option)


def named_settings(decoding: Mapping[str, Any], answers: Answers | None = None) -> dict[str, Any]:
    """Return the settings of the search by name, not yet checked together; they can be sent to a process."""
    given = {
        name: value
        for name, value in decoding.items()
        if value is not None and value != () and name not in OF_THE_ENGINE
    }
    if answers is not None and answers.character_bits:
        given["byte_scores"] = True
    if answers is not None and answers.stream:
        given.setdefault("beam", 1)
    for pattern in given.get("keep_pattern", ()):
        utf8(pattern, "--keep-pattern")
    if "prefix" in given:
        given["prefix"] = utf8(given["prefix"], "--prefix")
        if b"\n" in given["prefix"] or b"\r" in given["prefix"]:
            raise BytenmtError("--prefix contains a line break: give a single line")
    return given


def utf8(text: str, option: str) -> bytes:
    """Return the bytes of a command line argument. Raises BytenmtError if they are not valid UTF-8."""
    data = text.encode("utf-8", "surrogateescape")
    at = first_invalid(data)
    if at >= 0:
        raise BytenmtError(f"{option} is not UTF-8: its byte {at} is 0x{data[at]:02X}; give valid text")
    return data


def output_format(answers: Answers, settings: Settings, group: Group | None) -> OutputFormat | None:
    """Return how translations are written, by the options of the command line; None with --stream.

    answers: the options on output. settings: of the translation. group: processes that translate together,
    or None. Raises BytenmtError for options that contradict each other.
    """
    if answers.format != "jsonl":
        for option, given in (
            ("--alignment", answers.alignment is not None),
            ("--with-source", answers.with_source),
            ("--character-bits", answers.character_bits),
        ):
            if given:
                raise BytenmtError(f"{option} would be ignored: give --format jsonl with it")
    n_best = settings.search.n_best
    if not answers.stream:
        if answers.format == "jsonl":
            return JsonRecords(n_best, None, answers.with_source, answers.character_bits)
        shape: OutputFormat = n_best_list if n_best > 1 else plain
        return shape if answers.flag_above is None else Flagged(shape, lambda told: say(f"bytenmt: {told}"))
    if answers.format != "text":
        raise BytenmtError(f"--stream prints plain text only: drop it, or --format {answers.format}")
    if answers.flag_above is not None:
        raise BytenmtError("--stream prints a line before its confidence is known: drop it, or --flag-above")
    if settings.search.beam > 1:
        raise BytenmtError("--stream needs greedy search: drop it, or --beam-size")
    if group is not None:
        raise BytenmtError("--stream runs in one process: drop it, or start without torchrun")
    return None


def with_alignment(
    shape: OutputFormat | None, runtime: Runtime, alignment: bool | None
) -> OutputFormat | None:
    """Return the output format with alignments, if it has a field for them and a run has attention.

    alignment: whether alignments were asked for; None if neither way. Raises BytenmtError if they were asked
    for and no run has attention.
    """
    if not isinstance(shape, JsonRecords) or alignment is False:
        return shape
    if alignment and not runtime.has_attention:
        raise BytenmtError("--alignment needs a model with attention: drop it, or use another model")
    return replace(shape, align=runtime.aligner.links) if runtime.has_attention else shape


def judged(shape: OutputFormat | None, answers: Answers, judge: Judge) -> OutputFormat | None:
    """Return the output format for translations with flags, if it shows them."""
    if shape is None or (answers.format != "jsonl" and answers.flag_above is None):
        return shape
    detail(judge.describe())
    return Judged(shape, judge)


def provenance(runtime: Runtime) -> list[str]:
    """Return what a score was made with besides its signature: configuration, update, precision and
    engine.
    """
    told = []
    for run in runtime.runs:
        update = "unknown" if run.facts.update is None else run.facts.update
        told += [f"configuration {fingerprint(run.config)}", f"update {update}"]
        told += [] if run.precision == "fp32" else [f"weights {run.precision}"]
        told.append(f"engine {runtime.spec.engine} {precision_of(run.precision, runtime.spec)}")
    return told


def described(runtime: Runtime, seconds: float) -> Iterator[str]:
    """Yield a line for each model that was loaded and one for the engine.

    seconds: the time that loading took.
    """
    spec = runtime.spec
    for run in runtime.runs:
        update = "unknown" if run.facts.update is None else run.facts.update
        yield f"{run.file}: {architecture(run.config.model)}, update {update}, stored in {run.precision}"
    precisions = ", ".join(dict.fromkeys(precision_of(run.precision, spec) for run in runtime.runs))
    threads = f", {n_threads(spec)} threads" if spec.device == "cpu" else ""
    yield f"engine {spec.engine} on {spec.device}, {precisions}{threads}; loaded in {seconds:.2f} s"


def opposed(runs: Sequence[LoadedRun]) -> Iterator[str]:
    """Yield a warning for every two runs of which one was trained to write the files that the other one
    reads.
    """
    for number, run in enumerate(runs):
        for other in runs[:number]:
            shared = _files(run, "src") & _files(other, "tgt") | _files(run, "tgt") & _files(other, "src")
            if shared and not _files(run, "tgt") & _files(other, "tgt"):
                yield (
                    f"warning: {other.file} and {run.file} translate in different directions, by their"
                    f" training text: {min(shared)} is the source of one and the target of the other"
                )


def _files(run: LoadedRun, side: str) -> set[str]:
    """Return the training files of a run that contain one side of the pairs only."""
    files = [corpus.src if side == "src" else corpus.tgt for corpus in run.facts.corpora]
    return {file for file in files if file is not None}
