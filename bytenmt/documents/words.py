"""Tell whether a text has words to translate."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bytenmt.documents.unit import CodedText
from bytenmt.sentinels import Code, find_spans, replace_spans

# A product, such as GitHub; not German StudentInnen.
NAME = re.compile(r"(?<!\w)(?!\w+I(?:n|nnen)\b)[A-Za-z]*[a-z][A-Z][A-Za-z0-9]*(?!\w)")
# {n, plural, one {…} other {…}}, in the syntax of ICU's and Java's MessageFormat: a program, not a
# text.
ICU_FORMS = re.compile(r"\{\s*+[\w.-]++\s*+,\s*+(?:plural|select|selectordinal|choice)\s*,")
# A value of a program, or a list of codes of languages.
VALUE = re.compile(
    r"\s*(?:#[0-9A-Fa-f]{3,8}|true|false|null|(?:[a-z]{2,3}(?:-\w{2,4})?(?:,\s*|\s*$)){5,})"
)


def is_icu_message(source: CodedText) -> bool:
    """Return whether a text has ICU plural or select forms: {n, plural, one {# file} other {…}}."""
    return any(isinstance(part, str) and ICU_FORMS.search(part) for part in source)


def has_words(parts: Sequence[str | Code]) -> bool:
    """Return whether the parts of a text, strings and inline codes, have a word to translate.

    Letters in codes, kept spans (URLs, placeholders) and names such as GitHub do not count, nor
    does a string that is a value of a program, such as true or #fff.
    """
    return any(isinstance(part, str) and _has_word(part) for part in parts)


def _has_word(text: str) -> bool:
    if VALUE.fullmatch(text):
        return False
    without_names = NAME.sub(lambda match: "0" * len(match[0]), text)
    words = replace_spans(without_names, [(span, "") for span in find_spans(text)])
    return any(map(str.isalpha, words))
