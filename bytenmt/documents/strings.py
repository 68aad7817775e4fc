"""String files of programs: Android's resources, Java's .properties, Fluent and DTD by moz.l10n,
ini by iniparse, and Apple's .strings.
"""

from __future__ import annotations

import re
from functools import partial
from io import StringIO
from typing import Any

from iniparse import INIConfig
from moz.l10n.formats import Format
from moz.l10n.formats.properties.serialize import properties_serialize
from moz.l10n.model import Expression, Markup
from moz.l10n.resource import parse_resource, serialize_resource

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

# Apple's strings: "key" = "value"; with comments. A bare word is a string, too.
APPLE_SPACE = r"(?:\s+|//[^\n]*|/\*.*?\*/)*+"
APPLE_STRING = rf'{APPLE_SPACE}("[^"\\]*+(?:\\.[^"\\]*+)*+"|[\w$/:.-]+){APPLE_SPACE}'
APPLE_ENTRY = re.compile(f"{APPLE_STRING}(?:={APPLE_STRING})?;", re.DOTALL)
APPLE_ESCAPE = re.compile(r"\\(?:U([0-9a-fA-F]{4})|(.))", re.DOTALL)
# A character beyond U+FFFF as two escapes, of which moz.l10n would make two characters.
SURROGATES = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "a": "\a", "b": "\b", "v": "\v"}


def read_mozilla(data: bytes, options: ReadOptions) -> Document:
    """Read a file of options.format, one that moz.l10n knows: "android", "properties", "fluent" or
    "dtd".

    Each message, attribute and variant is a unit, except those with translatable="false". A
    .properties file that is not UTF-8 (since Java 9) is read as Latin-1. Raises DataError and
    ValueError.
    """
    moz_format = Format[options.format]
    try:
        file = EditedText(data)
    except DataError:
        if moz_format is not Format.properties:
            raise
        file = EditedText(data, "latin-1")
    text = SURROGATES.sub(
        lambda pair: bytes.fromhex(pair[1] + pair[2]).decode("utf-16-be"), file.text
    )
    resource = parse_resource(moz_format, text)
    units = list[Unit]()
    for entry in resource.all_entries():
        place = f"line {entry.linepos.key}" if entry.linepos else ".".join(entry.id)
        for key, message in (("", entry.value), *entry.properties.items()):
            name = ".".join(filter(None, (*entry.id, key)))
            for _, pattern in message:
                unit = _pattern_unit(pattern, place, name, moz_format is Format.properties)
                units += [unit] if entry.get_meta("translatable") != "false" else []

    def dump() -> bytes:
        # A .properties file in ASCII or Latin-1 stays so; escapes serve for the rest.
        if moz_format is Format.properties and (file.encoding == "latin-1" or file.text.isascii()):
            return file.encoded("".join(properties_serialize(resource, "iso-8859-1")))
        return file.encoded("".join(serialize_resource(resource)))

    return Document(units, dump)


def _pattern_unit(pattern: list[Any], place: str, name: str, is_of_java: bool) -> Unit:
    """Return the unit of a pattern of moz.l10n, a list of texts and placeholders.

    is_of_java: whether an apostrophe in a text with {0} may be doubled, as MessageFormat wants it.
    """
    for item in pattern:
        if (
            isinstance(item, Expression) and item.function == "html"
        ):  # whose escapes moz.l10n leaves
            item.arg = re.sub(r"\\(.)", r"\1", str(item.arg))
    text = "".join(part for part in pattern if isinstance(part, str))
    is_doubled = is_of_java and re.search(r"\{\d", text) and ("''" in text or "'" not in text)
    codes = pair_codes(
        part.replace("''", "'" if is_doubled else "''") if isinstance(part, str) else _tag(part)
        for part in pattern
    )
    items = dict(zip(codes, pattern, strict=True))

    def write(parts: CodedText, _: bool) -> None:
        pattern[:] = [
            # moz.l10n does not escape the end of CDATA.
            part.replace("'", "''" if is_doubled else "'").replace("]]>", "]] >")
            if isinstance(part, str)
            else items[part]
            for part in parts
        ]

    return Unit(codes, write, place, name)


def _tag(item: Expression | Markup) -> Tag:
    if isinstance(item, Markup):
        sign = "/" if item.kind == "close" else ""
        return Tag(f"<{sign}{item.name}>", "" if item.kind == "standalone" else item.name, not sign)
    text = item.attributes.get("source", item.arg)
    return parse_tag(text if isinstance(text, str) and not item.options else repr(item))


def read_ini(data: bytes, _: ReadOptions) -> Document:
    """Read an .ini file: a unit for the value of each key of each section. Raises DataError."""
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
    """Read Apple's .strings: a unit for the value of each "key" = "value"; entry. Raises DataError."""
    if data.startswith((b"bplist", b"<?xml", b"<plist")):
        raise DataError("a property list: convert it to JSON, such as by plutil -convert json")
    file = EditedText(data)
    units, position = list[Unit](), 0
    while entry := APPLE_ENTRY.match(file.text, position):
        units += [_apple_unit(file, entry)] if entry[2] else []  # a key without a value is its own
        position = entry.end()
    position += len(re.match(APPLE_SPACE, file.text[position:], re.DOTALL)[0])  # type: ignore[index]
    if position < len(file.text):
        raise DataError(f'{file.line(position)}: expected "key" = "value";')
    return Document(units, file.dump)


def _apple_unit(file: EditedText, entry: re.Match[str]) -> Unit:
    key, source = (
        APPLE_ESCAPE.sub(_unescaped, literal[1:-1]) if literal[0] == '"' else literal
        for literal in entry.groups()
    )

    def put(text: str) -> None:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        for letter, character in LETTERS.items():
            text = text.replace(character, f"\\{letter}")
        file.replace(*entry.span(2), f'"{text}"')

    unit = Unit([source], text_writer(put), file.line(entry.start(2)), key)
    unit.is_valid = lambda translation: has_same_arguments(PERCENT, source, translation)
    return unit


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else LETTERS.get(escape[2], escape[2])
