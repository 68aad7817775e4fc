"""Test flags of translations, and the calibration of their thresholds on a validation text."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from half_scorer import HalfScorer
from msgspec import structs

from bytenmt.checkpoints.facts import DoubtThresholds, Facts, FlagThresholds, SourceWords
from bytenmt.decoding.interface import Hypothesis, SearchOptions
from bytenmt.decoding.loading import LoadedRun, Runtime, runtime_from_models
from bytenmt.evaluation.judge import Judge, bits_of_texts
from bytenmt.translation.chunks import Chunk
from bytenmt.translation.confidence import doubt_of_line
from bytenmt.translation.line_batch import TranslationResult
from bytenmt.translation.source_words import build_filter

THRESHOLDS = FlagThresholds(n_lines=100, length_ratio=1.0, length_variance=1.0, source_bits=4.0)
DOUBT = DoubtThresholds(unsure=1.5)


def written(text: str, bits: float) -> Hypothesis:
    """A text that a search has written at this cost."""
    nats = -bits * math.log(2)
    return Hypothesis(text.encode(), nats, nats)


def runtime_of(*thresholds: FlagThresholds | None) -> Runtime:
    """Loaded models with these thresholds, and one of the opposite direction."""
    config: Any = None
    runs = [LoadedRun(Path(), config, Facts(flags=flags), "fp32") for flags in thresholds]
    loaded = runtime_from_models([], torch.device("cpu"))
    return replace(loaded, runs=runs, reverse=HalfScorer())


def result(*pairs: tuple[str, Hypothesis]) -> TranslationResult:
    """The result of a line of several sentences."""
    whole = Hypothesis(b" ".join(best.text for _, best in pairs), 0.0, 0.0, flags=("placement",))
    chunks = [Chunk(source.encode(), b" ", source.encode()) for source, _ in pairs]
    return TranslationResult([whole], chunks, [[best] for _, best in pairs], [whole.text.decode()])


def test_an_invention_is_what_the_source_saves_nothing_of() -> None:
    scorer = HalfScorer()
    judge = Judge(THRESHOLDS, DOUBT, make_scorer=lambda: scorer)
    # Without a source each text of ten bytes and its end cost 11 bits.
    cheap, dear = (written("abcdefghij", bits) for bits in (6.0, 8.0))
    assert judge.saved_bits([b"klm"] * 2, [cheap, dear]) == pytest.approx([5.0, 3.0])
    assert scorer.n_read == 2
    sources = [b"klmnopqrst"] * 3
    flags = judge.flags(sources, [cheap, dear, written("abc", 0.3)])
    assert flags == [["unsure"], ["unsure", "invention"], []]
    assert scorer.n_read == 4, "what is sure is not read again"
    unknown = replace(judge, thresholds=structs.replace(THRESHOLDS, source_bits=None))
    assert unknown.flags(sources[:1], [dear]) == [["unsure"]]


def test_tags_do_not_hide_an_invention() -> None:
    """The source saves half a bit per byte of the words; its savings on tags do not count."""
    judge = Judge(THRESHOLDS, DOUBT, make_scorer=HalfScorer)
    tagged = written("<b>abcdef</b>", 7.8)
    assert judge.saved_bits([b"<b>klmnop</b>"], [tagged]) == pytest.approx([0.5])
    assert judge.flags([b"<b>klmnop</b>"], [tagged]) == [["unsure", "invention"]]


def test_tags_do_not_hide_what_the_words_cost() -> None:
    judge = Judge(None, DOUBT)
    link = '<a href="https://example.org/a/long/address">'
    for text, bits, expected in (
        ("abcdefghij", 6.0, ["unsure"]),
        (f"{link}abcdefghij</a>", 6.0, ["unsure"]),
        (f"{link}abcdefghij</a>", 3.0, []),
        (link, 400.0, []),  # there are no words
    ):
        assert judge.flags([b"klmnopqrst"], [written(text, bits)]) == [expected], text


def test_a_line_has_the_flags_of_its_sentences() -> None:
    """Each once, after those of the search; a URL that was copied has none."""
    judge = Judge(None, DOUBT)
    copied = Hypothesis(b"http://a.b", 0.0, 0.0)
    sentences = [("one", "eins", 0.4), ("ha", "ha" * 10, 2.0), ("two", "zwei", 4.0)]
    line = result(*((source, written(text, bits)) for source, text, bits in sentences))
    found = judge.flag([line, result(("http://a.b", copied))])
    assert found[0].best.flags == ("placement", "loop", "unsure")
    assert found[1].best.flags == ("placement",)
    of_sentences = [hypotheses[0].flags for hypotheses in found[0].chunk_hypotheses]
    assert of_sentences == [(), ("loop",), ("unsure",)]


def test_copies() -> None:
    """A name that the model knows is no copy."""
    judge = Judge(None, DoubtThresholds(unsure=9.0))
    for source, text, bits, expected in [
        ("Server", "Server", 1.0, []),
        ("the fox", "the fox", 5.0, ["copy"]),
        ("the fox", "der Fuchs", 5.0, []),
    ]:
        assert judge.flags([source.encode()], [written(text, bits)]) == [expected], (source, text)


def test_costs_are_those_of_each_text() -> None:
    """Results are in order, however texts are batched; an empty text has the score of EOS."""
    texts = [bytes(97 + k % 26 for k in range(n)) for n in (5, 0, 150, 3) * 60]
    for sources, bits in ((None, 1.0), (texts, 0.5)):
        found = bits_of_texts(HalfScorer(), sources, texts)
        assert found == pytest.approx([len(text) * bits + 1 for text in texts])


def test_a_word_that_the_model_does_not_know() -> None:
    """It is named once; a copied line and a name that stays unchanged do not count."""
    known = build_filter(["the", "runs", "in"])
    words = SourceWords(language="en", min_count=2, known=known, ordinary=known)
    judge = Judge(None, DOUBT, words=words)
    pairs = [
        ("The gizmo runs.", written("Das Gizmo läuft.", 1.6)),
        ("Runs in Gotham.", written("Läuft in Gotham.", 1.6)),
        ("the gizmo", written("das Dingsbums", 12.0)),
        ("gadget", Hypothesis(b"gadget", 0.0, 0.0)),
    ]
    found = judge.flag([result(*pairs), result(pairs[1])])
    assert found[0].unknown_words == ("gizmo",)
    assert found[0].best.flags == ("placement", "unsure", "unknown")
    of_sentences = [hypotheses[0].flags for hypotheses in found[0].chunk_hypotheses]
    assert of_sentences == [("unknown",), (), ("unsure", "unknown"), ()]
    assert found[1].unknown_words == () and found[1].best.flags == ("placement",)


def test_what_costs_far_too_much_is_wrong() -> None:
    judge = Judge(None, DoubtThresholds(unsure=1.5, wrong=2.5))
    for bits, expected in ((4.0, []), (7.0, ["unsure"]), (9.0, ["unlikely", "unsure"])):
        assert judge.flags([b"klmnopqrst"], [written("abcdefghij", bits)]) == [expected]


def test_a_translation_that_does_not_give_its_source_is_doubtful() -> None:
    """Half of the source's bits count; a model of the opposite direction has found them."""
    judge = Judge(None, DOUBT)
    cheap = written("abcdefghij", 2.0)
    for bits, expected in ((5.0, []), (6.0, ["unsure"])):
        read_back = cheap._replace(source_log_probability=-bits * math.log(2))
        assert judge.flags([b"klmnopqrst"], [read_back]) == [expected]


MEASURED = structs.replace(
    THRESHOLDS,
    searches={
        "greedy": DoubtThresholds(unsure=1.0, wrong=4.0),
        "beam": DoubtThresholds(unsure=2.0),
        "reranked": DoubtThresholds(unsure=3.0, wrong=6.0),
    },
)
WITHOUT_REVERSE = structs.replace(
    MEASURED, searches={name: MEASURED.searches[name] for name in ("greedy", "beam")}
)
GREEDY = SearchOptions()
BEAM = SearchOptions(beam=4, n_best=4)
SAMPLE = SearchOptions(beam=4, sample=True)


@pytest.mark.parametrize(
    ("search", "thresholds", "flag_above", "expected", "counts_source"),
    [
        (GREEDY, MEASURED, None, (1.0, 4.0), False),
        (BEAM, MEASURED, None, (3.0, 6.0), True),
        (SAMPLE, MEASURED, None, (2.0, None), False),
        (BEAM, MEASURED, 5.0, (5.0, 6.0), True),
        (BEAM, WITHOUT_REVERSE, None, (2.0, None), False),
        (BEAM, THRESHOLDS, None, (0.7, None), False),
        (BEAM, THRESHOLDS, 5.0, (5.0, None), True),
        (GREEDY, THRESHOLDS, 5.0, (5.0, None), False),
    ],
)
def test_the_thresholds_of_a_search(
    search: SearchOptions,
    thresholds: FlagThresholds,
    flag_above: float | None,
    expected: tuple[float, float | None],
    counts_source: bool,
) -> None:
    """Those of another kind stand in, for the doubt without the source's share; 0.7 is the default.

    An older file of an ensemble, which has none, does not hide those of another.
    """
    for runtime in (runtime_of(thresholds), runtime_of(None, THRESHOLDS, thresholds)):
        judge = Judge.from_runtime(runtime, search, flag_above, 0.7)
        assert judge.doubt is not None
        assert (judge.doubt.unsure, judge.doubt.wrong) == expected
        assert judge.counts_source == counts_source


def test_no_thresholds_and_no_default() -> None:
    judge = Judge.from_runtime(runtime_of(THRESHOLDS), BEAM)
    assert judge.doubt is None and "no thresholds of its own" in judge.describe()


def test_the_doubt_of_a_line_is_that_of_its_worst_sentence() -> None:
    copied = Hypothesis(b"http://a.b", 0.0, 0.0)
    line = result(("a", written("abcd", 2.0)), ("b", copied), ("c", written("a" * 9, 6.0)))
    assert doubt_of_line(line) == pytest.approx(2.0)
    assert doubt_of_line(result(("b", copied))) is None
