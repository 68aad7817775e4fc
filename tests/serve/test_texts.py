"""Texts as lines and what stands between them; languages, and which one a text is in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_service import PROFILES

from bytenmt.errors import BytenmtError
from bytenmt.serve.detect import Detector
from bytenmt.serve.languages import Direction, Languages
from bytenmt.serve.texts import PartialTexts, PlainText

PIECES = [
    "<b>",
    "</b>",
    "<p class='x'>",
    "<!--",
    "-->",
    "<script>",
    "</script>",
    "a",
    " ",
    "\n",
    "\r",
    "&amp;",
    "<",
    ">",
]


@pytest.mark.slow
@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_a_text_with_its_own_lines_is_the_text(text: str) -> None:
    found = PlainText.from_text(text)
    assert found.with_translations(found.lines) == text
    assert all(line == line.strip() and line and "\n" not in line for line in found.lines)


@given(st.lists(st.text("a \n", max_size=6), min_size=1, max_size=5))
def test_parts_of_lines_are_parts_of_texts(texts: list[str]) -> None:
    """Joined, what is passed on of each text is the text with its translated lines."""
    plain = [PlainText.from_text(text) for text in texts]
    received: dict[int, str] = dict.fromkeys(range(len(texts)), "")

    def receive(number: int, part: str) -> None:
        received[number] += part

    stream = PartialTexts(plain, range(len(texts)), receive)
    for line in range(sum(len(one.lines) for one in plain)):
        stream.add(line, b"x")
        stream.add(line, b"y")
    stream.finish()
    expected = [one.with_translations(["xy"] * len(one.lines)) for one in plain]
    assert list(received.values()) == expected


def test_directions() -> None:
    assert Direction.parse("en-de") == ("en", "de")
    assert Direction.parse("zh-Hans:en") == ("zh-Hans", "en")
    for wrong in ("en", "en-de-fr", "en-en", "", "e-de", "en-d/e", "en:"):
        with pytest.raises(BytenmtError, match="not a language pair"):
            Direction.parse(wrong)


def test_the_fewest_steps() -> None:
    languages = Languages([Direction.parse(pair) for pair in ("ko-en", "en-de", "de-fr", "en-fr", "fr-en")])
    assert list(map(str, languages.path("ko", "fr") or [])) == ["ko-en", "en-fr"]
    assert languages.path("ko", "ko") == [] and languages.path("fr", "ko") is None
    assert languages.known("KO") == "ko" and languages.known("de_CH") == "de" and languages.known("x") is None


def test_detection() -> None:
    """Detection uses scripts, then n-grams; text without letters may be in any language."""
    detector = Detector(["ko", "en", "de", "ja", "zh", "ru"], PROFILES)

    def best_guess(text: str) -> tuple[str, float]:
        return detector.guesses(text)[0]

    assert best_guess("안녕 hello 하세요") == ("ko", 50.0)
    assert best_guess("the dog sat")[0] == "en" and best_guess("die Katze")[0] == "de"
    assert (
        best_guess("これは本")[0] == "ja"
        and best_guess("这是书")[0] == "zh"
        and best_guess("привет") == ("ru", 100.0)
    )
    assert best_guess("123")[1] < 50 and best_guess("")[0] == "ko"
    assert Detector(["ja", "en"]).guesses("大学")[0] == ("ja", 100.0)
    assert [guess.confidence for guess in Detector(["en", "de"]).guesses("hello")] == [50.0, 50.0]
    assert Detector(["ko"]).guesses("hello") == [("ko", 0.0)]
