"""The time to read a document grows with its length alone, whatever is in it."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import pytest

from bytenmt.documents.formats import FORMATS, ReadOptions, read
from bytenmt.errors import DataError

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools.verify import growth  # noqa: E402
from tools.verify.growth import Case  # noqa: E402

# One for each format that took quadratic time: minutes at this size.
HOSTILE = [
    Case("html", "<pre>"),
    Case(growth.HTML_TEXT, "<a "),
    Case("markdown", "[^"),
    Case("xliff", " ", growth.XLIFF_UNIT, "<source>a</source>" + growth.XLIFF_UNIT_END),
    Case("tmx", " ", growth.TMX_UNIT + "a", "x" + growth.TMX_UNIT_END),
    Case("po", "\r", growth.PO_HEAD),
    Case("srt", "\u2028", growth.SRT_HEAD + "a", "x"),
    Case("vtt", " ", growth.VTT_HEAD, "x"),
    Case("json", "<b></i>", '{"a": "', '"}'),
    Case("arb", '"@@locale" ', "[", "]"),
    Case("properties", "\r"),
    Case("strings", "/*"),
    Case("android", '" ', "<resources><string name='a'>", "</string></resources>"),
    Case("docx", "<w:ins>", growth.WORD_HEAD, "<w:r><w:t>a</w:t></w:r>", "</w:ins>", growth.WORD_END),
    Case("csv", "<b></i>"),
    Case("tsv", "\t"),
    Case("text", " ", "a", "x"),
]
SIZE, LIMIT_SECONDS = 100_000, 3.75


@pytest.mark.slow
@pytest.mark.parametrize("case", HOSTILE, ids=Case.name)
def test_hostile_documents_take_no_minutes(case: Case) -> None:
    with growth.cpu_limit(LIMIT_SECONDS):
        growth.read_document(case.document(SIZE), case.format, write=False)


def test_every_format_has_a_hostile_document_and_forty_pieces() -> None:
    assert {case.format for case in HOSTILE} == {*FORMATS, growth.HTML_TEXT}
    assert set(growth.CASES) == {*FORMATS, growth.HTML_TEXT, growth.SENTENCES}
    assert all(len(set(cases())) >= 40 for cases in growth.CASES.values())


@pytest.mark.slow
def test_quadratic_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def quadratic(data: bytes, *_: object) -> None:
        for at in range(0, len(data), 16):
            data.count(b"x", at)

    case = Case("text", "a")
    assert growth.measure(case).is_linear
    monkeypatch.setattr(growth, "read_document", quadratic)
    monkeypatch.setattr(growth, "LARGEST", growth.LARGE)
    assert not growth.measure(case).is_linear


def test_time_is_limited() -> None:
    with pytest.raises(growth.OutOfTimeError), growth.cpu_limit(0.1):
        while True:
            pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json", f'{{"a": {"9" * 100_000}, "b": "text"}}'),
        (
            "po",
            'msgid ""\nmsgstr "Plural-Forms: nplurals=%s; plural=0;\\n"\n\nmsgid "a"\nmsgstr ""\n'
            % ("9" * 9000),
        ),
        ("vtt", f"WEBVTT\n\n00:01.0 --> 00:02.0\na &#{'9' * 9000};\n"),
        ("html", f"<p>a &#{'9' * 9000};</p>"),
        (
            "xliff",
            '<xliff version="1.2"><file><body>'
            + "<group>" * 50_000
            + '<trans-unit id="1"><source>a</source></trans-unit>'
            + "</group>" * 50_000
            + "</body></file></xliff>",
        ),
    ],
)
def test_long_numbers_and_deep_nesting(name: str, text: str) -> None:
    """Are read; Python's own limits, of 4,300 digits and of 1,000 calls, are not ours."""
    document = read(text.encode(), name, Path("a.file"))
    assert len(document.units) == 1
    assert document.with_units([None]) == text.encode()


def test_a_long_tag_takes_little_memory() -> None:
    """A pattern that backtracks would remember every character of it."""
    head, end = '<xliff version="1.2"><file><body><trans-unit id="1" ', "><source>a</source></trans-unit>"
    text = f"{head}{' ' * 1_000_000}{end}</body></file></xliff>"
    tracemalloc.start()
    try:
        read(text.encode(), "xliff", Path("a.file"))
        assert tracemalloc.get_traced_memory()[1] < 20 * len(text)
    finally:
        tracemalloc.stop()


def test_what_is_too_deep_or_too_much_is_one_line() -> None:
    forms = "".join(f'msgstr[{n}] ""\n' for n in range(1000))
    for name, text, told in (
        ("json", "[" * 100_000 + "]" * 100_000, "values that are nested"),
        ("po", f'msgid "a"\nmsgid_plural "b"\n{forms}', "more plural forms than any language has"),
        ("xliff", f'<xliff version="1.2"><file><source>&#{"9" * 9000};</source></file></xliff>', "not XML"),
    ):
        with pytest.raises(DataError, match=f"^a.file, line .*{told}") as error:
            read(text.encode(), name, Path("a.file"), ReadOptions())
        assert "\n" not in str(error.value)
