"""Translations that are shown while they are decoded: server-sent events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up_service import client

SSE = {"accept": "text/event-stream"}


def events(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["en", "de"])
def test_parts_make_the_text(target: str) -> None:
    """Every text's parts are its translation, what stands between the lines included; over two models too."""
    texts = [" 하나 둘 셋 넷\n\n다섯 ", "", "여섯\r\n"]
    sent = {"q": texts, "source": "ko", "target": target, "details": True}
    with client() as asked:
        answer = asked.post("/translate", json=sent, headers=SSE)
        whole = asked.post("/translate", json=sent).json()
    assert answer.headers["content-type"].startswith("text/event-stream")
    *parts, (last, data) = events(answer.text)
    assert (last, data) == ("done", whole) and {name for name, _ in parts} == {"part"}
    assert len(parts) > 8
    for number, text in enumerate(whole["translatedText"]):
        assert "".join(part["text"] for _, part in parts if part["index"] == number) == text
    assert [len(lines) for lines in whole["details"]] == [2, 0, 1]
    assert [[line["verdict"] for line in lines] for lines in whole["details"]] == [
        ["sure", "check"],
        [],
        ["check"],
    ]
    for line in (line for lines in whole["details"] for line in lines):
        is_flagged = line["verdict"] == "check"
        assert line["flags"] == ["unsure"] * is_flagged
        assert line["reasons"] == ["the model is unsure"] * is_flagged
        # Over two models the first one's doubts count too.
        assert is_flagged == (line["bits_per_byte"] > (0.15 if target == "de" else 0.2))


def test_tags_come_in_parts_too() -> None:
    sent = {"q": "<p>a &lt; b</p> c", "source": "en", "target": "de", "format": "html"}
    with client() as asked:
        *parts, (_, data) = events(asked.post("/translate", json=sent, headers=SSE).text)
    assert "".join(part["text"] for _, part in parts) == data["translatedText"] == "<p>A &lt; B0</p> C0"


def test_a_refused_stream_is_no_stream() -> None:
    with client(keys=["k"]) as asked:
        assert asked.post("/translate", json={"q": "a", "target": "de"}, headers=SSE).status_code == 403
    with client() as asked:
        answer = asked.post("/translate", json={"q": "a", "source": "auto", "target": "ko"}, headers=SSE)
        assert events(answer.text) == [("error", {"error": "no model translates into ko: see /languages"})]
