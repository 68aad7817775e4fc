"""The command `evaluate`: scores of a model's translations, or of a text that exists already.

Heavy modules are imported inside the command.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from bytenmt import __version__
from bytenmt.cli.console import Command, check_output, commit, there, writer
from bytenmt.cli.options import (
    ANY_RUNS,
    CONSTRAINTS,
    DECODING,
    FILE,
    RUNTIME,
    SIMULTANEOUS,
    TOKENIZE,
    Waits,
)
from bytenmt.decoding.setting_table import DEFAULT_WAIT
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.evaluation.by_length import Bucket
    from bytenmt.evaluation.confidence import ConfidenceStats
    from bytenmt.evaluation.scores import TextScores

OF_A_TEXT = ("src", "ref", "hyp", "tokenize", "errors", "by_length", "plot", "as_json")  # need no model


class ScoredText(NamedTuple):
    """Translations of a corpus and what scored them: the lines, the provenance of the translations, and with
    a model the bits per byte of the references and of each translation (0 for an empty one).
    """

    corpus: ParallelCorpus
    hypotheses: Sequence[bytes]
    made_with: Sequence[str]
    bits_per_byte: float | None = None
    bits_of_each: Sequence[float] = ()


@click.command(cls=Command)
@ANY_RUNS
@click.option("--src", type=FILE, help="Source side of the test set, one sentence per line.")
@click.option("--ref", "--tgt", "ref", type=FILE, required=True, help="Reference translation of --src.")
@click.option("--hyp", type=FILE, help="Score this text instead of a model's translations.")
@click.option("--hyp-out", type=FILE, help="File to which the translations are written.")
@TOKENIZE
@click.option("--by-length", is_flag=True, help="Also print scores by source length.")
@click.option(
    "--plot", type=FILE, metavar="FILE.png", help="Draw the scores by source length; needs --by-length."
)
@click.option("--confidence", is_flag=True, help="Also measure how well bits per byte detect wrong lines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
@SIMULTANEOUS
@click.option(
    "--wait",
    "waits",
    type=Waits(),
    metavar="BYTES,…",
    help=f"With --simultaneous: the waits that are measured, see translate --wait (default: {DEFAULT_WAIT}).",
)
@click.option(
    "--latency-log",
    type=FILE,
    help="With --simultaneous: file for a JSON record of each line, as SimulEval writes, for OmniSTEval.",
)
@DECODING
@CONSTRAINTS
@RUNTIME
def evaluate(
    runs: tuple[Path, ...],
    src: Path | None,
    ref: Path,
    hyp: Path | None,
    hyp_out: Path | None,
    tokenize: str,
    by_length: bool,
    plot: Path | None,
    confidence: bool,
    as_json: bool,
    simultaneous: bool,
    waits: tuple[int, ...] | None,
    latency_log: Path | None,
    errors: str,
    **more: Any,
) -> None:
    """Score translations by chrF, BLEU and bits per byte.

    Translates --src and compares the result with --ref. chrF and BLEU come with sacreBLEU's signatures. With
    --hyp an existing translation is scored and no model is needed. Under torchrun the processes share the
    lines.
    """
    if simultaneous:
        if hyp is not None or hyp_out is not None or by_length or confidence or plot is not None:
            raise BytenmtError(
                "--simultaneous prints a table of its own: drop --hyp, --hyp-out, --by-length, --confidence"
                " and --plot"
            )
        _measure_latency(there(runs), src, ref, waits, latency_log, tokenize, as_json, errors, **more)
        return
    for option, given in (("--wait", waits), ("--latency-log", latency_log)):
        if given is not None:
            raise BytenmtError(f"{option} would be ignored: give --simultaneous with it")
    if plot is not None:
        from bytenmt.evaluation.drawing import require_matplotlib

        if not by_length:
            raise BytenmtError("--plot draws scores by length: give --by-length with it")
        require_matplotlib()
    for output in (hyp_out, plot):
        check_output(output, src, ref, hyp)
    if hyp is not None:
        _check_needs_no_model(runs)
        found = _of_a_text(src, ref, hyp, errors)
    else:
        made = _score_runs(there(runs), src, ref, errors, **more)
        if made is None:
            return
        found = made
    if by_length and found.corpus.src is None:
        raise BytenmtError("--by-length groups lines by source length: give --src with it")
    if hyp_out is not None:
        with writer(hyp_out) as out:
            out.write(b"".join(text + b"\n" for text in found.hypotheses))
    from bytenmt.evaluation.scores import text_scores

    texts = [text.decode() for text in found.hypotheses]
    references = [line.decode() for line in found.corpus.tgt]
    buckets = _buckets(found.corpus, texts, references, tokenize) if by_length else None
    scores = text_scores(texts, references, tokenize)
    trust = None
    if confidence:
        from bytenmt.evaluation import confidence as measure

        trust = measure.confidence(found.bits_of_each, texts, references)
    if as_json:
        click.echo(json.dumps(_as_json(found, scores, buckets, trust), ensure_ascii=False))
    else:
        _print_scores(found, scores, buckets, trust)
    if plot is not None and buckets is not None:
        from bytenmt.evaluation.by_length import figure
        from bytenmt.evaluation.drawing import png

        with writer(plot) as out:
            out.write(png(figure({"": buckets})))


def _check_needs_no_model(runs: Sequence[Path]) -> None:
    """Raise BytenmtError for options that would be ignored because no model is used."""
    if runs:
        raise BytenmtError(f"{runs[0]} would be ignored: --hyp scores an existing text without a model")
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and parameter.expose_value and name not in OF_A_TEXT:
            raise BytenmtError(f"{parameter.opts[0]} would be ignored with --hyp: drop it")


def _of_a_text(src: Path | None, ref: Path, hyp: Path, errors: str) -> ScoredText:
    from bytenmt.cli import inputs
    from bytenmt.data.corpus import ParallelCorpus

    # Each is read once: it may be a pipe.
    source = None if src is None else inputs.text_file(src, errors)
    reference, text = inputs.text_file(ref, errors), inputs.text_file(hyp, errors)
    corpus = ParallelCorpus.from_texts(source, reference, keep_empty=True)
    ParallelCorpus.from_texts(text, reference, keep_empty=True)  # raises where the line counts differ
    return ScoredText(corpus, list(text), [str(hyp)])


def _score_runs(
    runs: tuple[Path, ...],
    src: Path | None,
    ref: Path,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> ScoredText | None:
    """Translate and score a corpus with runs; return None in processes other than the leading one."""
    from bytenmt.cli import decoding_args, inputs
    from bytenmt.cli.translation_commands import loaded_runs
    from bytenmt.decoding.engine_selection import choose, processes
    from bytenmt.decoding.translator import Translator
    from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities

    settings = decoding_args.settings(decoding)
    wanted = decoding_args.engine_spec(decoding, device, threads)
    with processes(choose(wanted).device) as group:
        corpus = inputs.all_pairs(src, ref, errors)
        runtime = loaded_runs(runs, wanted, group is None or group.is_leader)
        inputs.check_pairs(runs[0], runtime.has_source, src)
        hypotheses = inputs.hypotheses(Translator.from_runtime(runtime, settings, group=group), corpus)
        log_p = log_probabilities(runtime.reader(), corpus, group)
    if group is not None and not group.is_leader:
        return None
    bits = bits_per_byte(log_p, corpus.target_lengths)
    texts, each = [one.text for one in hypotheses], [one.bits_per_byte or 0.0 for one in hypotheses]
    return ScoredText(corpus, texts, decoding_args.provenance(runtime), bits, each)


def _measure_latency(
    runs: tuple[Path, ...],
    src: Path | None,
    ref: Path,
    waits: tuple[int, ...] | None,
    log: Path | None,
    tokenize: str,
    as_json: bool,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Translate a corpus simultaneously, with each wait, and print quality and latency."""
    from bytenmt.cli import decoding_args, inputs, simultaneous
    from bytenmt.cli.translation_commands import loaded_runs
    from bytenmt.decoding.translator import Translator

    check_output(log, src, ref)
    settings = decoding_args.settings(decoding)
    corpus = inputs.all_pairs(src, ref, errors)
    runtime = loaded_runs(runs, decoding_args.engine_spec(decoding, device, threads), is_leader=True)
    inputs.check_pairs(runs[0], runtime.has_source, src)
    translator = Translator.from_runtime(runtime, settings)
    translator.prepare(len(corpus.tgt))
    with writer(log) if log is not None else nullcontext() as file:
        measured = [
            simultaneous.measure(translator, wait, corpus, tokenize, file)
            for wait in waits or (DEFAULT_WAIT,)
        ]
    if as_json:
        click.echo(json.dumps(simultaneous.as_json(measured)))
        return
    click.echo("\n".join(simultaneous.table(measured)))
    click.echo(", ".join([f"bytenmt {__version__}", *decoding_args.provenance(runtime), *commit()]))


def _buckets(
    corpus: ParallelCorpus, texts: Sequence[str], references: Sequence[str], tokenize: str
) -> list[Bucket]:
    from bytenmt.evaluation.by_length import by_length

    assert corpus.src is not None
    return by_length([len(line) for line in corpus.src], texts, references, tokenize)


def _print_scores(
    scored: ScoredText, scores: TextScores, buckets: Sequence[Bucket] | None, trust: ConfidenceStats | None
) -> None:
    """Print the scores in a form that scripts can read, then the table by length."""
    click.echo(f"chrF {scores.chrf:.2f}  {scores.chrf_signature}")
    click.echo(f"BLEU {scores.bleu:.2f}  {scores.bleu_signature}")
    click.echo(f"exact match: {scores.exact_match:.1f} %")
    for name, value in scores.metrics.items():
        click.echo(f"{name}: {value:.4g}")
    if scored.bits_per_byte is not None:
        click.echo(f"bits per byte: {scored.bits_per_byte:.4f}")
    if trust is not None:
        area = "–" if trust.area is None else f"{trust.area:.4f}"
        correlation = "–" if trust.correlation is None else f"{trust.correlation:.4f}"
        click.echo(
            f"confidence: area under the curve {area} ({trust.n_wrong:,} of {trust.n:,} lines are not their"
            f" reference), rank correlation of bits with chrF {correlation}"
        )
    click.echo(", ".join([f"bytenmt {__version__}", *scored.made_with, *commit()]))
    if buckets is not None:
        from bytenmt.evaluation.by_length import table

        click.echo("\n".join(["", *table(buckets)]))


def _as_json(
    scored: ScoredText, scores: TextScores, buckets: Sequence[Bucket] | None, trust: ConfidenceStats | None
) -> dict[str, Any]:
    """Return the scores as JSON values."""
    tree: dict[str, Any] = {"lines": len(scored.hypotheses), **scores._asdict()}
    tree |= tree.pop("metrics")  # those of plugins
    if scored.bits_per_byte is not None:
        tree["bits_per_byte"] = scored.bits_per_byte
    if trust is not None:
        tree["confidence"] = trust._asdict()
    tree["made_with"] = [f"bytenmt {__version__}", *scored.made_with, *commit()]
    if buckets is not None:
        names = ("chrf", "bleu", "exact_match")
        tree["by_length"] = [
            {"shortest": one.shortest, "longest": one.longest, "mean": one.mean, "lines": one.n_lines}
            | {name: getattr(one.scores, name) for name in names}
            for one in buckets
        ]
    return tree
