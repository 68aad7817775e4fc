"""Documents in a review: what people are shown of a unit, and the file with their translations."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bytenmt.documents.document import Document, UnitPart, joined_text
from bytenmt.documents.formats import ReadOptions, UnitPair, read
from bytenmt.documents.memory import TranslationMemory
from bytenmt.documents.review import ReviewUnit, UnitEdit, review_units, write_reviewed
from bytenmt.documents.translation import translate
from tools.verify.sample_documents import PAIR, PO, SAMPLES, recording_translator

LIMIT = 1000


def units_of(document: Document, flags: tuple[str, ...] = (), **more: Any) -> list[ReviewUnit]:
    return review_units(document, [recording_translator(flags=flags)[0]], LIMIT, **more)


def edits_of(units: list[ReviewUnit]) -> list[UnitEdit]:
    """Return the edits of a person who changes and accepts nothing."""
    return [
        UnitEdit(unit.number, unit.target, unit.verdict != "sure", unit.origin == "memory")
        for unit in units
        if unit.origin != "kept"
    ]


def document(data: str, form: str = "po", options: ReadOptions = PAIR) -> Document:
    return read(data.encode(), form, Path("a"), options)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("flags", [(), ("unsure",)])
def test_a_review_without_edits_writes_what_is_written_without_a_review(
    name: str, flags: tuple[str, ...]
) -> None:
    document = SAMPLES[name].document()
    expected, _ = translate(document, recording_translator(flags=flags)[0], limit=LIMIT)
    written, restored = write_reviewed(document, edits_of(units_of(document, flags)), LIMIT)
    assert written == expected and restored == []


def test_a_match_from_another_context_is_to_be_checked() -> None:
    entry = (UnitPart("Close"),)
    memory = TranslationMemory([UnitPair(entry, (UnitPart("Nah"),), "near", True)])
    text = 'msgctxt "{}"\nmsgid "Close"\nmsgstr ""\n'
    for context, verdict in (("near", "sure"), ("menu", "check")):
        units = units_of(document(text.format(context)), memory=memory)
        assert [(unit.target, unit.origin, unit.verdict) for unit in units] == [("Nah", "memory", verdict)]
        assert units[0].is_exact


@pytest.mark.parametrize("name", SAMPLES)
def test_without_translations_a_file_stays_as_it_is(name: str) -> None:
    """Apart from units without words, which `translate` copies too."""
    sample = SAMPLES[name]
    document = sample.document()
    blank = [UnitEdit(unit.number, " \n") for unit in units_of(document)] + [UnitEdit(10**6, "x")]
    assert write_reviewed(document, blank, LIMIT) == write_reviewed(document, [], LIMIT)
    written, restored = write_reviewed(document, [], LIMIT)
    again = read(written, sample.name, Path("a"), sample.options)
    assert [unit.source for unit in again.units] == [unit.source for unit in document.units]
    assert restored == []


@pytest.mark.parametrize("name", SAMPLES)
def test_an_edit_of_each_unit_is_in_the_file(name: str) -> None:
    """Each text with a word added is read back from the file."""
    sample = SAMPLES[name]
    document = sample.document()
    units = [unit for unit in units_of(document) if unit.origin == "machine"]
    assert units
    edits = [UnitEdit(unit.number, f"{unit.target} Zusatz") for unit in units]
    written, restored = write_reviewed(document, edits, LIMIT)
    again = read(written, sample.name, Path("a"), sample.options)
    bilingual = any(unit.target is not None for unit in again.units)
    for unit in units:
        read_back = again.units[unit.number]
        text = joined_text((read_back.target or ()) if bilingual else read_back.source)
        assert text.rstrip().endswith("Zusatz"), (unit, text)
    assert restored == []


def test_flags_and_origins_are_told() -> None:
    units = units_of(document(PO), ("loop", "unsure"))
    kept = [unit for unit in units if unit.origin == "kept"]
    made = [unit for unit in units if unit.origin == "machine"]
    assert kept and made and {unit.verdict for unit in kept} == {"sure"}
    assert {(unit.verdict, unit.reasons) for unit in made} == {
        ("wrong", ("repeats itself", "the model is unsure"))
    }
    (empty, *_) = review_units(document(PO), [recording_translator(lambda _: b" ")[0]], LIMIT)
    assert (empty.origin, empty.target) == ("empty", "")


def test_alternatives_are_other_texts() -> None:
    texts = [b"one", b"two", b"one", b"three"]
    asks = [recording_translator(lambda _, text=text: text)[0] for text in texts]  # type: ignore[misc]
    (unit,) = review_units(document('msgid "x y"\nmsgstr ""\n'), asks, LIMIT)
    assert (unit.target, unit.alternatives) == ("one", ("two", "three"))


def test_what_a_translation_should_keep() -> None:
    """Codes of the format, and spans of its text that are no codes."""
    (unit,) = units_of(document("See **{name}** at http://a.org/x\n", "markdown", ReadOptions()))
    assert unit.keep == ("**", "{name}", "**", "http://a.org/x")
    (unit,) = units_of(document("Hello %s, write to a@b.org\n", "text", ReadOptions()))
    assert unit.keep == ("%s", "a@b.org")


def test_long_codes_are_numbered_tags() -> None:
    """A run of a Word document has its XML as its code; two runs with the same XML keep their places."""
    document = SAMPLES["docx"].document()
    unit = next(unit for unit in units_of(document) if "bold" in unit.source)
    assert unit.source == "One sentence with <g1>bold</g1> & <text><x2/>"
    assert unit.keep[:2] == ("<g1>", "</g1>")
    written, restored = write_reviewed(
        document, [UnitEdit(unit.number, "<g1>fett</g1> steht hier <text><x2/>")], LIMIT
    )
    assert next(iter(units_of(read(written, "docx", Path("a"))))).source == "<g1>fett</g1> steht hier <text>"
    assert zipfile.ZipFile(io.BytesIO(written)).read("word/document.xml").count(b"footnoteReference") == 1
    assert restored == []


@pytest.mark.parametrize(
    ("text", "written", "is_restored"),
    [
        ("%d Hunde", "%d Hunde", False),
        ("Hunde", "%d Hunde", True),
        ("%d Hunde %d", "%d Hunde", True),
    ],
)
def test_lost_and_superfluous_codes(text: str, written: str, is_restored: bool) -> None:
    """They are put back or removed, and the unit needs a review though it was accepted."""
    po = document('msgid "the %d dogs"\nmsgstr ""\n')
    data, restored = write_reviewed(po, [UnitEdit(0, text)], LIMIT)
    assert f'msgstr "{written}"\n'.encode() in data
    assert restored == [0] * is_restored and (b"fuzzy" in data) == is_restored


def test_a_unit_that_needs_a_review_is_marked() -> None:
    data, _ = write_reviewed(
        document('msgid "a b"\nmsgstr ""\n'), [UnitEdit(0, "c", needs_review=True)], LIMIT
    )
    assert data == b'#, fuzzy\nmsgid "a b"\nmsgstr "c"\n'


def test_an_existing_translation_can_be_corrected() -> None:
    po = document('msgid "a b"\nmsgstr "old"\n\nmsgid "c d"\nmsgstr "stays"\n')
    data, _ = write_reviewed(po, [UnitEdit(0, "new")], LIMIT)
    assert data == b'msgid "a b"\nmsgstr "new"\n\nmsgid "c d"\nmsgstr "stays"\n'


def test_lines_of_an_edit_end_as_those_of_the_file() -> None:
    """A field of a page has only \\n."""
    table = 'id,text\r\n1,"one\r\ntwo"\r\n'
    document = read(table.encode(), "csv", Path("a"), ReadOptions(column="text"))
    written, _ = write_reviewed(document, [UnitEdit(0, "eins\nzwei\ndrei")], LIMIT)
    assert written == table.replace("one\r\ntwo", "eins\r\nzwei\r\ndrei").encode()


def test_matches_of_a_memory() -> None:
    memory = TranslationMemory.from_texts([("Delete 3 files", "3 Dateien löschen"), ("Open it", "Öffne es")])
    xliff = """<xliff version="1.2"><file source-language="en" target-language="de" original="a"><body>
<trans-unit id="1"><source>Open it</source></trans-unit>
<trans-unit id="2"><source>Delete 5 files</source></trans-unit>
<trans-unit id="3"><source>Delete the files</source></trans-unit>
</body></file></xliff>"""
    units = units_of(document(xliff, "xliff"), memory=memory)
    assert [(unit.origin, unit.is_exact, unit.target) for unit in units] == [
        ("memory", True, "Öffne es"),
        ("memory", False, "5 Dateien löschen"),
        ("machine", False, "DELETE THE FILES"),
    ]
    assert [len(unit.fuzzy) for unit in units] == [0, 1, 1]
    assert units[2].fuzzy[0].target == "3 Dateien löschen" and units[2].fuzzy[0].score > 80
    edits = edits_of(units)
    edits[1] = edits[1]._replace(text="Fünf Dateien löschen", is_match=False)
    written, _ = write_reviewed(document(xliff, "xliff"), edits, LIMIT)
    states = re.findall(rb"<target([^>]*)>([^<]*)", written)
    assert [(b"leveraged-tm" in state, text.decode()) for state, text in states] == [
        (True, "Öffne es"),
        (False, "Fünf Dateien löschen"),
        (False, "DELETE THE FILES"),
    ]


@pytest.mark.parametrize(
    ("form", "data", "written"),
    [
        ("html", "<p>Save</p>", "<p><b>Speichern</b></p>"),
        ("markdown", "Save\n", "<b>Speichern</b>\n"),
        ("html", "<p>Save &lt;b&gt;</p>", "<p>Speichern &lt;b&gt;</p>"),
    ],
)
def test_tags_that_only_a_memory_has_are_tags(form: str, data: str, written: str) -> None:
    """A file written without a review has them too; a tag that the source shows as text stays text."""
    memory = TranslationMemory.from_texts([("Save", "<b>Speichern</b>"), ("Save <b>", "Speichern <b>")])
    html = document(data, form, ReadOptions())
    (unit,) = units_of(html, memory=memory)
    assert unit.origin == "memory"
    edit = UnitEdit(unit.number, unit.target, is_match=True, has_tags=True)
    assert write_reviewed(html, [edit], LIMIT) == (written.encode(), [])
    assert translate(html, recording_translator()[0], limit=LIMIT, memory=memory)[0] == written.encode()


def test_other_tags_are_text_where_the_file_has_none() -> None:
    """A model means text by a tag; in XML a tag of another name would break the file."""
    html = document("<p>Save</p>", "html", ReadOptions())
    assert write_reviewed(html, [UnitEdit(0, "<b>x</b>")], LIMIT)[0] == b"<p>&lt;b&gt;x&lt;/b&gt;</p>"
    android = document('<resources><string name="a">Save it</string></resources>', "android", ReadOptions())
    written, _ = write_reviewed(android, [UnitEdit(0, "<b>x</b>", has_tags=True)], LIMIT)
    assert b"&lt;b&gt;x&lt;/b&gt;" in written


def test_bytes_that_are_no_text_are_shown_and_kept() -> None:
    """A tag with such a byte is a numbered tag for people, and is the same byte in the file."""
    data = b'<p>one <b title="\xff">two</b> three</p>'
    html = read(data, "html", Path("a"))
    unit = next(one for one in units_of(html) if "two" in one.source)
    assert unit.source == "one <g1>two</g1> three"
    assert write_reviewed(html, [UnitEdit(unit.number, "<g1>zwei</g1> drei")], LIMIT)[0] == (
        b'<p><b title="\xff">zwei</b> drei</p>'
    )
