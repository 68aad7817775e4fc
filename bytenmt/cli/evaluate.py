"""The command `evaluate`: scores of models' translations and of texts that exist already."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
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
    from bytenmt.evaluation.comparison import System
    from bytenmt.translation.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """The options of `bytenmt evaluate` on the texts to score and on what is printed."""

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
        "Translate nothing: print the natural log-probability and the bits per byte of every line"
        " of --ref.",
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
    \f
    runs: the paths MODEL. settings: the given options of search, sampling and kept spans, by name,
    such as {"beam": 4}. engine: the engine, device, precision and threads to decode with.
    """
    from bytenmt.cli import inputs
    from bytenmt.evaluation import comparison
    from bytenmt.evaluation.scores import text_values

    check_output(scoring.curves, scoring.src, scoring.ref, *scoring.hyps)
    if not runs and (not scoring.hyps or scoring.log_probabilities):
        raise click.UsageError("No model given: name MODEL, or --hyp without --log-probabilities.")
    names = _distinct_names([*runs, *scoring.hyps])
    if scoring.curves is not None:
        _draw_curves(dict(zip(names, runs, strict=False)), scoring.curves)
        if scoring.ref is None:
            return
    if scoring.ref is None:
        raise BytenmtError("nothing to score: give --src and --ref, or --curves")
    corpus = inputs.open_pairs(scoring.src, scoring.ref)
    checked = inputs.check_settings(settings)
    if scoring.log_probabilities:
        if scoring.hyps:
            CONSOLE.warn("--hyp has no effect with --log-probabilities")
        _print_log_probabilities(runs, corpus, engine)
        return
    hypotheses = [_open_hypotheses(path, corpus) for path in scoring.hyps]
    sources = [line.decode() for line in corpus.src or ()]
    references = [line.decode() for line in corpus.tgt]
    translated = (
        _translate(name, run, corpus, checked, engine)
        for name, run in zip(names, runs, strict=False)
    )
    existing = (
        comparison.System(name, texts, {}, [str(path)])
        for name, path, texts in zip(names[len(runs) :], scoring.hyps, hypotheses, strict=True)
    )
    systems = []
    for system in chain(translated, existing):
        values = text_values(sources, system.texts, references, scoring.tokenize)
        systems.append(system._replace(values={**system.values, **values}))
    systems = comparison.with_significance(systems, sources, references, scoring.tokenize)
    if scoring.json:
        click.echo(json.dumps(comparison.to_dict(systems, scoring.tokenize), ensure_ascii=False))
    elif len(systems) > 1:
        click.echo("\n".join(comparison.table(systems, scoring.tokenize)))
    else:
        _print(systems[0], scoring.tokenize)


def _distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return names for the table: the last parts of the paths where these differ."""
    names = [printable(path.resolve().name) for path in paths]
    if len(set(names)) < len(names):
        names = [printable(path) for path in paths]
    return names


def _open_hypotheses(path: Path, corpus: ParallelCorpus) -> list[str]:
    """Return the lines of an existing translation. Raises DataError if line counts differ."""
    from bytenmt.cli import inputs
    from bytenmt.data.corpus import ParallelCorpus

    text = inputs.open_text(path)
    ParallelCorpus.from_texts(text, corpus.tgt, keep_empty=True)
    return [line.decode() for line in text]


def _draw_curves(runs: dict[str, Path], output: Path) -> None:
    """Draw the learning curves of the runs that have a log of metrics; name those without one."""
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
    """Print log p(target | source) and bits per byte of each line and model, EOS included."""
    from bytenmt.cli import inputs
    from bytenmt.evaluation.likelihood import log_probabilities

    columns = []
    for run in runs:
        runtime = inputs.load_models((run,), spec)
        inputs.check_source(run, runtime.has_source, corpus.src)
        columns.append(log_probabilities(runtime.make_scorer(), corpus).tolist())
    for *nats, n_bytes in zip(*columns, corpus.target_lengths.tolist(), strict=True):
        costs = [-value / math.log(2) / n_bytes if n_bytes else math.inf for value in nats]
        numbers = zip(nats, costs, strict=True)
        click.echo("\t".join(f"{value:.6f}\t{bits:.6f}" for value, bits in numbers))


def _translate(
    name: str, run: Path, corpus: ParallelCorpus, settings: Settings, spec: EngineSpec
) -> System:
    """Translate a corpus with a model; of the values, the system has its bits per byte alone."""
    from bytenmt.architectures.parameters import n_parameters
    from bytenmt.architectures.section import architecture
    from bytenmt.cli import inputs
    from bytenmt.evaluation.comparison import System, Training
    from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
    from bytenmt.translation.translator import Translator

    runtime = inputs.load_models((run,), spec)
    inputs.check_source(run, runtime.has_source, corpus.src)
    assert corpus.src is not None
    translator = Translator.from_runtime(runtime, settings)
    results = inputs.translate_lines(translator, list(corpus.src), 1000)
    log_p = log_probabilities(runtime.make_scorer(), corpus)
    (loaded,) = runtime.runs
    model = loaded.config.model
    return System(
        name,
        [result.best.text.decode() for result in results],
        {"bits_per_byte": bits_per_byte(log_p, corpus.target_lengths)},
        inputs.provenance(runtime),
        architecture(model),
        n_parameters(model),
        Training.from_model(run, loaded.config, loaded.facts),
    )


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
