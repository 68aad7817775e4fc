"""Word documents (.docx): a unit for each paragraph of the text, tables, headers, footers and notes.

A document is a ZIP archive of XML parts (ECMA-376). The runs of a paragraph are joined: text of the
paragraph's most frequent format is plain, a run with another format and a hyperlink are pairs of codes,
and what is no text (a picture, a field, a reference to a note) is one code. Only the runs of translated
paragraphs are replaced.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy

from lxml import etree

from bytenmt.documents import inline_xml
from bytenmt.documents.inline_xml import SPACE, Element, InlineContent, child, local_name
from bytenmt.documents.unit import Document, Parts, ReadOptions, Tag, Unit
from bytenmt.errors import DataError

CONTENT_TYPES = "[Content_Types].xml"
TEXT_TYPES = re.compile(
    r"application/vnd\.(?:openxmlformats-officedocument\.wordprocessingml|ms-word)\."
    r"(?:(?:document|template)(?:\.macroEnabled)?\.main|header|footer|footnotes|endnotes)\+xml",
    re.IGNORECASE,
)
MAX_UNPACKED = 1 << 28  # bytes of all members
CONTAINERS = frozenset(("hyperlink", "ins", "moveTo", "smartTag"))  # of runs
WITHOUT_MEANING = frozenset(("proofErr", "lastRenderedPageBreak"))  # what Word finds out again
UNSEEN = frozenset(("noProof", "lang"))  # properties of a run that nobody sees
CHARACTERS = {"tab": "\t", "cr": "\n", "br": "\n", "noBreakHyphen": "\u2011"}  # elements that are characters


def read(data: bytes, _: ReadOptions) -> Document:
    """Return the units of an archive. Raises DataError."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if sum(info.file_size for info in infos) > MAX_UNPACKED:
                raise DataError(f"the archive has more than {MAX_UNPACKED:,} bytes when it is unpacked")
            members = {info.filename: archive.read(info) for info in infos}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        raise DataError("not a .docx file, or a damaged one, or one with a password: save it again") from None
    types = inline_xml.parse(members.get(CONTENT_TYPES, b"<Types/>")).iter("{*}Override")
    names = [one.get("PartName", "") for one in types if TEXT_TYPES.fullmatch(one.get("ContentType", ""))]
    trees = {name: inline_xml.parse(members[name]) for name in members if f"/{name}" in names}
    if not trees:
        raise DataError("an archive without a Word document")

    def dump() -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for info in infos:
                tree, member = trees.get(info.filename), members[info.filename]
                archive.writestr(info, member if tree is None else inline_xml.dump(tree, member))
        return out.getvalue()

    units = [
        unit
        for name, tree in trees.items()
        for number, paragraph in enumerate(tree.iter("{*}p"))
        for unit in _paragraph_units(paragraph, f"{name}, paragraph {number + 1}")
    ]
    return Document(units, dump)


def _paragraph_units(paragraph: Element, place: str) -> Iterator[Unit]:
    """Yield the units of a paragraph: what stands between the text boxes in it."""
    group = list[Element]()
    for one in [*paragraph, None]:
        if one is not None and local_name(one) != "pPr" and next(one.iter("{*}p"), None) is None:
            group.append(one)
            continue
        items = _with_fields_joined(group)
        with_text = [at for at, item in enumerate(items) if len(item) == 1 and _has_text(item[0])]
        if with_text:
            runs = _Runs(items[with_text[0] : with_text[-1] + 1])
            yield Unit(runs.source, runs.write, place)
        group = []


def _with_fields_joined(group: Sequence[Element]) -> list[list[Element]]:
    """Return the children of a paragraph, those of a field, from its begin to its end, together."""
    made, depth = list[list[Element]](), 0
    for one in group:
        if depth:
            made[-1].append(one)
        else:
            made.append([one])
        for mark in one.iter("{*}fldChar"):
            kind = next((value for name, value in mark.attrib.items() if name.endswith("fldCharType")), "")
            depth = max(0, depth + {"begin": 1, "end": -1}.get(kind, 0))
    return made


def _has_text(one: Element) -> bool:
    if local_name(one) == "r":
        return bool(_text_of(one).strip())
    return local_name(one) in CONTAINERS and any(map(_has_text, one))


def _text_of(run: Element) -> str:
    """Return the text of a run; a hidden one, as an entry of an index, has none."""
    is_hidden = local_name(run) != "r" or child(child(run, "rPr"), "vanish") is not None
    return "" if is_hidden else "".join(filter(None, map(_character, run)))


def _character(one: Element) -> str | None:
    """Return the text of a child of a run, None if it is none."""
    name, text = local_name(one), one.text or ""
    if name == "t":
        return str(text if one.get(SPACE) == "preserve" else text.strip(" \t\r\n"))
    return CHARACTERS[name] if name in CHARACTERS and not one.attrib else None


def _key(properties: Element | None) -> bytes:
    """Return the properties of a run that somebody sees, for comparison."""
    seen = [one for one in ([] if properties is None else properties) if local_name(one) not in UNSEEN]
    return b"".join(etree.tostring(one, with_tail=False) for one in seen)


class _Runs:
    """Consecutive children of a paragraph as parts, and parts as runs.

    In between stands an element of texts, with children for runs of another format than the most frequent
    one (run), containers (around) and what is no text (code). Their numbers are those of `_objects`: what
    each stands for, and the properties of the runs in it.
    """

    def __init__(self, group: Sequence[Sequence[Element]]) -> None:
        self._objects = list[tuple[Sequence[Element], Element]]()
        self._children = [one for item in group for one in item]
        self._prefix = next(run for one in self._children for run in one.iter("{*}r")).tag[: -len("r")]
        self._base = _common_format(self._children)
        texts = self._texts(group, self._base)
        self._content = InlineContent(texts.text, texts, self._as_code)
        self.source = self._content.source

    def _as_code(self, node: Element) -> Tag | None:
        objects = self._objects[int(node.get("number"))][0]
        return Tag(f"<{local_name(objects[0])}>") if node.tag == "code" else None

    def _add(
        self, parent: Element, kind: str, elements: Sequence[Element], properties: Element = None
    ) -> Element:
        self._objects.append((elements, properties))
        return etree.SubElement(parent, kind, number=str(len(self._objects) - 1))

    def _texts(self, group: Sequence[Sequence[Element]], base: Element) -> Element:
        """Return children of a paragraph as an element of texts. base: their most frequent format."""
        content = top = etree.Element("content")
        form = _key(base)  # of the text that is read
        for elements in group:
            one, name = elements[0], local_name(elements[0])
            properties = child(one, "rPr")
            if _text_of(one) and _key(properties) != form:
                form = _key(properties)
                top = content if form == _key(base) else self._add(content, "run", (), properties)
            if len(elements) == 1 and name == "r" and child(properties, "vanish") is None:
                for piece in one:
                    if (text := _character(piece)) is not None:
                        inline_xml.append_text(top, text)
                    elif local_name(piece) != "rPr" and local_name(piece) not in WITHOUT_MEANING:
                        own = etree.Element(one.tag)
                        own.extend(deepcopy([node for node in (properties, piece) if node is not None]))
                        self._add(top, "code", [own])
            elif len(elements) == 1 and name in CONTAINERS and _has_text(one):
                top, form, inside = content, _key(base), _common_format(one)
                around = self._add(content, "around", elements, inside)
                inline_xml.set_content(around, self._texts(_with_fields_joined(one), inside))
            elif name not in WITHOUT_MEANING:
                self._add(top, "code", elements)
        return content

    def write(self, parts: Parts, _: bool) -> None:
        """Put a translation in place of the runs."""
        parent = self._children[0].getparent()
        at = parent.index(self._children[0])
        made = self._runs(self._content.build(parts), self._base)
        parent[at : at + len(self._children)] = list(made)

    def _runs(self, content: Element, properties: Element) -> Iterator[Element]:
        """Yield the runs of an element of texts; the inverse of `_texts`."""
        yield from self._text_run(content.text, properties)
        for node in content:
            elements, inside = self._objects[int(node.get("number"))]
            runs = list(self._runs(node, inside))
            if node.tag == "around":
                container = etree.Element(elements[0].tag, elements[0].attrib)
                container.extend(runs)
                runs = [container]
            yield from deepcopy(list(elements)) if node.tag == "code" else runs
            yield from self._text_run(node.tail, properties)

    def _text_run(self, text: str | None, properties: Element) -> Iterator[Element]:
        run = etree.Element(f"{self._prefix}r")
        run.extend([] if properties is None else [deepcopy(properties)])
        names = {character: name for name, character in CHARACTERS.items()}
        for piece in re.split("([\t\n\u2011])", text or ""):
            if piece in names:
                etree.SubElement(run, self._prefix + names[piece])
            elif piece:
                inline_xml.append_text(etree.SubElement(run, f"{self._prefix}t", {SPACE: "preserve"}), piece)
        yield from [run] if text else []


def _common_format(group: Sequence[Element]) -> Element:
    """Return the properties of the most frequent format of some runs, None where they have none."""
    lengths, properties = Counter[bytes](), dict[bytes, Element]()
    for run in group:
        own = child(run, "rPr")
        lengths[_key(own)] += len(_text_of(run))
        properties.setdefault(_key(own), own)
    return properties[max(lengths, key=lengths.__getitem__)] if lengths else None
