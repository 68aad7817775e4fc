"""Word documents: runs joined, codes kept, other members of the archive as they were."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from lxml import etree

from bytenmt.documents import docx
from bytenmt.documents.unit import joined
from bytenmt.errors import DataError
from tools.verify.made_up_translations import document, moved, translated, tree_of

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BOLD = "<w:rPr><w:b/></w:rPr>"
FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
PARTS = {
    "word/document.xml": f"""<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<w:document xmlns:w="{W}" xmlns:r="r"><w:body>\
<w:p w:rsidR="1"><w:pPr><w:jc w:val="left"/></w:pPr><w:bookmarkStart w:id="0" w:name="a"/>\
<w:r w:rsidR="2"><w:t>One sen</w:t></w:r><w:proofErr w:type="spellStart"/>\
<w:r><w:rPr><w:noProof/></w:rPr><w:t xml:space="preserve">tence with </w:t></w:r>\
<w:r>{BOLD}<w:t>bold</w:t></w:r><w:r><w:t xml:space="preserve"> &amp; &lt;text&gt;</w:t>\
<w:footnoteReference w:id="2"/><w:footnoteReference w:id="3"/></w:r><w:bookmarkEnd w:id="0"/></w:p>
<w:p><w:hyperlink r:id="rId9"><w:r><w:rPr><w:rStyle w:val="Hyperlink"/></w:rPr><w:t>a link</w:t></w:r>\
</w:hyperlink><w:r><w:t xml:space="preserve"> and page </w:t></w:r>{FIELD.format("begin")}\
<w:r><w:instrText>PAGE</w:instrText></w:r>{FIELD.format("separate")}<w:r><w:t>7</w:t></w:r>\
{FIELD.format("end")}<w:r><w:tab/><w:t>tab</w:t><w:br/><w:t>line</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc></w:tr></w:tbl>\
<w:p><w:r><w:t>before</w:t></w:r><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>a box</w:t></w:r></w:p>\
</w:txbxContent></w:pict></w:r><w:r><w:t>behind</w:t></w:r></w:p><w:p/></w:body></w:document>""",
    "word/header1.xml": f'<w:hdr xmlns:w="{W}"><w:p><w:r><w:t>head</w:t></w:r></w:p></w:hdr>',
    "word/footnotes.xml": f'<w:footnotes xmlns:w="{W}"><w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r>'
    '<w:r><w:t xml:space="preserve"> a note</w:t></w:r></w:p></w:footnote></w:footnotes>',
}
KINDS = {"word/header1.xml": "header", "word/footnotes.xml": "footnotes"}


def archive(parts: Mapping[str, str] = PARTS) -> bytes:
    """Return a .docx file with these parts and an unrelated binary part."""
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    types = "".join(
        f'<Override PartName="/{name}" ContentType="{kind}.{KINDS.get(name, "document.main")}+xml"/>'
        for name in parts
    )
    root = f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{types}</Types>'
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in {"[Content_Types].xml": root, **parts, "word/media/a.bin": "\0\1"}.items():
            made.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def part(inside: str) -> bytes:
    return archive({"word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{inside}</w:body></w:document>'})


def member(data: bytes, name: str = "word/document.xml") -> bytes:
    return zipfile.ZipFile(io.BytesIO(data)).read(name)


def paragraphs(data: bytes, name: str = "word/document.xml") -> list[str]:
    """Return the texts of the paragraphs, as lxml reads them."""
    root = etree.fromstring(member(data, name))
    return ["".join(one.text or "" for one in p.iter(f"{{{W}}}t")) for p in root.iter(f"{{{W}}}p")]


DATA = archive()


def test_runs_are_joined_and_other_formats_are_codes() -> None:
    units = [joined(unit.parts) for unit in document("a.docx", DATA).units]
    assert units[:2] == [
        "One sentence with <run>bold</run> & <text><code><code>",
        "<hyperlink>a link</hyperlink> and page <code>\ttab\nline",
    ]
    assert units[2:] == ["cell", "before", "behind", "a box", "head", "<r> a note".replace("<r> ", " ")]


def test_text_is_replaced_and_its_formats_and_codes_stay() -> None:
    made, report = translated("a.docx", DATA)
    assert paragraphs(made) == [
        *("ONE SENTENCE WITH BOLD & <text>", "A LINK AND PAGE 7TABLINE", "CELL"),
        *("BEFOREA BOXBEHIND", "A BOX", ""),
    ]
    assert paragraphs(made, "word/header1.xml") == ["HEAD"] and report.counts["to review"] == 0
    assert paragraphs(made, "word/footnotes.xml") == [" A NOTE"]
    bold = etree.fromstring(member(made)).xpath("//w:r[w:rPr/w:b]", namespaces={"w": W})
    assert ["".join(one.itertext()) for one in bold] == ["BOLD"]


@pytest.mark.parametrize("how", [None, moved])
def test_no_code_is_lost(how: object) -> None:
    made = translated("a.docx", DATA, how)[0] if callable(how) else document("a.docx", DATA).dump()
    before, after = (etree.fromstring(member(data)) for data in (DATA, made))
    names = ("footnoteReference", "fldChar", "instrText", "bookmarkStart", "tab", "br", "b", "pPr")
    for name in names:
        own = [
            sorted(etree.tostring(one, with_tail=False) for one in root.iter(f"{{{W}}}{name}"))
            for root in (before, after)
        ]
        assert own[0] == own[1] and own[0]


def test_a_round_trip_changes_no_part() -> None:
    made = document("a.docx", DATA).dump()
    names = [info.filename for info in zipfile.ZipFile(io.BytesIO(DATA)).infolist()]
    assert names == [info.filename for info in zipfile.ZipFile(io.BytesIO(made)).infolist()]
    assert tree_of("docx", made) == tree_of("docx", DATA)
    again = document("a.docx", made).dump()
    assert [member(again, name) for name in names] == [member(made, name) for name in names]


def test_hidden_and_deleted_text_stays() -> None:
    hidden = "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
    deleted = "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
    inserted = "<w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
    made, _ = translated("a.docx", part(f"<w:p><w:r><w:t>a</w:t></w:r>{hidden}{deleted}{inserted}</w:p>"))
    assert paragraphs(made) == ["AhiddenNEW"] and member(made).count(b"gone") == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DATA[:200], "not a .docx file, or a damaged one"),
        (DATA.replace(b"word/document.xml", b"word/documenu.xml", 1), "not a .docx file, or a damaged"),
        (archive({}), "an archive without a Word document"),
        (part("<w:p>"), "not docx: .*mismatch"),
    ],
)
def test_what_is_no_word_document_is_one_line(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"^a.docx: {message}"):
        document("a.docx", data)


def test_an_archive_does_not_unpack_to_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    data = part(f"<w:p><w:r><w:t>{'a' * 100_000}</w:t></w:r></w:p>")
    assert len(data) < 3000 and len(list(document("a.docx", data).units)) == 1
    monkeypatch.setattr(docx, "MAX_UNPACKED", 90_000)
    with pytest.raises(DataError, match="has more than 90,000 bytes"):
        document("a.docx", data)


def test_entities_are_not_expanded() -> None:
    inside = "<w:p><w:r><w:t>a&b;</w:t></w:r></w:p>"
    text = f'<!DOCTYPE a [<!ENTITY b "c">]><w:document xmlns:w="{W}">{inside}</w:document>'
    made, _ = translated("a.docx", archive({"word/document.xml": text}))
    assert b">AC<" not in member(made) and b">A<" in member(made)


@pytest.mark.skipif(not shutil.which("soffice"), reason="there is no LibreOffice")
@pytest.mark.slow
def test_libreoffice_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(
        translated("a.docx", part(f"<w:p><w:r>{BOLD}<w:t>two</w:t></w:r></w:p>"))[0]
    )
    user = f"-env:UserInstallation=file://{tmp_path}/user"
    command = ["soffice", "--headless", user, "--convert-to", "txt:Text", "a.docx"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=200)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8-sig").split() == ["TWO"]
