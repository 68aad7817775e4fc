"""The string files of programs, JSON and Java's .properties: a unit for each value that is text.

Knows these formats; knows no translator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from bytenmt.documents.codes import string_of, strings
from bytenmt.documents.document import Malformed, Parts, Unit

JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')
SENTENCE_RULES = re.compile(
    r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,"
)  # ICU's: programs, not text
LINES = re.compile(r"([^\r\n]*)(\r*\n|\r|$)")
KEY = re.compile(r"(?:[^\\:= \t\f]|\\.)*", re.DOTALL)
BETWEEN = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
JOINT = re.compile(r"\\(?:\r\n|\n|\r)[ \t\f]*")  # a line that goes on in the next one
PROPERTY_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def read_json(text: str) -> list[Unit]:
    """The units: string values. Of Chrome's messages the `message` alone, of ARB nothing about the strings
    (keys with @). Raises Malformed."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error.msg}", error.pos) from None
    except RecursionError:
        raise Malformed("values within values without an end", 0) from None
    values = _json_values(text)
    messages = {path[:-1] for path, _, _ in values if path[-1:] == ("message",)}
    ascii_only = text.isascii()
    units = []
    for path, start, end in values:
        value = json.loads(text[start:end])
        about = any(key.startswith("@") for key in path)
        about = about or (path[:-1] in messages and path[-1] != "message")
        if about or SENTENCE_RULES.search(value) or any("\ud800" <= one <= "\udfff" for one in value):
            continue
        source = strings(value)
        units.append(Unit(start + 1, ".".join(path), source, start, end, source, _json_writer(ascii_only)))
    return units


def _json_writer(ascii_only: bool) -> Callable[[Parts, bool], str]:
    return lambda parts, _: json.dumps(string_of(parts), ensure_ascii=ascii_only)


def _json_values(text: str) -> list[tuple[tuple[str, ...], int, int]]:
    """Path, beginning and end of each string that is a value, in a text that is JSON."""
    values = []
    stack: list[list[str | int]] = []  # of each value around: the key, or the number of the item
    key, is_key = "", False
    for match in JSON_TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            stack.append([key, "{"] if token == "{" else [0, "["])
            is_key = token == "{"
        elif token in "}]":
            stack.pop()
        elif token == ",":
            is_key = stack[-1][1] == "{"
            if not is_key:
                stack[-1][0] = int(stack[-1][0]) + 1
        elif token == ":":
            is_key = False
        elif is_key:
            stack[-1][0] = key = json.loads(token)
        else:
            values.append((tuple(str(one[0]) for one in stack), match.start(), match.end()))
    return values


def is_utf8_properties(data: bytes) -> str:
    """.properties are in Latin-1, or, since Java 9, in UTF-8 where that is what they are."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def read_properties(text: str) -> list[Unit]:
    """The units. Raises Malformed."""
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
            source = strings(value.replace("''", "'") if apostrophes else value)
            name = _property(key[0], start)
            units.append(Unit(begin, name, source, begin, end, source, _property_writer(apostrophes, most)))
    return units


def _logical_lines(text: str) -> list[tuple[int, int]]:
    """Beginning and end of each key and value, lines that go on joined, without blanks before them."""
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
    """A key or a value without its escapes. Raises Malformed."""

    def letter(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise Malformed("expected four digits behind \\u", at + match.start())
        return LETTERS.get(match[2], match[2])

    plain = PROPERTY_ESCAPE.sub(letter, JOINT.sub("", raw))
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _property_writer(apostrophes: bool, most: str) -> Callable[[Parts, bool], str]:
    def write(parts: Parts, _: bool) -> str:
        value = string_of(parts)
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
