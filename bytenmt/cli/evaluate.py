"""The command `evaluate`: scores of models' translations and of texts that exist already.

Heavy modules are imported inside the command.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bytenmt import __version__
from bytenmt.cli.console import CONSOLE
from bytenmt.cli.files import check_output, writer
from bytenmt.cli.options import command, models, settings
from bytenmt.config.fields import option
from bytenmt.decoding.interface import EngineSpec
from bytenmt.errors import BytenmtError, printable

if TYPE_CHECKING:
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.decoding.settings import Settings
    from bytenmt.evaluation.comparison import System


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """The options of `bytenmt evaluate` on the texts to score (hyps: translations) and on what is
    printed."""

    src: Path | None = option(None, "Source side of the test set, one sentence per line.")
    ref: Path | None = option(None, "Reference translation of --src.", "--ref", "--tgt")
    hyps: tuple[Path, ...] = option(
        (),
        "Also score this existing translation, for which no model is needed; may be repeated.",
        "--hyp",
    )
    tokenize: str = option(
        "13a",
        "Tokenizer of BLEU, by its sacreBLEU name; char suits Korean.",
        choices=("13a", "char", "intl", "zh", "none"),  # those that need nothing else
    )
    log_probabilities: bool = option(
        False,
        "Translate nothing: print the natural log-probability and the bits per byte of every line of --ref.",
    )
    curves: Path | None = option(
        None, "Draw the learning curves of run folders; needs no --ref.", metavar="FILE.png"
    )
    json: bool = option(False, "Print one JSON object instead of lines.")


@command(
    "evaluate", models(help="Several models are compared.", least=0), settings("search", "sampling")
)
def evaluate(
    runs: tuple[Path, ...], scoring: ScoringOptions, settings: dict[str, Any], engine: EngineSpec
) -> None:
    """Score translations by chrF, BLEU and bits per byte.

    Translates --src and compares the result with --ref. chrF and BLEU come with sacreBLEU's
    signatures. Several models give a table; p is the p-value of the difference from the first one,
    by sacreBLEU's paired bootstrap, and runs that differ only in their seeds get mean and standard
    deviation.
    """
    from bytenmt.cli import inputs
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.evaluation import comparison
    from bytenmt.evaluation.scores import text_values

    src, ref, hyps = scoring.src, scoring.ref, scoring.hyps
    check_output(scoring.curves, src, ref, *hyps)
    if not runs and (not hyps or scoring.log_probabilities):
        raise click.UsageError(
            "Missing the model: give MODEL, or --hyp without --log-probabilities."
        )
    # Names for the table: the last parts of the paths where these differ.
    names = [printable(path.resolve().name) for path in (*runs, *hyps)]
    if len(set(names)) < len(names):
        names = [printable(path) for path in (*runs, *hyps)]
    if scoring.curves is not None:
        _draw_curves(dict(zip(names, runs, strict=False)), scoring.curves)
    if ref is None:
        if scoring.curves is None:
            raise BytenmtError("nothing to score: give --src and --ref, or --curves")
        return
    corpus = inputs.open_pairs(src, ref)
    checked = inputs.check_settings(settings)
    if scoring.log_probabilities:
        if hyps:
            CONSOLE.warn("--hyp has no effect with --log-probabilities")
        _print_log_probabilities(runs, corpus, engine)
        return
    references = [line.decode() for line in corpus.tgt]

    sources = [line.decode() for line in corpus.src or ()]

    def score(
        name: str, texts: list[str], made_with: list[str], bits: dict[str, float], **of_model: Any
    ) -> System:
        values = text_values(sources, texts, references, scoring.tokenize)
        return comparison.System(name, texts, bits | values, made_with, **of_model)

    hypotheses = [inputs.open_text(hyp) for hyp in hyps]
    for text in hypotheses:
        ParallelCorpus.from_texts(
            text, corpus.tgt, keep_empty=True
        )  # raises where line counts differ
    systems: list[System] = []
    for name, run in zip(names, runs, strict=False):
        texts, made_with, bits, of_model = _translate(run, corpus, checked, engine)
        systems.append(score(name, texts, made_with, bits, **of_model))
    for name, text in zip(names[len(runs) :], hypotheses, strict=True):
        systems.append(score(name, [line.decode() for line in text], [str(text.path)], {}))
    systems = comparison.with_significance(systems, sources, references, scoring.tokenize)
    if scoring.json:
        click.echo(json.dumps(comparison.to_dict(systems, scoring.tokenize), ensure_ascii=False))
    elif len(systems) > 1:
        click.echo("\n".join(comparison.table(systems, scoring.tokenize)))
    else:
        _print(systems[0], scoring.tokenize)


def _draw_curves(runs: dict[str, Path], output: Path) -> None:
    """Draw the learning curves of the runs that have a log of metrics, and name those that have
    none."""
    from bytenmt.evaluation.comparison import read_metrics
    from bytenmt.evaluation.plots import check_picture, learning_curves, png

    check_picture(str(output))
    records = {name: read_metrics(run) for name, run in runs.items()}
    logged = {name: lines for name, lines in records.items() if lines}
    for name in records.keys() - logged.keys():
        CONSOLE.say(f"bytenmt: {name} has no metrics.jsonl: its curve is left out")
    if not logged:
        raise BytenmtError("--curves needs a run folder: no model has metrics.jsonl")
    with writer(output) as out:
        out.write(png(learning_curves(logged)))
    CONSOLE.say(f"{output}: written")


def _print_log_probabilities(
    runs: Sequence[Path], corpus: ParallelCorpus, spec: EngineSpec
) -> None:
    """Print two numbers for each line and model, EOS included: log p(target | source), and bits per
    byte."""
    from bytenmt.cli import inputs
    from bytenmt.evaluation.likelihood import log_probabilities

    columns = []
    for run in runs:
        runtime = inputs.load_models((run,), spec)
        inputs.check_source(run, runtime.has_source, corpus.src)
        columns.append(log_probabilities(runtime.make_reader(), corpus).tolist())
    for *nats, n_bytes in zip(*columns, corpus.target_lengths.tolist(), strict=True):
        bits = [-value / math.log(2) / n_bytes if n_bytes else math.inf for value in nats]
        click.echo(
            "\t".join(f"{value:.6f}\t{cost:.6f}" for value, cost in zip(nats, bits, strict=True))
        )


def _translate(
    run: Path, corpus: ParallelCorpus, settings: Settings, spec: EngineSpec
) -> tuple[list[str], list[str], dict[str, float], dict[str, Any]]:
    """Return a model's translations of a corpus, how they were made, the bits per byte of the
    references by that name, and fields of System about the model."""
    from bytenmt.architectures.parameters import n_parameters
    from bytenmt.cli import inputs
    from bytenmt.config.schema import architecture
    from bytenmt.decoding.translator import Translator
    from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
    from bytenmt.evaluation.seeds import Training

    runtime = inputs.load_models((run,), spec)
    inputs.check_source(run, runtime.has_source, corpus.src)
    assert corpus.src is not None
    results = inputs.translate_lines(
        Translator.from_runtime(runtime, settings), list(corpus.src), 1000
    )
    log_p = log_probabilities(runtime.make_reader(), corpus)
    config = runtime.runs[0].config
    of_model = {
        "architecture": architecture(config.model),
        "n_parameters": n_parameters(config.model),
        "training": Training.from_model(run, config, runtime.runs[0].facts),
    }
    texts = [result.best.text.decode() for result in results]
    bits = {"bits_per_byte": bits_per_byte(log_p, corpus.target_lengths)}
    return texts, inputs.provenance(runtime), bits, of_model


def _print(system: System, tokenize: str) -> None:
    """Print the scores of one system line by line."""
    from bytenmt.evaluation.scores import signatures, text_metrics

    chrf_signature, bleu_signature = signatures(tokenize)
    click.echo(f"chrF {system.values['chrf']:.2f}  {chrf_signature}")
    click.echo(f"BLEU {system.values['bleu']:.2f}  {bleu_signature}")
    for name, metric in text_metrics(tokenize).items():
        if name not in ("chrf", "bleu"):
            click.echo(f"{metric.name}: {metric.template.format(system.values[name])}")
    if "bits_per_byte" in system.values:
        click.echo(f"bits per byte: {system.values['bits_per_byte']:.4f}")
    click.echo(", ".join([f"bytenmt {__version__}", *system.made_with]))
