"""The languages that a document declares: read, and set to what it is translated into."""

from __future__ import annotations

import polib
import pytest

from bytenmt.documents.formats import read
from bytenmt.documents.unit import ReadOptions
from tools.verify.made_up_translations import SAMPLES, document, translated

PO = (SAMPLES / "catalogue.po.in").read_text()
POT = PO.replace('charset=UTF-8\\n"', 'charset=UTF-8\\n"\n"Language: \\n"')
BODY = "<body><trans-unit id='1'><source>text</source></trans-unit></body>"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.xlf", '<file source-language="en">', '<file source-language="en" target-language="de">'),
        ("a.xlf", '<file target-language="fr">', '<file target-language="de">'),
        ("a.xlf", '<file target-language="de-DE">', '<file target-language="de-DE">'),
        ("a.html", '<html lang="en" class="x">', '<html lang="de" class="x">'),
        ("a.html", '<html lang="en" xml:lang="en">', '<html lang="de" xml:lang="de">'),
        ("a.html", "<html>", '<html lang="de">'),
        ("a.html", '<html lang="de-AT">', '<html lang="de-AT">'),
        ("a.html", '<html lang="den">', '<html lang="de">'),
        ("a.arb", '{"@@locale": "en", "a": "text"}', '{"@@locale": "de", "a": "TEXT"}'),
        ("a.arb", '{"@@locale": "de_AT", "a": "text"}', '{"@@locale": "de_AT", "a": "TEXT"}'),
        ("a.yaml", "en:\n  a: text\n", "de:\n  a: TEXT\n"),
        ("a.yaml", "en:\n  a: text\nb: c\n", "en:\n  a: TEXT\nb: C\n"),
    ],
)
def test_the_target_language_is_set(name: str, before: str, after: str) -> None:
    parts = {"a.html": ("", "<p>text</p>"), "a.xlf": ('<xliff version="1.2">', f"{BODY}</file></xliff>")}
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
