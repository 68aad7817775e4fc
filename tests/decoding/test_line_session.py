"""Lines of several sentences, and long ones, translated while they come: nothing is lost, and the pieces in
which a line comes make no difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_engine import ShoutingEngine
from made_up_service import Gate

from bytenmt.decoding.line_batch import split_line
from bytenmt.decoding.simultaneous import LineSession
from bytenmt.serve.worker import EngineKey


def session(languages: Sequence[str] = ("de",), limit: int = 1000) -> tuple[LineSession, Gate]:
    """A session whose model translates a text into capitals and a question mark."""
    gate = Gate(kind=ShoutingEngine, languages=languages)
    return LineSession(gate.translator(EngineKey(1)).open(wait=8), languages, limit), gate


def translation(line: str, pieces: Sequence[int] = (), **more: Any) -> str:
    """Translate a line that comes in pieces. pieces: where they end."""
    one = session(**more)[0]
    places = [0, *sorted(min(piece, len(line)) for piece in pieces), len(line)]
    parts = [one.feed(line[begin:end]) for begin, end in zip(places, places[1:], strict=False)]
    return "".join(parts) + one.finish()


def test_each_sentence_is_translated_to_its_end() -> None:
    line = "Es regnet.  Das ist schade, z. B. heute! Und das ist alles"
    assert translation(line) == "ES REGNET.?  DAS IST SCHADE, Z. B. HEUTE!? UND DAS IST ALLES?"
    assert translation(line, languages=()) == line.upper() + "?", "as one sentence"
    assert translation("今日は。明日は。", languages=("ja",)) == "今日は。?明日は。?"
    assert translation("") == "" and translation("Ja. ") == "JA.? "


def test_lines_follow_each_other() -> None:
    one = session()[0]
    for line in ("Es regnet. Oh.", "", "Ja."):
        sentences = split_line(line.encode(), 1000, None, ["de"])
        expected = b"".join(c.text.upper() + b"?" * bool(c.text) + c.separator for c in sentences)
        assert one.feed(line) + one.finish() == expected.decode()


def test_a_sentence_ends_before_the_next_one_has_come() -> None:
    one = session()[0]
    assert one.feed("Es regnet. ") == "" and one.feed("D") == "ES REGNET.? "


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("eins zwei drei vier fuenf", ["eins zwei drei vier", "fuenf"]),
        ("x" * 45, ["x" * 20, "x" * 20, "x" * 5]),
        ("ä" * 25, ["ä" * 10, "ä" * 10, "ä" * 5]),
    ],
)
def test_a_long_sentence_is_cut(line: str, parts: list[str]) -> None:
    one, gate = session(languages=(), limit=20)
    committed = one.feed(line)
    assert one.n_cuts == len(parts) - 1
    shouted = [part.encode().upper().decode() + "?" for part in parts]
    assert committed + one.finish() == (" " if " " in line else "").join(shouted)
    assert max(map(len, gate.lines())) <= 20 and one.n_cuts == 0, "cuts are counted for each line"


@given(
    st.text(st.sampled_from("ab. ?!D\t,。é"), max_size=60),
    st.lists(st.integers(0, 60), max_size=8),
    st.sampled_from([(), ("de",), ("ja",)]),
    st.sampled_from([4, 10, 1000]),
)
def test_pieces_make_no_difference(
    line: str, pieces: list[int], languages: Sequence[str], limit: int
) -> None:
    expected = translation(line, languages=languages, limit=limit)
    assert translation(line, pieces, languages=languages, limit=limit) == expected
    assert expected.upper().replace("?", "") == line.upper().replace("?", ""), "nothing is lost"
