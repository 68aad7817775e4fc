"""A file that is not in its format: one line with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from bytenmt.documents.formats import ReadOptions, check_options, format_of, read
from bytenmt.errors import BytenmtError, DataError
from tools.verify.sample_documents import HTML, PO

PO_LINES = PO.count("\n") + 1
XML = '<xliff version="1.2">\n <file><body>\n'


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("xliff", XML + "  <trans-unit></body>", "line 3, column 17: not XML: mismatched tag"),
        ("xliff", XML + "  <trans-unit>\ud7ff", "line 3, column 16: not XML: no element found"),
        ("xliff", "", "line 1, column 1: not XML: no element found"),
        ("xliff", "<tmx/>", "line 1, column 1: no <xliff> element"),
        ("xliff", "<xliff>\n\0</xliff>", "line 2, column 1: not XML: a zero byte"),
        ("tmx", "<xliff/>", "line 1, column 1: no <tmx> element"),
        (
            "tmx",
            "<tmx/>",
            "line 1, column 1: a translation memory may contain several languages: give --pair",
        ),
        ("po", PO + 'msgid "x"\n', f"line {PO_LINES}, column 7: an entry without msgstr"),
        ("po", PO + 'msgstr "x"\n', f"line {PO_LINES}, column 8: an entry without msgid"),
        ("po", PO + 'msgid "x\nmsgstr ""\n', f"line {PO_LINES}, column 7: a string that is not closed"),
        ("po", PO + 'msgid "x"y"\nmsgstr ""\n', f"line {PO_LINES}, column 7: a string that is not closed"),
        ("po", 'msgid "x"\nmsgid "y"\nmsgstr ""\n', "line 2, column 1: a second msgid"),
        ("po", "msgid x\n", "line 1, column 1: expected a comment, or a word like msgid"),
        ("po", '"x"\n', "line 1, column 1: a string without a word"),
        ("srt", "1\n0:0:1,0 --> 0:0:2,0\nx\n\n2\n00:00:03,0 ->\ny\n", "line 6, column 1: expected a number"),
        ("srt", "1\n00:00:01 -> 00:00:02\nx\n", "line 1, column 1: expected a number and times"),
        ("srt", "1\n0:0:1,0 --> 0:0:2,0\nx\n\n2\n0:0:1 --> 0\nx\n", "line 6, column 1: expected a number"),
        ("srt", "1\n0:0:1,0 --> 0:0:2,0\nx\n0:0:3 --> 4\ny\n", "line 4, column 1: expected a number"),
        ("vtt", "WEBVTT\n\n00:01.0 --> 00:02.0\nx\n3 --> 4\n", "line 5, column 1: expected times"),
        ("vtt", "1\n", "line 1, column 1: expected WEBVTT"),
        ("vtt", "WEBVTT\n\n1 --> 2\nx\n", "line 3, column 1: expected times"),
        ("json", '{"a": "b",\n "c" 1}', "line 2, column 6: not JSON: Expecting ':' delimiter"),
        ("json", "[" * 100_000, "line 1, column 1: values that are nested"),
        ("properties", "a = b\nb = \\u12\n", "line 2, column 5: expected four hexadecimal digits"),
        ("strings", '"a" = "b"\n"c";', "line 2, column 1: expected = or ; behind a string"),
        ("strings", '"a" =\n;', "line 2, column 1: expected a string"),
        ("strings", '"a" = {b=c;};', "line 1, column 7: expected a string"),
        ("strings", '"a', "line 1, column 1: expected the end of a comment or string"),
        ("strings", "\n/* a", "line 2, column 1: expected the end of a comment or string"),
        ("strings", '"a" = "\\U12";', "line 1, column 7: expected four hexadecimal digits after \\U"),
        ("strings", "bplist00\x01", "line 1, column 1: a property list as XML or binary"),
        ("android", "<string/>", "line 1, column 1: no <resources> element"),
        ("android", "<resources>\n<string></resources>", "line 2, column 11: not XML: mismatched tag"),
        (
            "android",
            '<resources>\n<string name="a">\\u12</string></resources>',
            "line 2, column 18: expected four hexadecimal digits after \\u",
        ),
        ("csv", 'a,b\n"c,d\n', "line 2, column 1: a quotation mark that is not closed"),
        ("csv", 'a,b\n"c" x,d\n', "line 2, column 4: text after the closing quote of a cell"),
        (
            "csv",
            f"a,{'x' * 1000}\n",
            f"line 1, column 1: --column b is not one of the columns a, {'x' * 50}",
        ),
        ("csv", "a,b,c\n1,2,3\n1\n", "line 3, column 1: 1 columns, expected 2 or more"),
    ],
)
def test_the_place_is_told(name: str, data: str, message: str) -> None:
    options = ReadOptions(column="b") if name == "csv" else ReadOptions()
    with pytest.raises(DataError) as error:
        read(data.encode("utf-8", "surrogatepass"), name, Path("a.file"), options)
    assert str(error.value).startswith(f"a.file, {message}") and str(error.value).isprintable()
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("name", "data", "options", "message"),
    [
        ("text", b"\xff\xfe\0", ReadOptions(), "a.file: 0x00 in line 1 is not utf-16-le (truncated data)"),
        ("po", PO.replace("UTF-8", "KLINGON").encode(), ReadOptions(), "a.file: unknown encoding KLINGON"),
        (
            "po",
            PO.replace("UTF-8", "K" * 5000).encode(),
            ReadOptions(),
            f"unknown encoding {'K' * 60}: give --encoding",
        ),
        ("html", HTML.replace("utf-8", "ascii").encode() + b"\xe4", ReadOptions(), "is not ascii"),
        (
            "text",
            b"one\ntw\xe4o\n",
            ReadOptions(strict=True),
            "a.file, line 2, column 3: 0xE4 is not valid UTF-8",
        ),
        ("text", b"+AGEAYg-", ReadOptions(encoding="utf-7"), "cannot be written back byte for byte"),
        (
            "xliff",
            XML.encode() + b"\xff",
            ReadOptions(),
            "a.file, line 3, column 1: bytes that are not UTF-8",
        ),
        ("csv", b"a,b\n", ReadOptions(column="x"), "--column x is not one of the columns a, b"),
        ("csv", b"a,b\n", ReadOptions(), "give --column"),
    ],
)
def test_what_cannot_be_read_is_told(name: str, data: bytes, options: ReadOptions, message: str) -> None:
    with pytest.raises(DataError) as error:
        read(data, name, Path("a.file"), options)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_options_that_would_be_ignored() -> None:
    for name, options, message in [
        ("po", ReadOptions(column="x"), "--column would be ignored with --format po"),
        ("srt", ReadOptions(pair=("a", "b")), "--pair would be ignored"),
        ("tmx", ReadOptions(into="x"), "--to-column would be ignored"),
        ("csv", ReadOptions(into="x"), "--to-column without --column"),
    ]:
        with pytest.raises(BytenmtError, match=message):
            check_options(name, options)
    with pytest.raises(BytenmtError, match="no format has the suffix '.doc': give --format"):
        format_of(Path("a.doc"))
    assert format_of(Path("a.PO")) == "po"
