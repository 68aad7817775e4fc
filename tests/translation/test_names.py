"""Test which words of a line are names, which translations keep."""

import pytest

from bytenmt.checkpoints.facts import SourceWords
from bytenmt.sentinels import compile_patterns
from bytenmt.translation.glossary import Glossary, Term
from bytenmt.translation.kept_spans import KeepSpec, mark_spans
from bytenmt.translation.names import find_names
from bytenmt.translation.source_words import build_filter

TEXT = """
the package was built by welcome to a server of on in is and use new project settings open please
ask dr for germany said he it runs save your file with after installing
der die das paket wurde von erstellt willkommen bei ein verbindung mit auf dem läuft liste
"""
ORDINARY = build_filter(TEXT.split())


def words(language: str) -> SourceWords:
    return SourceWords(language=language, min_count=2, known=ORDINARY, ordinary=ORDINARY)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The package was built by ⟦Christopher⟧."),
        ("en", "Welcome to ⟦Nextcloud⟧!"),
        ("en", "⟦GitLab⟧ is open, and ⟦iPhone⟧ and ⟦PostgreSQL⟧"),
        ("en", "Ask Dr. ⟦Okonkwo⟧ and ⟦Zhang Wei⟧ in Germany"),
        ("en", 'He said to "⟦Redmine⟧" (⟦Gotham⟧\'s server)'),
        ("en", "Use Web2Py3 and ⟦Python3⟧"),
        # the beginning of a sentence, of a quotation, of an item
        ("en", "Christopher built it. Christopher runs: Christopher"),
        ("en", "“Gotham is open”, he said. - Gotham | Gotham"),
        # lines in title case and in capitals
        ("en", "Open New Project Settings in Gotham"),
        ("en", "Gotham Settings"),
        ("en", "OPEN THE GOTHAM SERVER"),
        ("en", "Open the ⟦LibreOffice⟧ Settings"),
        # parts of code
        ("en", "use Gotham_City and Gotham() and a.Gotham and gotham"),
        ("de", "Das Paket wurde von ⟦Christopher⟧ erstellt"),
        ("de", "Willkommen bei ⟦Nextcloud⟧, die ⟦GitLab⟧-Verbindung läuft"),
        ("de", "Das Paket ist auf dem Dachboden, eine Dachluke, mit neuen Dachziegeln"),
        ("de", "die BenutzerInnen mit Datenverbindung"),
        ("ko", "서버에서 Gotham을 ⟦GitLab⟧에 저장"),
    ],
)
def test_names(language: str, text: str) -> None:
    plain = text.replace("⟦", "").replace("⟧", "")
    marked = plain
    for begin, end in reversed(find_names(plain, words(language))):
        marked = f"{marked[:begin]}⟦{marked[begin:end]}⟧{marked[end:]}"
    assert marked == text


def test_names_are_a_class_of_kept_spans() -> None:
    """Other spans and terms come first; without the words of a model there are no names."""
    line = b"Welcome to Nextcloud at Nextcloud.com and Gotham"
    keep = KeepSpec(words=words("en"), glossary=Glossary([Term("Gotham", "Gotham City")]))
    spans = [span.source for span in mark_spans(line, keep).spans]
    assert spans == ["Nextcloud", "Nextcloud.com", "Gotham"]
    assert KeepSpec.from_settings("names").keeps_names
    assert not KeepSpec.from_settings("urls,numbers").keeps_names
    assert not KeepSpec.from_settings("none").keeps_names
    assert compile_patterns(("names",)) == ()
    assert len(mark_spans(line, KeepSpec()).spans) == 1


def test_the_time_is_proportional_to_the_text() -> None:
    find_names("Gotham " * 50_000 + "G" * 50_000 + "\"'" * 50_000, words("en"))
