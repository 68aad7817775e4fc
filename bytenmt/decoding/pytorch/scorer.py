"""Score given texts with plain PyTorch, on any device: the reference for the CPU scorer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from bytenmt.architectures.base import Model, logits_to_log_p, pick_bytes
from bytenmt.decoding.pytorch.forward import pad_texts
from bytenmt.decoding.scorer import TextScores, Weights
from bytenmt.utf8 import BOS, EOS

# Bytes of texts and sources that are read together, padding included.
MAX_BATCH_BYTES = 1 << 14


class TorchStream:
    """Scores one text by language models in PyTorch, piece by piece as it arrives.

    It implements scorer.Stream. models: in evaluation mode on `device`; several form an ensemble.
    """

    def __init__(self, models: Sequence[Model[Any, Any]], device: torch.device) -> None:
        self._models = models
        self._device = device
        with torch.no_grad():
            nothing = pad_texts([b""], device)
            self._memories = [model.encode(*nothing) for model in models]
            self._states = [
                model.start(memory) for model, memory in zip(models, self._memories, strict=True)
            ]
        self._last = BOS

    @torch.no_grad()
    def read(self, data: bytes) -> TextScores:
        """Return the scores of `data`, the next (at least one) bytes of the text, without EOS."""
        truth, _ = pad_texts([data], self._device)
        read = torch.cat([torch.full_like(truth[:, :1], self._last), truth[:, :-1]], dim=1)
        each = []
        for i, model in enumerate(self._models):
            logits, self._states[i] = model(read, self._memories[i], self._states[i])
            each.append(logits)
        self._last = data[-1]
        log_p, rank = score_bytes(each, truth)
        return TextScores(log_p[0].cpu().numpy(), rank[0].cpu().numpy())


class TorchScorer:
    """Scores fixed texts by models in PyTorch, without a search; it implements scorer.Scorer.

    models: in evaluation mode on `device`, in the precision in which they compute; several form an
    ensemble, whose probabilities are averaged.
    """

    def __init__(self, models: Sequence[Any], device: torch.device) -> None:
        self._models = models
        self._device = device

    def open_stream(self) -> TorchStream:
        """Return a new stream, which scores one text without a source as it arrives."""
        return TorchStream(self._models, self._device)

    @torch.no_grad()
    def score_texts(
        self, sources: Sequence[bytes] | None, texts: Sequence[bytes]
    ) -> list[TextScores]:
        """Return log-probability and rank (0 for the likeliest) of the bytes of each text.

        sources: of each text, without EOS; None for language models. texts: none empty; EOS is
        scored only where a text ends with it.
        """
        ended = [b""] * len(texts)
        if sources is not None:
            ended = [source + bytes([EOS]) for source in sources]
        all_scores: dict[int, TextScores] = {}
        for group in batches([(len(text), len(ended[i])) for i, text in enumerate(texts)]):
            sources_of_group = pad_texts([ended[i] for i in group], self._device)
            truth, _ = pad_texts([texts[i] for i in group], self._device)
            read = torch.cat([torch.full_like(truth[:, :1], BOS), truth[:, :-1]], dim=1)
            each = []
            for model in self._models:
                memory = model.encode(*sources_of_group)
                each.append(model(read, memory, model.start(memory))[0])
            log_p, rank = (part.cpu().numpy() for part in score_bytes(each, truth))
            for row, i in enumerate(group):
                all_scores[i] = TextScores(log_p[row, : len(texts[i])], rank[row, : len(texts[i])])
        return [all_scores[i] for i in range(len(texts))]

    @torch.no_grad()
    def attention_weights(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[dict[int, Weights]]:
        """Return the attention weights of each pair (source, text), by layer number from 1.

        Weights (bytes of the text, bytes of the source and its EOS): how much the prediction of
        each byte attends to each source byte. Only for a single model.
        """
        (model,) = self._models
        weights_of_pairs: dict[int, dict[int, Weights]] = {}
        for group in batches([(len(text), len(source) + 1) for source, text in pairs]):
            sources = [pairs[i][0] + bytes([EOS]) for i in group]
            texts = [bytes([BOS]) + pairs[i][1][:-1] for i in group]
            memory = model.encode(*pad_texts(sources, self._device))
            read, _ = pad_texts(texts, self._device)
            each = model.forward_aligned(read, memory, model.start(memory))[2]
            arrays = {number: weights.float().cpu().numpy() for number, weights in each.items()}
            for row, i in enumerate(group):
                part = row, slice(len(texts[row])), slice(len(sources[row]))
                weights_of_pairs[i] = {number: weights[part] for number, weights in arrays.items()}
        return [weights_of_pairs[i] for i in range(len(pairs))]


def batches(sizes: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Yield groups (lists of indices) of texts of similar size, to be padded and read together.

    sizes: bytes of each text and of its source. A group has at most MAX_BATCH_BYTES (16 KiB) with
    its padding, unless it is a single text.
    """
    group: list[int] = []
    text_bytes = source_bytes = 0  # of the longest ones of the group
    for i in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        text_bytes = max(text_bytes, sizes[i][0])
        source_bytes = max(source_bytes, sizes[i][1])
        if group and (len(group) + 1) * (text_bytes + source_bytes) > MAX_BATCH_BYTES:
            yield group
            group = []
            text_bytes, source_bytes = sizes[i]
        group.append(i)
    if group:
        yield group


def score_bytes(each: Sequence[Tensor], truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probability (rows, t) float64 and rank (rows, t) int64 of each byte of texts.

    each: the logits of every model, (rows, t, 256), whose probabilities are averaged. truth (rows,
    t) uint8: the bytes of the texts. Rank 0 is the likeliest of the 256 bytes.
    """
    log_p = torch.stack([pick_bytes(logits_to_log_p(logits), truth).double() for logits in each])
    whole = each[0]
    if len(each) > 1:
        whole = torch.stack([logits_to_log_p(logits) for logits in each]).logsumexp(dim=0)
    of_truth = pick_bytes(whole, truth)[:, :, None]
    lower = torch.arange(whole.shape[2], device=whole.device) < truth[:, :, None]
    rank = ((whole > of_truth) | (whole == of_truth) & lower).sum(dim=2)
    return log_p.logsumexp(dim=0) - math.log(len(each)), rank
