"""Flag translations that a person should look at; calibration chooses the thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

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
from bytenmt.decoding.interface import Hypothesis, SearchOptions
from bytenmt.decoding.loading import Runtime
from bytenmt.decoding.scorer import Scorer
from bytenmt.sentinels import Span, to_text
from bytenmt.translation.chunks import Chunk
from bytenmt.translation.confidence import (
    COPY,
    INVENTION,
    UNKNOWN,
    UNLIKELY,
    UNSURE,
    copied_spans,
    doubt_of,
    is_copy,
    text_flags,
)
from bytenmt.translation.line_batch import TranslationResult, add_flags
from bytenmt.translation.source_words import unknown_words
from bytenmt.utf8 import EOS

# The doubt above which a translation is unsure, of a model without thresholds, where a file is
# marked for review: of 140 graded lines below it, en-de, 6 % were unusable (tools/EXPERIMENTS.md).
FLAG_ABOVE = 1.0
# The doubt above which the model would not copy a name or a word: half a bit per byte in nine
# bytes. With it 99.6 % of planted copies are found (tools/results/quality.md).
COPY_DOUBT = 1.5


@dataclass(frozen=True, eq=False)
class Judge:
    """Flags translations that a person should review: unsure, invented, copied and others."""

    # Usual lengths and bits of translations; None for a model for which they were not measured.
    thresholds: FlagThresholds | None = None
    # Doubts (bits / sqrt(bytes)) above which a translation is unsure or wrong; None: not compared.
    doubt: DoubtThresholds | None = None
    # Returns a scorer of the model, for the probability of a text without its source.
    make_scorer: Callable[[], Scorer] | None = None
    words: SourceWords | None = None  # words that the model knows; None: they were not counted
    # Whether the costs of sources given their translations count in doubts, as in the thresholds of
    # reranked searches.
    counts_source: bool = True

    @staticmethod
    def from_runtime(
        runtime: Runtime,
        search: SearchOptions | None = None,
        flag_above: float | None = None,
        default: float | None = None,
    ) -> Judge:
        """Return a judge for loaded models, with the thresholds of the first one that has any.

        search: the options of the search that translates; None: greedy search. flag_above: doubt
        (bits / sqrt(bytes)) above which a translation is unsure; None: the model's threshold for
        the search, or `default` if it has none; if both are None, none is unsure.
        """
        search = search or SearchOptions()
        is_reranked = runtime.reranks(search)
        kinds = [GREEDY_SEARCH, BEAM_SEARCH] if search.beam == 1 else [BEAM_SEARCH, GREEDY_SEARCH]
        if is_reranked:
            kinds.insert(0, RERANKED_SEARCH)
        measured = [run.facts.flags for run in runtime.runs if run.facts.flags is not None]
        thresholds = measured[0] if measured else None
        doubt = None
        counts_source = is_reranked and flag_above is not None
        for kind, saved in product(kinds, measured):
            if kind in saved.searches:
                thresholds = saved
                doubt = saved.searches[kind]
                counts_source = kind == RERANKED_SEARCH
                break
        unsure = default if flag_above is None and doubt is None else flag_above
        if unsure is not None:
            doubt = DoubtThresholds(unsure=unsure, wrong=doubt.wrong if doubt else None)
        return Judge(thresholds, doubt, runtime.make_scorer, runtime.source_words, counts_source)

    def describe(self) -> str:
        """Return one line for people about the threshold above which translations are unsure."""
        text = "flags: never unsure"
        if self.doubt is not None:
            text = f"flags: unsure above a doubt of {self.doubt.unsure:.2f}"
        has_own = self.thresholds is not None and self.thresholds.searches
        return text if has_own else f"{text}; the model has no thresholds of its own"

    def flag(self, results: Sequence[TranslationResult]) -> list[TranslationResult]:
        """Return copies of the results with flags of suspected faults in their best hypotheses.

        results: translated lines. The chunks (sentences) of a line are judged one by one; each has
        its own flags, and the line has the flags of all its chunks.
        """
        pairs = [
            (chunk.text, hypotheses[0])
            for result in results
            for chunk, hypotheses in zip(result.chunks, result.chunk_hypotheses, strict=True)
        ]
        flags = iter(self.flags([source for source, _ in pairs], [best for _, best in pairs]))
        judged = []
        for result in results:
            of_line: list[str] = []
            words = dict[str, None]()
            chunks = []
            for chunk, hypotheses in zip(result.chunks, result.chunk_hypotheses, strict=True):
                of_chunk = next(flags)
                of_line += of_chunk
                unknown = _unknown_words_of(chunk, hypotheses[0], self.words)
                words |= dict.fromkeys(unknown)
                if unknown:
                    of_chunk = [*of_chunk, UNKNOWN]
                chunks.append(add_flags(hypotheses, of_chunk))
            if words:
                of_line.append(UNKNOWN)
            judged.append(
                result.with_flags(of_line)._replace(
                    chunk_hypotheses=chunks, unknown_words=tuple(words)
                )
            )
        return judged

    def flags(
        self, sources: Sequence[bytes], translations: Sequence[Hypothesis]
    ) -> list[list[str]]:
        """Return new flags of each translation, such as "loop", besides those set by the search.

        sources: of each translation, UTF-8. Unsure translations are also scored without their
        source, to find inventions: texts that have nothing to do with it.
        """
        pairs = list(zip(sources, translations, strict=True))
        all_flags = [self._flags(source, best) for source, best in pairs]
        doubtful = [k for k, flags in enumerate(all_flags) if UNSURE in flags]
        saved = self.saved_bits([pairs[k][0] for k in doubtful], [pairs[k][1] for k in doubtful])
        for k, bits in zip(doubtful, saved, strict=False):  # none are computed for some models
            assert self.thresholds is not None and self.thresholds.source_bits is not None
            if bits < self.thresholds.source_bits and INVENTION not in all_flags[k]:
                all_flags[k].append(INVENTION)
        return all_flags

    def _flags(self, source: bytes, best: Hypothesis) -> list[str]:
        """Return the flags that need no further costs."""
        if not best.log_probability:  # it was copied, not written by the search: a URL
            return []
        flags = list(text_flags(source, best.text, self.thresholds))
        doubt = doubt_of(best, self.counts_source)
        if doubt is None:
            return flags
        if doubt > COPY_DOUBT and is_copy(source, best.text):
            flags.append(COPY)
        if self.doubt is None:
            return flags
        if self.doubt.wrong is not None and doubt > self.doubt.wrong:
            flags.append(UNLIKELY)
        if doubt > self.doubt.unsure:
            flags.append(UNSURE)
        return flags

    def saved_bits(
        self, sources: Sequence[bytes], translations: Sequence[Hypothesis]
    ) -> list[float]:
        """Return how many bits each translation costs less with its source than with an empty one.

        This is their pointwise mutual information. A text written without regard to its source
        saves more than k bits with a probability of 2^-k at most. Tags, placeholders and
        addresses do not count: they save many bits in every translation that copies them. Returns
        [] if the model was not trained with empty sources.
        """
        if self.thresholds is None or self.thresholds.source_bits is None or not translations:
            return []
        texts = [best.text for best in translations]
        alone = bits_of_texts(self.scorer, None, texts, copied_spans)
        of_source = np.array([-best.log_probability / math.log(2) for best in translations])
        with_spans = [k for k, best in enumerate(translations) if copied_spans(best.text)]
        if with_spans:  # the search has the cost of the whole text alone
            of_source[with_spans] = bits_of_texts(
                self.scorer,
                [sources[k] for k in with_spans],
                [texts[k] for k in with_spans],
                copied_spans,
            )
        return [float(bits) for bits in alone - of_source]

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer, which gives log-probabilities of texts by the models; made at first use."""
        assert self.make_scorer is not None
        return self.make_scorer()


def find_unknown_words(result: TranslationResult, words: SourceWords | None) -> tuple[str, ...]:
    """Return the words of a translated line's source that are not in `words`, each once.

    Copied spans, such as URLs, and glossary terms do not count. words: words that the model knows;
    None: they were not counted, and () is returned.
    """
    unknown = dict[str, None]()
    for chunk, (best, *_) in zip(result.chunks, result.chunk_hypotheses, strict=True):
        unknown |= dict.fromkeys(_unknown_words_of(chunk, best, words))
    return tuple(unknown)


def _unknown_words_of(chunk: Chunk, best: Hypothesis, words: SourceWords | None) -> list[str]:
    """Return the unknown words of a chunk; none of a copied one, which costs nothing."""
    if words is None or not best.log_probability:
        return []
    return unknown_words(to_text(chunk.source), best.text.decode(), words)


def bits_of_texts(
    scorer: Scorer,
    sources: Sequence[bytes] | None,
    texts: Sequence[bytes],
    skipped: Callable[[bytes], Iterable[Span]] = lambda _: (),
) -> npt.NDArray[np.float64]:
    """Return the bits, -log2 p, of each of m texts under a scorer, EOS included: (m,).

    texts: without EOS. sources: the source of each text; None: an empty one for all. skipped:
    returns the spans of a text, as (begin, end) in bytes, whose bits do not count.
    """
    targets = [text + bytes([EOS]) for text in texts]
    all_scores = scorer.score_texts(sources or [b""] * len(texts), targets)
    bits = np.zeros(len(texts))
    for k, (text, scores) in enumerate(zip(texts, all_scores, strict=True)):
        log_p = scores.log_p.copy()
        for begin, end in skipped(text):
            log_p[begin:end] = 0.0
        bits[k] = -log_p.sum() / math.log(2)
    return bits
