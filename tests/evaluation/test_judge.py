"""Test flags of translations, and the calibration of their thresholds on a validation text."""

import math
from dataclasses import replace

import pytest
from half_scorer import HalfScorer
from msgspec import structs

from bytenmt.checkpoints.facts import FlagThresholds, SourceWords
from bytenmt.decoding.interface import Hypothesis
from bytenmt.evaluation.judge import Judge, bits_of_texts
from bytenmt.translation.chunks import Chunk
from bytenmt.translation.line_batch import TranslationResult
from bytenmt.translation.source_words import build_filter

THRESHOLDS = FlagThresholds(
    n_lines=100, bits_per_byte=0.5, length_ratio=1.0, length_variance=1.0, source_bits=4.0
)


def written(text: str, bits_per_byte: float) -> Hypothesis:
    """A text that a search has written at this cost."""
    nats = -bits_per_byte * len(text.encode()) * math.log(2)
    return Hypothesis(text.encode(), nats, nats)


def result(*pairs: tuple[str, Hypothesis]) -> TranslationResult:
    """The result of a line of several sentences."""
    whole = Hypothesis(b" ".join(best.text for _, best in pairs), 0.0, 0.0, flags=("placement",))
    chunks = [Chunk(source.encode(), b" ", source.encode()) for source, _ in pairs]
    return TranslationResult([whole], chunks, [[best] for _, best in pairs], [whole.text.decode()])


def test_an_invention_is_what_the_source_saves_nothing_of() -> None:
    scorer = HalfScorer()
    judge = Judge(THRESHOLDS, 0.5, make_scorer=lambda: scorer)
    # Without a source each text of ten bytes and its end cost 11 bits.
    cheap, dear = (written("abcdefghij", bits) for bits in (0.6, 0.8))
    assert judge.saved_bits([b"klm"] * 2, [cheap, dear]) == pytest.approx([5.0, 3.0])
    assert scorer.n_read == 2
    sources = [b"klmnopqrst"] * 3
    flags = judge.flags(sources, [cheap, dear, written("abc", 0.1)])
    assert flags == [["unsure"], ["unsure", "invention"], []]
    assert scorer.n_read == 4, "what is sure is not read again"
    unknown = replace(judge, thresholds=structs.replace(THRESHOLDS, source_bits=None))
    assert unknown.flags(sources[:1], [dear]) == [["unsure"]]


def test_tags_do_not_hide_an_invention() -> None:
    """The source saves half a bit per byte of the words; its savings on tags do not count."""
    judge = Judge(THRESHOLDS, 0.5, make_scorer=HalfScorer)
    tagged = written("<b>abcdef</b>", 0.6)
    assert judge.saved_bits([b"<b>klmnop</b>"], [tagged]) == pytest.approx([0.5])
    assert judge.flags([b"<b>klmnop</b>"], [tagged]) == [["unsure", "invention"]]


def test_tags_do_not_hide_what_the_words_cost() -> None:
    judge = Judge(None, 0.5)
    link = '<a href="https://example.org/a/long/address">'
    for text, bits_per_byte, expected in (
        ("abcdefghij", 0.6, ["unsure"]),
        (f"{link}abcdefghij</a>", 0.3, ["unsure"]),
        (f"{link}abcdefghij</a>", 0.05, []),
        (link, 9.0, []),  # there are no words
    ):
        assert judge.flags([b"klmnopqrst"], [written(text, bits_per_byte)]) == [expected], text


def test_a_line_has_the_flags_of_its_sentences() -> None:
    """Each once, after those of the search; a URL that was copied has none."""
    judge = Judge(None, 0.5)
    copied = Hypothesis(b"http://a.b", 0.0, 0.0)
    sentences = [("one", "eins", 0.1), ("ha", "ha" * 10, 0.1), ("two", "zwei", 0.9)]
    line = result(*((source, written(text, bits)) for source, text, bits in sentences))
    found = judge.flag([line, result(("http://a.b", copied))])
    assert found[0].best.flags == ("placement", "loop", "unsure")
    assert found[1].best.flags == ("placement",)
    of_sentences = [hypotheses[0].flags for hypotheses in found[0].chunk_hypotheses]
    assert of_sentences == [(), ("loop",), ("unsure",)]


def test_copies() -> None:
    """A name that the model knows is no copy."""
    judge = Judge(None, 1.0)
    for source, text, bits, expected in [
        ("Server", "Server", 0.1, []),
        ("the fox", "the fox", 0.7, ["copy"]),
        ("the fox", "der Fuchs", 0.7, []),
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
    judge = Judge(None, 0.5, words=words)
    pairs = [
        ("The gizmo runs.", written("Das Gizmo läuft.", 0.1)),
        ("Runs in Gotham.", written("Läuft in Gotham.", 0.1)),
        ("the gizmo", written("das Dingsbums", 0.9)),
        ("gadget", Hypothesis(b"gadget", 0.0, 0.0)),
    ]
    found = judge.flag([result(*pairs), result(pairs[1])])
    assert found[0].unknown_words == ("gizmo",)
    assert found[0].best.flags == ("placement", "unsure", "unknown")
    of_sentences = [hypotheses[0].flags for hypotheses in found[0].chunk_hypotheses]
    assert of_sentences == [("unknown",), (), ("unsure", "unknown"), ()]
    assert found[1].unknown_words == () and found[1].best.flags == ("placement",)


def test_what_costs_far_too_much_is_wrong() -> None:
    thresholds = structs.replace(THRESHOLDS, source_bits=None, wrong_bits_per_byte=0.8)
    judge = Judge(thresholds, 0.5)
    for bits, expected in ((0.4, []), (0.7, ["unsure"]), (0.9, ["unlikely", "unsure"])):
        assert judge.flags([b"klmnopqrst"], [written("abcdefghij", bits)]) == [expected]
