"""Test the words that a model knows."""

from itertools import product

import pytest

from bytenmt.checkpoints.facts import Facts, SourceWords, parse_facts
from bytenmt.translation.source_words import (
    WordCounts,
    build_filter,
    contains,
    extend_filter,
    is_known,
    is_ordinary,
    unknown_words,
)


def words_of(language: str, pairs: list[tuple[str, str]], min_count: int = 2) -> SourceWords:
    counts = WordCounts(language)
    for source, target in pairs:
        counts.add(source, target)
    return counts.source_words(min_count)


def test_a_filter_has_its_words_and_hardly_any_other() -> None:
    keys = ["".join(letters) for letters in product("abcdefghijklmnop", repeat=3)]
    chosen = keys[::2]
    words = build_filter(chosen)
    assert all(contains(words, key) for key in chosen)
    assert sum(contains(words, key) for key in keys[1::2]) < 0.01 * len(chosen)
    assert len(words.bits) == 1.5 * len(chosen)
    longer = extend_filter(words, ["yes", "no", chosen[0]])
    assert contains(longer, "yes") and contains(longer, chosen[1]) and not contains(words, "yes")
    assert longer.n_words == words.n_words + 2
    assert not contains(build_filter([]), "a")


@pytest.mark.parametrize(
    ("language", "text", "word", "expected"),
    [
        ("en", "the Server", "SERVER", True),
        ("en", "the server", "servers", False),
        ("ko", "서버에서", "서버를", True),
        ("ko", "서버에서", "설정", False),
        ("de", "eine Verbindung", "Datenbankverbindung", True),
        ("en", "eine Verbindung", "Datenbankverbindung", False),
        ("de", "eine Verbindung", "Bindung", False),
    ],
)
def test_forms_of_a_word(language: str, text: str, word: str, expected: bool) -> None:
    assert is_known(word, words_of(language, [(text, "")] * 2)) == expected


def test_unknown_words_are_named_once() -> None:
    """Signs, digits and sentinels are not words, and a name in the translation is no matter."""
    words = words_of("en", [("it is the a file of", "")] * 2)
    text = "It is \udcf5 the gizmo2 of the gizmo, 5 files."
    assert unknown_words(text, "es", words) == ["gizmo", "files"]
    assert unknown_words("the Kolibri", "der Kolibri", words) == []
    assert unknown_words("the Kolibri", "der Kolibris", words) == ["Kolibri"]
    assert unknown_words("the kolibri", "der kolibri", words) == ["kolibri"]


def test_names_have_a_capital_and_stay_unchanged() -> None:
    pairs = [
        ("We use Redmine in Germany.", "Wir benutzen Redmine in Deutschland."),
        ("See redmine.org on Monday, Redmine!", "Siehe redmine.org am Montag, Redmine!"),
        ("Germany on Monday", "Deutschland am Montag"),
    ]
    words = words_of("en", pairs)
    assert not is_ordinary("Redmine", words) and is_known("Redmine", words)
    assert is_ordinary("Monday", words) and is_ordinary("Germany", words)
    assert not is_ordinary("Nextcloud", words) and not is_known("Nextcloud", words)


def test_words_are_added_however_few_times_they_occur() -> None:
    words = words_of("en", [("the old house", "das alte Haus")] * 2)
    counts = WordCounts("en")
    counts.add("the gizmo of Gotham", "das Ding aus Gotham")
    more = counts.add_to(words)
    assert all(is_known(word, more) for word in ("house", "gizmo", "Gotham"))
    assert not is_ordinary("Gotham", more) and is_ordinary("gizmo", more)
    assert not is_known("gizmo", words)


def test_facts_keep_words_as_text() -> None:
    import json

    import msgspec

    facts = Facts(words=words_of("en", [("the old house", "das alte Haus")] * 2))
    tree = json.loads(json.dumps(msgspec.to_builtins(facts, enc_hook=str)))
    assert isinstance(tree["words"]["known"]["bits"], str)
    assert parse_facts(tree) == facts
