"""String files of programs: which values are text, and which placeholders a translation keeps."""

from __future__ import annotations

import json
from typing import Any

from bytenmt.documents.formats import ReadOptions, read
from bytenmt.documents.translation import translate
from tools.verify.sample_documents import recording_translator


def translated(name: str, text: str, options: ReadOptions | None = None) -> tuple[str, list[str]]:
    """Return a file with its segments in capitals, and the segments."""
    ask, noted = recording_translator()
    document = read(text.encode(), name, None, options)
    made = translate(document, ask, limit=1000)[0].decode()
    return made, [segment.text.decode() for segment in noted]


def translated_json(value: Any) -> Any:
    return json.loads(translated("json", json.dumps(value))[0])


def test_messages_of_chrome() -> None:
    """Only the message is translated; $NAME$ and $1 are kept, prices are written $$5."""
    message = {
        "placeholders": {"file": {"content": "$1", "example": "report.txt"}},
        "message": "The file $FILE$ was not found.",
        "description": "an error",
    }
    other = {"message": "Send $1 to $USER_NAME$ for $$5", "description": "x", "hash": "ab"}
    assert translated_json({"a": message, "b": other}) == {
        "a": message | {"message": "THE FILE $FILE$ WAS NOT FOUND."},
        "b": other | {"message": "SEND $1 TO $USER_NAME$ FOR $$5"},
    }
    _, noted = translated("json", json.dumps({"a": message, "b": other}))
    assert noted == ["The file $FILE$ was not found.", "Send <x1/> to $USER_NAME$ for $$5"]


def test_an_object_with_a_message_and_other_texts_is_none_of_chrome() -> None:
    assert translated_json({"title": "a title", "message": "for $1", "menu": {"placeholders": "x y"}}) == {
        "title": "A TITLE",
        "message": "FOR $1",
        "menu": {"placeholders": "X Y"},
    }
