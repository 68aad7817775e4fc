"""YAML by ruamel.yaml: a unit for each value that is a string.

ruamel.yaml says where the scalars stand; only those that are translated are replaced. A file of
Rails, whose only outermost key is the source language, gets the target language as its key.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bytenmt.documents.unit import Document, EditedText, ReadOptions, Unit, text_writer

UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")  # an anchor or a tag before a scalar
# What needs no quotes, also in lists and mappings on one line, and in YAML 1.1, where yes is a
# boolean.
PLAIN = re.compile(r"(?!(?i:y|n|yes|no|on|off)$)[^\W\d_][^\n#:\[\]{},&*!|>'\"%@`\\]*(?<!\s)")


def read(data: bytes, options: ReadOptions) -> Document:
    """Read YAML: a translation unit for each string value.

    Raises DataError if the bytes are not valid text, ValueError if the text is not YAML.
    """
    file = EditedText(data)
    return Document(list(edit_scalars(file, 0, len(file.text), pair=options.pair)), file.dump)


def edit_scalars(
    file: EditedText,
    start: int,
    end: int,
    is_wanted: Callable[[str], bool] = lambda _: True,
    pair: tuple[str, str] | None = None,
) -> Iterator[Unit]:
    """Yield a translation unit for each string value in the YAML file.text[start:end].

    A unit writes its translation in place of the value. is_wanted: called with the keys that lead
    to a value, joined by dots; returns whether to yield its unit. pair: source and target language;
    if the only outermost key is the source language, it becomes the target language, as in Rails.
    Raises ValueError for malformed YAML.
    """
    try:
        roots = list(YAML(typ="safe", pure=True).compose_all(file.text[start:end]))
    except YAMLError as error:
        raise ValueError(str(error)) from None
    seen = set[int]()  # positions of scalars; an alias is the node that it stands for
    for root in roots:
        if pair is not None and isinstance(root, MappingNode) and len(root.value) == 1:
            key = root.value[0][0]
            if key.value == pair[0]:
                file.replace(start + key.start_mark.index, start + key.end_mark.index, pair[1])
        for name, scalar in _scalars(root, ""):
            if scalar.start_mark.index not in seen and is_wanted(name):
                seen.add(scalar.start_mark.index)
                yield _unit(file, start, scalar, name)


def _scalars(node: Node, name: str) -> Iterator[tuple[str, ScalarNode]]:
    """Yield the strings in a node, with the keys that lead to them."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield from _scalars(value, f"{name}.{key.value}".lstrip("."))
    elif isinstance(node, SequenceNode):
        for number, value in enumerate(node.value):
            yield from _scalars(value, f"{name}.{number}".lstrip("."))
    elif isinstance(node, ScalarNode) and str(node.tag) == "tag:yaml.org,2002:str":
        yield name, node


def _unit(file: EditedText, start: int, scalar: ScalarNode, name: str) -> Unit:
    begin = start + scalar.start_mark.index
    end = start + scalar.end_mark.index
    if properties := PROPERTIES.match(file.text, begin):
        begin = properties.end()

    def put(text: str) -> None:
        file.replace(begin, end, _to_yaml(text, file.text[begin:end], str(scalar.style or "")))

    return Unit([scalar.value], text_writer(put), file.line(begin), name)


def _to_yaml(value: str, before: str, style: str) -> str:
    """Return a scalar in the style of the former one if it reads the same, else in quotes."""
    if not style and PLAIN.fullmatch(value) and _load(value) == value:
        return value
    if style in ("|", ">"):
        block = _to_block(value, before, style)
        if _load(block) == value:
            return block
    quoted = UNPRINTABLE.sub(
        lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False)
    )
    return quoted + before[len(before.rstrip()) :]  # the line end of a block


def _load(text: str) -> Any:
    """Return the value of a scalar, None if it is malformed."""
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError:
        return None


def _to_block(value: str, before: str, style: str) -> str:
    """Return a block with the header, indentation, width and last line ends of the former one."""
    header, *lines = before.split("\n")
    indentations = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    prefix = " " * min(indentations, default=0)
    written = value.rstrip("\n").split("\n")
    if style == ">":
        written = _fold(written, max(len(line) for line in lines))
    body = "\n".join(f"{prefix}{line}".rstrip() for line in written)
    return f"{header}\n{body}{before[len(before.rstrip()) :]}"


def _fold(paragraphs: Sequence[str], width: int) -> list[str]:
    """Return the lines of a folded block: an empty one between two without an indentation."""
    lines = list[str]()
    was_indented = True
    for paragraph in paragraphs:
        is_indented = paragraph.startswith(" ")
        if not is_indented and not was_indented:
            lines.append("")
        if is_indented:
            lines.append(paragraph)
        else:
            lines += textwrap.wrap(paragraph, width, break_long_words=False)
        was_indented = is_indented
    return lines
