"""Malformed files and Word documents, other encodings, which units count as translated, and
languages."""

import re
from collections import Counter
from pathlib import Path

import polib
import pytest
from word_documents import NAMESPACE, pack, pack_body, unpack

from bytenmt.documents import docx
from bytenmt.documents.formats import format_of, read
from bytenmt.documents.unit import ReadOptions, to_markup
from bytenmt.errors import BytenmtError, DataError
from tools.verify.made_up_translations import SAMPLES, document, moved, translated

PO = (SAMPLES / "catalogue.po.in").read_text()
PROPERTY = 'line 1: expected "key" = "value";'
TIMES = "1\n0:0:1,0 --> 0:0:2,0\nx\n\n2\n0:0:3,0 ->\ny\n"
WORD = pack((SAMPLES / "word.docx.in").read_text())


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.xlf", '<xliff version="1.2">\n <file><body></file>', "not xliff: .*mismatch.*line 2"),
        ("a.xlf", "", "not xliff: "),
        ("a.xlf", "<tmx/>", "no <xliff> element"),
        ("a.xlf", '<!DOCTYPE x [<!ENTITY a "b">]><xliff>' + "<g>" * 300, "not xliff: .*depth"),
        ("a.tmx", "<xliff/>", "no <tmx> element"),
        ("a.po", PO + 'msgid "x"y"\nmsgstr ""\n', r"not po: .*line 33"),
        ("a.po", "x", "not po: "),
        ("a.srt", TIMES, "line 5: expected a number and times"),
        ("a.vtt", "1\n", "not WebVTT: "),
        ("a.json", '{"a": "b",\n "c" 1}', "not json: Expecting ':' delimiter: line 2 column 6"),
        ("a.json", "[" * 100_000, "not json: .*recursion"),
        ("a.yaml", "a: b\n c: [", "not yaml: .*line 2"),
        ("a.ftl", "a = b\nc { d\n", "not fluent: .*line 2"),
        ("a.dtd", "<!ENTITY a>", "not dtd: "),
        ("a.ini", "a = b\n", "not ini: "),
        ("a.strings", '"a" = "b"\n"c";', PROPERTY),
        ("a.strings", '"a" = {b=c;};', PROPERTY),
        ("a.strings", "\n/* a", PROPERTY.replace("1", "2")),
        ("a.xml", "<string/>", "not android: Unsupported root"),
        ("a.docx", "PK", "not a .docx file"),
        ("a.docx", WORD[:200], "not a .docx file, or a damaged one"),
        ("a.docx", WORD.replace(b"word/document", b"word/documenu", 1), "not a .docx file, or a"),
        ("a.docx", pack(""), "an archive without a Word document"),
        ("a.docx", pack_body("<w:p>"), "not docx: .*mismatch"),
        ("a.csv", 'a,text,translation\n"c,d\n', "a quotation mark is wrong"),
        ("a.csv", f"a,{'x' * 1000}\n", f"text is not one of the columns a, {'x' * 50}"),
        ("a.csv", "a,text,translation\n1,2,3\n1\n", "row 3 has 1 columns, not 3 or more"),
        ("a.txt", b"one\ntw\xe4o\n", "line 2: 0xE4 is not valid UTF-8: convert the file, such as"),
        ("a.po", PO.replace("UTF-8", "K" * 5000), f"unknown encoding {'K' * 60}: convert"),
        ("a.html", b'<meta charset="ascii">\xe4', "line 1: 0xE4 is not valid ASCII"),
        ("a.html", "\n{% load x %}<html><p>a</p>", "line 2: text or a template's code stands"),
        ("a.html", "<?php if (1 < 2) ?>\n<!doctype html>a", "line 1: text or a template's code"),
        ("a.strings", b"bplist00\xd1\xff", "a property list: convert it"),
    ],
)
def test_mistakes_are_told_with_their_place(name: str, data: bytes | str, message: str) -> None:
    with pytest.raises(DataError, match=f"^{name}: {message}") as error:
        document(name, data)
    assert str(error.value).isprintable() and len(str(error.value)) < 250


def test_a_table_needs_a_column_and_a_memory_its_languages() -> None:
    with pytest.raises(DataError, match="give --column"):
        read(b"a,b\n", ReadOptions("csv"))
    with pytest.raises(DataError, match="name two, --pair"):
        read(b"<tmx/>", ReadOptions("tmx"))
    with pytest.raises(BytenmtError, match="no format has the suffix '.doc': give --format"):
        format_of(Path("a.doc"))
    assert format_of(Path("a.PO")).name == "po"


def test_the_delimiter_by_which_rows_are_even() -> None:
    text = 'text; two; three,translation\n"four; five",\n"six",\n'
    with pytest.raises(DataError, match="text is not one of the columns"):
        document("a.csv", text)
    options = ReadOptions("csv", column="1")
    without_header = ("1;a,b\n2;x\n", ["1", "2"])
    for data, expected in ((text, ["text; two; three", "four; five", "six"]), without_header):
        assert [to_markup(unit.parts) for unit in read(data.encode(), options).units] == expected


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.xlf", '<?xml version="1.0" encoding="ISO-8859-1"?><xliff version="1.2"><file><body>'
         "<trans-unit><source>\xe4 &#8364;</source></trans-unit></body></file></xliff>",
         "\xc4 &#8364;"),
        ("a.html", '<meta charset="latin-1"><p>\xe4 &euro;', "\xc4 &#8364;"),
        ("a.properties", "a=\xe4 \\u20ac\n", "a = \\u00c4 \\u20ac"),
        ("a.po", 'msgid ""\nmsgstr "Content-Type: text/plain; charset=latin-1\\n"\n\n'
         'msgid "\xe4"\nmsgstr ""\n', 'msgstr "\xc4"'),
    ],
)  # fmt: skip
def test_a_file_in_latin_1_stays_so(name: str, data: str, expected: str) -> None:
    """A character that it lacks is a reference or an escape; a catalogue becomes UTF-8."""
    assert expected in translated(name, data.encode("latin-1"))[0].decode("latin-1")
    if name == "a.po":
        other = translated(name, data.encode("latin-1"), lambda _: ("\u20ac",))[0].decode()
        assert "charset=UTF-8" in other and 'msgstr "\u20ac"' in other


def test_utf_16_is_known_by_its_byte_order_mark() -> None:
    xliff = SAMPLES.joinpath("codes.xlf.in").read_text().replace('"UTF-8"', '"UTF-16"')
    for name, text, expected in (
        ("a.strings", '"a" = "b c";\r\n', "B C"),
        ("a.xlf", xliff, "PRESS"),
    ):
        assert expected in translated(name, text.encode("utf-16"))[0].decode("utf-16")
    for ends in ("\n", "\r\n"):
        data = "\ufeff".encode("utf-16-be") + xliff.replace("\n", ends).encode("utf-16-be")
        assert document("a.xlf", data).dump().decode("utf-16").count(ends) == xliff.count("\n")


UNIT = '<trans-unit id="1" {}>{}</trans-unit>'
UNIT = f'<xliff version="1.2"><file><body>{UNIT}</body></file></xliff>'
SEGMENT = (
    '<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="u"><segment {}>{}'
    "</segment></unit></file></xliff>"
)


@pytest.mark.parametrize(
    ("form", "attribute", "target", "is_kept"),
    [
        (UNIT, "", "<target>andere</target>", True),
        (UNIT, "", "<target> </target>", False),
        (UNIT, "", "<target>one</target>", False),
        (UNIT, 'approved="yes"', "<target>one</target>", True),
        (UNIT, "", '<target state="final">one</target>', True),
        (UNIT, "", '<target state="needs-review-translation">andere</target>', True),
        (UNIT, "", '<target state="needs-translation">andere</target>', False),
        (UNIT, 'approved="yes"', '<target state="new">andere</target>', False),
        (UNIT, "", '<target state="new">ONE</target>', False),
        (SEGMENT, "", "<target>andere</target>", True),
        (SEGMENT, "", "<target>one</target>", False),
        (SEGMENT, 'state="initial"', "<target>x</target>", False),
        (SEGMENT, 'state="final"', "<target>one</target>", True),
    ],
)
def test_targets_and_translations(form: str, attribute: str, target: str, is_kept: bool) -> None:
    """Keep or replace targets as the guide to documents says."""
    data = form.format(attribute, f"<source>one</source>{target}")
    (found,) = document("a.xlf", data).units
    made = translated("a.xlf", data)[0]
    assert found.is_done == is_kept and (b"ONE" in made) != is_kept and b'state="new"' not in made
    assert (b"approved" in made) == (is_kept and "approved" in attribute)


def test_version_2_needs_a_target_language() -> None:
    data = SEGMENT.replace(' trgLang="de"', "").format("", "<source>one</source>")
    assert b'trgLang="de"' in translated("a.xlf", data)[0]
    with pytest.raises(DataError, match="give --pair"):
        read(data.encode(), ReadOptions("xliff"))


RUSSIAN = "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : 1);"


@pytest.mark.parametrize(
    ("forms", "msgid", "expected"),
    [
        ("nplurals=1; plural=0;", "%d file", ["%d FILES"]),
        ("nplurals=2; plural=(n > 1);", "one file", ["ONE FILE", "%d FILES"]),
        # In Russian 21 has the form of 1, which names the number if the plural does.
        (RUSSIAN, "%d file", ["%d FILE", *2 * ["%d FILES"]]),
        (RUSSIAN, "one file", 3 * ["%d FILES"]),
        ("nplurals=INTEGER; plural=EXPRESSION;", "%d file", ["%d FILE", "%d FILES"]),
    ],
)
def test_the_plural_form_of_one(forms: str, msgid: str, expected: list[str]) -> None:
    header = f'msgid ""\nmsgstr "Plural-Forms: {forms}\\n"\n\n'
    entry = f'#, c-format\nmsgid "{msgid}"\nmsgid_plural "%d files"\nmsgstr[0] ""\n'
    made = translated("a.po", header + entry)[0].decode()
    lines = [f'msgstr[{n}] "{text}"' for n, text in enumerate(expected)]
    assert made.strip().split("\n")[-len(lines) :] == lines


# ---- the languages that a document declares: read, and set to what it is translated into

POT = PO.replace('charset=UTF-8\\n"', 'charset=UTF-8\\n"\n"Language: \\n"')
XML = "<?xml version='1.0' encoding='UTF-8'?>\n"
FILE = '<file source-language="en">'
XHTML = f'{XML}<html xml:lang="en"><p>text<br/></p>'
BODY = "<body><trans-unit id='1'><source>text</source></trans-unit></body>"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.xlf", FILE, FILE.replace(">", ' target-language="de">')),
        ("a.xlf", '<file target-language="fr">', '<file target-language="de">'),
        ("a.xlf", '<file target-language="de-DE">', '<file target-language="de-DE">'),
        ("a.html", '<html lang="en" class="x">', '<html lang="de" class="x">'),
        ("a.html", '<html lang="en" xml:lang="en">', '<html lang="de" xml:lang="de">'),
        ("a.html", "<html>", '<html lang="de">'),
        ("a.html", '<html lang="de-AT">', '<html lang="de-AT">'),
        ("a.html", '<html lang="den">', '<html lang="de">'),
        ("a.xhtml", XHTML, XHTML.replace('"en"', '"de"').replace("text", "TEXT")),
        ("a.arb", '{"@@locale": "en", "a": "text"}', '{"@@locale": "de", "a": "TEXT"}'),
        ("a.arb", '{"@@locale": "de_AT", "a": "text"}', '{"@@locale": "de_AT", "a": "TEXT"}'),
        ("a.yaml", "en:\n  a: text\n", "de:\n  a: TEXT\n"),
        ("a.yaml", "en:\n  a: text\nb: c\n", "en:\n  a: TEXT\nb: C\n"),
    ],
)
def test_the_target_language_is_set(name: str, before: str, after: str) -> None:
    parts = {
        "a.html": ("", "<p>text</p>"),
        "a.xhtml": ("", "</html>"),
        "a.xlf": ('<xliff version="1.2">', f"{BODY}</file></xliff>"),
    }
    head, end = parts.get(name, ("", ""))
    text = translated(name, f"{head}{before}{end}")[0].decode()
    assert text.startswith(head + after) and "TEXT" in text
    assert document(name, f"{head}{before}{end}", None).dump().decode().startswith(head + before)


@pytest.mark.parametrize("text", [PO, POT, POT.replace("Language: ", "Language: fr")])
def test_the_header_of_a_catalogue(text: str) -> None:
    """All else in it stays; a region is written as gettext has it."""
    made = read(text.encode(), ReadOptions("po", ("en", "pt-BR"))).dump().decode()
    before, after = (polib.pofile(one).metadata for one in (text, made))
    assert after == {**before, "Language": "pt_BR"}
    template = POT.replace("charset=UTF-8", "charset=CHARSET")
    assert "charset=UTF-8" in document("a.pot", template).dump().decode()


# ---- Word documents; samples/word.docx has the rest


def test_no_code_is_lost() -> None:
    """Codes in another order are there once, in the runs and paragraphs of a translation too."""
    names = "footnoteReference|fldChar|instrText|bookmarkStart|tab|br|b|pPr|vanish|delText"
    code = re.compile(rf"<w:(?:{names}|ins|hyperlink)\b[^>]*>")
    files = (WORD, translated("a.docx", WORD, moved)[0])
    before, after = (Counter(code.findall(unpack(data))) for data in files)
    assert before == after and len(before) > 12


def test_an_archive_does_not_unpack_to_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pack_body(f"<w:p><w:r><w:t>{'a' * 100_000}</w:t></w:r></w:p>")
    assert len(data) < 3000 and len(list(document("a.docx", data).units)) == 1
    monkeypatch.setattr(docx, "MAX_UNPACKED", 90_000)
    with pytest.raises(DataError, match="has more than 90,000 bytes"):
        document("a.docx", data)


def test_entities_are_not_expanded() -> None:
    inside = "<w:p><w:r><w:t>a&b;</w:t></w:r></w:p>"
    text = f'<!DOCTYPE a [<!ENTITY b "c">]><w:document xmlns:w="{NAMESPACE}">{inside}</w:document>'
    made = unpack(translated("a.docx", pack(f"== word/document.xml\n{text}"))[0])
    assert ">AC<" not in made and ">A<" in made
