"""Format strings of programming languages: their conversions, and whether two take the same arguments.

The kinds are those of gettext's flags (gnu.org/software/gettext/manual/html_node/PO-Files.html): an entry of
a catalogue that says c-format is a format string of C.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Patterns of conversions, with the argument that one names as the group `name`, and how it is printed as the
# group `type`; what takes no argument, such as %%, has no `type`. A percent sign without a letter, which
# msgfmt takes for a mistake, has an empty one.
PERCENT = re.compile(
    r"%%|%(?P<name>\([^()\s]+\)|[0-9]+\$)?[-+#0 ,']*+(?:[0-9]+|\*)?(?:\.(?:[0-9]+|\*)?)?"
    r"(?P<type>(?:hh|ll|[hlqjztL])?[A-Za-z@]|)"
)
_OF_BRACES = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}\s:!.,\[]*)[^{}]*(?P<type>)\}")
_OF_QT = re.compile(r"%L?(?P<name>[0-9]{1,2}|n)(?P<type>)")
_LANGUAGES = {
    PERCENT: "c objc c++ java-printf python php perl ruby javascript lua go awk tcl d elisp object-pascal",
    _OF_BRACES: "python-brace java csharp perl-brace rust",
    _OF_QT: "qt qt-plural kde ycp",
}
_STYLES = {f"{name}-format": style for style, names in _LANGUAGES.items() for name in names.split()}


def format_style(flags: Iterable[str]) -> re.Pattern[str] | None:
    """Return the pattern of conversions (%d) of the style that a PO entry's flags name (c-format) or None."""
    return next((_STYLES[flag] for flag in flags if flag in _STYLES), None)


def has_same_arguments(style: re.Pattern[str], source: str, translation: str) -> bool:
    """Return whether two format strings take the same arguments, each printed in the same way.

    style: the pattern of their conversions, see format_style. `msgfmt -c` refuses other translations:
    arguments without a name are taken in their order, so that %s and %d may not change places.
    """
    return _arguments(style, source) == _arguments(style, translation)


def _arguments(style: re.Pattern[str], text: str) -> set[tuple[str | int, str]]:
    """Return the arguments of a format string, by name or number, each with how it is printed."""
    arguments, n_unnamed = set[tuple[str | int, str]](), 0
    for match in style.finditer(text):
        groups = match.groupdict()
        if groups["type"] is None:
            continue
        # In %*d and %.*f a number of characters is an argument of its own.
        for printed in (*"*" * match[0].count("*"), groups["type"]):
            n_unnamed += not groups.get("name")
            arguments.add((groups.get("name") or n_unnamed, printed))
    return arguments
