"""Word documents (.docx): a unit for each paragraph of the text, tables, headers, footers and notes.

A document is a ZIP archive of XML parts (ECMA-376). The runs of a paragraph are joined: text of the
paragraph's most frequent format is plain, a run with another format and a hyperlink are pairs of inline tags,
and what is no text (a picture, a field, a reference to a note) is one tag. Only the runs of translated
paragraphs are replaced; all other members of the archive are copied as the compressed bytes that they are.
"""

from __future__ import annotations

import copy
import re
import zipfile
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import NamedTuple

from bytenmt.documents import markup
from bytenmt.documents.document import (
    ALONE,
    CLOSE,
    OPEN,
    TEXT,
    Document,
    Edit,
    MalformedError,
    Parts,
    Unit,
    UnitPart,
    decode,
    encode,
)
from bytenmt.documents.inline_tags import paired
from bytenmt.documents.markup import Element, MarkupScanner
from bytenmt.errors import BytenmtError

CONTENT_TYPES = "[Content_Types].xml"
TEXT_TYPES = re.compile(
    r"application/vnd\.(?:openxmlformats-officedocument\.wordprocessingml|ms-word)\."
    r"(?:(?:document|template)(?:\.macroEnabled)?\.main|header|footer|footnotes|endnotes)\+xml",
    re.IGNORECASE,
)
MOST_UNPACKED = 1 << 26  # bytes of the XML of all parts that are read
MOST_NESTED = 10  # links, insertions and so on within one another; deeper ones are not translated
CONTAINERS = frozenset(("hyperlink", "ins", "moveTo", "smartTag"))  # of runs
WITHOUT_MEANING = frozenset(("proofErr", "lastRenderedPageBreak"))  # what Word finds out again
UNSEEN = re.compile(r"<[\w.-]+:(?:noProof|lang)\b[^<>]*/>")  # properties that nobody sees
NO_FORMAT = re.compile(r"<[\w.-]+:rPr(?:/>|></[\w.-]+:rPr>)")
CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011"}  # elements that are characters


class Member(NamedTuple):
    """A part of the archive with text. start, end: its place in the document's text."""

    info: zipfile.ZipInfo
    start: int
    end: int
    lead: bytes
    encoding: str


@dataclass(frozen=True, eq=False)
class WordDocument(Document):
    """A document whose text is that of several parts of an archive, one after another. data: the archive."""

    is_xml: bool = True
    data: bytes = b""
    members: tuple[Member, ...] = ()

    def place(self, at: int) -> str:
        """Return the part of the archive and the number of the paragraph of a character."""
        member = next((one for one in reversed(self.members) if one.start <= at), None)
        if member is None:
            return CONTENT_TYPES
        n_paragraphs = bisect_right(self._paragraphs, at) - bisect_left(self._paragraphs, member.start)
        return f"{member.info.filename}, paragraph {n_paragraphs}"

    @cached_property
    def _paragraphs(self) -> list[int]:
        return [match.start() for match in re.finditer(r"<(?:[\w.-]+:)?p[\s/>]", self.text)]

    def replaced(self, edits: Iterable[Edit]) -> bytes:
        """Return the bytes of the archive with edits applied."""
        wanted = sorted(dict.fromkeys(edits))
        parts = dict[int, bytes]()
        for number, member in enumerate(self.members):
            pieces, last = [], member.start
            for edit in wanted:
                if member.start <= edit.start and edit.end <= member.end:
                    if edit.start < last:
                        raise ValueError(f"edits at {edit.start} overlap")
                    pieces += [self.text[last : edit.start], edit.text]
                    last = edit.end
            if pieces:
                whole = "".join([*pieces, self.text[last : member.end]])
                parts[number] = member.lead + encode(whole, member.encoding, charref=True)
        changed = {self.members[number].info.header_offset: part for number, part in parts.items()}
        return _repacked(self.data, changed) if changed else self.data


def read(data: bytes) -> WordDocument:
    """Read an archive. Raises MalformedError."""
    texts, members, at = list[str](), list[Member](), 0
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            infos = archive.infolist()
            if len({info.header_offset for info in infos}) < len(infos):
                raise MalformedError("members of the archive overlap", 0)
            room = MOST_UNPACKED
            for info in _text_parts(archive):
                raw = _unpacked(archive, info, room)
                room -= len(raw)
                declared = markup.DECLARED.match(raw)
                text, lead, encoding = decode(raw, declared[1].decode() if declared else None)
                texts.append(text)
                members.append(Member(info, at, at + len(text), lead, encoding))
                at += len(text)
    except MalformedError:
        raise
    except BytenmtError as error:
        raise MalformedError(str(error), 0) from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        raise MalformedError(
            "not a .docx file, or a damaged one, or one with a password: save it from Word again", 0
        ) from None
    if not members:
        raise MalformedError("an archive without a Word document", 0)
    document = WordDocument("".join(texts), b"", "utf-8", (), True, data=data, members=tuple(members))
    units = list[Unit]()
    for text, member in zip(texts, members, strict=True):
        try:
            units += _PartReader(text, member.start).units
        except MalformedError as error:
            raise MalformedError(f"{member.info.filename}: {error.message}", 0) from None
    return WordDocument(document.text, b"", "utf-8", tuple(units), True, data=data, members=tuple(members))


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, room: int) -> bytes:
    """Return the bytes of a member. Raises MalformedError for one that is larger than the room."""
    with archive.open(info) as file:
        raw = file.read(room + 1)
    if len(raw) > room:
        raise MalformedError(f"the text of the archive has more than {MOST_UNPACKED:,} bytes", 0)
    return raw


def _text_parts(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the members with text, by the table of content types, in the archive's order."""
    names = set[str]()

    def ended(one: Element) -> bool:
        if one.local == "Override" and TEXT_TYPES.fullmatch(one.attributes.get("ContentType", "")):
            names.add(one.attributes.get("PartName", "").lstrip("/"))
        return True

    try:
        types = _unpacked(archive, archive.getinfo(CONTENT_TYPES), MOST_UNPACKED)
    except KeyError:
        raise MalformedError("an archive without a Word document", 0) from None
    MarkupScanner(("Override",), ended).feed(decode(types, None)[0])
    return [info for info in archive.infolist() if info.filename in names]


def _repacked(data: bytes, changed: dict[int, bytes]) -> bytes:
    """Return an archive with members replaced, by their offsets; the others are copied without unpacking."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as archive:
        infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
        ends = [*(info.header_offset for info in infos[1:]), archive.start_dir]
        out.write(data[: infos[0].header_offset])
        with zipfile.ZipFile(out, "w") as made:
            for info, end in zip(infos, ends, strict=True):
                own = copy.copy(info)
                if info.header_offset in changed:
                    made.writestr(own, changed[info.header_offset], info.compress_type)
                    continue
                out.seek(made.start_dir)
                own.header_offset = made.start_dir
                out.write(data[info.header_offset : end])
                made.filelist.append(own)
                made.start_dir = out.tell()
            order = {info.filename: number for number, info in enumerate(archive.infolist())}
            made.filelist.sort(key=lambda info: order[info.filename])
            made.comment = archive.comment
    return out.getvalue()


class _Run(NamedTuple):
    """A run. properties: its format as XML; key: those that somebody sees. pieces: its text and codes."""

    properties: str
    key: str
    pieces: tuple[UnitPart, ...]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces if piece.kind == TEXT)


class _PartReader:
    """Reads a part of the archive. units: of its paragraphs. begin: its place in the document's text."""

    def __init__(self, text: str, begin: int) -> None:
        self.units: list[Unit] = []
        self._text, self._begin, self._prefix = text, begin, ""
        self._cut = set[Element]()  # elements with paragraphs inside, such as the run of a text box
        if "<!DOCTYPE" in text:
            raise MalformedError("a document type, which no Word document has", 0)
        MarkupScanner(None, self._ended).feed(text)
        self.units.sort(key=lambda unit: unit.at)

    def _ended(self, one: Element) -> bool:
        """Read a paragraph that has ended."""
        if one.local != "p":
            return False
        self._prefix = one.name[: -len("p")]
        group: list[Element] = []
        for child in one.children:
            if child.local == "pPr" or child in self._cut:
                self._read(group)
                group = []
            else:
                group.append(child)
        self._read(group)
        parent = one.parent
        while parent is not None and parent not in self._cut:
            self._cut.add(parent)
            parent = parent.parent
        return True

    def _read(self, group: list[Element]) -> None:
        """Add the unit of the children of a paragraph, without those around it that have no text."""
        group = _with_fields_joined(self._text, group)
        numbers = range(len(group))
        first = next((number for number in numbers if self._has_text(group[number])), None)
        last = next((number for number in reversed(numbers) if self._has_text(group[number])), None)
        if first is None or last is None:
            return
        group = group[first : last + 1]
        codes = dict[str, tuple[str, str]]()
        base, parts = self._parts(group, codes, 0)
        source = paired(parts)
        if not any(part.kind == TEXT and part.text.strip() for part in source):
            return
        start, end = group[0].start + self._begin, group[-1].end + self._begin

        def write(parts: Parts, _: bool) -> str:
            return self._written(parts, base, codes)

        self.units.append(Unit(start, "", source, start, end, source, write))

    def _has_text(self, one: Element, depth: int = 0) -> bool:
        if one.local == "r":
            return bool(self._run(one).text)
        if one.local not in CONTAINERS or depth >= MOST_NESTED:
            return False
        return any(self._has_text(child, depth + 1) for child in one.children)

    def _run(self, run: Element) -> _Run:
        raw = self._raw
        properties = run.child("rPr")
        own = "" if properties is None else raw(properties)
        pieces = list[UnitPart]()
        for child in run.children:
            if child.local == "t":
                inside = self._text[child.inside : child.outside]
                text = "".join(part.text for part in markup.split_tags(inside))
                pieces.append(UnitPart(text if markup.preserved(child) else text.strip(" \t\r\n")))
            elif child.local in CHARACTERS and not child.attributes:
                pieces.append(UnitPart(CHARACTERS[child.local]))
            elif child.local != "rPr" and child.local not in WITHOUT_MEANING:
                name = f"{self._prefix}r"
                pieces.append(UnitPart(f"<{name}>{own}{raw(child)}</{name}>", ALONE))
        if f"<{self._prefix}vanish/>" in own:  # hidden text, as the entries of an index
            pieces = [UnitPart(raw(run), ALONE)]
        return _Run(own, _seen(own), tuple(pieces))

    def _raw(self, one: Element) -> str:
        return self._text[one.start : one.end]

    def _parts(
        self, group: Sequence[Element], codes: dict[str, tuple[str, str]], depth: int
    ) -> tuple[str, list[UnitPart]]:
        """Return the properties of the most frequent format of some runs, and their parts.

        codes: what opens an element becomes XML and the format of the text inside; added to.
        """
        runs = {one: self._run(one) for one in group if one.local == "r"}
        lengths = Counter[str]()
        for own in runs.values():
            lengths[own.key] += len(own.text)
        key = max(lengths, key=lengths.__getitem__, default="")
        base = next((own.properties for own in runs.values() if own.key == key), "")
        parts, other = list[UnitPart](), ""  # the other format that is open, as the code that opened it

        def close() -> None:
            nonlocal other
            if other:
                parts.append(UnitPart(f"</{self._prefix}r>", CLOSE))
            other = ""

        for one in group:
            run = runs.get(one)
            if run is not None and run.text:
                code = f"<{self._prefix}r>{run.properties or '<>'}"
                if run.key == key:
                    close()
                elif not other or _seen(codes[other][1]) != run.key:
                    close()
                    parts.append(UnitPart(code, OPEN))
                    codes[code] = "", run.properties
                    other = code
                parts += run.pieces
            elif run is not None:
                parts += run.pieces
            elif one.local in CONTAINERS and self._has_text(one, depth):
                close()
                inner, inside = self._parts(one.children, codes, depth + 1)
                tag = self._text[one.start : one.inside]
                codes[tag + inner] = tag, inner
                parts += [UnitPart(tag + inner, OPEN), *inside, UnitPart(f"</{one.name}>", CLOSE)]
            elif one.local not in WITHOUT_MEANING:
                parts.append(UnitPart(self._raw(one), ALONE))
        close()
        return base, parts

    def _written(self, parts: Parts, base: str, codes: dict[str, tuple[str, str]]) -> str:
        """Return the runs of a paragraph."""
        formats, made = [base], list[str]()
        for part in parts:
            if part.kind == TEXT:
                made.append(self._text_run(part.text, formats[-1]))
            elif part.kind == OPEN:
                xml, inner = codes.get(part.text, (part.text, formats[-1]))
                made.append(xml)
                formats.append(inner)
            elif part.kind == CLOSE and len(formats) > 1:
                formats.pop()
                made.append("" if part.text == f"</{self._prefix}r>" else part.text)
            elif part.kind == ALONE:
                made.append(part.text)
        return "".join(made)

    def _text_run(self, text: str, properties: str) -> str:
        prefix, made = self._prefix, list[str]()
        names = {character: name for name, character in CHARACTERS.items() if name != "cr"}
        for piece in re.split("([\t\n\u2011])", text):
            if piece in names:
                made.append(f"<{prefix}{names[piece]}/>")
            elif piece:
                made.append(f'<{prefix}t xml:space="preserve">{markup.escape(piece)}</{prefix}t>')
        return f"<{prefix}r>{properties}{''.join(made)}</{prefix}r>"


def _seen(properties: str) -> str:
    """Return the properties of a run that somebody sees; empty if there are none."""
    return NO_FORMAT.sub("", UNSEEN.sub("", properties))


def _with_fields_joined(text: str, group: Sequence[Element]) -> list[Element]:
    """Return the children of a paragraph, with the runs of a field, from its begin to its end, as one."""
    made, open_fields = list[Element](), list[int]()
    for one in group:
        made.append(one)
        for kind in _field_marks(text, one):
            if kind == "begin":
                open_fields.append(len(made) - 1)
            elif kind == "end" and open_fields:
                first = open_fields.pop()
                if not open_fields:
                    field = Element("field", {}, made[first].start, one.start, None)
                    field.outside, field.end = field.inside, one.end
                    made[first:] = [field]
    return made


def _field_marks(text: str, one: Element) -> Iterator[str]:
    for child in one.children if one.local == "r" else ():
        if child.local == "fldChar":
            yield next(
                (value for name, value in child.attributes.items() if name.endswith("fldCharType")), ""
            )
