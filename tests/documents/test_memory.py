"""Translation memories: what is found, what is exchanged, and how a document is translated with
one."""

import json
from pathlib import Path

import pytest

from bytenmt.documents.memory import TranslationMemory
from bytenmt.documents.translation import (
    LineTranslation,
    TranslationReport,
    lines_to_translate,
    translate,
)
from bytenmt.documents.unit import to_markup
from bytenmt.errors import DataError
from bytenmt.sentinels import Code
from tools.verify.made_up_translations import PAIR, capitals, document


def memory(*pairs: tuple[str, str]) -> TranslationMemory:
    return TranslationMemory(((source,), (target,), "") for source, target in pairs)


def looked_up(entries: TranslationMemory, source: str) -> str | None:
    match = entries.match((source,))
    return None if match is None else to_markup(match)


@pytest.mark.parametrize(
    ("entry", "source", "expected"),
    [
        (("Open", "Öffnen"), "Open", "Öffnen"),
        (("Open", "Öffnen"), "open", None),
        (("Open", "Öffnen"), "Open…", None),
        (("Delete 3 files", "3 Dateien löschen"), "Delete 5 files", None),
        (("Hello %s!", "Hallo %s!"), "Hello {name}!", "Hallo {name}!"),
        (("<b>x</b> of %d", "%d: <b>x</b>"), "<i>x</i> of %i", "%i: <i>x</i>"),
        (("See http://a.org/x", "Siehe http://a.org/x"), "See http://b.org", "Siehe http://b.org"),
        (("%s and %s", "%s und %s"), "{a} and {b}", None),  # which of the two is which is not known
        (("%s and %s", "%s und %s"), "%s and %s", "%s und %s"),
        (("{a} and {b}", "{b} und {a}"), "%1 and %2", "%2 und %1"),
        (("Hello %s!", "Hallo!"), "Hello {name}!", "Hallo!"),  # the document says that it is wrong
    ],
)
def test_what_is_found(entry: tuple[str, str], source: str, expected: str | None) -> None:
    assert looked_up(memory(entry), source) == expected


def test_a_code_that_the_source_lacks_stays_one() -> None:
    """The document says that it is wrong."""
    target = (Code("<br/>"), "Hallo")
    assert TranslationMemory([(("Hello",), target, "")]).match(("Hello",)) == target


def test_the_later_translation_of_a_source_is_used() -> None:
    assert looked_up(memory(("a %s", "eins %s"), ("a {x}", "zwei {x}")), "a %d") == "zwei %d"


TMX = """<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="en-US"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>
<tu><tuv xml:lang="EN"><seg>one</seg></tuv><tuv xml:lang="de"><seg>eins</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>x</seg></tuv><tuv xml:lang="de"><prop>needs-review-translation</prop>
<seg>y</seg></tuv></tu></body></tmx>"""
UNIT = '<trans-unit id="{}"><source>{}</source><target>{}</target></trans-unit>'
XLIFF = '<xliff version="1.2"><file><body>{}</body></file></xliff>'
DOUBTED = UNIT.format(3, "x", "y").replace("<target", '<target state="needs-review-translation"')
FILES = {
    "a.xlf": XLIFF.format(UNIT.format(1, "one", "eins") + UNIT.format(2, "two", "zwei") + DOUBTED),
    "a.tsv": "2\tb\ntwo\tzwei\none\teins\nx\t\n",
    "a.csv": '"two",zwei\none,eins\n',
    "a.po": 'msgid "one"\nmsgstr "eins"\n\nmsgid "two"\nmsgstr "zwei"\n\n'
    '#, fuzzy\nmsgid "x"\nmsgstr "y"\n',
    "a.tmx": TMX.format("two", "zwei"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_every_format_give_their_pairs_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    entries = TranslationMemory.from_file(path, PAIR)
    assert [looked_up(entries, one) for one in ("one", "two", "x")] == ["eins", "zwei", None]


def test_a_memory_without_pairs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.tmx"
    path.write_text("<tmx><body/></tmx>")
    with pytest.raises(DataError, match="no pair of texts en and de"):
        TranslationMemory.from_file(path, PAIR)
    with pytest.raises(DataError, match="a.md: markdown holds one language: .* xliff, po, csv"):
        TranslationMemory.from_file(tmp_path / "a.md", PAIR)
    path = tmp_path / "a.po"
    path.write_text(f'msgid ""\nmsgstr "Language: fr\\n"\n\n{FILES["a.po"]}', encoding="utf-8")
    with pytest.raises(DataError, match="a.po declares the target language fr, not de"):
        TranslationMemory.from_file(path, PAIR)
    assert TranslationMemory.from_file(path).match(("one",)) == ("eins",)
    text = path.read_text(encoding="utf-8").replace("Language: fr", "Language: German")
    path.write_text(text, encoding="utf-8")
    assert TranslationMemory.from_file(path, PAIR).match(("one",)) == ("eins",)


def with_memory(data: str, name: str, entries: TranslationMemory) -> tuple[str, TranslationReport]:
    """Return a document translated with a memory, and with capitals where that has nothing."""
    made = document(name, data)
    asked = lines_to_translate(made, memory=entries)
    lines = {line: LineTranslation(capitals(line)) for line in asked}
    report = translate(made, lines, memory=entries)
    return made.dump().decode(), report


def po_of(*entries: tuple[str, str, str]) -> str:
    """A catalogue of entries: context, source and translation."""
    parts = []
    for context, source, target in entries:
        head = f'msgctxt "{context}"\n' if context else ""
        parts.append(f'{head}msgid "{source}"\nmsgstr "{target}"\n')
    return "\n".join(parts)


CLOSE = (("close the window", "Close", "Schließen"), ("near", "Close", "Nah"))


def test_the_entry_with_the_same_context_is_used(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text(po_of(*CLOSE), encoding="utf-8")
    entries = TranslationMemory.from_file(path)
    rows = (("close the window", "Schließen"), ("near", "Nah"), ("other", "CLOSE"), ("", "CLOSE"))
    for context, expected in rows:
        text, report = with_memory(po_of((context, "Close", "")), "b.po", entries)
        assert text == po_of((context, "Close", expected)) and not report.notes
    both = po_of(("near", "_Close", ""), ("other", "_Close", ""))
    expected = po_of(("near", "_Close", "_Nah"), ("other", "_Close", "_CLOSE"))
    assert with_memory(both, "b.po", entries)[0] == expected


def test_a_line_is_found_without_its_shortcut() -> None:
    catalogue = po_of(*(("", one, "") for one in ("_Exit", " E_xit", "Exit:", r"Exit\nSave")))
    text, report = with_memory(catalogue, "a.po", memory(("Exit", "Ende")))
    for one in ("_Ende", " _Ende", "EXIT:", '"\n"Ende\\n"\n"SAVE'):
        assert f'msgstr "{one}"' in text
    assert report.counts["from the memory"] == 2


def test_a_form_added_to_a_fuzzy_entry_leaves_it_fuzzy() -> None:
    entry = '#, fuzzy\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] "x"\nmsgstr[1] "{}"\n'
    assert with_memory(entry.format(""), "a.po", memory())[0] == entry.format("B")


def test_what_lacks_a_placeholder_is_wrong() -> None:
    entries = memory(("Hello {x}!", "Hallo!"))
    text, report = with_memory(po_of(("", "Hello %s!", "")), "a.po", entries)
    assert text == "#, fuzzy\n" + po_of(("", "Hello %s!", "Hallo!"))
    assert report.notes[0].reasons[0].startswith("a placeholder or tag is missing")


RUSSIAN = (
    r'msgid ""' + "\n" + r'msgstr "Plural-Forms: nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 :'
    r' n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);\n"' + "\n\n"
    'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "{}"\nmsgstr[1] "{}"\nmsgstr[2] "{}"\n'
)


def test_each_plural_form_has_its_own_entry(tmp_path: Path) -> None:
    path = tmp_path / "ru.po"
    path.write_text(RUSSIAN.format("%d файл", "%d файла", "%d файлов"), encoding="utf-8")
    entries = TranslationMemory.from_file(path)
    text, report = with_memory(RUSSIAN.format("", "", ""), "b.po", entries)
    assert text.endswith('[0] "%d файл"\nmsgstr[1] "%d файла"\nmsgstr[2] "%d файлов"\n')
    assert not report.notes and report.counts["from the memory"] == 3


def test_the_entry_with_the_same_key_is_used(tmp_path: Path) -> None:
    entries = ("a", "Close", "Schließen"), ("b", "Close", "Nah"), ("c", "Open", "Offen")
    path = tmp_path / "a.xlf"
    units = "".join(UNIT.format(*entry) for entry in entries)
    path.write_text(XLIFF.format(units), encoding="utf-8")
    data = '{"a": "Close", "b": "Close",\n "d": "Close", "e": "Open"}'
    text, report = with_memory(data, "b.json", TranslationMemory.from_file(path))
    assert json.loads(text) == {"a": "Schließen", "b": "Nah", "d": "Nah", "e": "Offen"}
    assert not report.notes


def test_codes_of_a_memory_match_those_of_other_formats(tmp_path: Path) -> None:
    rows = (
        ("a.po", 'msgid "very <b>old</b>"\nmsgstr ""\n', 'msgstr "sehr <b>alt</b>"'),
        ("a.html", "<p>very <i>old</i></p>", "<p>sehr <i>alt</i></p>"),
        ("a.md", "very **old**\n", "sehr **alt**\n"),
    )
    seg = '{} <bpt i="1">&lt;b&gt;</bpt>{}<ept i="1">&lt;/b&gt;</ept>'
    path = tmp_path / "a.tmx"
    segments = seg.format("very", "old"), seg.format("sehr", "alt")
    path.write_text(TMX.format(*segments), encoding="utf-8")
    for name, data, expected in rows:
        text, report = with_memory(data, name, TranslationMemory.from_file(path, PAIR))
        assert expected in text and report.counts["from the memory"] == 1 and not report.notes


def test_an_icu_message_is_taken_if_it_is_the_same() -> None:
    source, german = "{n, plural, one {one} other {#}}", "{n, plural, one {eins} other {#}}"
    entries = memory((source, german), ("Has {n, plural, =2 {x}}", "Hat {n, plural, =2 {x}}"))
    strings = {"a": source, "b": "Has {n, plural, =3 {x}}"}
    text, _ = with_memory(json.dumps(strings), "a.json", entries)
    assert json.loads(text) == strings | {"a": german}
