"""Spans that a translation keeps, and the sentinels that stand for them.

A sentinel is a byte that UTF-8 never uses, 0xF5 to 0xFC. Each kept span of a source becomes one of
them, and the model, which has learned to carry them, writes it where the span belongs. (T5 calls
such symbols
sentinels: Raffel et al. 2020, section 3.1.4.)

Kept spans are what the patterns below find, what a user's patterns find, terms of a glossary, and
the inline codes of documents. Of overlapping matches the longest is kept, then the earliest. Spans
with nothing between them share a sentinel. As Python text, sentinel k is the lone surrogate that
stands for its byte, so that `text.encode("utf-8", "surrogateescape")` gives the byte: see to_bytes
and to_text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from bytenmt.errors import SettingError
from bytenmt.kernel_constants import FIRST_SENTINEL, N_SENTINELS

SENTINELS = bytes(range(FIRST_SENTINEL, FIRST_SENTINEL + N_SENTINELS))
PATTERNS_VERSION = 3  # of PATTERNS; a run that learns sentinels is not resumed with another one

# Possessive quantifiers (*+, ++, ?+) keep the time of a search proportional to the text.
_NAME = r"[A-Za-z][\w:.-]*+"
_VALUE = r"""(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=`]++)"""
_ATTRIBUTES = rf"(?:\s++[A-Za-z_:@][\w:.-]*+(?:\s*+=\s*+{_VALUE})?+)*+"
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+"
_ENDS = r"(?:com|org|net|edu|gov|info|io|dev|de|at|ch|eu|uk|fr|kr|jp)"
# punctuation at the end is not part of an address
_PATH = r"[\w.~:/?#@!$&'()*+,;=%\[\]-]*[\w/~#$&*+=%@-]"
_FILE_TYPES = (
    r"(?:js|mjs|jsx|ts|tsx|py|md|rst|txt|json|xml|html?|css|scss|c|h|cpp|hpp|cc|cs|java|rb|go|rs|php|pl|sh|bat|ps1"
    r"|exe|dll|so|zip|gz|bz2|xz|tar|tgz|jpe?g|png|gif|svg|ico|webp|pdf|docx?|odt|ods|odp|xlsx?|pptx?|csv|tsv|toml"
    r"|ya?ml|ini|conf|cfg|log|sql|db|sqlite|bak|iso|deb|rpm|jar|war|mp3|mp4|avi|mkv|wav|ogg|flac|po|mo|tmx|xlf"
    r"|lock|env|service|plist|strings|vue|ipynb)"
)
_FILE_TYPE = rf"\.{_FILE_TYPES}(?![\w-])(?!\.\w)"
_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+\}"
_FLAGS_AND_WIDTH = r"[-#0+',]*+(?:\d++|\*)?+(?:\.(?:\d++|\*))?+(?:hh|h|ll|l|q|j|z|t|L)?"
_CONVERSION = rf"(?<!\d)%(?:\([^()\s]{{1,60}}\))?+(?:\d++\$)?+{_FLAGS_AND_WIDTH}[A-Za-z@]"
_MODIFIER = (
    r"(?:Ctrl|Control|Alt|AltGr|Shift|Cmd|Command|Meta|Super|Win|Option|Strg|Umschalt|⌘|⌥|⇧)"
)
_KEY = (
    r"(?:F\d{1,2}|Enter|Return|Tab|Esc(?:ape)?|Del(?:ete)?|Space|Home|End|Page ?(?:Up|Down)|PgUp|PgDn"
    r"|Up|Down|Left|Right|Backspace|Insert|Ins|Plus|Minus|Click|[A-Z0-9](?![A-Za-z0-9])|[+\-,./\\])"
)
# Arrows, shapes, emoji and currencies.
_SIGNS = "\u2190-\u2bff\u3010\u3011\ufe0f\u200d\U0001f000-\U0001faff©®™€£¥₩₹"
_KEYS = rf"(?:{_MODIFIER} ?[+-] ?){{1,30}}+{_KEY}"

# The patterns of each class. docs/constraints.md has a row, tests/test_sentinels.py texts; _TRIGGER
# matches in every text in which one of them does. Every change, also a new class, counts
# PATTERNS_VERSION up. Trained models work with it, since they see no more of a span than its
# sentinel; but `--keep` keeps all classes by default, so that their translations change.
PATTERNS: dict[str, tuple[str, ...]] = {
    "tags": (
        rf"</?{_NAME}{_ATTRIBUTES}\s*+/?>",  # <b>, <a href="…">, <x id="1"/>, </b>
        r"</?>|</?\d{1,3}\s*+/?>|<\?>",  # <>…</> and <1>…</1> of React, <?> of LibreOffice
        r"<!--[^<>]*+-->|<%[^<>%]*+%>",
    ),
    "placeholders": (
        # {{name}}, {name}, {0}, { $count }, ${name}
        r"\{\{\{?[^{}]*+\}\}\}?|[$#%@]?\{[^{}]{0,80}+\}",
        # ICU messages; Vue's $t(…), $(name), $name, $NAME$
        rf"\{{\s*+[\w$]++\s*+,\s*+(?:plural|select|selectordinal)\s*+,(?:[^{{}}]|{_BRACES})*+\}}",
        rf"\$t\((?:[^(){{}}]|{_BRACES})*+\)|\$\(\w++\)|\$[A-Za-z_]\w*+|(?:\$[A-Za-z0-9_@]++)++\$",
        rf"{_CONVERSION}(?:[:/.-]{_CONVERSION})*+",  # %s, %1$s, %(name)d, %-5.2f; %H:%M, %Y-%m-%d
        # %1 and %L1 of Qt, %name%, %PRODUCTNAME; [[name]], [name], [0], [X7X]; *|NAME|*, ##name##,
        # __name__
        r"(?<!\d)%L?\d{1,2}(?!\d)|%%|%[A-Za-z_]{2,40}%|(?<!\d)%[A-Z][A-Z_]+",
        r"\[\[[\w .-]{1,40}\]\]|\[[a-z][a-z0-9_.-]*+\]|\[\d{1,3}\]|\[[A-Z]\d++[A-Z]\]",
        r"\*\|\w++\|\*|##\w++##|__(?!_)\w+?__|(?<!\w)~\w++~(?!\w)",
        # :name of Laravel, :smile:, @:key of Vue; `option`; a line break as \n, two characters
        r"(?<![\w:/]):[a-z][a-z0-9_]++(?![\w:])|(?<!\w):[a-z0-9_+-]{2,40}:(?!\w)|@:[\w.]*\w",
        # but no `quotes' as of GNU's programs, and the answers [y/N] of a question
        r"``[^`]{1,120}+``|`(?![^`'\n]{1,60}'(?!\w))[^`]{1,120}+`|\[[A-Za-z](?:/[A-Za-z])+\]",
        r"\\[abfnrtv0](?![A-Za-z])",
    ),
    "urls": (
        rf"[A-Za-z][A-Za-z0-9+.-]{{1,20}}://{_PATH}|(?<!\w)www\.{_DOMAIN}[A-Za-z]{{2,}}(?:/{_PATH})?",
        rf"(?<![\w@./-]){_DOMAIN}{_ENDS}(?![\w-])(?:/{_PATH})?",
    ),
    "emails": (rf"(?:mailto:)?(?<![\w.+-])\w[\w.+-]*+@{_DOMAIN}[A-Za-z]{{2,}}",),
    "paths": (
        # /etc/hosts, ~/.config, ./a
        r"(?<![\w/.<])(?:~|\.{1,2})?/[\w.+@-]*[\w@+-](?:/[\w.+@-]*[\w@+-])*+/?",
        # C:\Windows, \\server\share
        r"(?<!\w)[A-Za-z]:\\(?:[\w.\\+@-]*[\w\\])?|(?<!\w)\\\\[\w.\\+@$-]++",
        # README.md, src/main.c; what follows - or @ in a word is tried for a limited length only
        rf"(?<![\w/.+@-])(?:[\w.+@-]++/)*[\w+@-]+(?:\.[\w+-]+)*{_FILE_TYPE}|(?<=[\w/.][+@-])"
        rf"(?:[\w.+@-]{{1,255}}+/){{0,16}}[\w+@-]{{1,255}}(?:\.[\w+-]{{1,255}}){{0,16}}{_FILE_TYPE}",
        # .rc, *.txt
        r"(?<![\w.])\.[a-z][\w-]{2,}(?:\.[\w-]+)*(?![\w-])|(?<![\w.])\*\.[a-z0-9]{1,5}(?!\w)",
    ),
    "options": (
        # --help, -o FILE, --size <n>, --colour=never
        r"(?<![^\s(\"'‘’“”„«»\[|/,<=:])--?[A-Za-z][\w-]*+"
        r"(?:[ =](?:[A-Z][A-Z_-]*[A-Z](?![\w-])|<[\w-]{1,30}>)|=[\w./:-]*\w)?",
    ),
    "keys": (
        rf"(?<![A-Za-z]){_KEYS}|(?:\\t|\t){_KEYS}|(?:\\t|\t)F\d{{1,2}}(?!\w)|(?<!\w)F\d{{1,2}}(?!\w)",
        r"(?<![\w&])&(?=[A-Za-z])",  # the mark of a menu's letter, &File
    ),
    "codes": (
        # A1, MP3, H264
        r"(?<![\w.])(?:[A-Z](?=[A-Z0-9]*\d)|\d+[A-Z][A-Z0-9])[A-Z0-9]*+(?:-[A-Z0-9]+)*(?!\w)",
        # hexadecimal
        r"(?<!\w)0x[0-9A-Fa-f]++(?!\w)|(?<!\w)(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}(?!\w)",
        r"(?<!\w)[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?!\w)",  # UUID
        r"(?<![\w.])v?\d++(?:\.\d++){2,}(?:[-+.]?[A-Za-z0-9]++)*+",  # versions, IPv4 addresses
        r"(?<![\w.])[A-Za-z0-9]++(?:_[A-Za-z0-9]++)++(?:\(\))?+(?!\w)",  # snake_case
        r"(?<![\w.])[A-Za-z_]\w++(?:\.\w++)*+\(\)",  # name(), module.name()
        r"(?<![\w.@-])[a-z]\w++(?:\.[a-z_]\w++)++(?!\w)",  # module.name
    ),
    "numbers": (
        r"(?<![\w.,])\d{5,}+(?![\w])(?![.,]\d)",  # long digit strings
        r"(?<![\w+])\+\d{1,3}[ /(-]?[\d ()/-]{5,18}\d(?!\w)",  # telephone numbers
        r"(?<![\w-])\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?+Z?)?(?![\w-])",  # ISO dates
    ),
    "signs": (rf"[{_SIGNS}]++",),
    "entities": (r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",),
}
CLASSES = tuple(PATTERNS)
# A text without any of these has no span of PATTERNS: most sentences.
_TRIGGER = re.compile(
    rf"[<>{{}}\[\]$%@`\\_~#&*{_SIGNS}]|\d[A-Z]|[A-Z]\d|\d{{5}}|[:/][\w/+@-]|/[.~]|\.\w|\(\)|--|(?<!\w)-\w|[+]\d"
    r"|\d-\d|[A-Za-z] ?[+-] ?[A-Z0-9+,./\\-]|[0-9a-f]{7}|v\d|0x"
)
_TAG_NAME = re.compile(r"<(/?)([A-Za-z0-9][^\s/>]*+)?[^<>]*?(/?)>")
# Elements of HTML without an end tag.
_VOID = frozenset(
    (
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
    )
)


class Code(NamedTuple):
    """An inline code of a document, such as a tag or a placeholder, which a translation keeps
    unchanged."""

    text: str  # the code as the document has it; the model sees a sentinel instead
    pair: int = (
        -1
    )  # a number that an opening and its closing code share; -1 for a code that stands alone
    opens: bool = False  # whether it is the opening one of a pair


class Span(NamedTuple):
    """The part text[begin:end] of a text, in characters, which a translation keeps unchanged."""

    begin: int
    end: int


@lru_cache(maxsize=256)
def compile_patterns(
    classes: tuple[str, ...] = CLASSES, own: tuple[str, ...] = ()
) -> tuple[re.Pattern[str], ...]:
    """Compile the regular expressions of what a translation keeps: those of some CLASSES of spans,
    such as "urls", and `own`, patterns of the user. Raises SettingError for an unknown class or a
    wrong pattern."""
    patterns = []
    for name in classes:
        if name not in PATTERNS:
            raise SettingError(f"{name!r} is not a class of spans: expected {', '.join(CLASSES)}")
        patterns += [re.compile(pattern) for pattern in PATTERNS[name]]
    for pattern in own:
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise SettingError(
                f"the pattern {pattern!r} is no regular expression: {error}"
            ) from None
        if compiled.search(""):
            raise SettingError(f"the pattern {pattern!r} matches the empty text")
        patterns.append(compiled)
    return tuple(patterns)


def find_spans(text: str, patterns: Sequence[re.Pattern[str]] = compile_patterns()) -> list[Span]:
    """Return the spans of a text that match one of the patterns, by default of all CLASSES, in text
    order.

    Of overlapping matches the longest is taken, of equally long ones the earliest.
    """
    if patterns is _ALL_PATTERNS and not _TRIGGER.search(text):
        return []
    matches = {match.span() for pattern in patterns for match in pattern.finditer(text)}
    return drop_overlaps(matches)


_ALL_PATTERNS = compile_patterns()


def drop_overlaps(matches: Iterable[tuple[int, int]]) -> list[Span]:
    """Reduce (begin, end) pairs to spans that do not overlap, in the order of the text.

    Of overlapping pairs the longest is taken, of equally long ones the earliest; empty ones are
    left out.
    """
    ranked = sorted(matches, key=lambda span: (span[0] - span[1], span[0]))
    is_taken = bytearray(max((end for _, end in ranked), default=0))  # each character
    chosen: list[Span] = []
    for begin, end in ranked:
        # Chosen spans are at least as long: one that overlaps this one has its first or last
        # character.
        if begin < end and not is_taken[begin] and not is_taken[end - 1]:
            chosen.append(Span(begin, end))
            is_taken[begin:end] = b"\1" * (end - begin)
    return sorted(chosen)


def replace_spans(text: str, changes: Iterable[tuple[Span, str]]) -> str:
    """Return a text in which each span is replaced by the string beside it; spans must not overlap."""
    parts, end = list[str](), 0
    for span, new in sorted(changes):
        parts += [text[end : span.begin], new]
        end = span.end
    return "".join([*parts, text[end:]])


def merge_adjacent(spans: Sequence[Span]) -> list[Span]:
    """Join spans that touch, one ending where the next begins, into one. spans: in the order of the
    text."""
    merged: list[Span] = []
    for span in spans:
        if merged and merged[-1].end == span.begin:
            merged[-1] = Span(merged[-1].begin, span.end)
        else:
            merged.append(span)
    return merged


def sentinel_char(number: int) -> str:
    """Return sentinel `number`, from 0 to N_SENTINELS - 1, as a str of one lone surrogate."""
    return chr(0xDC00 + FIRST_SENTINEL + number)


def to_bytes(text: str) -> bytes:
    """Encode a text as UTF-8; its sentinels, lone surrogates, become the bytes 0xF5 to 0xFC."""
    return text.encode("utf-8", "surrogateescape")


def to_text(data: bytes) -> str:
    """Decode UTF-8; its sentinels, the bytes 0xF5 to 0xFC, become lone surrogates. The inverse of
    to_bytes.

    Other bytes that are not valid UTF-8 become lone surrogates, too: it never raises
    UnicodeDecodeError.
    """
    return data.decode("utf-8", "surrogateescape")


def has_sentinels(data: bytes) -> bool:
    """Return whether any byte is a sentinel."""
    return len(data) != len(data.translate(None, SENTINELS))


def pair_tags(spans: Sequence[str]) -> dict[int, int]:
    """Map the index of each closing HTML tag in a list of spans to that of its opening one."""
    return match_pairs(
        None
        if tag is None or tag[3] or (tag[2] or "").lower() in _VOID
        else (tag[2] or "", not tag[1])
        for tag in map(_TAG_NAME.fullmatch, spans)
    )


def match_pairs(tags: Iterable[tuple[str, bool] | None]) -> dict[int, int]:
    """Match opening and closing tags: map the index of each closing one to that of its opening one.

    tags: the name of each, and whether it opens an element; None for what is no tag of a pair. A
    closing tag closes the innermost open element of its name; elements inside that are still open
    have no partner.
    """
    partners: dict[int, int] = {}
    opened, n_open = list[tuple[int, str]](), Counter[str]()
    for index, tag in enumerate(tags):
        if tag and tag[1]:
            opened.append((index, tag[0]))
            n_open[tag[0]] += 1
        elif tag and n_open[tag[0]]:
            name = None
            while name != tag[0]:  # the last one that is taken off is the partner
                partners[index], name = opened.pop()
                n_open[name] -= 1
    return partners
