"""The languages that a document declares: read, and set to what it is translated into."""

from __future__ import annotations

from xml.etree import ElementTree

import polib
import pytest

from bytenmt.documents.document import DeclaredLanguages
from bytenmt.documents.formats import ReadOptions
from bytenmt.documents.translation import translate
from tools.verify.sample_documents import HTML, PAIR, PO, SAMPLES, XLIFF_2, Sample, recording_translator

XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
POT = PO.replace('charset=UTF-8\\n"', 'charset=UTF-8\\n"\n"Language: \\n"')


def written(sample: Sample) -> str:
    return translate(sample.document(), recording_translator()[0], limit=1000)[0].decode()


@pytest.mark.parametrize(
    ("name", "text", "languages"),
    [
        ("xliff", SAMPLES["xliff 1.2"].data.decode(), DeclaredLanguages("en", "de")),
        ("xliff", XLIFF_2, DeclaredLanguages("en", None)),
        ("po", PO, DeclaredLanguages(None, None)),
        ("po", POT, DeclaredLanguages(None, None)),
        ("po", POT.replace("Language: ", "Language: pt_BR"), DeclaredLanguages(None, "pt_BR")),
        ("html", HTML, DeclaredLanguages("en", None)),
        ("html", "<p lang=fr>a", DeclaredLanguages(None, None)),
        ("html", "<HTML class='a' XML:LANG='en-GB' lang='&#101;n'><p>a", DeclaredLanguages("en", None)),
        ("text", "a", DeclaredLanguages(None, None)),
    ],
)
def test_what_a_file_declares(name: str, text: str, languages: DeclaredLanguages) -> None:
    assert Sample(name, text.encode()).document().languages == languages


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("xliff", '<file source-language="en">', '<file source-language="en" target-language="de">'),
        ("xliff", "<file target-language='fr' id='1' >", "<file target-language=\"de\" id='1' >"),
        ("html", "<html lang=en class=x>", '<html lang="de" class=x>'),
        (
            "html",
            "<!doctype html><HTML Lang='en' xml:lang=\"en\">",
            '<!doctype html><HTML Lang="de" xml:lang="de">',
        ),
        ("html", "<html>", '<html lang="de">'),
        ("html", "<html lang=de>", "<html lang=de>"),
        ("html", "<body lang=en>", "<body lang=en>"),
    ],
)
def test_the_target_language_is_set(name: str, before: str, after: str) -> None:
    body = (
        "<p>text</p>"
        if name == "html"
        else "<body><trans-unit id='1'><source>text</source></trans-unit></body>"
    )
    head, end = ("", "") if name == "html" else ('<xliff version="1.2">', "</file></xliff>")
    text = written(Sample(name, f"{head}{before}{body}{end}".encode(), PAIR))
    assert text.startswith(head + after) and "TEXT" in text
    plain = written(Sample(name, f"{head}{before}{body}{end}".encode()))
    assert plain.startswith(head + before)


def test_version_2_changes_its_language() -> None:
    text = XLIFF_2.replace('srcLang="en"', 'srcLang="en" trgLang="fr"')
    assert 'trgLang="de"' in written(Sample("xliff", text.encode(), PAIR))
    assert 'trgLang="fr"' in written(Sample("xliff", text.encode()))


@pytest.mark.parametrize(
    "text", [PO, POT, POT.replace("Language: ", "Language: fr"), PO.replace("\n", "\r\n")]
)
def test_the_header_of_a_catalogue(text: str) -> None:
    """All else in it stays; a region is written as gettext has it."""
    pair = ReadOptions(pair=("en", "pt-BR"))
    before, after = (polib.pofile(one).metadata for one in (text, written(Sample("po", text.encode(), pair))))
    assert after == {**before, "Language": "pt_BR"}
    assert list(after)[: len(before)] == list(before)


@pytest.mark.parametrize("name", ["html", "po", "xliff 1.2"])
def test_nothing_is_declared_where_nothing_is_translated(name: str) -> None:
    sample = SAMPLES[name]._replace(options=ReadOptions(pair=("en", "fr")))
    document = sample.document()
    assert document.with_units([None] * len(document.units)) == sample.data


def test_a_language_is_escaped_in_a_memory() -> None:
    """A language name from the user is escaped, so that TMX stays well-formed XML."""
    sample = SAMPLES["tmx"]._replace(options=ReadOptions(pair=("en", 'a"b<c>&')))
    assert 'a"b<c>&' in {tuv.get(XML_LANG) for tuv in ElementTree.fromstring(written(sample)).iter("tuv")}
