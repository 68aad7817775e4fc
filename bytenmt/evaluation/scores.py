"""Score decoded text by sacreBLEU, with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class TextScores(NamedTuple):
    """The scores of translated lines against their references."""

    chrf: float  # 0 to 100, of the corpus
    bleu: float  # 0 to 100, of the corpus
    exact_match: float  # lines that equal their references, in percent
    chrf_signature: str  # sacreBLEU's
    bleu_signature: str


def text_scores(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> TextScores:
    """Score translations (hypotheses), a line each, against as many references.

    tokenize: sacreBLEU's name of BLEU's tokenizer (13a, char, intl, …).
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    chrf, bleu = CHRF(), BLEU(tokenize=tokenize)
    equal = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    return TextScores(
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        exact_match=100 * equal / max(1, len(references)),
        chrf_signature=str(chrf.get_signature()),
        bleu_signature=str(bleu.get_signature()),
    )
