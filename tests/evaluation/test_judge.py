"""Test flags of translations, and the calibration of their thresholds on a validation text."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bytenmt.checkpoints.facts import FlagThresholds
from bytenmt.decoding.interface import Hypothesis
from bytenmt.decoding.scorer import Stream, TextScores
from bytenmt.evaluation.judge import Judge, best_split, bits_of_texts, calibrate
from bytenmt.translation.chunks import Chunk
from bytenmt.translation.line_batch import TranslationResult

THRESHOLDS = FlagThresholds(
    n_lines=100, bits_per_byte=0.5, length_ratio=1.0, length_variance=1.0, source_bits=4.0
)


class FakeScorer:
    """Each byte costs one bit, and half a bit where the source has it; counts the texts it has
    read."""

    def __init__(self) -> None:
        self.n_read = 0

    def score_texts(
        self, sources: Sequence[bytes] | None, texts: Sequence[bytes]
    ) -> list[TextScores]:
        assert sources is not None
        self.n_read += len(texts)
        readings = []
        for source, text in zip(sources, texts, strict=True):
            bits = np.array([0.5 if byte in source else 1.0 for byte in text])
            readings.append(TextScores(-bits * math.log(2), np.zeros(len(text), np.int64)))
        return readings

    def open_stream(self) -> Stream:
        raise NotImplementedError


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
    scorer = FakeScorer()
    judge = Judge(THRESHOLDS, 0.5, make_scorer=lambda: scorer)
    # Without a source each text of ten bytes and its end cost 11 bits.
    cheap, dear, cheap_and_sure = (
        written("abcdefghij", 0.6),
        written("abcdefghij", 0.8),
        written("abc", 0.1),
    )
    assert judge.saved_bits([b"klm"] * 2, [cheap, dear]) == pytest.approx([5.0, 3.0])
    assert scorer.n_read == 2
    sources = [b"klmnopqrst"] * 3
    assert judge.flags(sources, [cheap, dear, cheap_and_sure]) == [
        ["unsure"],
        ["unsure", "invention"],
        [],
    ]
    assert scorer.n_read == 4, "what is sure is not read again"
    unknown = replace(judge, thresholds=structs.replace(THRESHOLDS, source_bits=None))
    assert unknown.flags(sources[:1], [dear]) == [["unsure"]]


def test_tags_do_not_hide_an_invention() -> None:
    """The source saves half a bit per byte of the words; its savings on tags do not count."""
    judge = Judge(THRESHOLDS, 0.5, make_scorer=FakeScorer)
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
    ha = "ha" * 10
    found = judge.flag(
        [
            result(
                ("one", written("eins", 0.1)),
                ("ha", written(ha, 0.1)),
                ("two", written("zwei", 0.9)),
            ),
            result(("http://a.b", copied)),
        ]
    )
    assert found[0].best.flags == ("placement", "loop", "unsure")
    assert found[1].best.flags == ("placement",)


def test_copies() -> None:
    """A name that the model knows is not a copy."""
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
    assert bits_of_texts(FakeScorer(), None, texts) == pytest.approx(
        [len(text) + 1 for text in texts]
    )
    half = bits_of_texts(FakeScorer(), texts, texts)
    assert half == pytest.approx([len(text) / 2 + 1 for text in texts])


def test_thresholds_of_a_validation_text() -> None:
    """Above 0.4 bits translations are wrong; half a bit a byte is saved; targets are twice sources."""
    references = [f"{k:02d}abcdefgh"[: 4 + k % 7] * 2 for k in range(100)]
    sources = [reference[: len(reference) // 2] for reference in references]
    translations = [
        written(reference if k % 2 else "XXXX YYYY", 0.3 if k % 2 else 0.5)
        for k, reference in enumerate(references)
    ]
    encoded = [line.encode() for line in sources], [line.encode() for line in references]
    cheaper = [best._replace(log_probability=best.log_probability / 2) for best in translations]
    found = calibrate(FakeScorer(), *encoded, translations, cheaper, True)
    assert found.bits_per_byte == pytest.approx(0.4) and found.n_lines == 100
    assert found.unsure_above(1) == 0.4 and found.unsure_above(5) == pytest.approx(0.2)
    older = structs.replace(found, beam_bits_per_byte=None)
    assert older.unsure_above(5) == 0.4
    assert found.length_ratio == 2.0 and found.length_variance == 0.0
    saved = [len(reference) / 2 for reference in references]
    assert found.source_bits == pytest.approx(np.quantile(saved, 0.02), abs=1e-3)
    assert calibrate(FakeScorer(), *encoded, translations, cheaper, False).source_bits is None
    # A tag counts neither as bytes nor as what a source saves.
    tagged = [[b"<b>" + line for line in lines] for lines in encoded]
    tagged_translations = [best._replace(text=b"<b>" + best.text) for best in translations]
    with_tags = calibrate(FakeScorer(), *tagged, tagged_translations, tagged_translations, True)
    assert (with_tags.bits_per_byte, with_tags.source_bits) == (
        found.bits_per_byte,
        found.source_bits,
    )


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=12))
def test_no_threshold_makes_fewer_mistakes(drawn: list[tuple[int, bool]]) -> None:
    values, is_wrong = [float(value) for value, _ in drawn], [wrong for _, wrong in drawn]

    def mistakes(threshold: float) -> int:
        return sum(
            (value > threshold) != wrong for value, wrong in zip(values, is_wrong, strict=True)
        )

    fewest = min(mistakes(k - 0.5) for k in range(9))
    assert mistakes(best_split(values, is_wrong)) == fewest
