"""The languages that a document declares: read, and set to what it is translated into."""

from __future__ import annotations

import os
import shutil
import subprocess
from gettext import c2py
from pathlib import Path
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
        ("arb", '{"@@locale": "en", "a": "b"}', DeclaredLanguages("en", None)),
        ("arb", '{"a": "b"}', DeclaredLanguages(None, None)),
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
        ("html", "<html lang=de-AT>", "<html lang=de-AT>"),
        ("html", "<html lang=den>", '<html lang="de">'),
        ("xliff", "<file target-language='de-DE'>", "<file target-language='de-DE'>"),
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


@pytest.mark.parametrize(
    ("language", "declared", "expected"),
    [("de", "en", "de"), ("pt-BR", "en", "pt_BR"), ("de", "de_AT", "de_AT"), ("de-AT", "de", "de_AT")],
)
def test_the_locale_of_arb(language: str, declared: str, expected: str) -> None:
    text = f'{{"@@locale": "{declared}", "a": "b", "@a": {{"type": "text"}}}}'
    after = text.replace(f'"{declared}"', f'"{expected}"').replace('"b"', '"B"')
    assert written(Sample("arb", text.encode(), ReadOptions(pair=("en", language)))) == after
    assert written(Sample("arb", text.encode())) == text.replace('"b"', '"B"')


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


def test_a_region_in_a_catalogue_stays() -> None:
    text = written(Sample("po", POT.replace("Language: ", "Language: de_AT").encode(), PAIR))
    assert polib.pofile(text).metadata["Language"] == "de_AT"


def test_a_language_is_escaped_in_a_memory() -> None:
    """A language name from the user is escaped, so that TMX stays well-formed XML."""
    sample = SAMPLES["tmx"]._replace(options=ReadOptions(pair=("en", 'a"b<c>&')))
    assert 'a"b<c>&' in {tuv.get(XML_LANG) for tuv in ElementTree.fromstring(written(sample)).iter("tuv")}


TEMPLATE = """# A template
#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: a\\n"
"Language: \\n"
"Content-Type: text/plain; charset=CHARSET\\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"

#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
"""


@pytest.mark.parametrize(
    ("language", "n_forms"),
    [("de", 2), ("de-AT", 2), ("ja", 1), ("pl", 3), ("pt-BR", 2), ("zh-CN", 1), ("ar", 6), ("ru", 3)],
)
def test_the_header_of_a_template_is_filled_in(language: str, n_forms: int, tmp_path: Path) -> None:
    """Fill it in as msginit does; Python's gettext reads the file, and msgfmt where it is installed."""
    sample = Sample("po", TEMPLATE.encode(), ReadOptions(pair=("en", language)))
    text = written(sample)
    metadata = polib.pofile(text).metadata
    assert metadata["Content-Type"] == "text/plain; charset=UTF-8" and not sample.document().warnings
    assert metadata["Language"] == language.replace("-", "_")
    assert metadata["Plural-Forms"].startswith(f"nplurals={n_forms}; plural=")
    form = c2py(metadata["Plural-Forms"].partition("plural=")[2].strip(";"))
    assert {form(number) for number in range(200)} == set(range(n_forms))
    assert [line[:9] for line in text.splitlines() if line.startswith("msgstr[")] == [
        f"msgstr[{number}]" for number in range(n_forms)
    ]
    assert "fuzzy" not in text and text.startswith("# A template\nmsgid")
    if shutil.which("msgfmt"):
        (tmp_path / "a.po").write_text(text, encoding="utf-8")
        subprocess.run(["msgfmt", "-c", "-o", os.devnull, tmp_path / "a.po"], check=True)


@pytest.mark.parametrize(
    ("pair", "advice"), [(None, "give --pair"), (("en", "tlh"), "those of tlh are not known")]
)
def test_a_template_whose_plural_forms_stay_open(pair: tuple[str, str] | None, advice: str) -> None:
    sample = Sample("po", TEMPLATE.encode(), ReadOptions(pair=pair))
    assert [advice in warning for warning in sample.document().warnings] == [True]
    assert "charset=UTF-8" in written(sample) and "nplurals=INTEGER" in written(sample)
    without = TEMPLATE.partition("#, c-format")[0] + 'msgid "a"\nmsgstr ""\n'
    assert not Sample("po", without.encode(), ReadOptions(pair=pair)).document().warnings
