"""String files of programs, JSON and Java's .properties: a unit for each value that is text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bytenmt.documents.document import LINES, MalformedError, Parts, Unit, wide_encoding
from bytenmt.documents.inline_tags import format_string, parse_string

JSON_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]')
SENTENCE_RULES = re.compile(
    r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,"
)  # ICU's: programs, not text
KEY = re.compile(r"[^\\:= \t\f]*+(?:\\.[^\\:= \t\f]*+)*+", re.DOTALL)
BETWEEN = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
JOINT = re.compile(r"\\(?:\r\n|\n|\r)[ \t\f]*")  # a line that goes on in the next one
PROPERTY_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
LONGEST_PATH = 200  # characters of the name of a unit: the last keys on the way to it
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def read_json(text: str) -> list[Unit]:
    """Return the units: string values.

    Of Chrome's messages only `message` is translated, and of ARB no metadata (keys with @). Raises
    MalformedError.
    """
    try:
        json.loads(text, parse_int=str)  # as numbers, integers of more than 4,300 digits are refused
    except json.JSONDecodeError as error:
        raise MalformedError(f"not JSON: {error.msg}", error.pos) from None
    except RecursionError:
        raise MalformedError("values within values without an end", 0) from None
    ascii_only = text.isascii()
    units = []
    for path, start, end in _json_values(text):
        value = json.loads(text[start:end])
        if SENTENCE_RULES.search(value) or any("\ud800" <= one <= "\udfff" for one in value):
            continue
        source = parse_string(value)
        units.append(Unit(start + 1, path, source, start, end, source, _json_writer(ascii_only)))
    return units


def _json_writer(ascii_only: bool) -> Callable[[Parts, bool], str]:
    return lambda parts, _: json.dumps(format_string(parts), ensure_ascii=ascii_only)


@dataclass(eq=False)
class _JSONLevel:
    """An object or list that is being read.

    path: its last keys. is_about: whether it holds metadata of other strings. key: of the current value, or
    the index of the item. has_message: whether it has a string `message`. values: key, begin and end of its
    strings.
    """

    is_object: bool
    path: str
    is_about: bool
    key: str | int
    has_message: bool = False
    values: list[tuple[str | int, int, int]] = field(default_factory=list)


def _json_values(text: str) -> list[tuple[str, int, int]]:
    """Return path, begin and end of each string to translate in valid JSON."""
    values = list[tuple[str, int, int]]()
    top = _JSONLevel(False, "", False, 0)
    stack = [top]
    is_key = False
    for match in JSON_TOKEN.finditer(text):
        token, level = match[0], stack[-1]
        if token in ("{", "["):
            is_key = token == "{"
            path = f"{level.path}.{level.key}"[-LONGEST_PATH:] if level is not top else ""
            stack.append(
                _JSONLevel(is_key, path, level.is_about or _is_about(level.key), "" if is_key else 0)
            )
        elif token in ("}", "]"):
            stack.pop()
            values += _translatable(level)
        elif token == ",":
            is_key = level.is_object
            if not is_key:
                level.key = int(level.key) + 1
        elif token == ":":
            is_key = False
        elif is_key:
            level.key = json.loads(token)
        else:
            level.values.append((level.key, match.start(), match.end()))
            level.has_message = level.has_message or level.key == "message"
    values += _translatable(top)
    return sorted(values, key=lambda value: value[1])


def _is_about(key: str | int) -> bool:
    """Return whether a value is about a string, by its key in ARB."""
    return isinstance(key, str) and key.startswith("@")


def _translatable(level: _JSONLevel) -> Iterator[tuple[str, int, int]]:
    """Yield the strings of an object or a list that are to be translated."""
    for key, start, end in level.values:
        if not (level.is_about or _is_about(key) or (level.has_message and key != "message")):
            yield f"{level.path}.{key}".lstrip("."), start, end


def properties_encoding(data: bytes) -> str:
    """Return the encoding of a .properties file: UTF-8 (since Java 9) where it is valid, else Latin-1.

    UTF-16 and UTF-32 are recognised by their zero bytes.
    """
    if wide := wide_encoding(data):
        return wide
    try:
        data.decode()
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def read_properties(text: str) -> list[Unit]:
    """Return the units. Raises MalformedError."""
    units = []
    # A file in ASCII or Latin-1 stays so; escapes serve for the rest.
    most = next((last for last in "~\xff" if max(text, default="") <= last), "\U0010ffff")
    for start, end in _logical_lines(text):
        key = KEY.match(text, start, end)
        assert key is not None
        between = BETWEEN.match(text, key.end(), end)
        assert between is not None
        begin = between.end()
        value = _property(text[begin:end], begin)
        if value:
            apostrophes = bool(re.search(r"\{\d", value)) and ("''" in value or "'" not in value)
            if SENTENCE_RULES.search(value) or re.search(r"\{\d+,choice,", value):
                continue
            source = parse_string(value.replace("''", "'") if apostrophes else value)
            name = _property(key[0], start)
            units.append(Unit(begin, name, source, begin, end, source, _property_writer(apostrophes, most)))
    return units


def _logical_lines(text: str) -> list[tuple[int, int]]:
    """Return begin and end of each logical line, without leading white space; \\ continues a line."""
    lines: list[tuple[int, int]] = []
    begin: int | None = None
    for match in LINES.finditer(text):
        line = match[1]
        if begin is None:
            bare = line.lstrip(" \t\f")
            if not bare or bare[0] in "#!":
                continue
            begin = match.end(1) - len(bare)
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2 and match[2]:
            continue
        lines.append((begin, match.end(1)))
        begin = None
    if begin is not None:
        lines.append((begin, len(text)))
    return lines


def _property(raw: str, at: int) -> str:
    """Unescape a key or value. Raises MalformedError."""

    def letter(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise MalformedError("expected four digits behind \\u", at + match.start())
        return LETTERS.get(match[2], match[2])

    plain = PROPERTY_ESCAPE.sub(letter, JOINT.sub("", raw))
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _property_writer(apostrophes: bool, most: str) -> Callable[[Parts, bool], str]:
    def write(parts: Parts, _: bool) -> str:
        value = format_string(parts)
        value = value.replace("'", "''") if apostrophes else value
        value = value.replace("\\", "\\\\")
        for letter, character in LETTERS.items():
            value = value.replace(character, f"\\{letter}")
        if value.startswith((" ", ":", "=")):  # which would be what stands behind a key
            value = "\\" + value
        return "".join(one if one <= most else _utf16(one) for one in value)

    return write


def _utf16(letter: str) -> str:
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
