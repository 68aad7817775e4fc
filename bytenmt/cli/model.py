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
    from bytenmt.evaluation.calibration import Calibration
    from bytenmt.translation.source_words import WordCounts


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """The options of `bytenmt convert`; a flag marks a translation as doubtful."""

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
    train_src: tuple[Path, ...] = option(
        (),
        "Source text of the training, whose words are stored; may be repeated (default: the words"
        " that the file has).",
    )
    train_tgt: tuple[Path, ...] = option(
        (), "Translation of --train-src, which tells names from other words; may be repeated."
    )
    reverse: Path | None = option(
        None,
        "A model of the opposite direction: the threshold of a search that it ranks is calibrated,"
        " too.",
        metavar="MODEL",
    )


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

    MODEL is one run folder, whose best checkpoint is used, or one weights file. The result is the
    weights file of --output, which every command accepts as MODEL. The thresholds of flags are
    calibrated on --valid-src and --valid-tgt, or on the validation text of MODEL if it still exists
    and has 100 lines. With --train-src and --train-tgt the file also gets the words that the model
    knows: a line with any other word is flagged as doubtful, and names are kept.
    """
    from bytenmt.checkpoints.quantize import convert as write_converted
    from bytenmt.checkpoints.weights import prepare_output, resolve_path
    from bytenmt.translation.source_words import USUAL_COUNT

    (run,) = runs
    paths = [path for path in (how.valid_src, how.valid_tgt) if path is not None]
    if len(paths) == 1:
        raise BytenmtError("--valid-src and --valid-tgt: give both, or neither")
    paths = paths or _own_validation_text(run)
    if len(how.train_src) != len(how.train_tgt):
        raise BytenmtError("--train-src and --train-tgt: give as many files of each")
    prepare_output(how.output, [resolve_path(run), *paths, *how.train_src, *how.train_tgt])
    counts = _count_words(how.train_src, how.train_tgt) if how.train_src else None
    flags = None
    words = None
    with output_lock(how.output):
        if paths:
            flags, words, _ = _calibrate(run, paths, counts, how.reverse)
        elif counts is not None:
            words = counts.source_words(USUAL_COUNT)
        if words is not None:
            CONSOLE.say(
                f"words that occur {words.min_count} times and more are known:"
                f" {words.known.n_words:,}"
            )
        for line in write_converted(run, how.output, how.precision, flags, words):
            CONSOLE.say(line)


def _count_words(sources: Sequence[Path], targets: Sequence[Path]) -> WordCounts:
    """Return the counts of the words of a training text, its files in order."""
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.data.pair_files import PairFiles
    from bytenmt.data.sentences import languages_of_files
    from bytenmt.translation.source_words import WordCounts

    corpus = ParallelCorpus.open_all([*map(PairFiles, sources, targets)])
    languages = languages_of_files(sources)
    counts = WordCounts(languages[0] if len(languages) == 1 else "")
    with CONSOLE.bar(len(corpus), " pairs") as bar:
        for number in range(len(corpus)):
            counts.add(corpus.source(number).decode(), corpus.target(number).decode())
            bar.advance(1)
    return counts


def _own_validation_text(run: Path) -> list[Path]:
    """Return the files that a run was validated on; none if they are gone or have too few lines."""
    from bytenmt.checkpoints.weights import is_weights_file, read_run, resolve_path
    from bytenmt.data.text_file import TextFile
    from bytenmt.evaluation.calibration import MIN_LINES

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


def _calibrate(
    run: Path, paths: Sequence[Path], counts: WordCounts | None, reverse: Path | None
) -> Calibration:
    """Return the thresholds of a run's flags from a validation text; see evaluation.calibration."""
    from bytenmt.cli.inputs import check_source, open_text
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.decoding.interface import EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.evaluation.calibration import calibrate_runtime

    runtime = load_runs([run], EngineSpec(reverse=reverse))
    texts = [open_text(path) for path in paths]
    if len(texts) == 1:
        texts = [*texts[0].split()]
    src, tgt = texts
    check_source(run, runtime.has_source, src)
    ParallelCorpus.from_texts(src, tgt, keep_empty=True)  # raises where line counts differ
    calibration = calibrate_runtime(runtime, list(src), list(tgt), counts)
    flags = calibration.flags
    CONSOLE.say(f"flags calibrated on {flags.n_lines:,} lines")
    for name, doubt in flags.searches.items():
        share = calibration.sure_shares[name]
        line = f"{name} search: sure up to a doubt of {doubt.unsure:.2f} ({share:.0%} of the lines)"
        if doubt.wrong is not None:
            line += f", wrong above {doubt.wrong:.2f}"
        CONSOLE.say(line)
    return calibration
