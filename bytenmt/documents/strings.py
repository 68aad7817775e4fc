"""String files of programs: JSON, Java's .properties and Apple's .strings; a unit for each value that is
text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bytenmt.documents.document import (
    LINES,
    Content,
    DeclaredLanguages,
    Edit,
    MalformedError,
    Parts,
    Unit,
    is_language_or_region,
    wide_encoding,
)
from bytenmt.documents.inline_tags import format_string, parse_string

JSON_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]')
LOCALE = re.compile(r'"@@locale"\s*+:\s*+"([^"\\]*+)"')
CHROME_KEYS = frozenset(("message", "description", "placeholders", "hash"))  # of a message of Chrome
CHROME_PLACEHOLDER = re.compile(r"(?<!\$)\$[1-9]")  # which the program fills in; a price is written $$5
KEY = re.compile(r"[^\\:= \t\f]*+(?:\\.[^\\:= \t\f]*+)*+", re.DOTALL)
BETWEEN = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
JOINT = re.compile(r"\\(?:\r\n|\n|\r)[ \t\f]*")  # a line that goes on in the next one
LONGEST_PATH = 200  # characters of the name of a unit: the last keys on the way to it
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
APPLE_LETTERS = LETTERS | {"a": "\a", "b": "\b", "v": "\v", "\n": "\n"}
OCTAL = re.compile(r"\\[0-7]")  # a character in an encoding of NeXT's machines
APPLE_BLANK = re.compile(r"(?:\s++|//[^\r\n]*+|/\*.*?\*/)*+", re.DOTALL)
APPLE_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"|(?!/[*/])([\w$/:.-]++)', re.DOTALL)


def read_json(text: str) -> list[Unit]:
    """Return the units: string values.

    Of Chrome's messages, objects with no other keys than CHROME_KEYS, only `message` is translated, and of
    ARB no metadata (keys with @). Raises MalformedError.
    """
    try:
        json.loads(text, parse_int=str)  # as numbers, integers of more than 4,300 digits are refused
    except json.JSONDecodeError as error:
        raise MalformedError(f"not JSON: {error.msg}", error.pos) from None
    except RecursionError:
        raise MalformedError("values that are nested too deeply", 0) from None
    ascii_only = text.isascii()
    units = []
    for path, start, end, is_chrome in _json_values(text):
        value = json.loads(text[start:end])
        if any("\ud800" <= one <= "\udfff" for one in value):
            continue
        placeholder = CHROME_PLACEHOLDER if is_chrome else None
        source = parse_string(value, placeholder)
        write = _json_writer(ascii_only, placeholder)
        units.append(Unit(start + 1, path, source, start, end, source, write))
    return units


def read_arb(text: str, pair: tuple[str, str] | None = None) -> Content:
    """Return the units of an ARB file, which is JSON that declares its language. Raises MalformedError.

    pair: source and target language. A @@locale is then set to the target language, to de_AT for de-AT.
    """
    units = read_json(text)
    locale = LOCALE.search(text)
    if locale is None:
        return Content(units)
    edits = list[Edit]()
    if pair is not None and not is_language_or_region(locale[1], pair[1]):
        edits.append(Edit(locale.start(1), locale.end(1), json.dumps(pair[1].replace("-", "_"))[1:-1]))
    return Content(units, DeclaredLanguages(locale[1] or None), edits)


def _json_writer(ascii_only: bool, placeholder: re.Pattern[str] | None) -> Callable[[Parts, bool], str]:
    return lambda parts, _: json.dumps(format_string(parts, placeholder), ensure_ascii=ascii_only)


class _JSONString(NamedTuple):
    """A string to translate. start, end: with its quotes. is_chrome: whether it is a message of Chrome."""

    path: str
    start: int
    end: int
    is_chrome: bool


@dataclass(eq=False)
class _JSONLevel:
    """An object or list that is being read.

    path: its last keys. is_about: whether it holds metadata of other strings. first: the number of strings
    before it. key: of the current value, or the index of the item. keys: of an object, so far. values: key,
    begin and end of its strings.
    """

    is_object: bool
    path: str
    is_about: bool
    first: int
    key: str | int
    keys: set[str] = field(default_factory=set)
    values: list[tuple[str | int, int, int]] = field(default_factory=list)

    @property
    def is_chrome(self) -> bool:
        """Return whether it is a message of Chrome."""
        return self.keys <= CHROME_KEYS and any(key == "message" for key, _, _ in self.values)


def _json_values(text: str) -> list[_JSONString]:
    """Return the strings to translate in valid JSON."""
    values = list[_JSONString]()
    top = _JSONLevel(False, "", False, 0, 0)
    stack = [top]
    is_key = False
    for match in JSON_TOKEN.finditer(text):
        token, level = match[0], stack[-1]
        if token in ("{", "["):
            is_key = token == "{"
            path = f"{level.path}.{level.key}"[-LONGEST_PATH:] if level is not top else ""
            is_about = level.is_about or _is_about(level.key)
            stack.append(_JSONLevel(is_key, path, is_about, len(values), "" if is_key else 0))
        elif token in ("}", "]"):
            stack.pop()
            if level.is_chrome:
                del values[level.first :]  # of its placeholders
            values += _translatable(level)
        elif token == ",":
            is_key = level.is_object
            if not is_key:
                level.key = int(level.key) + 1
        elif token == ":":
            is_key = False
        elif is_key:
            level.key = json.loads(token)
            level.keys.add(str(level.key))
        else:
            level.values.append((level.key, match.start(), match.end()))
    values += _translatable(top)
    return sorted(values, key=lambda value: value.start)


def _is_about(key: str | int) -> bool:
    """Return whether a value is about a string, by its key in ARB."""
    return isinstance(key, str) and key.startswith("@")


def _translatable(level: _JSONLevel) -> Iterator[_JSONString]:
    """Yield the strings of an object or a list that are to be translated."""
    is_chrome = level.is_chrome
    for key, start, end in level.values:
        if not (level.is_about or _is_about(key) or (is_chrome and key != "message")):
            yield _JSONString(f"{level.path}.{key}".lstrip("."), start, end, is_chrome)


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
        value = unescape(JOINT.sub("", text[begin:end]), begin)
        if value:
            apostrophes = bool(re.search(r"\{\d", value)) and ("''" in value or "'" not in value)
            source = parse_string(value.replace("''", "'") if apostrophes else value)
            name = unescape(JOINT.sub("", key[0]), start)
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


def unescape(raw: str, at: int, unicode: str = "u", letters: Mapping[str, str] = LETTERS) -> str:
    """Return a string with its escapes resolved.

    at: its position in the file. unicode: the letter before the four digits of a UTF-16 code unit. letters:
    the meanings of other letters behind a backslash; what is not among them stands for itself. Raises
    MalformedError.
    """

    def letter(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] == unicode:
            raise MalformedError(f"expected four hexadecimal digits after \\{unicode}", at + match.start())
        return letters.get(match[2], match[2])

    plain = re.sub(rf"(?s)\\(?:{unicode}([0-9a-fA-F]{{4}})|(.))", letter, raw)
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


def read_apple(text: str) -> list[Unit]:
    """Return the units of a .strings file, in the syntax of old property lists. Raises MalformedError."""
    if text.startswith(("bplist", "<?xml")):
        raise MalformedError("a property list as XML or binary: convert it into a text of strings first", 0)
    units, at = list[Unit](), _after_blanks(text, 0)
    while at < len(text):
        key = _apple_string(text, at)
        value, at = None, _after_blanks(text, key.end())
        if text.startswith("=", at):
            value = _apple_string(text, _after_blanks(text, at + 1))
            at = _after_blanks(text, value.end())
        if not text.startswith(";", at):
            raise MalformedError("expected = or ; behind a string", at)
        at = _after_blanks(text, at + 1)
        if value is None or OCTAL.search(value[0]) or not value[value.lastindex or 0]:
            continue  # a key without a value is its own; an empty value is no text
        name, string = (
            unescape(one[one.lastindex or 0], one.start(), "U", APPLE_LETTERS) for one in (key, value)
        )
        source = parse_string(string)
        units.append(Unit(value.start(), name, source, value.start(), value.end(), source, _apple_quoted))
    return units


def _after_blanks(text: str, at: int) -> int:
    """Return where the white space and the comments end that begin at a position."""
    match = APPLE_BLANK.match(text, at)
    assert match is not None
    return match.end()


def _apple_string(text: str, at: int) -> re.Match[str]:
    """Match a string, whose last group is its text without quotes. Raises MalformedError."""
    match = APPLE_STRING.match(text, at)
    if match is None:
        expected = "the end of a comment or string" if text.startswith(('"', "/*"), at) else "a string"
        raise MalformedError(f"expected {expected}", at)
    return match


def _apple_quoted(parts: Parts, _: bool) -> str:
    value = format_string(parts).replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in LETTERS.items():
        value = value.replace(character, f"\\{letter}")
    return f'"{value}"'
