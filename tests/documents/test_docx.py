"""Word documents: codes kept, and what is none; samples/word.docx has the rest."""

import re
from collections import Counter

import pytest
from word_documents import NAMESPACE, pack, pack_body, unpack

from bytenmt.documents import docx
from bytenmt.errors import DataError
from tools.verify.made_up_translations import SAMPLES, document, moved, translated

DATA = pack((SAMPLES / "word.docx.in").read_text())


def test_no_code_is_lost() -> None:
    """Codes in another order are there once, in the runs and paragraphs of a translation too."""
    names = "footnoteReference|fldChar|instrText|bookmarkStart|tab|br|b|pPr|vanish|delText|ins|hyperlink"
    before, after = (
        Counter(re.findall(rf"<w:(?:{names})\b[^>]*>", unpack(data)))
        for data in (DATA, translated("a.docx", DATA, moved)[0])
    )
    assert before == after and len(before) > 12


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DATA[:200], "not a .docx file, or a damaged one"),
        (DATA.replace(b"word/document.xml", b"word/documenu.xml", 1), "not a .docx file, or a damaged"),
        (pack(""), "an archive without a Word document"),
        (pack_body("<w:p>"), "not docx: .*mismatch"),
    ],
)
def test_what_is_no_word_document_is_one_line(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"^a.docx: {message}"):
        document("a.docx", data)


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
