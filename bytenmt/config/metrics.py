"""The metrics of the package, by which train.metric selects the best checkpoint.

They are in plugins.METRICS like those of a plugin: a new one is an entry here. sacreBLEU computes
chrF and BLEU from counts of each line; it is imported at the first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from bytenmt.plugins import METRICS, Metric

DEFAULT_TOKENIZER = "13a"  # sacreBLEU's for BLEU


@cache
def chrf_scorer() -> Any:
    """Return sacreBLEU's CHRF object, with its default settings, for one reference a line."""
    from sacrebleu.metrics.chrf import CHRF

    scorer = CHRF()
    scorer.num_refs = 1  # which its signature tells, also before the first text
    return scorer


@cache
def bleu_scorer(tokenize: str) -> Any:
    """Return sacreBLEU's BLEU object with a tokenizer (13a, char, …) for one reference a line."""
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(tokenize=tokenize)
    scorer.num_refs = 1
    return scorer


def bleu_metric(tokenize: str) -> Metric:
    """Return BLEU as a Metric, with one of sacreBLEU's tokenizers, such as "13a" or "char"."""
    return _metric_of_scorer("BLEU", lambda: bleu_scorer(tokenize))


def _metric_of_scorer(name: str, scorer: Callable[[], Any]) -> Metric:
    """Return a metric of sacreBLEU: a function of counts that are summed over the lines."""

    def line_values(
        sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
    ) -> Any:
        return scorer()._extract_corpus_statistics(translations, [references])

    def combine(counts: Any) -> float:
        return float(scorer()._compute_score_from_stats(counts.sum(axis=0)).score)

    return Metric(name, is_higher_better=True, line_values=line_values, combine=combine)


def _exact_matches(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
) -> list[float]:
    """Return 100 for each translation that equals its reference, else 0."""
    return [
        100.0 * (translation == reference)
        for translation, reference in zip(translations, references, strict=True)
    ]


PACKAGE_METRICS = {
    "bits_per_byte": Metric("bits per byte", is_higher_better=False),
    "chrf": _metric_of_scorer("chrF", chrf_scorer),
    "bleu": bleu_metric(DEFAULT_TOKENIZER),
    "exact_match": Metric(
        "exact match", is_higher_better=True, line_values=_exact_matches, template="{:.1f} %"
    ),
}
for package_name, package_metric in PACKAGE_METRICS.items():  # a plugin's of the same name wins
    METRICS.setdefault(package_name, package_metric)
