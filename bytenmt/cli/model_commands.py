"""The commands for trained models: average, convert, card and warmup.

Heavy modules are imported inside the commands.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bytenmt import __version__
from bytenmt.atomic_file import read_limited
from bytenmt.cli.console import Command, check_output, commit, say, writer
from bytenmt.cli.options import (
    COUNT,
    ENGINE,
    FILE,
    beam_option,
    corpora,
    errors_option,
    within,
)
from bytenmt.config.bounds import THREADS
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.config.facts import FlagThresholds
    from bytenmt.decoding.loading import Runtime
    from bytenmt.evaluation.measurements import Measured


MOST_CARD = 1 << 24  # bytes of a README.md


@click.command(cls=Command)
@click.argument("paths", metavar="RUN|FILE...", type=FILE, nargs=-1, required=True)
@click.option("-o", "--output", type=FILE, required=True, help="Weights file to write.")
@click.option(
    "--last", type=COUNT, metavar="K", help="Average the last K checkpoints of a run folder (default: all)."
)
def average(paths: tuple[Path, ...], output: Path, last: int | None) -> None:
    """Average the weights of several checkpoints.

    Give one run folder, or several checkpoint files of the same configuration. Every command accepts the file
    that is written as RUN.
    """
    from bytenmt.checkpoints.average import average as write_average

    check_output(output, *paths)
    for line in write_average(paths, output, last):
        say(line)


PRECISIONS = ("fp32", "bf16", "int8")


@click.command(cls=Command)
@click.argument("run", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="Weights file to write, FILE.safetensors.")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    required=True,
    help="Precision of the weight matrices; all other tensors stay fp32.",
)
@corpora("--src", "--tgt", "--tsv")
@click.option("--valid-src", type=FILE, help="Source text on which the thresholds of flags are calibrated.")
@click.option("--valid-tgt", type=FILE, help="Reference translation of --valid-src.")
@errors_option(hidden=True)
def convert(
    run: Path,
    output: Path,
    precision: str,
    src: tuple[Path, ...],
    tgt: tuple[Path, ...],
    tsv: tuple[Path, ...],
    valid_src: Path | None,
    valid_tgt: Path | None,
    errors: str,
) -> None:
    """Quantise a model or convert it to another precision.

    RUN is a run folder, whose best checkpoint is used, or a weights file. Every command accepts the file that
    is written as RUN. With --src and --tgt, or --tsv, the language profiles (byte trigrams, by which `serve`
    detects languages) are counted anew; runs of this version have them already. The thresholds of flags are
    calibrated on --valid-src and --valid-tgt, or on the validation text of RUN if it still exists and has 100
    lines.
    """
    from bytenmt.checkpoints.quantize import convert as write_converted

    if (valid_src is None) != (valid_tgt is None):
        raise BytenmtError("--valid-src and --valid-tgt: give both, or neither")
    profiles = _count_profiles(src, tgt, tsv, errors) if src + tgt + tsv else None
    if valid_src is None:
        valid_src, valid_tgt = _own_validation_text(run)
    flags = None
    if valid_src is not None and valid_tgt is not None:
        check_output(output, valid_src, valid_tgt)
        flags = _calibrate_flags(run, valid_src, valid_tgt, errors)
    for line in write_converted(run, output, precision, profiles, flags):
        say(line)


def _own_validation_text(run: Path) -> tuple[Path, Path] | tuple[None, None]:
    """Return the files of pairs that a run was validated on, if they are there and have enough lines."""
    from bytenmt.checkpoints.weights import is_weights_file, read_run, resolve_path
    from bytenmt.data.text_file import TextFile, restored_path
    from bytenmt.evaluation.judge import FEWEST_LINES

    # A weights file may come from elsewhere: the files that it names are not read.
    valid = None if is_weights_file(resolve_path(run)) else read_run(run)[1].facts.valid
    if valid is None or valid.src is None or valid.tgt is None:
        return None, None
    src, tgt = restored_path(valid.src), restored_path(valid.tgt)
    is_usable = src.is_file() and tgt.is_file() and len(TextFile.open(tgt)) >= FEWEST_LINES
    return (src, tgt) if is_usable else (None, None)


def _calibrate_flags(run: Path, src: Path, tgt: Path, errors: str) -> FlagThresholds:
    """Return the thresholds of a run's flags from a validation text; see judge.calibrate."""
    from bytenmt.cli.inputs import all_pairs, check_pairs
    from bytenmt.decoding.interface import EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.evaluation.judge import calibrate_runtime

    runtime = load_runs([run], EngineSpec())
    check_pairs(run, runtime.has_source, src)
    corpus = all_pairs(src, tgt, errors)
    assert corpus.src is not None
    flags = calibrate_runtime(runtime, list(corpus.src), list(corpus.tgt))
    say(f"flags calibrated on {flags.n_lines:,} lines: unsure above {flags.bits_per_byte:.2f} bits per byte")
    return flags


def _count_profiles(
    src: tuple[Path, ...], tgt: tuple[Path, ...], tsv: tuple[Path, ...], errors: str
) -> tuple[str, str]:
    """Return the language profiles of the source and target side of these files."""
    from bytenmt.api.training_arguments import training_files
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.data.corpus_report import language_profiles

    return language_profiles(ParallelCorpus.open_all(training_files(src, tgt, tsv, (), ()), errors))


@click.command(cls=Command)
@click.argument("run", type=FILE)
@click.option("-o", "--output", type=FILE, help="File to write (default: README.md in the run folder).")
@click.option("--name", help="Name of the model (default: the name of the run).")
@click.option(
    "--language",
    "languages",
    multiple=True,
    help="Language code such as en; repeat it, source language first.",
)
@click.option("--license", help="License of the weights, such as cc-by-4.0.")
@click.option("--data", multiple=True, help="Name of a training data set on the model hub.")
@click.option("--data-license", "data_licenses", multiple=True, help="License of a training data set.")
@click.option("--limit", "limits", multiple=True, help="Sentence about a limitation of the model.")
@click.option("--src", type=FILE, help="Source side of a test set on which the model is measured.")
@click.option("--ref", "--tgt", "ref", type=FILE, help="Reference translation of --src.")
@click.option("--test-name", help="Name of the test set (default: the file name of --ref).")
@beam_option("measurement")
@click.option(
    "--threads",
    type=within(THREADS),
    default=1,
    show_default=True,
    help="Number of CPU threads of the measurement.",
)
@ENGINE
@errors_option()
def card(
    run: Path,
    output: Path | None,
    name: str | None,
    src: Path | None,
    ref: Path | None,
    test_name: str | None,
    beam: int | None,
    threads: int,
    engine: str,
    precision: str,
    errors: str,
    **told: Any,
) -> None:
    """Write a model card, a README.md for model hubs.

    It describes training text, configuration, lineage and size; with --src and --ref also scores, scores on
    noisy sources, and speed. RUN is a run folder or a weights file.
    """
    from bytenmt.architectures.parameters import n_parameters
    from bytenmt.checkpoints.manifest import read_pointer
    from bytenmt.checkpoints.weights import is_weights_file, resolve_path
    from bytenmt.cli.decoding_args import provenance
    from bytenmt.decoding.interface import AUTO, EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.evaluation import card as cards

    if (src is None) != (ref is None):
        raise BytenmtError("--src and --ref: give both, or neither")
    if is_weights_file(run) and output is None:
        raise BytenmtError(f"{run} is a weights file: name the card to write by -o FILE")
    if not is_weights_file(resolve_path(run)):
        read_pointer(run)
    path = run / "README.md" if output is None else output
    check_output(path, src, ref)
    if output is None and path.exists() and cards.MARK.encode() not in read_limited(path, MOST_CARD):
        raise BytenmtError(
            f"{path} was not written by bytenmt: give another file by -o, or `-o {path}` to overwrite it"
        )
    runtime = load_runs([run], EngineSpec(engine, AUTO, precision, threads))
    measured = None if src is None or ref is None else _measured(run, runtime, src, ref, errors, beam)
    if measured is not None:
        measured = measured._replace(threads=threads)
    (loaded,) = runtime.runs
    subject = cards.Subject(
        loaded.config,
        loaded.facts,
        loaded.precision,
        loaded.file.stat().st_size,
        n_parameters(loaded.config.model),
        [f"bytenmt {__version__}", *provenance(runtime), f"beam {beam or 1}", *commit()],
    )
    name = name or run.resolve().name.removesuffix(".safetensors")
    test = test_name or ("" if ref is None else ref.name)
    with writer(path) as file:
        file.write(cards.card(cards.CardDetails(name, test=test, **told), subject, measured).encode())
    say(f"{path}: written")


def _measured(run: Path, runtime: Runtime, src: Path, ref: Path, errors: str, beam: int | None) -> Measured:
    """Measure a model on a test text; see the command `card`."""
    from bytenmt.cli.inputs import all_pairs, check_pairs
    from bytenmt.decoding.settings import Settings
    from bytenmt.evaluation.measurements import measure

    check_pairs(run, runtime.has_source, src)
    corpus = all_pairs(src, ref, errors)
    assert corpus.src is not None
    settings = Settings.from_dict({} if beam is None else {"beam": beam})
    return measure(runtime, list(corpus.src), [line.decode() for line in corpus.tgt], settings)


@click.command(cls=Command)
def warmup() -> None:
    """Compile the CPU kernels ahead of time.

    Otherwise the first command that needs them compiles them, which takes about a minute. Useful for
    container images and for machines whose disk becomes read-only. The compiled kernels are stored on disk,
    in NUMBA_CACHE_DIR if it is set.
    """
    import tempfile

    from bytenmt.data.batches import batches, epoch_plan
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.decoding.cpu.compilation import compile_all
    from bytenmt.kernel_cache import folders

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        path.write_bytes("a\tb\n\xff\n".encode("latin-1"))
        corpus = ParallelCorpus.open(path, path)
        plan = epoch_plan(corpus.source_lengths, corpus.target_lengths, 100, 0, 0)
        for _ in batches(corpus, plan):
            pass
    compile_all(niceness=0)
    say(f"kernels compiled in {time.monotonic() - began:.1f} s, stored in {folders()[0].path}")
