"""Word documents (.docx): a unit for each paragraph of text, tables, headers, footers and notes.

A document is a ZIP archive of XML parts (ECMA-376). The runs of a paragraph are joined: text of the
paragraph's most frequent format is plain, a run with another format and a hyperlink are pairs of
codes, and what is not text (a picture, a field, a reference to a note) is one code. Only the runs
of translated paragraphs are replaced.
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
from bytenmt.documents.unit import CodedText, Document, ReadOptions, Tag, Unit
from bytenmt.errors import DataError

PARTS = re.compile(r"word/(?:document|header|footer|footnotes|endnotes)\d*\.xml")  # that have text
MAX_UNPACKED = 1 << 28  # bytes of all members
CONTAINERS = frozenset(("hyperlink", "ins", "moveTo", "smartTag"))  # of runs
WITHOUT_MEANING = frozenset(("proofErr", "lastRenderedPageBreak"))  # what Word finds out again
UNSEEN = frozenset(("noProof", "lang"))  # properties of a run that nobody sees
CHARACTERS = {"tab": "\t", "cr": "\n", "br": "\n", "noBreakHyphen": "\u2011"}  # elements


def read(data: bytes, _: ReadOptions) -> Document:
    """Read a Word document: a translation unit for each paragraph with text. Raises DataError."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if sum(info.file_size for info in infos) > MAX_UNPACKED:
                raise DataError(
                    f"the archive has more than {MAX_UNPACKED:,} bytes when it is unpacked"
                )
            members = {info.filename: archive.read(info) for info in infos}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        raise DataError(
            "not a .docx file, or a damaged one, or one with a password: save it again"
        ) from None
    trees = {name: inline_xml.parse(members[name]) for name in members if PARTS.fullmatch(name)}
    if not trees:
        raise DataError("an archive without a Word document")

    def dump() -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for info in infos:
                member = members[info.filename]
                if info.filename in trees:
                    member = inline_xml.dump(trees[info.filename], member)
                archive.writestr(info, member)
        return out.getvalue()

    units = [
        unit
        for name, tree in trees.items()
        for number, paragraph in enumerate(tree.iter("{*}p"), 1)
        for unit in _paragraph_units(paragraph, f"{name}, paragraph {number}")
    ]
    return Document(units, dump)


def _paragraph_units(paragraph: Element, place: str) -> Iterator[Unit]:
    """Yield the units of a paragraph: what stands between the text boxes in it."""
    group = list[Element]()
    for node in [*paragraph, None]:
        if node is not None and local_name(node) != "pPr" and next(node.iter("{*}p"), None) is None:
            group.append(node)
            continue
        items = _join_fields(group)
        with_text = [k for k, item in enumerate(items) if len(item) == 1 and _has_text(item[0])]
        if with_text:
            yield _unit(items[with_text[0] : with_text[-1] + 1], place)
        group = []


def _unit(group: Sequence[Sequence[Element]], place: str) -> Unit:
    """Return the unit of consecutive children of a paragraph."""
    texts = _texts(group)
    elements = [element for item in group for element in item]
    content = InlineContent(
        texts.text, texts, lambda node: Tag("<code>") if node.tag == "code" else None
    )

    def write(parts: CodedText, _: bool) -> None:
        parent = elements[0].getparent()
        made = content.build(parts)
        index = parent.index(elements[0])
        prefix = next(run for element in elements for run in element.iter("{*}r")).tag[: -len("r")]
        parent[index : index + len(elements)] = list(_runs(made, texts.get("format"), prefix))

    return Unit(content.source, write, place)


def _join_fields(group: Sequence[Element]) -> list[list[Element]]:
    """Return the children of a paragraph, those of a field, from its begin to its end, together."""
    groups = list[list[Element]]()
    depth = 0
    for node in group:
        if depth == 0:
            groups.append([])
        groups[-1].append(node)
        for mark in node.iter("{*}fldChar"):
            kinds = [value for name, value in mark.attrib.items() if name.endswith("fldCharType")]
            if kinds == ["begin"]:
                depth += 1
            elif kinds == ["end"]:
                depth = max(0, depth - 1)
    return groups


def _has_text(node: Element) -> bool:
    if local_name(node) == "r":
        return bool(_text_of(node).strip())
    return local_name(node) in CONTAINERS and any(map(_has_text, node))


def _text_of(run: Element) -> str:
    """Return the text of a run; a hidden one, such as an entry of an index, has none."""
    if local_name(run) != "r" or _is_hidden(run):
        return ""
    return "".join(filter(None, map(_character, run)))


def _is_hidden(run: Element) -> bool:
    return child(child(run, "rPr"), "vanish") is not None


def _character(element: Element) -> str | None:
    """Return the text of a child of a run, None if it is not text."""
    name = local_name(element)
    if name == "t":
        text = str(element.text or "")
        return text if element.get(SPACE) == "preserve" else text.strip(" \t\r\n")
    return None if element.attrib else CHARACTERS.get(name)


def _format(run: Element) -> str:
    """Return the properties of a run that somebody sees, as XML."""
    properties = child(run, "rPr")
    if properties is None:
        return ""
    visible = deepcopy(properties)
    visible[:] = [element for element in visible if local_name(element) not in UNSEEN]
    return str(etree.tostring(visible, encoding="unicode", with_tail=False)) if len(visible) else ""


def _texts(group: Sequence[Sequence[Element]]) -> Element:
    """Return children of a paragraph as an element of texts, with the most frequent format.

    Runs of this format are its text. Its children are <run> for other formats, containers, and
    <code> around what is not text. The format of the runs in an element is its attribute.
    """
    base = _base_format(group)
    content = etree.Element("content", format=base)
    top = content
    for elements in group:
        element = elements[0]
        name = local_name(element)
        is_single = len(elements) == 1
        if is_single and _text_of(element) and _format(element) != top.get("format"):
            top = content
            if _format(element) != base:
                top = etree.SubElement(content, "run", format=_format(element))
        if is_single and name == "r" and not _is_hidden(element):
            _append_run(top, element)
        elif is_single and name in CONTAINERS and _has_text(element):
            top = content
            inside = _texts(_join_fields(element))
            attributes = {**element.attrib, "format": inside.get("format")}
            inline_xml.set_content(etree.SubElement(content, element.tag, attributes), inside)
        elif name not in WITHOUT_MEANING:
            etree.SubElement(top, "code").extend(deepcopy(list(elements)))
    return content


def _base_format(group: Sequence[Sequence[Element]]) -> str:
    """Return the format of most characters."""
    lengths = Counter[str]()
    for elements in group:
        n_characters = len(_text_of(elements[0])) if len(elements) == 1 else 0
        lengths[_format(elements[0])] += n_characters
    return lengths.most_common(1)[0][0]


def _append_run(top: Element, run: Element) -> None:
    """Append the texts of a run to an element of texts, and <code> for its other children."""
    properties = child(run, "rPr")
    for piece in run:
        if (text := _character(piece)) is not None:
            inline_xml.append_text(top, text)
        elif local_name(piece) != "rPr" and local_name(piece) not in WITHOUT_MEANING:
            kept = etree.SubElement(etree.SubElement(top, "code"), run.tag)
            if properties is not None:
                kept.append(deepcopy(properties))
            kept.append(deepcopy(piece))


def _runs(content: Element, properties: str, prefix: str) -> Iterator[Element]:
    """Yield the runs of an element of texts, the inverse of `_texts`; prefix: of element names."""
    yield from _text_run(content.text, properties, prefix)
    for node in content:
        tail = node.tail
        if node.tag == "code":
            yield from list(node)
        elif node.tag == "run":
            yield from _runs(node, node.get("format"), prefix)
        else:
            node[:] = list(_runs(node, node.attrib.pop("format"), prefix))
            node.text = node.tail = None
            yield node
        yield from _text_run(tail, properties, prefix)


def _text_run(text: str | None, properties: str, prefix: str) -> Iterator[Element]:
    """Yield the run of a text, none for an empty one."""
    if not text:
        return
    run = etree.Element(f"{prefix}r")
    if properties:
        run.append(etree.fromstring(properties))
    names = {character: name for name, character in CHARACTERS.items()}
    for piece in re.split("([\t\n\u2011])", text):
        if piece in names:
            etree.SubElement(run, prefix + names[piece])
        elif piece:
            inline_xml.append_text(etree.SubElement(run, f"{prefix}t", {SPACE: "preserve"}), piece)
    yield run
