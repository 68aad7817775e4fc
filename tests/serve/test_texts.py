"""Texts as lines and what stands between them, languages, and requests of any kind."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_service import client

from bytenmt.errors import BytenmtError
from bytenmt.serve.languages import Direction, ServedLanguages
from bytenmt.serve.service import split_lines
from bytenmt.serve.work_queue import Refusal


@given(
    st.text()
    | st.lists(st.sampled_from(["a", " ", "\n", "\r", "\u2028", "\x85", "é"])).map("".join)
)
def test_a_text_with_its_own_lines_is_the_text(text: str) -> None:
    lines, separators = split_lines(text)
    assert len(separators) == len(lines) + 1
    parts = [a.decode() + b for a, b in zip(lines, separators[1:], strict=True)]
    assert separators[0] + "".join(parts) == text
    assert all(line == line.strip() and line and not set(b"\r\n") & set(line) for line in lines)


def test_directions() -> None:
    assert Direction.parse("en-de") == ("en", "de")
    assert Direction.parse("zh-Hans:en") == ("zh-Hans", "en")
    for wrong in ("en", "en-de-fr", "en-en", "", "e-de", "en-d/e", "en:"):
        with pytest.raises(BytenmtError, match="not a language pair"):
            Direction.parse(wrong)
    languages = ServedLanguages([Direction.parse(pair) for pair in ("ko-en", "en-de")])
    assert languages.known("KO") == "ko" and languages.known("de_CH") == "de"
    languages = ServedLanguages([Direction.parse(pair) for pair in ("zh-Hans:en", "en:zh-Hant")])
    known = [languages.known(code) for code in ("zh", "ZH", "zh-hant")]
    assert known == ["zh-Hans", "zh-Hans", "zh-Hant"]
    with pytest.raises(Refusal, match="'zh-TW' is not a served"):
        languages.known("zh-TW")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("served", "text", "expected", "least"),
    [
        ("en-de", "Wo wohnst du denn?", "de", 90),
        ("en-de", "Where do you live?", "en", 90),
        ("de-en", "", "de", 50),  # nothing tells: the first one
        ("en-de", "Où est la gare, s'il vous plaît ?", "fr", 90),  # which is not served
        ("en-ko", "안녕하세요", "ko", 100),
        ("en-nb", "Jeg vet ikke hva dette er", "nb", 90),
        ("en-zh", "你好，世界。今天天气很好", "zh", 30),  # and no dialect of it
    ],
)
def test_detection(served: str, text: str, expected: str, least: float) -> None:
    guesses = ServedLanguages([Direction.parse(served)]).guesses(text)
    assert guesses[0].language == expected and guesses[0].confidence >= least
    assert {*served.split("-")} <= {guess.language for guess in guesses}


TEXTS = st.text(max_size=9)
VALUES = st.none() | st.booleans() | st.integers() | TEXTS | st.lists(TEXTS, max_size=3)
NAMES = st.sampled_from(["q", "s", "source", "target", "format", "alternatives", "api_key"])
FIELDS = st.dictionaries(NAMES, VALUES | st.sampled_from(["auto", "en", "de", "html"]), max_size=9)
FORMS = ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b"]
TYPES = st.sampled_from(["application/json", *FORMS, "a/b"])
PATHS = ["/translate", "/detect", "/suggest", "/translate_file", "/download_file/a/b", "//", "/%00"]
WAYS = st.sampled_from(["json", "params", "content"])


@pytest.mark.slow
@given(st.sampled_from(PATHS), FIELDS, st.binary(max_size=200), TYPES, WAYS)
def test_all_succeed(path: str, fields: dict[str, Any], body: bytes, kind: str, way: str) -> None:
    """Whatever is sent, the answer is a translation or a refusal of one line."""
    sent: dict[str, Any] = {"content": body, "headers": {"content-type": kind}}
    if way != "content":
        sent = {way: {"q": "a", "source": "en", "target": "de", **fields}}
    with client() as asked:
        answer = asked.post(path, **sent)
    assert answer.status_code in (200, 400, 403, 404, 405, 413, 429), answer.text
    assert answer.status_code in (200, 404, 405) or list(answer.json()) == ["error"]
