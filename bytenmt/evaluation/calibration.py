"""Calibrate the thresholds of a Judge, and the words that a model knows, on a validation text.

Nobody grades validation text; each line has one reference. A translation is poor if it is further
from its reference than POOR_ABOVE, and many good ones are, since they use other words than the
reference. How many, those translations tell of which the model is surest: they are taken as right.
The poor ones beyond this share are taken as unusable. Of 453 lines that were graded, en-de, this
estimate says 36 % where the grades say 39 % (lines without flags); of those with a doubt of at most
1.5 it says 13 % where they say 4 %, of 1.0 2 % and 3 %: tools/EXPERIMENTS.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from bytenmt.checkpoints.facts import (
    BEAM_SEARCH,
    GREEDY_SEARCH,
    RERANKED_SEARCH,
    DoubtThresholds,
    FlagThresholds,
    SourceWords,
)
from bytenmt.decoding.loading import Runtime
from bytenmt.decoding.scorer import Scorer
from bytenmt.errors import BytenmtError
from bytenmt.evaluation.judge import bits_of_texts, find_unknown_words
from bytenmt.translation import reranking
from bytenmt.translation.confidence import copied_spans, doubt_of_line, text_flags
from bytenmt.translation.line_batch import TranslationResult
from bytenmt.translation.source_words import MIN_COUNTS, WordCounts
from bytenmt.translation.translator import Translator

MAX_LINES, MIN_LINES = 1500, 100  # that thresholds are calibrated on
BEAM_SIZE = 5  # of a search without a model of the opposite direction
# (1 - chrF / 100) * sqrt(bytes of the reference, at least SHORT_BYTES): a single wrong word spoils
# a line, and costs a long one less of its chrF. 3.5 is a chrF of 50 in a line of 49 bytes.
POOR_ABOVE = 3.5
SHORT_BYTES = 36
FALSE_ALARMS = 0.02  # share of the validation text's references below the threshold of source_bits
UNUSABLE_SURE_SHARE = 0.08  # of the sure translations, at most, as estimated
# Beyond it a translation is never sure: the estimate is too low for some models, of which graders
# found 3 to 11 % of the lines up to here unusable, and 7 to 14 % up to a doubt of 1.75.
HIGHEST_SURE_DOUBT = 1.2
UNUSABLE_WRONG_SHARE = 0.9  # of those above the threshold of wrong translations, at least
SUREST_SHARE, FEWEST_SUREST = 0.1, 30  # of the lines, taken as right; lines
FEWEST_WRONG = 20  # lines

Reals = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


class Calibration(NamedTuple):
    """The result of calibrate_runtime: thresholds and known words, stored in the weights file."""

    flags: FlagThresholds  # beyond them a translation is flagged as doubtful
    words: SourceWords | None  # words that the model knows; None if they were never counted
    sure_shares: dict[str, float]  # share of lines without doubt, by search ("greedy", "beam", …)


class SearchQuality(NamedTuple):
    """Measurements of a search's translations of a validation text of m lines: arrays (m,)."""

    doubts: Reals  # bits (-log2 p) of each translation / sqrt(its bytes), see confidence.doubt_of
    distances: Reals  # (1 - chrF / 100) * sqrt(bytes of the reference); poor above POOR_ABOVE
    is_flagged: Booleans  # whether it has a flag for another reason than its probability

    def unusable_share(self, chosen: Booleans) -> float:
        """Estimate the share, 0 to 1, of unusable translations among the chosen lines.

        It is (p - q) / (1 - q), at least 0: p is the share of the chosen lines whose distance is
        above POOR_ABOVE, and q that of the surest lines, which are taken as right. 0 for an empty
        choice. chosen: a mask (m,).
        """
        if not chosen.any():
            return 0.0
        is_poor = self.distances > POOR_ABOVE
        order = np.argsort(self.doubts, kind="stable")
        n_surest = max(FEWEST_SUREST, round(SUREST_SHARE * len(order)))
        usual = is_poor[order[:n_surest]].mean()
        return float(max(0.0, (is_poor[chosen].mean() - usual) / max(1e-9, 1 - usual)))

    def sure_threshold(self) -> float:
        """Return the doubt up to which a translation without flags is sure.

        A doubt is bits / sqrt(bytes). Up to the threshold at most UNUSABLE_SURE_SHARE (8 %) of
        such translations are unusable, as unusable_share estimates. The surest tenth, at least
        FEWEST_SUREST (30), is always sure, but never beyond HIGHEST_SURE_DOUBT (1.2). 0 if all
        translations have flags.
        """
        doubts = np.sort(self.doubts[~self.is_flagged])
        n_surest = min(len(doubts), max(FEWEST_SUREST, round(SUREST_SHARE * len(doubts))))
        if not n_surest:
            return 0.0
        best = doubts[n_surest - 1]
        for threshold in np.unique(doubts[n_surest - 1 :]):
            chosen = (self.doubts <= threshold) & ~self.is_flagged
            if self.unusable_share(chosen) <= UNUSABLE_SURE_SHARE:
                best = threshold
        return round(min(float(best), HIGHEST_SURE_DOUBT), 4)

    def wrong_threshold(self) -> float | None:
        """Return the lowest doubt above which nearly all (90 %) of the translations are unusable.

        It is at least sure_threshold(). None if there is none with 20 or more lines above it.
        """
        for threshold in np.unique(self.doubts[self.doubts >= self.sure_threshold()]):
            chosen = self.doubts > threshold
            if chosen.sum() < FEWEST_WRONG:
                return None
            if self.unusable_share(chosen) >= UNUSABLE_WRONG_SHARE:
                return round(float(threshold), 4)
        return None

    def sure_share(self, threshold: float) -> float:
        """Return the share, 0 to 1, of lines without a flag whose doubt is up to the threshold."""
        return float(((self.doubts <= threshold) & ~self.is_flagged).mean())

    def thresholds(self) -> DoubtThresholds:
        """Return the doubts above which a translation of this search is unsure, and wrong."""
        return DoubtThresholds(unsure=self.sure_threshold(), wrong=self.wrong_threshold())


def calibrate_runtime(
    runtime: Runtime,
    sources: Sequence[bytes],
    references: Sequence[bytes],
    counts: WordCounts | None = None,
) -> Calibration:
    """Measure the thresholds at which translations of loaded models are flagged as doubtful.

    At most MAX_LINES (1,500) lines are translated by greedy and by beam search, and with the
    runtime's model of the opposite direction, if any. sources, references: validation text, lines
    in UTF-8; pairs with an empty side are left out. counts: of the words of the training text; None
    keeps the words that the runs store. Raises BytenmtError for fewer than MIN_LINES (100) pairs.
    """
    pairs = [pair for pair in zip(sources, references, strict=True) if all(pair)]
    if len(pairs) < MIN_LINES:
        raise BytenmtError(f"{len(pairs)} lines to calibrate flags on: give {MIN_LINES} or more")
    if len(pairs) > MAX_LINES:
        pairs = [pairs[k * len(pairs) // MAX_LINES] for k in range(MAX_LINES)]
    own_sources = [source for source, _ in pairs]
    own_references = [reference for _, reference in pairs]
    if counts is not None:
        first, *others = runtime.runs
        facts = msgspec.structs.replace(first.facts, words=counts.source_words(MIN_COUNTS[0]))
        runtime = replace(runtime, runs=[first._replace(facts=facts), *others])
    words = runtime.source_words
    alone = replace(runtime, reverse=None)
    by_beam = _translate(alone, own_sources, BEAM_SIZE)
    if counts is not None:
        words = choose_words(counts, by_beam, own_references)
    knows_empty_sources = all(run.config.data.empty_source > 0 for run in runtime.runs)
    flags = measure_pairs(runtime.make_scorer(), own_sources, own_references, knows_empty_sources)
    searches = {GREEDY_SEARCH: _translate(alone, own_sources, 1), BEAM_SEARCH: by_beam}
    if runtime.reverse is not None:
        searches[RERANKED_SEARCH] = _translate(runtime, own_sources, reranking.BEAM)
    judged = {
        name: measure_quality(results, own_references, flags, words)
        for name, results in searches.items()
    }
    thresholds = {name: search.thresholds() for name, search in judged.items()}
    flags = msgspec.structs.replace(flags, searches=thresholds)
    shares = {name: search.sure_share(thresholds[name].unsure) for name, search in judged.items()}
    return Calibration(flags, words, shares)


def _translate(runtime: Runtime, sources: Sequence[bytes], beam: int) -> list[TranslationResult]:
    return Translator.from_runtime(runtime, beam=beam).translate_lines(sources)


def choose_words(
    counts: WordCounts, results: Sequence[TranslationResult], references: Sequence[bytes]
) -> SourceWords:
    """Return the words that the model knows: those that occur often enough in its training text.

    Of the minimum counts MIN_COUNTS (2, 6, 21) the one is chosen with which the rule "unusable if
    the source has an unknown word" fails least often. counts: of the words of the training text.
    results, references: translations of a validation text, and its references.
    """
    judged = measure_quality(results, references, None, None)

    def n_more_right(words: SourceWords) -> float:
        has_unknown = np.array([bool(find_unknown_words(result, words)) for result in results])
        return float((2 * judged.unusable_share(has_unknown) - 1) * has_unknown.sum())

    return max(map(counts.source_words, MIN_COUNTS), key=n_more_right)


def measure_quality(
    results: Sequence[TranslationResult],
    references: Sequence[bytes],
    lengths: FlagThresholds | None,
    words: SourceWords | None,
) -> SearchQuality:
    """Measure translations of a validation text, by their references: doubt, distance and flag.

    results, references: one for each line. lengths: the usual lengths of translations; None: limits
    of any language. words: those that the model knows; None: no line is flagged for its words.
    """
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    distances = []
    for result, reference in zip(results, references, strict=True):
        chrf = metric.sentence_score(result.best.text.decode(), [reference.decode()]).score
        n_bytes = max(len(reference), SHORT_BYTES)
        distances.append((1 - chrf / 100) * math.sqrt(n_bytes))
    is_flagged = [
        any(text_flags(result.source, result.best.text, lengths))
        or find_unknown_words(result, words) != ()
        for result in results
    ]
    doubts = [doubt_of_line(result) or 0.0 for result in results]
    return SearchQuality(np.array(doubts), np.array(distances), np.array(is_flagged))


def measure_pairs(
    scorer: Scorer, sources: Sequence[bytes], references: Sequence[bytes], knows_empty_sources: bool
) -> FlagThresholds:
    """Measure the thresholds that need no translations, on m pairs of source and reference.

    They are the usual length of a reference, given the length of its source, and source_bits: 98 %
    of the references cost at least so many bits less with their source than without. scorer: of the
    model. knows_empty_sources: whether it was trained with empty sources, too; if not, source_bits
    is None.
    """
    source_bits = None
    if knows_empty_sources:
        alone, of_source = (
            bits_of_texts(scorer, given, references, copied_spans) for given in (None, sources)
        )
        source_bits = round(float(np.quantile(alone - of_source, FALSE_ALARMS)), 3)
    n_source, n_target = (np.array(list(map(len, lines))) for lines in (sources, references))
    ratio = n_target.sum() / max(1, n_source.sum())
    variance = np.mean((n_target - ratio * n_source) ** 2 / (n_source + 1))
    return FlagThresholds(
        n_lines=len(references),
        length_ratio=round(float(ratio), 4),
        length_variance=round(float(variance), 4),
        source_bits=source_bits,
    )
