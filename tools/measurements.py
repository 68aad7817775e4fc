"""Measure a model on test text: scores, scores with disturbed sources, and speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from bytenmt.data.augment.noise import Letters, noisy_lines
from bytenmt.decoding.interface import Request
from bytenmt.decoding.loading import Runtime
from bytenmt.decoding.scheduler import decode
from bytenmt.evaluation.scores import TranslationScores, text_scores
from bytenmt.translation.settings import Settings
from bytenmt.translation.translator import Translator

SHARES = (0.0, 0.05, 0.1, 0.2)  # of the source's characters that are disturbed
NOISE_SEED = 1
BATCHES = (1, 32)  # sentences side by side
N_TIMED_LINES = 64  # lines


class Speed(NamedTuple):
    """Bytes of translation per second with so many sentences side by side."""

    batch: int
    bytes_per_second: float


class Measured(NamedTuple):
    """Measurements on n_lines.

    noise: shares of the source's characters that were disturbed, with the chrF; threads: CPU
    threads of the speeds.
    """

    n_lines: int
    scores: TranslationScores
    noise: tuple[tuple[float, float], ...]
    speeds: tuple[Speed, ...]
    threads: int = 1


def measure(
    runtime: Runtime,
    sources: Sequence[bytes],
    references: Sequence[str],
    settings: Settings,
    tokenize: str = "13a",
) -> Measured:
    """Measure models on a test text with the threads of their engine.

    tokenize: see text_scores.
    """
    translator = Translator.from_runtime(runtime, settings)
    letters = Letters.from_texts(line.decode() for line in sources)
    found = []
    for share in SHARES:
        noisy = noisy_lines(sources, share, letters, NOISE_SEED)
        texts = [text.decode() for text in translator.translate(noisy)]
        found.append(text_scores(texts, references, tokenize))
    noise = tuple((share, scores.chrf) for share, scores in zip(SHARES, found, strict=True))
    return Measured(len(sources), found[0], noise, measure_speeds(translator, sources))


def measure_speeds(translator: Translator, sources: Sequence[bytes]) -> tuple[Speed, ...]:
    """Measure how fast the first lines are translated, with each batch size of BATCHES."""
    return tuple(Speed(batch, _speed(translator, sources, batch)) for batch in BATCHES)


def _speed(translator: Translator, sources: Sequence[bytes], batch: int) -> float:
    """Return bytes of translation per second for the first lines, translated in one piece."""
    limits = translator.settings
    lines = [line for line in sources if 0 < len(line) <= limits.max_source_bytes]
    engine = translator.make_engine(batch)
    requests = [
        Request(line, int(limits.max_len_a * len(line)) + limits.max_len_b)
        for line in lines[:N_TIMED_LINES]
    ]
    for _ in decode(engine, requests[:batch]):  # so that nothing is met for the first time
        pass
    began = time.perf_counter()
    n_bytes = sum(len(best.text) for _, (best, *_) in decode(engine, requests))
    return n_bytes / (time.perf_counter() - began)
