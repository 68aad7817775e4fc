"""Test how the numbers of a translation are compared with those of its source."""

import pytest

from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.translation.line_batch import LineBatch, rank_by_numbers
from bytenmt.translation.numbers import count_number_faults
from bytenmt.translation.settings import Settings


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("10:30-11:45", "10:35 um 10:45", 2),
        ("10:30-11:45", "10:30-11:45", 0),
        ("10:30-11:45", "10:30 Uhr 11:45", 2),
        ("10:30-11:45", "10:30 Uhr bis 11:45 Uhr", 0),
        ("pages 3-5", "Seiten 3 5", 2),
        ("pages 3\u20135", "Seiten 3, 5", 2),
        ("pages 3-5", "Seiten 3\u20135", 0),
        ("10:30-11:45", "10시 30분부터 11시 45분까지", 0),
        ("3-2", "3 zu 2", 0),
        ("lesson 2-1", "Lektion 2.1", 0),
        ("2024-01-15", "2024 01 15", 0),
        ("10 to 15 people", "10 Menschen 15 Menschen", 2),
        ("10 to 15 people", "10 bis 15 Menschen", 0),
        ("10 people, 15 people", "10 Menschen, 15 Menschen", 0),
        ("It costs 1,299.50 euros", "Es kostet 1,299,50 Euro", 2),
        ("It costs 1,299.50 euros", "Es kostet 1.299,50 Euro", 0),
        ("It costs 1,299.50 euros", "Es kostet 1299,50 Euro", 0),
        ("It costs 1,299.50 euros", "Es kostet 1,299.50 Euro", 1),
        ("1,299 files", "1,299 Dateien", 1),
        ("1,299 files", "1.299 Dateien", 0),
        ("1,299 files", "1299 Dateien", 0),
        ("version 1.2", "Version 1.2", 0),
        ("1, 2, 3", "1, 2, 3", 0),
        ("no number", "keine Zahl", 0),
    ],
)
def test_numbers_of_a_german_translation(source: str, text: str, expected: int) -> None:
    assert count_number_faults(source, text, "de") == expected
    if expected == 1:
        assert count_number_faults(source, text, "") == 0


def test_the_best_hypothesis_has_the_numbers_of_the_source() -> None:
    """The order stays otherwise; numbers in kept spans do not count."""
    request = Request(b"10:30-11:45 \xf5", 99, returns_all=True)
    texts = [b"10:35 um 10:45 \xf5", b"10:30 und 11:45 \xf5", b"10:30-11:45 \xf5"]
    hypotheses = [Hypothesis(text, -1.0 - k, -1.0 - k) for k, text in enumerate(texts)]
    ranked = rank_by_numbers(request, hypotheses, "de")
    assert [hypothesis.text for hypothesis in ranked] == [texts[1], texts[2], texts[0]]


def test_only_a_beam_is_asked_for_all_hypotheses() -> None:
    beam = Settings.from_dict({"beam": 4})
    asked = [request.returns_all for request in LineBatch([b"a 1", b"a"], beam).requests]
    assert asked == [True, False]
    for values in ({"beam": 1}, {"beam": 4, "sample": True}):
        (request,) = LineBatch([b"a 1"], Settings.from_dict(values)).requests
        assert not request.returns_all
    batch = LineBatch([b"a 10"], beam)
    (request,) = batch.requests
    batch.add(request, [Hypothesis(b"b 11", -1.0, -1.0), Hypothesis(b"b 10", -2.0, -2.0)])
    (result,) = batch.results()
    assert [hypothesis.text for hypothesis in result.hypotheses] == [b"b 10"]
