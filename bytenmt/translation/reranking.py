"""Reranking of hypotheses by a model of the opposite direction: the noisy channel.

A translation that leaves something out or invents something may be likely, but its source is not
likely given it (Yee, Dauphin and Auli 2019, "Simple and Effective Noisy Channel Modeling for Neural
Machine Translation").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.decoding.scorer import Scorer
from bytenmt.utf8 import EOS

SOURCE_WEIGHT = 0.3  # beside the translation's score; from validation lines: tools/EXPERIMENTS.md
BEAM = 12  # the beam size where nobody waits for a line, as in a document


@dataclass(frozen=True)
class Reranker:
    """Ranks hypotheses anew by the probability that a reverse model gives their source."""

    scorer: Scorer  # of a model of the opposite direction, from the target to the source language
    length_penalty: float  # exponent of (bytes + 1), by which log-probabilities are divided

    def rerank(self, request: Request, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Return the hypotheses of a request, best first, with new scores.

        SOURCE_WEIGHT (0.3) * ln p(source | text) / (bytes of the source + 1) ** length_penalty is
        added to each score, and source_log_probability becomes ln p(source | text). If the request
        has no source, hypotheses stay as they are.
        """
        if not request.source:
            return list(hypotheses)
        source = request.source + bytes([EOS])
        texts = [hypothesis.text for hypothesis in hypotheses]
        all_scores = self.scorer.score_texts(texts, [source] * len(texts))
        scale = SOURCE_WEIGHT / len(source) ** self.length_penalty
        ranked = []
        for hypothesis, scores in zip(hypotheses, all_scores, strict=True):
            log_probability = float(scores.log_p.sum())
            score = hypothesis.score + scale * log_probability
            ranked.append(hypothesis._replace(score=score, source_log_probability=log_probability))
        return sorted(ranked, key=lambda hypothesis: -hypothesis.score)
