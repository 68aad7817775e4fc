"""Word documents as text: a line `== NAME` before each part of the archive."""

import io
import re
import zipfile

KIND = "application/vnd.openxmlformats-officedocument.wordprocessingml"
KINDS = {"word/document.xml": "document.main", "word/header1.xml": "header"}
KINDS["word/footnotes.xml"] = "footnotes"
TYPES = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{}</Types>'
NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def pack(text: str) -> bytes:
    """Return a .docx file with these parts, their types, and an unrelated binary part."""
    names = re.findall("^== (.*)\n", text, re.MULTILINE)
    parts = dict(zip(names, re.split("^== .*\n", text, flags=re.MULTILINE)[1:], strict=True))
    types = "".join(
        f'<Override PartName="/{name}" ContentType="{KIND}.{KINDS.get(name, name)}+xml"/>'
        for name in parts
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        listed = {"[Content_Types].xml": TYPES.format(types)}
        for name, part in (listed | parts | {"a.bin": "\0\1"}).items():
            made.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def pack_body(inside: str) -> bytes:
    """Return a .docx file with this content of the body."""
    document = f'<w:document xmlns:w="{NAMESPACE}"><w:body>{inside}</w:body></w:document>'
    return pack(f"== word/document.xml\n{document}")


def unpack(data: bytes) -> str:
    """Return the parts of a file that `pack` has made, but for their types and the binary one."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read("a.bin") == b"\0\1"
        names = [name for name in archive.namelist() if name.startswith("word/")]
        return "".join(f"== {name}\n{archive.read(name).decode()}" for name in names)
