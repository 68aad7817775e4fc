"""PO, the catalogues of GNU gettext: a unit for each msgid, or for each plural form of one.

A translation replaces the string behind msgstr. It also clears the flag fuzzy and the previous msgid (#|),
which show the text that an older string translates; a doubtful translation sets the flag, and so does one
that takes other arguments than its source, where the entry is a format string (c-format, python-format, …).
The header's Language is set where the target language is known. The header of a template (charset=CHARSET,
nplurals=INTEGER) is filled in as msginit does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from gettext import c2py
from typing import NamedTuple

from bytenmt.documents.document import (
    LINES,
    TEXT,
    Content,
    DeclaredLanguages,
    Edit,
    MalformedError,
    Parts,
    Unit,
    is_language_or_region,
    joined_text,
)
from bytenmt.documents.format_strings import format_style, has_same_arguments
from bytenmt.documents.html import ascii_based
from bytenmt.documents.inline_tags import format_string, parse_string

CHARSET = re.compile(rb'"Content-Type:[^"\n]*charset=([A-Za-z0-9._:-]+)', re.IGNORECASE)
LINE = re.compile(
    r"[ \t]*+(?:(?P<flags>#,.*)|(?P<previous>#\|.*)|(?P<comment>#.*)"
    r'|(?P<word>msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?|)[ \t]*(?P<string>".*))'
)
STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
LANGUAGE = re.compile(r"^Language:[ \t]*+([^\s]*+)[ \t]*+$", re.MULTILINE)
TEMPLATE_CHARSET = re.compile(r"(?<=charset=)CHARSET\b")
TEMPLATE_PLURALS = re.compile(r"nplurals=INTEGER;\s*plural=EXPRESSION;?")
# nplurals and plural by language, as gettext's msginit writes them; those of languages that it lacks, such as
# Arabic, Catalan and Chinese, follow the Unicode CLDR.
PLURALS_OF_LANGUAGES = {
    "1; plural=0": "id ja ko ms th vi zh",
    "2; plural=(n != 1)": "af bg ca da de el en eo es et eu fi gl he hu it nb nl nn no pt sq sv sw tr",
    "2; plural=(n > 1)": "fa fr hi pt_br",
    "3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2": "cs sk",
    "3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)": "pl",
    "3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)": (
        "be bs hr ru sr uk"
    ),
    "3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2)": "lt",
    "3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2)": "lv",
    "3; plural=n==1 ? 0 : n==2 ? 1 : 2": "ga",
    "3; plural=n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2": "ro",
    "4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3)": "sl",
    "6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5": "ar",
}
PLURALS = {code: forms for forms, codes in PLURALS_OF_LANGUAGES.items() for code in codes.split()}
PLURAL_FORMS = re.compile(r"nplurals\s*=\s*(\d{1,4})\s*;\s*plural\s*=\s*([^;\n]+)")
ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))")
MOST_FORMS = 10
MOST_STRINGS = 16  # of an entry: every form is a unit with the whole text, so that many are much work
NUMBERS, FEW = 1001, 5  # from 0, whose plural forms are looked at; a form of so many of them is of few
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(eq=False)
class _String:
    """A string.

    start, end: from its first quote to its last. pieces: its lines, unquoted and unescaped. placeholder: of
    its format, see FormatStyle.
    """

    start: int
    end: int
    pieces: list[str]
    placeholder: re.Pattern[str] | None = None

    @cached_property
    def value(self) -> str:
        return "".join(self.pieces)

    @cached_property
    def parts(self) -> Parts:
        return parse_string(self.value, self.placeholder)


@dataclass(eq=False)
class _Entry:
    """An entry of a catalogue.

    strings: by their keywords, such as msgstr[1]. begin: of the first line that is no plain comment. flags,
    previous: begin and end, with the line end, of the lines with #, and #|.
    """

    strings: dict[str, _String] = field(default_factory=dict)
    begin: int | None = None
    flags: list[tuple[int, int]] = field(default_factory=list)
    previous: list[tuple[int, int]] = field(default_factory=list)

    @property
    def translated(self) -> bool:
        """Return whether a msgstr was read."""
        return any(word.startswith("msgstr") for word in self.strings)


def charset(data: bytes) -> str | None:
    """Return the encoding that the header declares; a template, which says CHARSET, has none."""
    declared = CHARSET.search(data[: 1 << 16])
    return None if declared is None or declared[1] == b"CHARSET" else ascii_based(declared[1].decode())


def read(text: str, pair: tuple[str, str] | None = None, encoding: str | None = None) -> Content:
    """Return the units; the header and what is obsolete are none.

    pair: source and target language. encoding: that the user names, for the header of a template. Raises
    MalformedError.
    """
    entries = _entries(text)
    header = next((entry for entry in entries if _is_header(entry)), None)
    if header is None:
        return Content([unit for entry in entries for unit in _units(text, entry, _One())])
    before = header.strings["msgstr"]
    value = _completed_header(before.value, None if pair is None else pair[1], encoding)
    one = _form_of_one(value)
    others = [entry for entry in entries if entry is not header]
    edits = list[Edit]()
    if TEMPLATE_PLURALS.search(before.value) and one.n_forms:
        edits += [edit for entry in others for edit in _drop_forms(entry, one.n_forms)]
    units = [unit for entry in others for unit in _units(text, entry, one)]
    language = next((found[1] for found in LANGUAGE.finditer(before.value) if found[1]), None)
    newline = "\r\n" if "\r\n" in text[before.start : before.end] else "\n"
    if value != before.value:
        edits.append(Edit(before.start, before.end, _quoted(value, newline)))
    if TEMPLATE_CHARSET.search(before.value):
        edits += _mark(text, header, newline)(False)
    warnings = []
    if TEMPLATE_PLURALS.search(value) and any("msgid_plural" in entry.strings for entry in others):
        known = "give --pair, such as --pair en-de" if pair is None else f"those of {pair[1]} are not known"
        warnings.append(f"gettext needs Plural-Forms in the header: {known}")
    return Content(units, DeclaredLanguages(None, language), edits, warnings)


def _completed_header(value: str, target: str | None, encoding: str | None) -> str:
    """Return a header that declares the target language, and what a template leaves open.

    target: None where it is not known; Language is en_US for en-US, as gettext writes it.
    """
    value = TEMPLATE_CHARSET.sub(lambda _: encoding or "UTF-8", value)
    if target is None:
        return value
    code = target.replace("-", "_")
    declared = LANGUAGE.search(value)
    if declared and not is_language_or_region(declared[1], target):
        value = LANGUAGE.sub(lambda _: f"Language: {code}", value, count=1)
    elif value and not declared:
        value = f"{value}{'' if value.endswith(chr(10)) else chr(10)}Language: {code}\n"
    forms = PLURALS.get(code.lower()) or PLURALS.get(code.lower().split("_")[0])
    return TEMPLATE_PLURALS.sub(lambda _: f"nplurals={forms};", value) if forms else value


def _drop_forms(entry: _Entry, n_forms: int) -> Iterator[Edit]:
    """Drop the empty plural forms that the target language lacks; yield the edits for the file."""
    for form in range(MOST_FORMS, n_forms - 1, -1):
        string, before = (entry.strings.get(f"msgstr[{number}]") for number in (form, form - 1))
        if string is not None and before is not None and not string.value:
            del entry.strings[f"msgstr[{form}]"]
            yield Edit(before.end, string.end, "")


def _is_header(entry: _Entry) -> bool:
    known = entry.strings
    return known["msgid"].value == "" and "msgctxt" not in known and "msgstr" in known


class _One(NamedTuple):
    """The plural form of the number 1.

    form: its index; -1 if there is one form for all numbers. often: whether many other numbers have it too,
    as 21 in Russian, so that it must contain the number if the plural does. n_forms: the number of forms.
    """

    form: int = 0
    often: bool = False
    n_forms: int = 0


def _form_of_one(header: str) -> _One:
    """Return the plural form of the number 1 as the header declares it."""
    declared = PLURAL_FORMS.search(header)
    if declared is None or int(declared[1]) > MOST_FORMS:
        return _One()
    n_forms = int(declared[1])
    if n_forms == 1:
        return _One(-1, False, n_forms)
    try:
        form = c2py(declared[2])
        forms = [int(form(number)) for number in range(NUMBERS)]
    except (ValueError, OverflowError, RecursionError, ZeroDivisionError):
        return _One()
    return _One(forms[1], forms.count(forms[1]) > FEW, n_forms)


def _entries(text: str) -> list[_Entry]:
    """Parse the entries of a file. Raises MalformedError."""
    entries, entry, word = list[_Entry](), _Entry(), ""
    for line in LINES.finditer(text):
        if not line[1].strip():
            continue
        match = LINE.fullmatch(line[1].rstrip())
        if match is None:
            raise MalformedError(
                "expected a comment, or a word like msgid and a string in quotes", line.start()
            )
        if entry.translated and (match["string"] is None or match["word"] in ("msgctxt", "msgid")):
            entries.append(_whole(entry))
            entry, word = _Entry(), ""
        if (match["comment"] or "").startswith("#~") and not entry.strings:
            entry = _Entry()  # the flags before it are those of an obsolete entry
        if match["flags"]:
            entry.flags.append((line.start(), line.end()))
        if match["previous"]:
            entry.previous.append((line.start(), line.end()))
        if entry.begin is None and not match["comment"]:
            entry.begin = line.start()
        if match["string"]:
            word = _add(entry, match, word, line.start())
    return entries + ([_whole(entry)] if entry.strings else [])


def _add(entry: _Entry, match: re.Match[str], word: str, start: int) -> str:
    """Add the string of a line to an entry; return the keyword that it belongs to."""
    quoted = match["string"]
    whole = STRING.fullmatch(quoted)
    at = start + match.start("string")
    if whole is None:
        raise MalformedError("a string that is not closed, or text after its closing quote", at)
    begin, end = at, at + len(quoted)
    value = ESCAPE.sub(_unescaped, whole[1])
    if match["word"]:
        word = match["word"]
        if word in entry.strings:
            raise MalformedError(f"a second {word}", start)
        if len(entry.strings) > MOST_STRINGS:
            raise MalformedError("more plural forms than any language has", start)
        entry.strings[word] = _String(begin, end, [value])
    elif word not in entry.strings:
        raise MalformedError("a string without a word like msgid before it", at)
    else:
        string = entry.strings[word]
        string.end = end
        string.pieces.append(value)
    return word


def _whole(entry: _Entry) -> _Entry:
    """Return an entry. Raises MalformedError if it is incomplete."""
    at = min(string.start for string in entry.strings.values())
    if "msgid" not in entry.strings:
        raise MalformedError("an entry without msgid", at)
    if not entry.translated:
        raise MalformedError("an entry without msgstr", at)
    return entry


def _unescaped(match: re.Match[str]) -> str:
    octal, hexadecimal, letter = match.groups()
    if octal or hexadecimal:
        code = int(octal, 8) if octal else int(hexadecimal, 16)
        return chr(code) if code < 0x80 else match[0]
    return LETTERS.get(letter, letter)


def _units(text: str, entry: _Entry, one: _One) -> list[Unit]:
    known = entry.strings
    context = known["msgctxt"].value if "msgctxt" in known else ""
    newline = "\r\n" if text.startswith("\r\n", known["msgid"].end) else "\n"
    mark = _mark(text, entry, newline)
    flags = [flag for start, end in entry.flags for flag in _flags(text[start:end])]
    fuzzy, style = "fuzzy" in flags, format_style(flags)
    placeholder = style.placeholder if style else None
    for string in known.values():
        string.placeholder = placeholder
    counted = "msgid_plural" in known and _codes(known["msgid"]) != _codes(known["msgid_plural"])
    words = [word for word in known if word.startswith("msgstr")]
    if "msgid_plural" in known:
        words += [f"msgstr[{form}]" for form in range(one.n_forms) if f"msgstr[{form}]" not in known]
    behind = max(known[word].end for word in words if word in known)
    units = []
    for word in words:
        plural = "msgid_plural" in known and (word != f"msgstr[{one.form}]" or (one.often and counted))
        source = known["msgid_plural" if plural else "msgid"]
        target = known.get(word)
        lead = f"{newline}{word} " if target is None else ""
        # Two or more forms have the same source, so that a memory must know which one an entry is.
        name = context + word.removeprefix("msgstr") if plural and one.n_forms > 2 else context

        def is_valid(parts: Parts, source: str = source.value) -> bool:
            return style is None or has_same_arguments(style, source, joined_text(parts))

        if source.value:
            units.append(
                Unit(
                    at=source.start + 1,
                    name=name,
                    source=source.parts,
                    start=target.start if target else behind,
                    end=target.end if target else behind,
                    target=target.parts if target else None,
                    write=_writer(lead, newline, placeholder),
                    done=bool(target and target.value) and not fuzzy,
                    doubted=fuzzy,
                    mark=mark,
                    has_context=True,
                    is_valid=is_valid,
                )
            )
    return units


def _writer(lead: str, newline: str, placeholder: re.Pattern[str] | None) -> Callable[[Parts, bool], str]:
    """Return a unit's `write`. lead: the keyword, on a new line, of a form that the entry lacks."""
    return lambda parts, _: lead + _quoted(format_string(parts, placeholder), newline)


def _codes(string: _String) -> list[str]:
    return sorted(part.text for part in string.parts if part.kind != TEXT)


def _mark(text: str, entry: _Entry, newline: str) -> Callable[[bool], Sequence[Edit]]:
    """Return what sets or clears the flag fuzzy of an entry and removes its previous msgid."""
    assert entry.begin is not None
    begin = entry.begin

    def mark(review: bool) -> Sequence[Edit]:
        edits = [Edit(start, end, "") for start, end in entry.previous]
        has_flag = any("fuzzy" in _flags(text[start:end]) for start, end in entry.flags)
        if review and has_flag:
            return edits
        if review and entry.flags:
            at = text.index("#,", entry.flags[0][0]) + 2
            return [*edits, Edit(at, at, " fuzzy,")]
        if review:
            return [Edit(begin, begin, f"#, fuzzy{newline}"), *edits]
        for start, end in entry.flags:
            flags = _flags(text[start:end])
            if "fuzzy" in flags:
                rest = ", ".join(flag for flag in flags if flag != "fuzzy")
                edits.append(Edit(start, end, f"#, {rest}{newline}" if rest else ""))
        return edits

    return mark


def _flags(line: str) -> list[str]:
    """Return the flags of a line with #,"""
    return [flag for one in line.strip()[2:].split(",") if (flag := one.strip())]


def _quoted(value: str, newline: str) -> str:
    """Quote a string; one with several lines is written on as many lines."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", value) or [""]
    quoted = [f'"{_escaped(line)}"' for line in lines]
    return quoted[0] if len(quoted) == 1 else newline.join(['""', *quoted])


def _escaped(value: str) -> str:
    value = value.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in LETTERS.items():
        value = value.replace(character, f"\\{letter}")
    return value
