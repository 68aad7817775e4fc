"""PO, the catalogues of GNU gettext: a unit for each msgid, or for each plural form of one.

A fuzzy translation stays as it is, like any other. One that replaces it clears the flag fuzzy and the
previous msgid (#|), which show the text that an older string translates; a doubtful one sets the flag, and so
does one that takes other arguments than its source where the entry is a format string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from gettext import c2py

import polib

from bytenmt.documents.format_strings import format_style, has_same_arguments
from bytenmt.documents.unit import CodedText, Context, Document, EditedText, ReadOptions, Unit, to_markup

CHARSET = re.compile(rb'"Content-Type:[^"\n]*charset=([A-Za-z0-9._:-]+)', re.IGNORECASE)
EMPTY_HEADER = 'msgid ""\nmsgstr ""\n'
WIDTH = 79  # where polib wraps lines as gettext's programs do
# A text that begins on a line of its own, being long.
WRAPPED = re.compile(r'""\n".*(?<!\\n)"$', re.MULTILINE)
PLURAL_FORMS = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;\n]+)")


def read(data: bytes, options: ReadOptions) -> Document:
    """Read a PO file: units for its entries, but not for the header and obsolete ones.

    Raises OSError where it is malformed, as polib does.
    """
    declared = CHARSET.search(data[: 1 << 16])
    file = EditedText(data, declared[1].decode() if declared and declared[1] != b"CHARSET" else None)
    is_wrapped = WRAPPED.search(file.text) is not None
    # polib takes a text without a line end for the name of a file.
    catalogue = polib.pofile(f"{file.text}\n", wrapwidth=WIDTH if is_wrapped else -1)
    header = catalogue.metadata
    has_header = bool(header) or EMPTY_HEADER in file.text
    if header.get("Content-Type", "").endswith("=CHARSET"):
        header["Content-Type"] = header["Content-Type"].replace("CHARSET", "UTF-8")
        catalogue.metadata_is_fuzzy = False
    language = header.get("Language", "")
    if header and (target := options.target_to_declare(language)):
        header["Language"] = target.replace("-", "_")
    forms = _plural_forms(header.get("Plural-Forms", ""))

    def dump() -> bytes:
        text = str(catalogue) if has_header else str(catalogue).partition('msgstr ""\n\n')[2]
        text = text if file.text.startswith("#") else text.removeprefix("#\n")  # which polib adds
        try:
            return file.encoded(text)
        except UnicodeEncodeError:
            file.encoding = "utf-8"
            return file.encoded(re.sub(r"(?<=; charset=)[\w-]+", "UTF-8", text, count=1))

    units = [unit for entry in catalogue if not entry.obsolete for unit in _units(entry, *forms)]
    return Document(units, dump, [language])


def _plural_forms(header: str) -> tuple[int, bool, int]:
    """Return the plural form of the number 1, -1 if there is one for all numbers, and the number of forms.

    Between them, whether 21 has it too, as in Russian, or 101, as in Slovenian, so that it contains the
    number if the plural does.
    """
    declared = PLURAL_FORMS.search(header)
    n_forms = int(declared[1]) if declared else 0
    if declared is None or n_forms > 10:
        return 0, False, 0
    try:
        form = c2py(declared[2])
        form_of_one, others = int(form(1)), {int(form(21)), int(form(101))}
    except (ValueError, OverflowError, RecursionError, ZeroDivisionError):
        return 0, False, 0
    return (-1 if n_forms == 1 else form_of_one), form_of_one in others, n_forms


def _units(entry: polib.POEntry, form_of_one: int, is_frequent: bool, n_forms: int) -> Iterator[Unit]:
    style = format_style(entry.flags)
    is_doubted, is_written = entry.fuzzy, False
    has_forms = any(entry.msgstr_plural.values())

    def unit(source: str, target: str, name: str, put: Callable[[str], None]) -> Unit:
        def write(parts: CodedText, is_doubtful: bool) -> None:
            nonlocal is_written
            put(to_markup(parts))
            # An entry is fuzzy as soon as one of its translations is doubtful.
            is_added = has_forms and not target  # beside forms that may be fuzzy
            entry.fuzzy, is_written = is_doubtful or (entry.fuzzy and (is_written or is_added)), True
            if not entry.fuzzy:
                entry.previous_msgid = entry.previous_msgid_plural = entry.previous_msgctxt = None

        def is_valid(translation: str) -> bool:
            return style is None or has_same_arguments(style, source, translation)

        target_parts = (target,) if target else ()
        return Unit(
            [source], write, f"line {entry.linenum}", name, target_parts, bool(target), is_doubted, is_valid
        )

    context = Context(entry.msgctxt) if entry.msgctxt else ""
    if not entry.msgid_plural:
        yield unit(entry.msgid, entry.msgstr, context, partial(setattr, entry, "msgstr"))
        return
    is_counted = style is not None and not has_same_arguments(style, entry.msgid, entry.msgid_plural)
    for form in sorted({*entry.msgstr_plural, *range(n_forms)}):
        is_plural = form != form_of_one or (is_frequent and is_counted)
        # Two or more forms have the same source, so that a memory must know which one an entry is.
        name = Context(f"{context}[{form}]") if is_plural and n_forms > 2 else context
        source, target = entry.msgid_plural if is_plural else entry.msgid, entry.msgstr_plural.get(form, "")
        yield unit(source, target, name, partial(entry.msgstr_plural.__setitem__, form))
