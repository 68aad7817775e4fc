"""Translation memories: what is found, what is exchanged, and how a document is translated with one."""

from __future__ import annotations

import json
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
CHECKED = "check: the memory has it in another context"


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
        (("Delete 5 files", "5 Dateien löschen"), "Delete 1,000 files", None),  # as are its separators
        (("Delete 5 files", "5 Dateien löschen"), "Delete 1000 files", "1000 Dateien löschen"),
        (("1,000 files", "1,000 Dateien"), "25,000 files", "25,000 Dateien"),
        (("1,000 files", "1,000 Dateien"), "1,000,000 files", None),
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


def context_of(name: str) -> str:
    return f'msgctxt "{name}"\n' if name else ""


def po_of(*entries: tuple[str, str, str]) -> str:
    """A catalogue of entries: context, source and translation."""
    return "\n".join(f'{context_of(a)}msgid "{b}"\nmsgstr "{c}"\n' for a, b, c in entries)


CLOSE = (("close the window", "Close", "Schließen"), ("near", "Close", "Nah"))


@pytest.mark.parametrize(
    ("entries", "context", "expected", "is_sure"),
    [
        (CLOSE, "close the window", "Schließen", True),
        (CLOSE, "near", "Nah", True),
        (CLOSE, "other", "Nah", False),
        (CLOSE, "", "Nah", False),
        (CLOSE[1:], "close the window", "Nah", False),
        ((("", "Close", "Schließen"), CLOSE[1]), "", "Schließen", True),
        ((("a", "Close %d", "Nah %d"), ("b", "Close %s", "Schließen %s")), "a", "Nah %i", True),
    ],
)
def test_the_entry_with_the_same_context_is_used(
    tmp_path: Path, entries: tuple[tuple[str, str, str], ...], context: str, expected: str, is_sure: bool
) -> None:
    """A translation from another context is marked for review."""
    path = tmp_path / "a.po"
    path.write_text(po_of(*entries), encoding="utf-8")
    source = entries[0][1].replace("%d", "%i")
    data = po_of((context, source, ""))
    text, report = translated_with_memory(data, "b.po", TranslationMemory.from_file(path))
    assert text == ("" if is_sure else "#, fuzzy\n") + po_of((context, source, expected))
    assert [reason for _, reason in report.review] == [CHECKED] * (not is_sure)


RUSSIAN = (
    r'msgid ""' + "\n" + r'msgstr "Plural-Forms: nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 :'
    r' n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);\n"' + "\n\n"
    'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "{}"\nmsgstr[1] "{}"\nmsgstr[2] "{}"\n'
)


def test_each_plural_form_has_its_own_entry(tmp_path: Path) -> None:
    path = tmp_path / "ru.po"
    path.write_text(RUSSIAN.format("%d файл", "%d файла", "%d файлов"), encoding="utf-8")
    entries = TranslationMemory.from_file(path)
    text, report = translated_with_memory(RUSSIAN.format("", "", ""), "b.po", entries)
    assert text.endswith('[0] "%d файл"\nmsgstr[1] "%d файла"\nmsgstr[2] "%d файлов"\n')
    assert not report.review
    plain = RUSSIAN.split("\n\n")[0] + '\n\nmsgid "%d files"\nmsgstr ""\n'
    assert [reason for _, reason in translated_with_memory(plain, "b.po", entries)[1].review] == [CHECKED]


def test_the_entry_with_the_same_key_is_used(tmp_path: Path) -> None:
    """Another key alone is no reason for a review; but several translations are one."""
    path = tmp_path / "a.xlf"
    units = "".join(
        f'<trans-unit id="{key}"><source>{source}</source>'
        f'<target state="final">{target}</target></trans-unit>'
        for key, source, target in (
            ("a", "Close", "Schließen"),
            ("b", "Close", "Nah"),
            ("c", "Open", "Offen"),
        )
    )
    path.write_text(f'<xliff version="1.2"><file><body>{units}</body></file></xliff>', encoding="utf-8")
    entries = TranslationMemory.from_file(path)
    data = '{"a": "Close", "b": "Close", "d": "Close", "e": "Open"}'
    text, report = translated_with_memory(data, "b.json", entries)
    assert json.loads(text) == {"a": "Schließen", "b": "Nah", "d": "Nah", "e": "Offen"}
    assert report.review == [("line 1, column 36", CHECKED)]


TAGGED_TMX = """<tmx version="1.4"><header/><body><tu>
<tuv xml:lang="en"><seg>Click here, {}</seg></tuv>
<tuv xml:lang="de"><seg>Klicken Sie {}hier{}, {}</seg></tuv>
</tu></body></tmx>"""


@pytest.mark.parametrize(
    ("codes", "name", "data", "expected"),
    [
        (("&lt;b&gt;", "&lt;/b&gt;"), "a.po", 'msgid "Click here, %s"\nmsgstr ""\n', "<b>hier</b>, %s"),
        (("&lt;b&gt;", "&lt;/b&gt;"), "a.html", "<p>Click here, %s</p>", "<b>hier</b>, %s"),
        (("&lt;b&gt;", "&lt;/b&gt;"), "a.html", '<img alt="Click here, %s">', "&lt;b&gt;hier&lt;/b&gt;, %s"),
        (("&lt;b&gt;", "&lt;/b&gt;"), "a.json", '["Click here, %s"]', "<b>hier</b>, %s"),
        (
            ('<bpt i="1">&lt;b&gt;</bpt>', '<ept i="1">&lt;/b&gt;</ept>'),
            "a.po",
            'msgid "Click here, %s"\nmsgstr ""\n',
            "<b>hier</b>, %s",
        ),
        (('<ph x="1"/>', '<ph x="2"/>'), "a.po", 'msgid "Click here, %s"\nmsgstr ""\n', "Sie hier, %s"),
        (
            ("&lt;b&gt;", "&lt;/b&gt;"),
            "a.xml",
            '<resources><string name="a">Click here, %s</string></resources>',
            "&lt;b&gt;hier&lt;/b&gt;, %s",
        ),
    ],
)
def test_a_tag_of_a_translation_alone(
    tmp_path: Path, codes: tuple[str, str], name: str, data: str, expected: str
) -> None:
    """Write such a tag as the document has tags, or as text where the document is XML."""
    path = tmp_path / "a.tmx"
    path.write_text(TAGGED_TMX.format("%s", *codes, "%s"), encoding="utf-8")
    text, report = translated_with_memory(data, name, TranslationMemory.from_file(path, PAIR))
    assert expected in text and report.n_exact == 1


def test_tags_of_a_memory_match_those_of_other_formats(tmp_path: Path) -> None:
    """Its pair of native codes is the <b> and </b> of a catalogue, and the escaped ones of XLIFF."""
    path = tmp_path / "a.tmx"
    seg = '<seg>{} <bpt i="1">&lt;b&gt;</bpt>{}<ept i="1">&lt;/b&gt;</ept></seg>'
    path.write_text(
        f'<tmx><body><tu><tuv xml:lang="en">{seg.format("very", "old")}</tuv>'
        f'<tuv xml:lang="de">{seg.format("sehr", "alt")}</tuv></tu></body></tmx>'
    )
    entries = TranslationMemory.from_file(path, PAIR)
    for tags, expected in ((("<b>", "</b>"), "sehr <b>alt</b>"), (("<i>", "</i>"), "sehr <i>alt</i>")):
        assert entries.translation(f"very {tags[0]}old{tags[1]}") == expected
    unit = '<trans-unit id="1"><source>very &lt;b&gt;old&lt;/b&gt;</source><target/></trans-unit>'
    xliff = f'<xliff version="1.2"><file><body>{unit}</body></file></xliff>'
    text, report = translated_with_memory(xliff, "a.xlf", entries)
    assert ">sehr &lt;b&gt;alt&lt;/b&gt;</target>" in text and report.n_exact == 1


def test_an_annotation_of_a_memory_alone_is_its_text(tmp_path: Path) -> None:
    """<mrk mtype="protected"> is one code, whose text a document without it needs all the same."""
    path = tmp_path / "a.xlf"
    target = '<target state="final">Im <mrk mtype="protected">Good Office</mrk> anmelden</target>'
    unit = f'<trans-unit id="1"><source>Sign in</source>{target}</trans-unit>'
    path.write_text(f'<xliff version="1.2"><file><body>{unit}</body></file></xliff>')
    text, _ = translated_with_memory("Sign in", "a.txt", TranslationMemory.from_file(path, PAIR))
    assert text == "Im Good Office anmelden"


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
