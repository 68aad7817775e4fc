"""Score decoded text by the metrics of plugins.METRICS: chrF, BLEU and others.

>>> scores = text_scores(["a cat sat on it"], ["a cat sat on it"])
>>> scores.exact_match, scores.chrf_signature.split("|")[0]
(100.0, 'nrefs:1')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bytenmt.config.metrics import DEFAULT_TOKENIZER, bleu_metric, bleu_scorer, chrf_scorer
from bytenmt.errors import BytenmtError, extra_of
from bytenmt.plugins import METRICS, Metric


class TranslationScores(NamedTuple):
    """The scores of translated lines against their references."""

    chrf: float  # 0 to 100, of the corpus
    bleu: float  # 0 to 100, of the corpus
    exact_match: float  # lines that equal their references, in percent
    chrf_signature: str  # sacreBLEU's
    bleu_signature: str  # sacreBLEU's


def text_metrics(tokenize: str = DEFAULT_TOKENIZER) -> dict[str, Metric]:
    """Return the metrics that compare translations with references, by name, such as "chrf".

    They are chrF, BLEU, exact match, and the metrics that plugins have added. tokenize: sacreBLEU's
    name of BLEU's tokenizer (13a, char, intl, …).
    """
    metrics = {name: metric for name, metric in METRICS.items() if metric.line_values is not None}
    if tokenize != DEFAULT_TOKENIZER:
        metrics["bleu"] = bleu_metric(tokenize)
    return metrics


def line_values(
    metric: Metric, sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return what a metric measures in each line, from which metric.combine makes its value.

    The result is (lines,), or (lines, k) for k numbers per line, such as counts of n-grams. sources
    may be empty for a metric that does not read them. Raises BytenmtError if the metric of a plugin
    fails or returns another number of lines.
    """
    assert metric.line_values is not None
    try:
        values = np.asarray(metric.line_values(sources, translations, references))
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and extra_of(error) is not None:
            raise  # sacreBLEU is not installed
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise BytenmtError(f"metric {metric.name}: {text}: correct the plugin") from error
    if len(values) != len(references):
        counts = f"{len(values)} values for {len(references)} lines"
        raise BytenmtError(f"metric {metric.name}: {counts}: correct the plugin")
    return values


def text_values(
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    tokenize: str = DEFAULT_TOKENIZER,
) -> dict[str, float]:
    """Score translations by every metric of text_metrics; return the values by name.

    sources, translations, references: lines, equally many. tokenize: BLEU's tokenizer.
    """
    return {
        name: metric.combine(line_values(metric, sources, translations, references))
        for name, metric in text_metrics(tokenize).items()
    }


def signatures(tokenize: str = DEFAULT_TOKENIZER) -> tuple[str, str]:
    """Return sacreBLEU's signatures of chrF and of BLEU. tokenize: BLEU's tokenizer."""
    return str(chrf_scorer().get_signature()), str(bleu_scorer(tokenize).get_signature())


def text_scores(
    translations: Sequence[str], references: Sequence[str], tokenize: str = DEFAULT_TOKENIZER
) -> TranslationScores:
    """Return chrF, BLEU and exact match of translations, a line each, against as many references.

    tokenize: BLEU's tokenizer, by its name in sacreBLEU, such as "13a", "char" or "ko-mecab".
    """
    metrics = text_metrics(tokenize)
    values = {
        name: metrics[name].combine(line_values(metrics[name], (), translations, references))
        for name in ("chrf", "bleu", "exact_match")
    }
    chrf_signature, bleu_signature = signatures(tokenize)
    return TranslationScores(**values, chrf_signature=chrf_signature, bleu_signature=bleu_signature)
