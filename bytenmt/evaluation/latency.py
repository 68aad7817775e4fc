"""Latency of simultaneous translation, and how often what is shown is revised.

With g_i units of a source of S read when unit i of T of the target is committed, i = 1 … T, and R units of
the reference:

    AL    average lagging (Ma et al. 2019): mean over i <= tau of g_i - (i - 1) S / R; tau: the first i with
          g_i = S
    LAAL  length-adaptive average lagging (Papi et al. 2022): the same with max(R, T) in place of R
    AP    average proportion (Cho and Esipova 2016): sum of g_i / (S T)
    DAL   differentiable average lagging (Cherry and Foster 2019): mean of g'_i - (i - 1) S / T, where
          g'_i = max(g_i, g'_{i-1} + S / T)
    NE    normalised erasure (Arivazhagan et al. 2020): units that were shown and taken back, for each unit of
          the final translation

Scores of a corpus are means over its lines. Lines without a source or a translation are left out, as
SimulEval does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from os.path import commonprefix
from typing import Any, NamedTuple

from bytenmt.decoding.simultaneous import AgreementSegment
from bytenmt.decoding.translator import Translator


class SimultaneousLine(NamedTuple):
    """A line that was translated simultaneously.

    reads: for each character of the translation the source characters that had come when it was committed.
    shown: what was shown, committed text and tail, after every update and at the end.
    """

    source: str
    translation: str
    reads: Sequence[int]
    shown: Sequence[str]


class Latency(NamedTuple):
    """Lag of simultaneous translations, in characters or words: the scores of the module's docstring."""

    al: float
    laal: float
    ap: float
    dal: float


def translate_line(translator: Translator, wait: int, source: str) -> SimultaneousLine:
    """Translate a line in a session. wait: see Translator.open."""
    session, shown = translator.open(wait), list[str]()
    committed = ""
    # A policy without a tail is fed everything at once: its commits depend on the source alone.
    has_tail = isinstance(session.segment, AgreementSegment)
    for word in source.replace(" ", " \n").split("\n") if has_tail else [source]:
        update = session.feed(word)
        committed += update.committed
        shown.append(committed + update.tail)
    committed += session.finish().committed
    ends = list(accumulate(len(character.encode()) for character in source))
    last_bytes = [end - 1 for end in accumulate(len(character.encode()) for character in committed)]
    reads = [bisect_left(ends, session.segment.reads[at]) + 1 for at in last_bytes]
    return SimultaneousLine(source, committed, reads, [*shown, committed])


def delays_in_words(line: SimultaneousLine) -> list[int]:
    """Return for each word of the translation the source words of which a character had come when its last
    character was committed."""
    begins = _word_begins(line.source)
    ends = [
        at
        for at, character in enumerate(line.translation)
        if not character.isspace() and not line.translation[at + 1 : at + 2].strip()
    ]
    return [bisect_left(begins, line.reads[end]) for end in ends]


def _word_begins(text: str) -> list[int]:
    """Return the index of the first character of each word."""
    return [at for at, one in enumerate(text) if not one.isspace() and not text[max(0, at - 1) : at].strip()]


def latency(delays: Sequence[int], n_source: int, n_reference: int) -> Latency:
    """Return the scores of a line from g_i, S and R; S, R and the number of delays are at least 1."""
    n_target = len(delays)

    def lagging(per_unit: float) -> float:
        terms = [delay - i * per_unit for i, delay in enumerate(delays)]
        tau = next((i for i, delay in enumerate(delays, 1) if delay >= n_source), n_target)
        return sum(terms[:tau]) / tau

    step = n_source / n_target
    minimal = [float(delays[0])]
    for delay in delays[1:]:
        minimal.append(max(delay, minimal[-1] + step))
    return Latency(
        al=lagging(n_source / n_reference),
        laal=lagging(n_source / max(n_reference, n_target)),
        ap=sum(delays) / (n_source * n_target),
        dal=sum(delay - i * step for i, delay in enumerate(minimal)) / n_target,
    )


def mean_latency(
    lines: Sequence[SimultaneousLine], references: Sequence[str], in_words: bool
) -> Latency | None:
    """Return the mean scores of a corpus, None if no line can be scored."""
    scores = []
    for line, reference in zip(lines, references, strict=True):
        delays = delays_in_words(line) if in_words else list(line.reads)
        sizes = [len(text.split()) if in_words else len(text) for text in (line.source, reference)]
        if delays and all(sizes):
            scores.append(latency(delays, *sizes))
    if not scores:
        return None
    return Latency(*(sum(column) / len(scores) for column in zip(*scores, strict=True)))


def normalised_erasure(lines: Sequence[SimultaneousLine]) -> float:
    """Return the characters that were shown and taken back, for each character of the translations."""
    erased = sum(
        len(before) - len(commonprefix([before, after]))
        for line in lines
        for before, after in pairwise(line.shown)
    )
    return erased / max(1, sum(len(line.translation) for line in lines))


def log_record(index: int, line: SimultaneousLine, reference: str) -> dict[str, Any]:
    """Return a line of the log of SimulEval, which OmniSTEval reads, in words."""
    delays = delays_in_words(line)
    return {
        "index": index,
        "prediction": line.translation,
        "delays": delays,
        "elapsed": delays,
        "prediction_length": len(delays),
        "reference": reference,
        "source": line.source,
        "source_length": len(line.source.split()),
    }
