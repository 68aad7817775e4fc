"""The command `compare`: scores and learning curves of several runs.

Heavy modules are imported inside the command.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from bytenmt.cli.console import Command, check_output, detail, say, writer
from bytenmt.cli.options import DECODING, FILE, RUNTIME, SEPARATE_RUNS, TOKENIZE
from bytenmt.errors import BytenmtError, printable

if TYPE_CHECKING:
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.evaluation.comparison import Scored


@click.command(cls=Command)
@SEPARATE_RUNS
@click.option("--src", type=FILE, help="Source side of a test set on which the models are compared.")
@click.option("--ref", "--tgt", "ref", type=FILE, help="Reference translation of --src.")
@click.option("--curves", type=FILE, metavar="FILE.png", help="Draw the learning curves of the runs.")
@click.option("--by-length", type=FILE, metavar="FILE.png", help="Draw scores by source length.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@TOKENIZE
@DECODING
@RUNTIME
def compare(
    runs: tuple[Path, ...],
    src: Path | None,
    ref: Path | None,
    curves: Path | None,
    by_length: Path | None,
    as_json: bool,
    tokenize: str,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Compare models: scores on a test set, learning curves.

    Prints a table of scores; p is the p-value of the difference from the first model, by sacreBLEU's paired
    bootstrap. Runs that differ only in their seeds also get mean and standard deviation. RUN is a run folder
    or a weights file.
    """
    from bytenmt.cli import inputs

    _check(runs, src, ref, curves, by_length)
    if as_json and src is None:
        raise BytenmtError("--json prints scores: give --src and --ref with it")
    names = _names(runs)
    if curves is not None:
        _draw_curves(names, curves)
    if src is None or ref is None:
        return
    from bytenmt.evaluation import comparison

    corpus = inputs.all_pairs(src, ref, errors)
    assert corpus.src is not None
    references = [line.decode() for line in corpus.tgt]
    found, texts = [], []
    for name, run in names.items():
        scored, lines = _scored(run, src, corpus, references, tokenize, device, threads, decoding)
        found.append(scored._replace(name=name))
        texts.append(lines)
    found = comparison.with_significance(found, texts, references, tokenize)
    if as_json:
        click.echo(json.dumps(comparison.tree(found, len(references)), ensure_ascii=False))
    else:
        click.echo("\n".join(comparison.table(found, len(references))))
    if by_length is not None:
        from bytenmt.evaluation import by_length as lengths
        from bytenmt.evaluation.drawing import png

        sizes = [len(line) for line in corpus.src]
        buckets = [lengths.by_length(sizes, lines, references, tokenize) for lines in texts]
        with writer(by_length) as out:
            out.write(png(lengths.figure(dict(zip(names, buckets, strict=True)))))
        say(f"{by_length}: written")


def _check(
    runs: tuple[Path, ...], src: Path | None, ref: Path | None, curves: Path | None, by_length: Path | None
) -> None:
    """Raise BytenmtError for options that do not go together and files that cannot be written."""
    if len(set(runs)) < len(runs):
        raise BytenmtError("a run is given twice: name each run once")
    if (src is None) != (ref is None):
        raise BytenmtError("--src and --ref: give both, or neither")
    if src is None and curves is None:
        raise BytenmtError("nothing to compare: give --src and --ref, or --curves, or both")
    if src is None and by_length is not None:
        raise BytenmtError("--by-length draws scores: give --src and --ref with it")
    for output in (curves, by_length):
        check_output(output, src, ref)
        if output is not None:
            from bytenmt.evaluation.drawing import require_matplotlib

            require_matplotlib()


def _names(runs: tuple[Path, ...]) -> dict[str, Path]:
    """Return the runs by names for the table: the last part of the path where that is unambiguous, else
    the path.
    """
    short = {printable(run.resolve().name): run for run in runs}
    return short if len(short) == len(runs) else {printable(run): run for run in runs}


def _draw_curves(runs: dict[str, Path], output: Path) -> None:
    from bytenmt.evaluation import comparison
    from bytenmt.evaluation.drawing import png

    written = {name: comparison.records(run) for name, run in runs.items()}
    there = {name: records for name, records in written.items() if records}
    if not there:
        raise BytenmtError(f"{next(iter(runs))} has no metrics.jsonl: --curves needs run folders")
    for name in written.keys() - there.keys():
        say(f"bytenmt: {name} has no metrics.jsonl: its curve is left out")
    with writer(output) as out:
        out.write(png(comparison.curves(there)))
    say(f"{output}: written")


def _scored(
    run: Path,
    src: Path,
    corpus: ParallelCorpus,
    references: list[str],
    tokenize: str,
    device: str,
    threads: int | None,
    decoding: dict[str, Any],
) -> tuple[Scored, list[str]]:
    """Translate the test text with one run and return its row of the table and its translations."""
    from bytenmt.architectures.parameters import n_parameters
    from bytenmt.cli import decoding_args, inputs
    from bytenmt.cli.translation_commands import loaded_runs
    from bytenmt.config.fingerprint import fingerprint
    from bytenmt.config.schema import architecture
    from bytenmt.decoding.translator import Translator
    from bytenmt.evaluation.comparison import Scored
    from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
    from bytenmt.evaluation.scores import text_scores

    runtime = loaded_runs((run,), decoding_args.engine_spec(decoding, device, threads), is_leader=True)
    inputs.check_pairs(run, runtime.has_source, src)
    translator = Translator.from_runtime(runtime, decoding_args.settings(decoding))
    texts = [found.text.decode() for found in inputs.hypotheses(translator, corpus)]
    bits = bits_per_byte(log_probabilities(runtime.reader(), corpus), corpus.target_lengths)
    detail(f"{run}: {len(texts)} lines translated")
    (loaded,) = runtime.runs
    scores = text_scores(texts, references, tokenize)
    config = loaded.config
    anonymous = msgspec.structs.replace(config, train=msgspec.structs.replace(config.train, seed=0))
    return Scored(
        str(run),
        architecture(config.model),
        n_parameters(config.model),
        bits,
        scores,
        settings=fingerprint(anonymous),
    ), texts
