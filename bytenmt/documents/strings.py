"""String files of programs: Android, .properties, Fluent, DTD, ini and Apple's .strings."""

from __future__ import annotations

import re
from functools import partial
from io import StringIO
from typing import Any

from iniparse import INIConfig
from lxml import etree
from moz.l10n.formats import Format
from moz.l10n.formats.properties.serialize import properties_serialize
from moz.l10n.model import Expression, Markup
from moz.l10n.resource import parse_resource, serialize_resource

from bytenmt.documents import inline_xml
from bytenmt.documents.po import PERCENT, has_same_arguments
from bytenmt.documents.unit import (
    CodedText,
    Document,
    EditedText,
    ReadOptions,
    Tag,
    Unit,
    pair_codes,
    parse_tag,
    text_writer,
)
from bytenmt.errors import DataError

# Apple's strings: "key" = "value"; with comments. A bare word is a string as well.
APPLE_SPACE = r"(?:\s+|//[^\n]*|/\*.*?\*/)*+"
APPLE_STRING = rf'{APPLE_SPACE}("[^"\\]*+(?:\\.[^"\\]*+)*+"|[\w$/:.-]+){APPLE_SPACE}'
APPLE_ENTRY = re.compile(f"{APPLE_STRING}(?:={APPLE_STRING})?;", re.DOTALL)
APPLE_ESCAPE = re.compile(r"\\(?:U([0-9a-fA-F]{4})|(.))", re.DOTALL)
# A character beyond U+FFFF as two escapes, of which moz.l10n would make two characters.
SURROGATES = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "a": "\a", "b": "\b", "v": "\v"}


def read_android(data: bytes, options: ReadOptions) -> Document:
    """Read Android's XML: a translation unit for each string without translatable="false".

    Elements that no translation changes stay as they are. Raises DataError for a wrong encoding,
    and SyntaxError or ValueError for malformed content.
    """
    document = read_mozilla(data, options)
    tree = inline_xml.parse(data)
    before = _android_elements(inline_xml.parse(document.dump()))
    dump_anew = document.dump

    def dump() -> bytes:
        after = _android_elements(inline_xml.parse(dump_anew()))
        for key, element in _android_elements(tree).items():
            if key in after and etree.tostring(after[key]) != etree.tostring(before[key]):
                has_cdata = b"<![CDATA[" in etree.tostring(after[key])
                inline_xml.set_content(element, after[key])
                if has_cdata:
                    element.text = etree.CDATA(element.text)
        return inline_xml.dump(tree, data)

    document.dump = dump
    return document


def _android_elements(tree: Any) -> dict[tuple[str, ...], Any]:
    """Return the elements of texts by name, and those of plural forms by their quantities."""
    elements = dict[tuple[str, ...], Any]()
    for element in tree.getroot().iterchildren(etree.Element):
        name = str(element.get("name", ""))
        if element.tag == "string":
            elements[element.tag, name] = element
        for number, item in enumerate(element.iterchildren("item")):
            elements[element.tag, name, item.get("quantity") or str(number)] = item
    return elements


def read_mozilla(data: bytes, options: ReadOptions) -> Document:
    """Read Fluent, DTD or Java's .properties by moz.l10n: a translation unit for each value.

    options.format: "fluent", "dtd", "properties" or "android". In Fluent, each message, attribute
    and variant has a value. Raises DataError for a wrong encoding, ValueError for malformed syntax.
    """
    moz_format = Format[options.format]  # its names are ours
    is_java = moz_format is Format.properties
    try:
        file = EditedText(data)
    except DataError:
        if not is_java:
            raise
        file = EditedText(data, "latin-1")  # as before Java 9
    text = SURROGATES.sub(
        lambda pair: bytes.fromhex(pair[1] + pair[2]).decode("utf-16-be"), file.text
    )
    resource = parse_resource(moz_format, text)
    units = list[Unit]()
    for entry in resource.all_entries():
        if entry.get_meta("translatable") == "false":
            continue
        place = f"line {entry.linepos.key}" if entry.linepos else ".".join(entry.id)
        for key, message in (("", entry.value), *entry.properties.items()):
            name = ".".join(filter(None, (*entry.id, key)))
            units += [_pattern_unit(pattern, place, name, is_java) for _, pattern in message]

    def dump() -> bytes:
        # A .properties file in ASCII or Latin-1 stays so; escapes serve for the rest.
        if is_java and (file.encoding == "latin-1" or file.text.isascii()):
            return file.encoded("".join(properties_serialize(resource, "iso-8859-1")))
        return file.encoded("".join(serialize_resource(resource)))

    return Document(units, dump)


def _pattern_unit(pattern: list[Any], place: str, name: str, is_java: bool) -> Unit:
    """Return the unit of a pattern of moz.l10n, a list of texts and placeholders.

    is_java: whether an apostrophe in a text with {0} may be doubled, as MessageFormat wants it.
    """
    for item in pattern:
        if isinstance(item, Expression) and item.function == "html":
            item.arg = re.sub(r"\\(.)", r"\1", str(item.arg))  # moz.l10n leaves its escapes
    text = "".join(part for part in pattern if isinstance(part, str))
    is_doubled = is_java and re.search(r"\{\d", text) and ("''" in text or "'" not in text)
    apostrophe = "''" if is_doubled else "'"
    codes = pair_codes(
        item.replace(apostrophe, "'") if isinstance(item, str) else _tag(item) for item in pattern
    )
    items = dict(zip(codes, pattern, strict=True))

    def write(parts: CodedText, _: bool) -> None:
        pattern.clear()
        for part in parts:
            if isinstance(part, str):  # moz.l10n does not escape the end of CDATA
                part = part.replace("'", apostrophe).replace("]]>", "]] >")
            pattern.append(part if isinstance(part, str) else items[part])

    return Unit(codes, write, place, name)


def _tag(item: Expression | Markup) -> Tag:
    if not isinstance(item, Markup):
        text = item.attributes.get("source", item.arg)
        return parse_tag(text if isinstance(text, str) and not item.options else repr(item))
    if item.kind == "standalone":
        return Tag(f"<{item.name}>")
    if item.kind == "close":
        return Tag(f"</{item.name}>", item.name, False)
    return Tag(f"<{item.name}>", item.name, True)


def read_ini(data: bytes, _: ReadOptions) -> Document:
    """Read an .ini file: a translation unit for the value of each key. Raises DataError."""
    file = EditedText(data)
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


def read_apple(data: bytes, _: ReadOptions) -> Document:
    """Read Apple's .strings: a translation unit for the value of each key. Raises DataError."""
    if data.startswith((b"bplist", b"<?xml", b"<plist")):
        raise DataError("a property list: convert it to JSON, such as by plutil -convert json")
    file = EditedText(data)
    units = list[Unit]()
    position = 0
    while entry := APPLE_ENTRY.match(file.text, position):
        if entry[2]:  # a key without a value is its own value
            units.append(_apple_unit(file, entry))
        position = entry.end()
    if space := re.match(APPLE_SPACE, file.text[position:], re.DOTALL):
        position += space.end()
    if position < len(file.text):
        raise DataError(f'{file.line(position)}: expected "key" = "value";')
    return Document(units, file.dump)


def _apple_unit(file: EditedText, entry: re.Match[str]) -> Unit:
    key, source = map(_apple_value, entry.groups())

    def put(text: str) -> None:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        for letter, character in LETTERS.items():
            text = text.replace(character, f"\\{letter}")
        file.replace(*entry.span(2), f'"{text}"')

    is_valid = partial(has_same_arguments, PERCENT, source)
    return Unit([source], text_writer(put), file.line(entry.start(2)), key, is_valid=is_valid)


def _apple_value(literal: str) -> str:
    return APPLE_ESCAPE.sub(_unescaped, literal[1:-1]) if literal.startswith('"') else literal


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else LETTERS.get(escape[2], escape[2])
