"""The commands that describe and convert a model: info and convert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bytenmt.cli.console import CONSOLE
from bytenmt.cli.files import output_lock
from bytenmt.cli.options import PresetOptions, command, models
from bytenmt.config.fields import option
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.checkpoints.facts import FlagThresholds


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """The options of `bytenmt convert`."""

    output: Path = option(MISSING, "Weights file to write, FILE.safetensors.", "-o", "--output")
    precision: str = option(
        "int8",
        "Precision of the weight matrices; all other tensors stay fp32.",
        choices=("fp32", "int8"),
    )
    valid_src: Path | None = option(
        None, "Source text on which the thresholds of flags are calibrated."
    )
    valid_tgt: Path | None = option(None, "Reference translation of --valid-src.")


@command("info", models("MODEL|ARCH", most=1))
def info(runs: tuple[Path, ...], how: PresetOptions) -> None:
    """Print the size, cost and configuration of a model.

    MODEL is a run folder or a weights file, ARCH the name of an architecture, whose --preset and
    --set may be given; --set model.source=false describes a language model. The output is TOML, a
    valid file for `bytenmt train --config`.
    """
    from bytenmt.decoding.model_summary import model_description

    click.echo(model_description(str(runs[0]), how.preset, how.assignments))


@command("convert", models("MODEL", most=1))
def convert(runs: tuple[Path, ...], how: ConvertOptions) -> None:
    """Quantise a model to int8, or convert it back to fp32.

    MODEL is a run folder, whose best checkpoint is used, or a weights file. Every command accepts
    the file that is written as MODEL. The thresholds of flags are calibrated on --valid-src and
    --valid-tgt, or on the validation text of MODEL if it still exists and has 100 lines.
    """
    from bytenmt.checkpoints.quantize import convert as write_converted
    from bytenmt.checkpoints.weights import prepare_output

    (run,) = runs
    paths = [path for path in (how.valid_src, how.valid_tgt) if path is not None]
    if len(paths) == 1:
        raise BytenmtError("--valid-src and --valid-tgt: give both, or neither")
    paths = paths or _own_validation_text(run)
    flags = None
    prepare_output(how.output, paths)
    with output_lock(how.output):
        if paths:
            flags = _calibrate_flags(run, paths)
        for line in write_converted(run, how.output, how.precision, flags):
            CONSOLE.say(line)


def _own_validation_text(run: Path) -> list[Path]:
    """Return the files that a run was validated on, two or a table.

    The list is empty where they are gone or have too few lines.
    """
    from bytenmt.checkpoints.weights import is_weights_file, read_run, resolve_path
    from bytenmt.data.text_file import TextFile
    from bytenmt.evaluation.judge import MIN_LINES

    # A weights file may come from elsewhere: the files that it names are not read.
    if is_weights_file(resolve_path(run)):
        return []
    valid = read_run(run)[1].facts.valid
    if valid is None or not valid.has_source:
        return []
    paths = [path for path in (valid.src, valid.tgt, valid.tsv) if path is not None]
    if all(map(Path.is_file, paths)) and len(TextFile.open(paths[-1])) >= MIN_LINES:
        return paths
    return []


def _calibrate_flags(run: Path, paths: Sequence[Path]) -> FlagThresholds:
    """Return the thresholds of a run's flags from a validation text; see judge.calibrate."""
    from bytenmt.cli.inputs import check_source, open_text
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.decoding.interface import EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.evaluation.judge import calibrate_runtime

    runtime = load_runs([run], EngineSpec())
    texts = [open_text(path) for path in paths]
    if len(texts) == 1:
        texts = [*texts[0].split()]
    src, tgt = texts
    check_source(run, runtime.has_source, src)
    ParallelCorpus.from_texts(src, tgt, keep_empty=True)  # raises where line counts differ
    flags = calibrate_runtime(runtime, list(src), list(tgt))
    greedy = flags.unsure_above(1)
    beam = flags.unsure_above(2)
    above = f"unsure above {greedy:.2f} bits per byte, with a beam above {beam:.2f}"
    CONSOLE.say(f"flags calibrated on {flags.n_lines:,} lines: {above}")
    return flags
