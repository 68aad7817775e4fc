"""Test how thresholds and words are chosen on a validation text."""

import numpy as np
import pytest
from half_scorer import HalfScorer

from bytenmt.decoding.interface import Hypothesis
from bytenmt.evaluation.calibration import SearchQuality, choose_words, measure_pairs
from bytenmt.translation.chunks import Chunk
from bytenmt.translation.line_batch import TranslationResult
from bytenmt.translation.source_words import WordCounts, is_known


def search(n_right: int, n_bad: int, usual: float) -> SearchQuality:
    """Translations by their doubts: right ones, of which a share is poor, then unusable ones."""
    distances = [4.0 if k % round(1 / usual) == 0 else 1.0 for k in range(n_right)] + [6.0] * n_bad
    doubts = np.arange(n_right + n_bad) / 1000
    return SearchQuality(doubts, np.array(distances), np.zeros(len(doubts), bool))


def test_sure_are_those_with_few_unusable_ones() -> None:
    """At most 8 in a hundred are unusable, beyond the tenth of right ones that are poor."""
    found = search(1000, 400, 0.1).sure_threshold()
    assert 1000 / 0.93 <= 1000 * found <= 1000 / 0.92
    assert search(1000, 0, 0.1).sure_threshold() == pytest.approx(0.999)


def test_nothing_is_sure_beyond_the_highest_doubt() -> None:
    """However right the validation text's translations are."""
    assert search(3000, 400, 0.1).sure_threshold() == 1.2


def test_the_surest_are_always_sure() -> None:
    """Their share of poor translations is what others are compared with."""
    judged = search(30, 400, 0.5)
    assert judged.sure_threshold() >= 0.029
    flagged = judged._replace(is_flagged=np.ones(430, bool))
    assert flagged.sure_threshold() == 0.0 and flagged.sure_share(1.0) == 0.0


def test_wrong_are_those_of_which_most_are_unusable() -> None:
    """Above it at least nine of ten are; none that is sure is wrong."""
    clear = search(1000, 400, 0.1)
    assert clear.wrong_threshold() == clear.sure_threshold()
    mixed = search(500, 500, 0.1)
    halves = np.arange(200) % 2 == 0  # between both, right and unusable ones in turn
    mixed.distances[500:700] = np.where(halves, 1.0, 6.0)
    found = mixed.wrong_threshold()
    # 300 unusable ones and half of the 75 before them are 90 % of 375.
    assert found is not None and 0.6 < found < 0.7 and found > mixed.sure_threshold()
    above = mixed.distances[mixed.doubts > found] > 3.5
    assert above.mean() == pytest.approx(0.9, abs=0.02)
    assert search(1000, 0, 0.1).wrong_threshold() is None
    near = mixed._replace(distances=np.minimum(mixed.distances, 3.4))
    assert near.wrong_threshold() is None


def test_thresholds_that_need_no_translations() -> None:
    """Half a bit a byte is saved; targets are twice as long. Tags do not count as what is saved."""
    references = [f"{k:02d}abcdefgh"[: 4 + k % 7].encode() * 2 for k in range(100)]
    sources = [reference[: len(reference) // 2] for reference in references]
    scorer = HalfScorer()
    found = measure_pairs(scorer, sources, references, True)
    assert found.length_ratio == 2.0 and found.length_variance == 0.0 and found.n_lines == 100
    saved = [len(reference) / 2 for reference in references]
    assert found.source_bits == pytest.approx(np.quantile(saved, 0.02), abs=1e-3)
    assert measure_pairs(scorer, sources, references, False).source_bits is None
    tagged, tagged_references = ([b"<b>" + line for line in some] for some in (sources, references))
    with_tags = measure_pairs(scorer, tagged, tagged_references, True)
    assert with_tags.source_bits == found.source_bits


def test_the_count_from_which_on_a_word_is_known() -> None:
    """Lines with a word that occurs three times are wrong, those with other words are right."""
    counts = WordCounts("en")
    for word, count in {"rare": 3, "usual": 10, "common": 100}.items():
        for _ in range(count):
            counts.add(word, "")
    results = []
    references = []
    for k in range(120):
        source = ("common common", "common usual", "common rare")[k % 3].encode()
        text = b"abcdefgh" if k % 3 < 2 else b"XXXX YYYY"
        best = Hypothesis(text, -1.0 - (k % 3), 0.0)
        results.append(TranslationResult([best], [Chunk(source, b"", source)], [[best]], []))
        references.append(b"abcdefgh")
    words = choose_words(counts, results, references)
    assert words.min_count == 6 and is_known("usual", words) and not is_known("rare", words)
