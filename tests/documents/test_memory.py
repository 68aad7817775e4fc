"""Translation memories: what is found, what is exchanged, and how a document is translated with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bytenmt.decoding.interface import Hypothesis
from bytenmt.documents.document import joined_text
from bytenmt.documents.formats import ReadOptions, format_of, read
from bytenmt.documents.memory import TranslationMemory
from bytenmt.documents.translation import translate
from bytenmt.errors import DataError
from tools.verify.sample_documents import PO, TMX

PAIR = ("en", "de")


def memory(*pairs: tuple[str, str]) -> TranslationMemory:
    return TranslationMemory.from_texts(pairs)


@pytest.mark.parametrize(
    ("entry", "source", "expected"),
    [
        (("Open", "Öffnen"), "Open", "Öffnen"),
        (("Open", "Öffnen"), "open", None),
        (("Open", "Öffnen"), " Open\n", " Öffnen\n"),
        (("Delete 3 files", "3 Dateien löschen"), "Delete 52 files", "52 Dateien löschen"),
        (("Hello %s!", "Hallo %s!"), "Hello {name}!", "Hallo {name}!"),
        (("<b>x</b> of %d", "%d: <b>x</b>"), "<i>x</i> of %i", "%i: <i>x</i>"),
        (("See http://a.org/x", "Siehe http://a.org/x"), "See http://b.org", "Siehe http://b.org"),
        (("%s and %s", "%s und %s"), "{a} and {b}", None),  # which of the two is which is not known
        (("1.5 km", "1,5 km"), "2.5 km", None),  # the translation writes the number in another way
        (("1.5 km", "1,5 km"), "1.5 km", "1,5 km"),
        (("2 sheep", "2 Schafe"), "1 sheep", None),  # singular
        (("Hello %s!", "Hallo!"), "Hello {name}!", None),
    ],
)
def test_what_is_found(entry: tuple[str, str], source: str, expected: str | None) -> None:
    assert memory(entry).translation(source) == expected


def test_the_later_translation_of_a_source_is_used() -> None:
    assert memory(("a %s", "eins %s"), ("a %s", "zwei %s")).translation("a %s") == "zwei %s"
    assert memory(("a %s", "eins %s"), ("a {x}", "zwei {x}")).translation("a %d") == "zwei %d"
    assert memory(("a %s", "eins %s"), ("a {x}", "zwei {x}")).translation("a %s") == "eins %s"


def test_similar_sources_are_sorted_by_their_score() -> None:
    entries = memory(("Save the file", "1"), ("Save this file", "2"), ("Quit", "3"))
    matches = entries.fuzzy("Save the files", limit=2)
    assert [match.target for match in matches] == ["1", "2"]
    assert 100 > matches[0].score > matches[1].score > 70
    assert entries.fuzzy("Quit")[0] == (100, "Quit", "3")
    assert entries.fuzzy("zzz") == []


FILES = {
    "a.tsv": "one\teins\ntwo\tzwei\n",
    "a.csv": 'one,eins\n"two",zwei\n',
    "a.po": 'msgid "one"\nmsgstr "eins"\n\nmsgid "two"\nmsgstr "zwei"\n\nmsgid "three"\nmsgstr ""\n',
    "a.tmx": TMX.replace("<seg/>", "<seg>zwei</seg>"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_every_format_give_their_pairs_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    entries = TranslationMemory.from_file(path, PAIR)
    assert (entries.translation("one"), entries.translation("two"), len(entries)) == ("eins", "zwei", 2)


def test_a_memory_without_pairs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.tmx"
    path.write_text("<tmx><body/></tmx>")
    with pytest.raises(DataError, match="no pair of texts en and de"):
        TranslationMemory.from_file(path, PAIR)
    with pytest.raises(DataError, match="give --pair"):
        TranslationMemory.from_file(path)


def translated_with_memory(data: str, name: str, entries: TranslationMemory) -> tuple[str, Any]:
    """Return a document translated with a memory and with a model that answers in capitals."""
    document = read(data.encode(), format_of(Path(name)), Path(name), ReadOptions(PAIR))
    output, report = translate(
        document,
        lambda segments: [Hypothesis(one.text.upper(), 0.0, 0.0) for one in segments],
        limit=1000,
        memory=entries,
    )
    return output.decode(), report


def test_a_catalogue_takes_what_the_memory_has() -> None:
    text, report = translated_with_memory(
        PO, "a.po", memory(("%d file", "%d Datei"), ("%d files", "%d Dateien"))
    )
    assert 'msgstr[0] "%d Datei"\nmsgstr[1] "%d Dateien"\n' in text
    assert (report.n_matched, report.n_exact) == (2, 2)
    assert 0 < report.n_matched < report.n_translated and not report.review


def test_xliff_tells_that_a_translation_comes_from_a_memory() -> None:
    unit = '<trans-unit id="1"><source>a %d</source><target/></trans-unit>'
    one = f'<xliff version="1.2"><file><body>{unit}</body></file></xliff>'
    text, _ = translated_with_memory(one, "a.xlf", memory(("a %s", "ein %s")))
    assert '<target state="translated" state-qualifier="leveraged-tm">ein %d</target>' in text
    two = (
        '<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="u"><segment>'
        "<source>a</source><target/></segment></unit></file></xliff>"
    )
    text, _ = translated_with_memory(two, "a.xlf", memory(("a", "ein")))
    assert '<segment state="translated" subState="bytenmt:translation-memory">' in text
    again = read(text.encode(), "xliff", Path("a"), ReadOptions(PAIR)).units[0]
    assert again.done and not again.doubted and joined_text(again.target or ()) == "ein"
