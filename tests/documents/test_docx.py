"""Word documents: runs joined, members of the archive as they were, and limits on what is unpacked."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from lxml import etree

from bytenmt.documents import docx
from bytenmt.documents.document import joined_text
from bytenmt.documents.formats import read
from bytenmt.documents.segments import Segment
from bytenmt.documents.translation import translate
from bytenmt.errors import DataError
from tools.verify.sample_documents import (
    BOLD,
    SAMPLES,
    WORD_PARTS,
    W,
    recording_translator,
    translate_to_upper_case,
    word_archive,
)

DATA = SAMPLES["docx"].data


def in_capitals(data: bytes = DATA) -> tuple[bytes, list[Segment]]:
    ask, asked = recording_translator(translate_to_upper_case)
    return translate(read(data, "docx", Path("a.docx")), ask, limit=1000)[0], asked


def paragraphs(data: bytes, part: str) -> list[str]:
    """The texts of the paragraphs, as lxml reads them."""
    root = etree.fromstring(zipfile.ZipFile(io.BytesIO(data)).read(part))
    return ["".join(one.text or "" for one in p.iter(f"{{{W}}}t")) for p in root.iter(f"{{{W}}}p")]


def test_runs_are_joined_and_other_formats_are_tags() -> None:
    _, asked = in_capitals()
    assert [segment.text.decode() for segment in asked][:4] == [
        "One sentence with <g1>bold</g1> & <text>",
        "<g1>a link</g1> and page",
        "tab",
        "line",
    ]


def test_text_is_replaced_and_its_formats_and_codes_stay() -> None:
    made, _ = in_capitals()
    assert paragraphs(made, "word/document.xml") == [
        *(
            "ONE SENTENCE WITH BOLD & <TEXT>",
            "A LINK AND PAGE 7TABLINE",
            "CELL",
            "BEFOREA BOXBEHIND",
            "A BOX",
            "",
        )
    ]
    assert paragraphs(made, "word/header1.xml") == ["HEAD"]
    before, after = (
        etree.fromstring(zipfile.ZipFile(io.BytesIO(data)).read("word/document.xml")) for data in (DATA, made)
    )
    for name in (
        "footnoteReference",
        "fldChar",
        "instrText",
        "bookmarkStart",
        "tab",
        "br",
        "hyperlink",
        "b",
        "pPr",
    ):
        own = [
            [etree.tostring(one, with_tail=False) for one in root.iter(f"{{{W}}}{name}")]
            for root in (before, after)
        ]
        assert len(own[0]) == len(own[1]) > 0 and (name == "hyperlink" or own[0] == own[1])
    (bold,) = after.xpath("//w:r[w:rPr/w:b]", namespaces={"w": W})
    assert "".join(bold.itertext()) == "BOLD"


def test_other_members_are_the_same_compressed_bytes() -> None:
    """Units are in the same order, and a file without translations does not change."""
    document = read(DATA, "docx", Path("a.docx"))
    assert document.with_units([None] * len(document.units)) == DATA
    assert document.with_units([(unit.source, False) for unit in document.units]) == DATA
    values = [None] * len(document.units)
    values[-1] = ((document.units[0].source[0],), False)  # type: ignore[call-overload]
    made = document.with_units(values)
    archives = [zipfile.ZipFile(io.BytesIO(data)) for data in (DATA, made)]
    before, after = (archive.infolist() for archive in archives)
    assert [one.filename for one in before] == [one.filename for one in after] and archives[
        1
    ].testzip() is None
    for one, other in zip(before, after, strict=True):
        if one.filename != "word/footnotes.xml":
            raw = [
                data[info.header_offset : info.header_offset + 30 + len(info.filename) + info.compress_size]
                for data, info in ((DATA, one), (made, other))
            ]
            assert raw[0] == raw[1]


def part(inside: str) -> bytes:
    return word_archive(
        {"word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{inside}</w:body></w:document>'}
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.docx: not a .docx file, or a damaged one"),
        (DATA[:200], "a.docx: not a .docx file, or a damaged one"),
        (
            DATA.replace(b"word/document.xml", b"word/documenu.xml", 1),
            "a.docx: not a .docx file, or a damaged",
        ),
        (word_archive({}), "a.docx: an archive without a Word document"),
        (part("<w:p>"), "a.docx: word/document.xml: not XML: mismatched tag"),
        (
            word_archive({"word/document.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}),
            "a.docx: word/document",
        ),
    ],
)
def test_what_is_no_word_document_is_one_line(data: bytes, message: str) -> None:
    with pytest.raises(DataError) as error:
        read(data, "docx", Path("a.docx"))
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_an_archive_does_not_unpack_to_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts with text count, whatever the archive says of their sizes; others are never unpacked."""
    data = part(f"<w:p><w:r><w:t>{'a' * 100_000}</w:t></w:r></w:p>")
    assert len(data) < 3000 and len(read(data, "docx", Path("a.docx")).units) == 1
    monkeypatch.setattr(docx, "MOST_UNPACKED", 90_000)
    with pytest.raises(DataError, match="has more than 90,000 bytes"):
        read(data, "docx", Path("a.docx"))
    assert read(DATA, "docx", Path("a.docx")).units


def test_members_that_overlap_are_refused() -> None:
    """An archive whose members share bytes would grow without bound when it is copied."""
    file = io.BytesIO(DATA)
    with zipfile.ZipFile(file, "a") as archive:
        archive.filelist.append(archive.filelist[0])
        archive._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="overlap"):
        read(file.getvalue(), "docx", Path("a.docx"))


def test_hidden_and_deleted_text_stays() -> None:
    hidden = "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
    deleted = "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
    inserted = "<w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
    made, asked = in_capitals(part(f"<w:p><w:r><w:t>a</w:t></w:r>{hidden}{deleted}{inserted}</w:p>"))
    assert [segment.text for segment in asked] == [b"a<x1/><x2/><w:ins>new</w:ins>"]
    assert paragraphs(made, "word/document.xml") == ["AhiddenNEW"]
    assert joined_text(read(made, "docx", Path("a")).units[0].source).count("gone") == 1


@pytest.mark.skipif(not shutil.which("soffice"), reason="there is no LibreOffice")
@pytest.mark.slow
def test_libreoffice_reads_it(tmp_path: Path) -> None:
    runs = "".join(f"<w:r>{form}<w:t>{text}</w:t></w:r>" for form, text in (("", "one, "), (BOLD, "two")))
    body = f"<w:p>{runs}<w:r><w:tab/><w:t>three &amp; four</w:t><w:br/><w:t>five</w:t></w:r></w:p>"
    (tmp_path / "a.docx").write_bytes(in_capitals(part(body))[0])
    user = f"-env:UserInstallation=file://{tmp_path}/user"
    command = ["soffice", "--headless", user, "--convert-to", "txt:Text", "a.docx"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=200)
    text = (tmp_path / "a.txt").read_text(encoding="utf-8-sig")
    assert text.split() == ["ONE,TWO", "THREE", "&", "FOUR", "FIVE"]


def test_every_part_is_read_in_its_order() -> None:
    document = read(DATA, "docx", Path("a.docx"))
    places = [document.place(unit.at) for unit in document.units]
    assert places[0] == "word/document.xml, paragraph 1" and places[-1] == "word/footnotes.xml, paragraph 1"
    assert set(WORD_PARTS) == {place.partition(",")[0] for place in places}
