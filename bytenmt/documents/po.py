"""PO, the catalogues of GNU gettext: a unit for each msgid, or for each plural form of one.

A fuzzy translation stays as it is, like any other. One that replaces it clears the flag fuzzy and
the previous msgid (#|), which show the text that an older string translates; a doubtful one sets
the flag, and so does one that takes other arguments than its source where the entry is a format
string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

import polib

from bytenmt.documents.unit import (
    CodedText,
    Context,
    Document,
    EditedText,
    ReadOptions,
    Unit,
    primary,
    to_markup,
)

CHARSET = re.compile(rb'"Content-Type:[^"\n]*charset=([A-Za-z0-9._:-]+)', re.IGNORECASE)
HEADER_BYTES = 1 << 16  # in which a charset is looked for
EMPTY_HEADER = 'msgid ""\nmsgstr ""\n'
WIDTH = 79  # where polib wraps lines as gettext's programs do
WRAPPED = re.compile(r'""\n".*(?<!\\n)"$', re.MULTILINE)  # a long text on lines of its own
N_FORMS = re.compile(r"nplurals\s*=\s*(\d)\b")
# By language, as in gettext's manual and the catalogues of translation projects.
SLAVIC = (
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4"
    " && (n%100<10 || n%100>=20) ? 1 : 2);"
)
LANGUAGES_OF_FORMS = {
    "nplurals=1; plural=0;": "id ja ko ms th vi zh",
    "nplurals=2; plural=(n != 1);": (
        "bg ca da de el en eo es et eu fi gl he hi hu it nb nl nn no pt sv sw ta te ur"
    ),
    "nplurals=2; plural=(n > 1);": "fa fr pt_BR tr",
    "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;": "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);": "pl",
    SLAVIC: "be bs hr ru sr uk",
}
PLURAL_FORMS = {
    language: forms for forms, names in LANGUAGES_OF_FORMS.items() for language in names.split()
}
# Conversions of format strings (%d), by the flags that gettext's manual has for PO files; the
# argument that one names is the group `name`. Doubled signs take none.
PERCENT = re.compile(
    r"%%|%(?P<name>\([^()\s]+\)|[0-9]+\$)?[-+#0 ,']*+(?:[0-9]+|\*)?(?:\.(?:[0-9]+|\*)?)?"
    r"(?:(?:hh|ll|[hlqjztL])?[A-Za-z@])?"
)
BRACES = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}\s:!.,\[]*)[^{}]*\}")
PERCENT_NUMBER = re.compile(r"%L?(?P<name>[0-9]{1,2}|n)")
LANGUAGES = (
    (PERCENT, "c objc c++ java-printf python php perl ruby javascript lua go awk tcl d elisp"),
    (PERCENT, "object-pascal"),
    (BRACES, "python-brace java csharp perl-brace rust"),
    (PERCENT_NUMBER, "qt qt-plural kde ycp"),
)
STYLES = {f"{name}-format": style for style, names in LANGUAGES for name in names.split()}


def read(data: bytes, options: ReadOptions) -> Document:
    """Read a PO file: a translation unit for each current entry, or for each of its plural forms.

    Raises OSError for malformed syntax, as polib does, and DataError for a wrong encoding.
    """
    charset = CHARSET.search(data[:HEADER_BYTES])
    encoding = charset[1].decode() if charset and charset[1] != b"CHARSET" else None
    file = EditedText(data, encoding)
    width = WIDTH if WRAPPED.search(file.text) else -1
    # polib takes a text without a line end for the name of a file.
    catalogue = polib.pofile(f"{file.text}\n", wrapwidth=width)
    header = catalogue.metadata
    has_header = bool(header) or EMPTY_HEADER in file.text
    if header.get("Content-Type", "").endswith("=CHARSET"):
        header["Content-Type"] = header["Content-Type"].replace("CHARSET", "UTF-8")
        catalogue.metadata_is_fuzzy = False
    language = header.get("Language", "")
    if header and (target := options.target_to_declare(language)):
        header["Language"] = target.replace("-", "_")
    warnings = _declare_plural_forms(catalogue, options)
    declared = N_FORMS.search(header.get("Plural-Forms", ""))
    n_forms = int(declared[1]) if declared else 0

    def dump() -> bytes:
        text = str(catalogue)
        # polib adds a header and an empty comment.
        if not has_header:
            text = text.partition('msgstr ""\n\n')[2]
        if not file.text.startswith("#"):
            text = text.removeprefix("#\n")
        try:
            return file.encoded(text)
        except UnicodeEncodeError:
            file.encoding = "utf-8"
            return file.encoded(re.sub(r"(?<=; charset=)[\w-]+", "UTF-8", text, count=1))

    units = [unit for entry in catalogue if not entry.obsolete for unit in _units(entry, n_forms)]
    return Document(units, dump, [language], warnings)


def _declare_plural_forms(catalogue: polib.POFile, options: ReadOptions) -> list[str]:
    """Give a template the plural forms of the target language; return a warning if that fails."""
    header = catalogue.metadata
    has_plurals = any(entry.msgid_plural for entry in catalogue)
    if not has_plurals or N_FORMS.search(header.get("Plural-Forms", "")):
        return []
    target = options.pair[1] if options.pair else ""
    forms = PLURAL_FORMS.get(target.replace("-", "_")) or PLURAL_FORMS.get(primary(target))
    if forms is None or not header:
        cure = "add them" if target else "give --pair"
        return [f"no Plural-Forms, so that only the forms that are there are filled: {cure}"]
    header["Plural-Forms"] = forms
    return []


def has_same_arguments(style: re.Pattern[str], source: str, translation: str) -> bool:
    """Return whether two format strings have the same conversions, such as %s, like `msgfmt -c`.

    Conversions without a name must have the same order. style: matches one conversion, with the
    argument that it names, as in %(n)s, as the group `name`.
    """
    return _conversions(style, source) == _conversions(style, translation)


def _conversions(style: re.Pattern[str], text: str) -> tuple[set[str], list[str]]:
    """Return the conversions of a format string: those with a name, and the others in order."""
    named = set[str]()
    unnamed = list[str]()
    for match in style.finditer(text):
        if match["name"]:
            named.add(match[0])
        elif match[0] not in ("%%", "{{", "}}"):
            unnamed.append(match[0])
    return named, unnamed


def _units(entry: polib.POEntry, n_forms: int) -> Iterator[Unit]:
    """Yield the units of an entry. n_forms: the number of plural forms, 0 for unknown."""
    style = next((STYLES[flag] for flag in entry.flags if flag in STYLES), None)
    is_doubted = entry.fuzzy
    is_written = False
    has_forms = any(entry.msgstr_plural.values())

    def unit(source: str, target: str, name: str, put: Callable[[str], None]) -> Unit:
        def write(parts: CodedText, is_doubtful: bool) -> None:
            nonlocal is_written
            put(to_markup(parts))
            # An entry is fuzzy as soon as one of its translations is doubtful.
            is_added = has_forms and not target  # beside forms that may be fuzzy
            entry.fuzzy = is_doubtful or (entry.fuzzy and (is_written or is_added))
            is_written = True
            if not entry.fuzzy:
                entry.previous_msgid = entry.previous_msgid_plural = entry.previous_msgctxt = None

        return Unit(
            [source],
            write,
            f"line {entry.linenum}",
            name,
            target=(target,) if target else (),
            is_done=bool(target),
            is_doubted=is_doubted,
            is_valid=lambda text: style is None or has_same_arguments(style, source, text),
        )

    context = Context(entry.msgctxt) if entry.msgctxt else ""
    if not entry.msgid_plural:
        yield unit(entry.msgid, entry.msgstr, context, partial(setattr, entry, "msgstr"))
        return
    is_counted = style is not None and not has_same_arguments(
        style, entry.msgid, entry.msgid_plural
    )
    for form in sorted({*entry.msgstr_plural, *range(n_forms)}):
        # The first of three and more serves 21 or 101, too: it names the number if the plural does.
        is_plural = form > 0 or n_forms == 1 or (n_forms > 2 and is_counted)
        source = entry.msgid_plural if is_plural else entry.msgid
        target = entry.msgstr_plural.get(form, "")
        # Several forms have the same source: a memory must know which one an entry is.
        name = Context(f"{context}[{form}]") if is_plural and n_forms > 2 else context
        yield unit(source, target, name, partial(entry.msgstr_plural.__setitem__, form))
