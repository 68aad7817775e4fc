"""A document of every format: NAME.in, and NAME.out with its text in capitals.

A Word document stands there as its parts. In each stand codes, texts that are not translated,
translations that are there already, and inputs of users that once came back broken. The expected
files were read when they were written; the formats' libraries and msgfmt judge other translations.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from word_documents import pack, unpack

import bytenmt
from bytenmt.documents.formats import FORMATS, format_of
from bytenmt.documents.words import is_icu_message
from bytenmt.translation.confidence import UNSURE
from tools.verify.made_up_translations import (
    PAIR,
    SAMPLES,
    WITH_CODES,
    codes_of,
    document,
    moved,
    translated,
    tree_of,
)

NAMES = sorted(path.name.removesuffix(".in") for path in SAMPLES.glob("*.in"))


def data(name: str, suffix: str = "in") -> bytes:
    content = (SAMPLES / f"{name}.{suffix}").read_bytes()
    return pack(content.decode()) if name.endswith(".docx") else content


def text_of(name: str, content: bytes) -> str:
    return unpack(content) if name.endswith(".docx") else content.decode()


def test_every_format_has_a_sample() -> None:
    formats = {format_of(Path(name)).name for name in NAMES}
    assert formats == FORMATS.keys(), "add a sample of the format to tests/documents/samples"


def test_the_guide_lists_every_format() -> None:
    """The table of docs/documents.md has the suffixes of all records of FORMATS, and no others."""
    guide = Path(bytenmt.__file__).parent / "docs/documents.md"
    suffixes = set[str]()
    for row in re.findall(r"^\|[^|]+\|([^|]+)\|[^|]+\|[^|]+\|$", guide.read_text(), re.MULTILINE):
        suffixes |= set(re.findall(r"`(\.\w+)`", row))
    expected = {suffix for record in FORMATS.values() for suffix in record.suffixes}
    assert suffixes == expected, "correct the table of formats of bytenmt/docs/documents.md"


@pytest.mark.parametrize("name", NAMES)
def test_a_document_in_capitals(name: str) -> None:
    """A second time changes nothing in a format with two languages."""
    made, report = translated(name, data(name))
    assert text_of(name, made) == text_of(name, data(name, "out"))
    assert report.counts["to review"] == (name == "program.po" and b"fuzzy" in made)
    if any(unit.target is not None for unit in document(name, made).units):
        assert translated(name, made)[0] == made


@pytest.mark.parametrize("form", ["plain", "CRLF", "byte order mark"])
@pytest.mark.parametrize("name", NAMES)
def test_an_untranslated_round_trip(name: str, form: str) -> None:
    """The library of the format reads the same, and a second round trip gives the same bytes."""
    before = data(name)
    if name.endswith(".docx") and form != "plain":
        return
    if form == "CRLF":
        before = before.replace(b"\n", b"\r\n")
    elif form == "byte order mark":
        before = b"\xef\xbb\xbf" + before
    record = format_of(Path(name))
    pair = PAIR if record.pair_reader else None
    after = document(name, before, pair).dump()
    assert document(name, after, pair).dump() == after
    assert (b"\r\n" in after) == (form == "CRLF") or name.endswith(".docx")
    assert after.startswith(b"\xef\xbb\xbf") == (form == "byte order mark")
    assert tree_of(record.name, before) == tree_of(record.name, after)


@pytest.mark.parametrize("name", NAMES)
def test_any_translation_leaves_a_document_that_can_be_read(name: str) -> None:
    """Signs of all formats, codes in another order, crossing pairs: each code is there once."""
    before = document(name, data(name))
    made, _ = translated(name, data(name), moved, (UNSURE,), overwrite=True)
    form = format_of(Path(name)).name
    tree_of(form, made)
    after = document(name, made)
    assert len(list(before.units)) == len(list(after.units))
    for unit, other in zip(before.units, after.units, strict=True):
        target = other.parts if other.target is None else other.target
        if form in WITH_CODES:
            assert codes_of(unit.parts) <= codes_of(target) or is_icu_message(unit.parts)


@pytest.mark.skipif(not shutil.which("msgfmt"), reason="there is no gettext")
@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".po")])
def test_gettext_accepts_catalogues(name: str, tmp_path: Path) -> None:
    for content in (data(name, "out"), document(name, data(name)).dump()):
        (tmp_path / "a.po").write_bytes(content)
        command = ["msgfmt", "--check", "-o", str(tmp_path / "a.mo"), str(tmp_path / "a.po")]
        subprocess.run(command, check=True, capture_output=True)


DOUBTED = {
    "catalogue.po": ('#, fuzzy, c-format\nmsgid "%d file"', 4),
    "version-1.2.xlf": ('state="needs-review-translation"', 5),
    "version-2.xlf": ('state="initial" subState="bytenmt:needs-review"', 2),
    "segmented.xlf": ('state="needs-review-translation"', 3),
    "memory.tmx": ('<prop type="x-state">needs-review-translation</prop>', 2),
}


@pytest.mark.parametrize("name", DOUBTED)
def test_a_doubtful_translation_is_marked_as_the_format_has_it(name: str) -> None:
    """The mark is read, and goes with a sure translation, be it the same."""
    marked = translated(name, data(name), flags=(UNSURE,))[0]
    text, (mark, n_marks) = marked.decode(), DOUBTED[name]
    assert mark in text and text.count("fuzzy" if name.endswith(".po") else mark) == n_marks
    assert translated(name, marked)[1].counts["fuzzy before"] >= n_marks * (name != "version-2.xlf")
    assert mark not in translated(name, marked, overwrite=True)[0].decode()


def test_existing_translations_are_overwritten_if_asked() -> None:
    made = translated("a.po", data("catalogue.po"), overwrite=True)[0]
    assert b'msgid "done"\nmsgstr "DONE"' in made
    assert b'#, c-format\nmsgid "Hello %s"\nmsgstr "HELLO %s"' in made  # no longer fuzzy
