"""Scores: log-probabilities of given targets, and sacreBLEU's scores of decoded text with their signature.

Bits per byte is the sum of -log2 p over the target, EOS included, divided by the target's bytes without
EOS. Does not know how text is decoded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

from bytenmt.data.batches import batches, epoch_plan
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.device import Tensors, to_device
from bytenmt.distributed import ALONE, Group
from bytenmt.models.base import Model, normalised, of_bytes


class TextScores(NamedTuple):
    """chrF and BLEU (0 to 100) with sacreBLEU's signatures; exact_match: equal lines in percent."""

    chrf: float
    bleu: float
    exact_match: float
    chrf_signature: str
    bleu_signature: str


def log_probabilities(
    model: Model[Any, Any],
    corpus: ParallelCorpus,
    device: torch.device,
    max_tokens: int = 16_000,
    group: Group = ALONE,
    others: Sequence[Model[Any, Any]] = (),
) -> npt.NDArray[np.float64]:
    """Natural log-probability of every kept pair's target, EOS included: (m,) in the corpus' order.

    model: in evaluation mode on the device; with `others`, the mean of their probabilities counts.
    max_tokens: bytes a batch, padding counted. group: the processes that share the batches, each with this
    model and corpus; every one gets all values.
    """
    plan = epoch_plan(
        corpus.source_lengths, corpus.target_lengths, max_tokens, seed=0, epoch=0, shuffle=False
    )
    plan = plan._replace(sequence=plan.sequence[group.rank :: group.size])  # whole batches
    result = np.zeros(len(corpus))
    with torch.no_grad():
        for index, batch in enumerate(batches(corpus, plan)):
            on = to_device(batch, device)
            each = torch.stack([_chosen(one, on) for one in (model, *others)])
            chosen = each.logsumexp(dim=0) - math.log(len(each)) if others else each[0]
            columns = torch.arange(chosen.shape[1], device=device)
            real = columns < on.target_len[:, None]
            result[plan.batch(index)] = torch.where(real, chosen, 0.0).sum(dim=1).cpu().numpy()
    group.add_up(torch.from_numpy(result))  # in place: a pair is zero in all processes but one
    return result


def _chosen(model: Model[Any, Any], on: Tensors) -> Tensor:
    """Natural log-probability of each target byte: (n, t) float64; on padding, of whatever."""
    memory = model.encode(on.source, on.source_len)
    logits, _ = model(on.target_in, memory, model.start(memory))
    return of_bytes(normalised(logits), on.target_out).double()


def bits_per_byte(log_p: npt.NDArray[np.float64], target_lengths: npt.NDArray[np.int32]) -> float:
    """log_p (m,) natural, EOS included; target_lengths (m,) bytes without EOS."""
    return -float(log_p.sum()) / math.log(2) / max(1, int(target_lengths.sum(dtype=np.int64)))


def text_scores(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> TextScores:
    """Score decoded lines. tokenize: sacreBLEU's name of BLEU's tokenizer (13a, char, intl, …)."""
    chrf, bleu = CHRF(), BLEU(tokenize=tokenize)
    chrf_score = chrf.corpus_score(hypotheses, [references]).score
    bleu_score = bleu.corpus_score(hypotheses, [references]).score
    equal = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    return TextScores(
        chrf=chrf_score,
        bleu=bleu_score,
        exact_match=100 * equal / max(1, len(references)),
        chrf_signature=str(chrf.get_signature()),
        bleu_signature=str(bleu.get_signature()),
    )
