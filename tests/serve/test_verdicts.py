"""The verdicts of sentences in POST /translate, and how the page asks for them."""

import json
from typing import Any

import pytest
from made_up_service import client


def answer_of(**fields: Any) -> Any:
    with client() as asked:
        sent = {"source": "en", "target": "de", "verdicts": True, **fields}
        answer = asked.post("/translate", json=sent)
    return answer.json() | {"status": answer.status_code}


def test_each_sentence_has_a_verdict_and_its_place() -> None:
    """Offsets count characters, also behind white space and signs of several bytes."""
    text = "  Ünd 😀 so.\n\none.\ttwo"
    answer = answer_of(q=text)
    translation = answer["translatedText"]
    verdicts = answer["verdicts"]
    assert [translation[one["begin"] : one["end"]] for one in verdicts] == [
        line.strip() for line in translation.splitlines() if line
    ]
    assert {one["verdict"] for one in verdicts} <= {"sure", "check", "wrong"}
    assert all(
        set(one) == {"begin", "end", "verdict", "reasons", "flags", "unknown_words"}
        for one in verdicts
    )


def test_a_list_has_a_list_of_verdicts() -> None:
    answer = answer_of(q=["one", "", "two"])
    assert [len(of_text) for of_text in answer["verdicts"]] == [1, 0, 1]


def test_nothing_is_judged_unless_asked() -> None:
    assert "verdicts" not in answer_of(q="one", verdicts=False)


def test_a_text_in_the_target_language_has_no_verdicts() -> None:
    assert answer_of(q="one", target="en")["verdicts"] == []


@pytest.mark.parametrize("query", ["verdicts=true", "verdicts=1"])
def test_a_form_may_ask(query: str) -> None:
    with client() as asked:
        answer = asked.post(f"/translate?{query}", data={"q": "a", "source": "en", "target": "de"})
    assert len(answer.json()["verdicts"]) == 1


def test_html_has_no_verdicts() -> None:
    answer = answer_of(q="<p>one</p>", format="html")
    assert answer["status"] == 400 and "verdicts" in answer["error"]


def test_the_end_of_a_stream_has_verdicts() -> None:
    with client() as asked:
        sent = {"q": "one\ntwo", "source": "en", "target": "de", "verdicts": True}
        headers = {"accept": "text/event-stream"}
        stream = asked.post("/translate", json=sent, headers=headers).text
    done = json.loads(stream.split("event: done\ndata: ")[1])
    assert len(done["verdicts"]) == 2


def test_an_answer_counts_the_units_of_a_file_that_need_a_review() -> None:
    """The made-up model is unsure of all that it writes; a number alone is not translated."""
    strings = json.dumps({"a": "one", "b": "two", "c": "5"}).encode()
    with client() as asked:
        sent = {"source": "en", "target": "de"}
        file = {"file": ("a.json", strings, "application/json")}
        answer = asked.post("/translate_file", data=sent, files=file).json()
    assert (answer["units"], answer["unitsToReview"]) == (2, 2)
