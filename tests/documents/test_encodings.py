"""Test the detection of encodings, and the refusal of those that cannot be written back."""

from __future__ import annotations

from pathlib import Path

import pytest

from bytenmt.documents.document import decode, wide_encoding
from bytenmt.documents.formats import ReadOptions, pairs, read
from bytenmt.documents.inline_tags import parse_string
from bytenmt.documents.memory import TranslationMemory
from bytenmt.documents.translation import translate
from bytenmt.errors import BytenmtError, DataError
from tools.verify.sample_documents import SAMPLES, recording_translator

WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
NOT_OF_FILES = (
    "idna",
    "punycode",
    "undefined",
    "unicode_escape",
    "raw-unicode-escape",
    "rot13",
    "base64",
    "zip",
)


@pytest.mark.parametrize("encoding", WIDE)
@pytest.mark.parametrize("name", [name for name in SAMPLES if "," not in name and name != "docx"])
def test_two_or_four_bytes_a_character_without_a_mark(name: str, encoding: str) -> None:
    """The translation is that of the same text in UTF-8."""
    text = SAMPLES[name].data.decode().replace(' encoding="UTF-8"', "")
    results = []
    for data in (text.encode(), text.encode(encoding)):
        document = SAMPLES[name]._replace(data=data).document()
        assert document.with_units([None] * len(document.units)) == data
        results.append(translate(document, recording_translator()[0], limit=1000)[0])
    assert results[1].decode(encoding) == results[0].decode()


@pytest.mark.parametrize("encoding", WIDE)
@pytest.mark.parametrize(
    "text", ["a", "one two", "Text mit Umlauten: \u00e4\u00f6\u00fc.", "\u4e2d\u6587\n\u5b57 a"]
)
def test_short_and_other_texts(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding), None) == (text, b"", encoding)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"plain",
        b"one\0two\0three four",
        "\u4e2d\u6587\0".encode(),
        b"a\0b\0\0c\0d\0\0" * 9,
        bytes(5000),
    ],
)
def test_zero_bytes_in_other_files(data: bytes) -> None:
    """Whatever it is taken for, it comes back byte for byte; UTF-8 with a zero byte in it is UTF-8."""
    text, lead, encoding = decode(data, None)
    assert lead + text.encode(encoding, "surrogateescape") == data
    if data.count(0) == 1 and len(data) > 4:
        assert wide_encoding(data) is None


@pytest.mark.parametrize("encoding", NOT_OF_FILES)
@pytest.mark.parametrize("name", ["html", "po", "xliff", "tmx", "text"])
def test_what_no_file_is_in(name: str, encoding: str) -> None:
    """One line, whether the file or the user names it."""
    texts = {
        "html": f"<meta charset={encoding}><p>text \u00e4",
        "po": f'msgid ""\nmsgstr "Content-Type: text/plain; charset={encoding}\\n"\n',
        "xliff": f'<?xml version="1.0" encoding="{encoding}"?><xliff/>',
        "tmx": f'<?xml version="1.0" encoding="{encoding}"?><tmx/>',
        "text": "text",
    }
    options = ReadOptions(encoding=encoding if name == "text" else None)
    with pytest.raises(DataError, match=f"^a.file: unknown encoding {encoding}: give --encoding NAME$"):
        read(texts[name].encode(), name, Path("a.file"), options)
    if name == "tmx":
        with pytest.raises(BytenmtError, match=f"unknown encoding {encoding}"):
            list(pairs([texts[name].encode()], name, Path("a.file"), ("en", "de"), strict=False))


@pytest.mark.parametrize("encoding", ["utf-16", "UTF-32", "utf-16le"])
@pytest.mark.parametrize("name", ["html", "po", "xliff"])
def test_a_declaration_that_can_be_read_is_not_in_utf_16(name: str, encoding: str) -> None:
    """A declaration of UTF-16 that is readable as ASCII means UTF-8, as in browsers."""
    data = SAMPLES["xliff 1.2" if name == "xliff" else name].data
    for declared in (b"UTF-8", b"utf-8"):
        data = data.replace(declared, encoding.encode())
    assert read(data, name, Path("a.file")).encoding == "utf-8"


LATIN = """msgid ""
msgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"

msgid "one"
msgstr ""

msgid "two %s"
msgstr "caf\xe9"
"""


def with_texts(data: str, *texts: str) -> str:
    document = read(data.encode("latin-1"), "po", Path("a.po"))
    values = [(parse_string(text), False) for text in texts]
    return document.with_units(values).decode("latin-1")


def test_signs_that_an_encoding_lacks_are_written_as_plain_ones() -> None:
    text = with_texts(LATIN, "\u201eeins\u201c \u2026", "caf\xe9 \xab%s\xbb \u2013")
    assert 'msgid "one"\nmsgstr "\\"eins\\" ..."\n' in text
    assert text.endswith('msgstr "caf\xe9 \xab%s\xbb -"\n')


def test_another_character_that_an_encoding_lacks_is_refused_with_its_place() -> None:
    expected = (
        r"^a.po, line 8, column 8: the file is in iso8859-1, which lacks the '\u0159' of the translation"
    )
    with pytest.raises(DataError, match=expected):
        with_texts(LATIN, "eins", "\u201e\u0159\u201c %s")


def test_a_byte_that_a_declared_encoding_lacks_is_refused_with_its_line() -> None:
    data = LATIN.replace("ISO-8859-1", "US-ASCII").encode("latin-1")
    expected = r"^a.po: 0xE9 in line 8 is not ascii \(ordinal not in range\(128\)\): give --encoding NAME$"
    with pytest.raises(DataError, match=expected):
        read(data, "po", Path("a.po"))


def test_a_memory_in_an_older_encoding_is_refused(tmp_path: Path) -> None:
    """Its bytes would come out as they are, in a file of another encoding."""
    path = tmp_path / "a.tsv"
    path.write_bytes(b"one\teins\ntwo\tcaf\xe9\n")
    expected = "a.tsv, line 2, column 8: 0xE9 is not valid UTF-8 there: convert the file to UTF-8$"
    with pytest.raises(DataError, match=expected):
        TranslationMemory.from_file(path)
