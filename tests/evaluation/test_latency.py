"""Latency of simultaneous translation against values computed by hand."""

from __future__ import annotations

import pytest

from bytenmt.evaluation.latency import (
    Latency,
    SimultaneousLine,
    delays_in_words,
    latency,
    log_record,
    mean_latency,
    normalised_erasure,
)


@pytest.mark.parametrize(
    ("delays", "n_source", "n_reference", "expected"),
    [
        # wait-2 of equal lengths: (2 + 3 - 1 + 4 - 2) / 3; AP (2 + 3 + 4 + 4) / 16
        ([2, 3, 4, 4], 4, 4, Latency(al=2.0, laal=2.0, ap=13 / 16, dal=2.0)),
        # the whole source first: the lag is its length
        ([3, 3, 3], 3, 3, Latency(al=3.0, laal=3.0, ap=1.0, dal=3.0)),
        # AL: gamma 2 / 4, tau 3: (1 + (2 - 2) + (4 - 4)) / 3; LAAL: 5 units: (1 + (2 - .8) + (4 - 1.6)) / 3
        # DAL: step .8; g' = 1, 2, 4, 4.8, 5.6; less 0, .8, 1.6, 2.4, 3.2: (1 + 1.2 + 2.4 + 2.4 + 2.4) / 5
        ([1, 2, 4, 4, 4], 4, 2, Latency(al=1 / 3, laal=4.6 / 3, ap=15 / 20, dal=9.4 / 5)),
        # the source never ends before the target does: tau is all of it
        ([1, 1], 4, 4, Latency(al=0.5, laal=0.5, ap=2 / 8, dal=(1 + (3 - 2)) / 2)),
    ],
)
def test_by_hand(delays: list[int], n_source: int, n_reference: int, expected: Latency) -> None:
    found = latency(delays, n_source, n_reference)
    assert found == pytest.approx(expected)


LINE = SimultaneousLine(
    "ab  cd ef", "xy, z ü", [2, 5, 5, 6, 9, 9, 9], ["", "xy", "xy, q", "xy, z", "xy z", "xy, z ü"]
)


def test_words_are_read_as_soon_as_they_begin() -> None:
    """`xy,` ends with the fifth character of the source, the first one of its second word."""
    assert delays_in_words(LINE) == [2, 3, 3]
    assert delays_in_words(LINE._replace(translation=" ", reads=[9])) == []


def test_erasure_counts_what_was_taken_back() -> None:
    """One character for `z` in place of `q`; `, z` for ` z`, and that for `, z ü`."""
    assert normalised_erasure([LINE]) == (1 + 3 + 2) / 7
    assert normalised_erasure([LINE._replace(shown=["xy", "xy, z ü"])]) == 0


def test_means_leave_out_lines_that_cannot_be_scored() -> None:
    """Lines without a source, a reference or a translation."""
    empty = SimultaneousLine("ab", "", [], [""])
    alone = mean_latency([LINE], ["uv w"], in_words=True)
    assert alone == mean_latency([LINE, empty, LINE], ["uv w", "uv", " "], in_words=True)
    assert alone == pytest.approx(latency([2, 3, 3], 3, 2))
    assert mean_latency([LINE], ["uv w"], in_words=False) == pytest.approx(latency(LINE.reads, 9, 4))
    assert mean_latency([empty], ["uv"], in_words=True) is None


def test_the_log_has_the_fields_of_simuleval() -> None:
    record = log_record(3, LINE, "uv w")
    assert record == {
        "index": 3,
        "prediction": "xy, z ü",
        "delays": [2, 3, 3],
        "elapsed": [2, 3, 3],
        "prediction_length": 3,
        "reference": "uv w",
        "source": "ab  cd ef",
        "source_length": 3,
    }
