"""String files of programs: Java's .properties, Fluent, DTD, ini and Android's resources by moz.l10n and
iniparse, and Apple's .strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import StringIO
from typing import Any

from iniparse import INIConfig
from lxml import etree
from moz.l10n.formats import Format
from moz.l10n.formats.android.parse import parse_pattern
from moz.l10n.formats.android.serialize import set_pattern
from moz.l10n.formats.properties.serialize import properties_serialize
from moz.l10n.model import Expression, Markup, PatternMessage, Resource
from moz.l10n.resource import parse_resource, serialize_resource

from bytenmt.documents import inline_xml
from bytenmt.documents.format_strings import PERCENT, has_same_arguments
from bytenmt.documents.inline_xml import Element
from bytenmt.documents.unit import (
    Document,
    ReadOptions,
    Tag,
    TextFile,
    Unit,
    joined,
    paired,
    tag_of,
    text_writer,
)
from bytenmt.errors import DataError

CDATA = "<![CDATA["
# Apple's strings: "key" = "value"; with comments. A bare word is a string, too.
APPLE_TOKEN = re.compile(
    r'\s+|//[^\n]*|/\*.*?\*/|"(?P<quoted>[^"\\]*+(?:\\.[^"\\]*+)*+)"|(?P<bare>[\w$/:.-]+)|(?P<sign>[=;])',
    re.DOTALL,
)
APPLE_ESCAPE = re.compile(r"\\(?:U([0-9a-fA-F]{1,4})|(.))", re.DOTALL)
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "a": "\a", "b": "\b", "v": "\v"}


def read_mozilla(data: bytes, options: ReadOptions) -> Document:
    """Return the units of Fluent or a DTD: each message, its attributes, and each of its variants."""
    file = TextFile(data)
    resource = parse_resource(Format[options.format], file.text)
    return Document(_resource_units(resource), lambda: file.encoded("".join(serialize_resource(resource))))


def read_properties(data: bytes, _: ReadOptions) -> Document:
    """Return the units of a .properties file: UTF-8 (since Java 9) where it is valid, else Latin-1."""
    try:
        file = TextFile(data)
    except DataError:
        file = TextFile(data, "latin-1")
    resource = parse_resource(Format.properties, file.text)
    # A file in ASCII or Latin-1 stays so; escapes serve for the rest.
    is_narrow = file.encoding == "latin-1" or file.text.isascii()
    units = _resource_units(resource)
    for unit in units:
        _unescape_apostrophes(unit)
    return Document(
        units,
        lambda: file.encoded("".join(properties_serialize(resource, "iso-8859-1" if is_narrow else "utf-8"))),
    )


def _unescape_apostrophes(unit: Unit) -> None:
    """Show the apostrophes of Java's MessageFormat, which are doubled in a text with {0}, as single ones."""
    text, write = joined(unit.source), unit.write
    if re.search(r"\{\d", text) and ("''" in text or "'" not in text):
        unit.source = [text.replace("''", "'")]
        unit.write = lambda parts, _: write((joined(parts).replace("'", "''"),), False)


def _resource_units(resource: Resource[Any]) -> list[Unit]:
    """Return the units of a resource of moz.l10n."""
    units = list[Unit]()
    for entry in resource.all_entries():
        place = f"line {entry.linepos.key}" if entry.linepos else ".".join(entry.id)
        for key, message in (("", entry.value), *entry.properties.items()):
            name = ".".join(filter(None, (*entry.id, key)))
            is_plain = isinstance(message, PatternMessage)
            for pattern in [message.pattern] if is_plain else message.variants.values():
                put = partial(pattern.__setitem__, slice(None))
                units.append(_pattern_unit(pattern, put, place, name))
    return units


def _pattern_unit(pattern: Iterable[Any], put: Callable[[list[Any]], None], place: str, name: str) -> Unit:
    """Return the unit of a pattern of moz.l10n, a list of texts and placeholders."""
    items = list(pattern)
    codes = paired(one if isinstance(one, str) else _tag(one) for one in items)
    of_code = dict(zip(codes, items, strict=True))
    return Unit(codes, lambda parts, _: put([of_code.get(one, one) for one in parts]), place, name)


def _tag(item: Expression | Markup) -> Tag:
    if isinstance(item, Markup):
        sign = "/" if item.kind == "close" else ""
        return Tag(f"<{sign}{item.name}>", "" if item.kind == "standalone" else item.name, not sign)
    text = item.attributes.get("source", item.arg)
    return tag_of(text if isinstance(text, str) else f"{{{getattr(text, 'name', text)}}}")


def read_ini(data: bytes, _: ReadOptions) -> Document:
    """Return the units of a file with sections. Raises DataError."""
    file = TextFile(data)
    try:
        settings = INIConfig(StringIO(file.text), optionxformvalue=None)
    except Exception as error:  # of its own classes, which share no other one
        raise DataError(f"not ini: {' '.join(str(error).split())}") from None
    units = list[Unit]()
    for name in settings:
        section = settings[name]
        for key in section:
            write = text_writer(partial(section.__setitem__, key))
            units.append(Unit([str(section[key])], write, f"[{name}] {key}", f"{name}.{key}"))
    return Document(units, lambda: file.encoded(str(settings)))


def read_android(data: bytes, _: ReadOptions) -> Document:
    """Return the units of Android's resources: strings, items of string arrays and plural forms."""
    tree = inline_xml.parse(data, "resources")
    units = list[Unit]()
    for one in tree.getroot().iterchildren("string", "string-array", "plurals"):
        name = one.get("name", "")
        for number, item in enumerate([one] if one.tag == "string" else one.iterchildren("item")):
            key = name if one.tag == "string" else f"{name}[{item.get('quantity', number)}]"
            if one.get("translatable") != "false":
                units.append(_android_unit(item, key))
    return Document(units, lambda: inline_xml.dump(tree, data))


def _android_unit(element: Element, name: str) -> Unit:
    def put(items: list[Any]) -> None:
        element.text, element[:] = None, []
        set_pattern(element, items)
        if (element.text or "").startswith(CDATA):  # which moz.l10n marks up for a serialiser of HTML
            element.text = etree.CDATA(element.text[len(CDATA) : -len("]]>")])

    pattern = list(parse_pattern(element, False, False))
    for item in pattern:
        if isinstance(item, Expression) and item.function == "html":  # whose escapes moz.l10n leaves
            item.arg = re.sub(r"\\(.)", r"\1", str(item.arg))
    return _pattern_unit(pattern, put, f"line {element.sourceline}", name)


def read_apple(data: bytes, _: ReadOptions) -> Document:
    """Return the units of a .strings file, in the syntax of old property lists. Raises DataError."""
    file = TextFile(data)
    units, statement, at = list[Unit](), list[re.Match[str]](), 0
    while at < len(file.text):
        token = APPLE_TOKEN.match(file.text, at)
        if token is None:
            raise DataError(f'{file.line(at)}: expected "key" = "value";')
        at = token.end()
        statement += [token] if token.lastgroup else []
        if token["sign"] == ";":
            groups = [one.lastgroup if one["sign"] is None else one["sign"] for one in statement]
            if len(groups) == 4 and groups[1] == "=" and token[0] not in (groups[0], groups[2]):
                units += _apple_unit(file, statement[0], statement[2])
            elif len(groups) != 2:  # a key without a value is its own
                raise DataError(f'{file.line(at)}: expected "key" = "value";')
            statement = []
    if statement:
        raise DataError(f'{file.line(at)}: expected "key" = "value";')
    return Document(units, file.dump)


def _apple_unit(file: TextFile, key: re.Match[str], value: re.Match[str]) -> Iterator[Unit]:
    source = _apple_text(value)

    def put(text: str) -> None:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        for letter, character in LETTERS.items():
            text = text.replace(character, f"\\{letter}")
        file.replace(value.start(), value.end(), f'"{text}"')

    if not re.search(r"\\[0-7]", value[0]):  # a character of NeXT's encoding
        unit = Unit([source], text_writer(put), file.line(value.start()), _apple_text(key))
        unit.is_valid = lambda translation: has_same_arguments(PERCENT, source, translation)
        yield unit


def _apple_text(string: re.Match[str]) -> str:
    """Return a string with its escapes resolved; \\U has a code unit of UTF-16."""

    def letter(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else LETTERS.get(match[2], match[2])

    text = APPLE_ESCAPE.sub(letter, string["quoted"] if string["bare"] is None else string["bare"])
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
