"""HTML: units are the text and inline tags between tags of blocks, and attributes that people read.

What programs write (code, pre, script and so on) and what is marked translate="no" stays as it is. The
tokenizer follows the HTML standard (html.spec.whatwg.org, section 13.2.5), which never reads
a character twice: what is not closed lasts until the end of the page. Python's html.parser and
tree-sitter-html need quadratic time for such pages, and expat refuses HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from itertools import accumulate
from typing import NamedTuple

from bytenmt.documents.document import (
    ALONE,
    CLOSE,
    OPEN,
    TEXT,
    Content,
    DeclaredLanguages,
    Edit,
    Parts,
    Unit,
    UnitPart,
    is_language_or_region,
    lookup_encoding,
)
from bytenmt.documents.inline_tags import escaped_tags, partners
from bytenmt.documents.nested import InnerUnit, nested
from bytenmt.errors import BytenmtError

OPAQUE_INLINE = frozenset(["code", "kbd", "samp", "var", "tt", "math", "svg", "script", "style"])
INLINE_NAMES = (
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins mark q rp rt ruby s small span strike"
    " strong sub sup time u wbr"
)
VOID_NAMES = "area base br col embed hr img input link meta param source track wbr"
INLINE = OPAQUE_INLINE | frozenset(INLINE_NAMES.split())
VOID = frozenset(VOID_NAMES.split())
RAW_TEXT = frozenset(
    ["script", "style", "xmp", "iframe", "noembed", "noframes"]
)  # without tags or references
OPAQUE = OPAQUE_INLINE | RAW_TEXT | frozenset(["pre", "textarea", "template", "object", "plaintext"])
TEXT_ATTRIBUTES = frozenset(("alt", "title", "placeholder", "aria-label"))
NOT_READ = ("link", "style")  # whose titles are names of style sheets
DESCRIPTIONS = frozenset(("description", "og:title", "og:description"))  # of <meta>
FOREIGN = ("svg", "math")  # which have elements of their own, and CDATA
CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]+)", re.IGNORECASE)
SPACE = re.compile(r"[ \t\r\n\f]+")
LONG_REFERENCE = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{8,})")

# The syntax of markup. None of these patterns backtracks over more than one character.
MARKUP = re.compile(r"<(?:[A-Za-z!?]|/(?!\Z))")
TAG_NAME = re.compile(r"</?([A-Za-z][^\t\n\f\r />]*+)")
ATTRIBUTE = re.compile(
    r"[\t\n\f\r /]*+(?:(?P<end>>)|(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*+)"
    r"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?P<value>\"[^\"]*+\"|'[^']*+'|(?![\"'])[^\t\n\f\r >]++|(?=>)))?+)"
)
UNCLOSED = re.compile(r"[\t\n\f\r ]*+=[\t\n\f\r ]*+[\"']")  # what a value that is never closed begins with
COMMENT = re.compile(r"<!--(?:-?>|.*?(?:--!?>|\Z))", re.DOTALL)
CDATA = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|\Z)", re.DOTALL)
BOGUS_COMMENT = re.compile(r"<[!?/][^>]*+>?")  # as a document type or a processing instruction
SCRIPT_MARK = re.compile(r"<!--|-->|<(/?)script(?=[\t\n\f\r />])", re.IGNORECASE)


class Token(NamedTuple):
    """A token of a page.

    kind: as of UnitPart, or "" for comments and the like. keep: whether it begins an element that is not
    translated. texts: value, begin and end of each attribute that is translated, with its quotes.
    """

    kind: str
    name: str
    start: int
    end: int
    keep: bool = False
    texts: tuple[tuple[str, int, int], ...] = ()


def charset(data: bytes) -> str | None:
    """Return the encoding that an HTML page declares in its <meta> tags, or None.

    UTF-16 and UTF-32 count as UTF-8, because the declaration itself was read as ASCII.
    """
    declared = CHARSET.search(data[:2048])
    return None if declared is None else ascii_based(declared[1].decode())


def ascii_based(declared: str) -> str:
    """Return a declared encoding, or UTF-8 for UTF-16 and UTF-32, in which the declaration itself is not."""
    try:
        return "utf-8" if lookup_encoding(declared)[:6] in ("utf-16", "utf-32") else declared
    except BytenmtError:
        return declared


def attributes(text: str, token: Token) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield name in lower case, value, start, end and length of the written value of a tag's attributes."""
    name = TAG_NAME.match(text, token.start)
    at = token.start if name is None else name.end()
    while (match := ATTRIBUTE.match(text, at, token.end)) is not None and match["name"] is not None:
        value = match["value"] or ""
        bare = value[1:-1] if value[:1] in ('"', "'") else value
        yield match["name"].lower(), unescape_text(bare), match.start("name"), match.end(), len(value)
        at = match.end()


def _tag_end(text: str, at: int) -> tuple[int, bool] | None:
    """Return where the tag ends whose name ends at `at`, and whether it closes itself.

    Returns None for a tag that is not closed before the end of the page.
    """
    while (match := ATTRIBUTE.match(text, at)) is not None:
        at = match.end()
        if match["end"]:
            return at, match[0].endswith("/>")
        if match["value"] is None and UNCLOSED.match(text, at):
            return None
    return None


def _raw_text_end(text: str, name: str, at: int) -> int:
    """Return where the content of an element without tags ends: at its end tag or at the end of the page."""
    if name == "plaintext":
        return len(text)
    if name != "script":
        end = re.compile(f"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search(text, at)
        return len(text) if end is None else end.start()
    in_comment = in_script = False  # in a comment, a script within the script does not end it
    while (mark := SCRIPT_MARK.search(text, at)) is not None:
        at = mark.end()
        if mark[0] == "<!--":
            in_comment, at = True, mark.start() + 2  # <!--> begins and ends one
        elif mark[0] == "-->":
            in_comment = in_script = False
        elif mark[1] and not in_script:
            return mark.start()
        elif in_comment:
            in_script = not mark[1]
    return len(text)


def _tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a page, each beginning where the one before it ends."""
    at, foreign = 0, 0
    while at < len(text):
        markup = MARKUP.search(text, at)
        start = len(text) if markup is None else markup.start()
        if start > at:
            yield Token(TEXT, "", at, start)
            at = start
            continue
        named = TAG_NAME.match(text, at)
        if named is None:
            in_foreign = foreign > 0 and text.startswith("<![CDATA[", at)
            pattern = COMMENT if text.startswith("<!--", at) else CDATA if in_foreign else BOGUS_COMMENT
            match = pattern.match(text, at)
            assert match is not None
            yield Token("", "", at, at := match.end())
            continue
        closed = _tag_end(text, named.end())
        if closed is None:
            yield Token("", "", at, len(text))
            return
        end, closes_itself = closed
        tag = _tag(text, named[1].lower(), at, end, closes_itself)
        yield tag
        at = end
        if tag.name in FOREIGN and tag.kind != ALONE:
            foreign = max(0, foreign + (1 if tag.kind == OPEN else -1))
        elif tag.kind == OPEN and not foreign and tag.name in (*RAW_TEXT, "title", "textarea", "plaintext"):
            end = _raw_text_end(text, tag.name, at)
            if end > at:
                yield Token(TEXT if tag.name in ("title", "textarea") else "", "", at, end)
            at = end


def _tag(text: str, name: str, start: int, end: int, closes_itself: bool) -> Token:
    if text.startswith("</", start):
        return Token(CLOSE, name, start, end)
    token = Token(ALONE if closes_itself or name in VOID else OPEN, name, start, end)
    known = dict[str, tuple[str, int, int]]()
    for attribute, value, _, behind, size in attributes(text, token):
        known.setdefault(attribute, (value, behind - size, behind))

    def value_of(attribute: str) -> str:
        return known[attribute][0] if attribute in known else ""

    if value_of("translate").lower() == "no" or "notranslate" in value_of("class").split():
        return token._replace(keep=True)
    read = frozenset[str]() if name in NOT_READ else TEXT_ATTRIBUTES
    if name == "meta" and DESCRIPTIONS & {value_of("name").lower(), value_of("property").lower()}:
        read = frozenset(("content",))
    texts = (one for attribute, one in known.items() if attribute in read and any(map(str.isalpha, one[0])))
    return token._replace(keep=name in OPAQUE, texts=tuple(texts))


def tokens(text: str) -> list[Token]:
    """Return the tokens of a page; together they are the page."""
    return list(_tokens(text))


def read(text: str, pair: tuple[str, str] | None = None) -> Content:
    """Return the units. No page is malformed: what browsers make sense of is read as they do."""
    found = tokens(text)
    units = sorted(_units(text, found), key=lambda unit: unit.at)
    return Content(units, *_language(text, found, pair))


def _language(
    text: str, page: Sequence[Token], pair: tuple[str, str] | None
) -> tuple[DeclaredLanguages, list[Edit]]:
    """Return the language of the page and the edits that declare the target language on its <html> tag."""
    root = next((token for token in page if token.name == "html" and token.kind == OPEN), None)
    if root is None:
        return DeclaredLanguages(), []
    declared = {
        name: (value, start, end)
        for name, value, start, end, _ in reversed(list(attributes(text, root)))  # the first of two counts
        if name in ("lang", "xml:lang")
    }
    language = next((value for value, _, _ in declared.values() if value), None)
    if pair is None:
        return DeclaredLanguages(language), []
    target, at = escape(pair[1]), root.start + len("<html")
    edits = [
        Edit(start, end, f'{text[start : start + len(name)]}="{target}"')
        for name, (value, start, end) in declared.items()
        if not is_language_or_region(value, pair[1])
    ]
    return DeclaredLanguages(language), edits if declared else [Edit(at, at, f' lang="{target}"')]


def _units(text: str, page: Sequence[Token]) -> Iterator[Unit]:
    run: list[tuple[UnitPart, int]] = []  # text and inline tags, each with its beginning
    inside = list[InnerUnit]()  # attributes of these tags
    closing = _closing(page)
    index = 0
    while index < len(page):
        token, following = page[index], index + 1
        if token.keep and token.kind == OPEN and index in closing:
            following = closing[index] + 1
            token = token._replace(kind=ALONE, end=page[closing[index]].end)
        is_inline = token.kind in ("", TEXT) or token.name in INLINE
        if not is_inline:
            yield from nested(text, _units_of_run(text, run), inside)
            run, inside = [], []
        else:
            run.append((UnitPart(text[token.start : token.end], token.kind or ALONE), token.start))
        inside += [
            InnerUnit(token.start, token.end, _attribute_unit(text, value, start, end))
            for value, start, end in token.texts
        ]
        index = following
    yield from nested(text, _units_of_run(text, run), inside)


def _attribute_unit(text: str, value: str, start: int, end: int) -> Unit:
    quote = text[start] if text[start] in "\"'" else '"'

    def escape_value(raw: str) -> str:
        return escape(raw, quote=False).replace(quote, "&quot;" if quote == '"' else "&#x27;")

    def write(parts: Parts, _: bool) -> str:
        raw = (part.text if part in codes else escape_value(part.text) for part in parts)
        return f"{quote}{''.join(raw)}{quote}"

    source = escaped_tags([UnitPart(value)], escape_value)
    codes = {part for part in source if part.kind != TEXT}
    return Unit(start, "", source, start, end, source, write)


def _closing(page: Sequence[Token]) -> dict[int, int]:
    """Map the index of every opening tag to that of its closing tag.

    An inline element ends before the next tag of a block, or it has no closing tag; SVG and MathML have
    elements of their own, which count as inline.
    """
    closing: dict[int, int] = {}
    stacks: dict[str, list[int]] = {}  # of the open tags of every name
    n_blocks = [0, *accumulate(token.kind in (OPEN, CLOSE) and token.name not in INLINE for token in page)]
    for index, token in enumerate(page):
        if token.kind == OPEN:
            stacks.setdefault(token.name, []).append(index)
        elif token.kind == CLOSE and stacks.get(token.name):
            at = stacks[token.name].pop()
            if token.name not in INLINE or token.name in FOREIGN or n_blocks[at] == n_blocks[index]:
                closing[at] = index
    return closing


def _units_of_run(text: str, run: list[tuple[UnitPart, int]]) -> Iterator[Unit]:
    """Cut a run of text and inline tags at tags without a partner in it, and trim every piece."""
    partner = partners([part for part, _ in run])
    n_texts = [0, *accumulate(part.kind == TEXT and not _is_blank(part.text) for part, _ in run)]
    begin = 0
    for index, (part, _) in enumerate([*run, (UnitPart("", CLOSE), 0)]):
        if part.kind in (OPEN, CLOSE) and index not in partner:
            low, high = _trimmed(run, begin, index, partner, n_texts)
            if low < high:
                yield _unit(text, run[low:high])
            begin = index + 1


def _trimmed(
    run: list[tuple[UnitPart, int]], low: int, high: int, partner: dict[int, int], n_texts: Sequence[int]
) -> tuple[int, int]:
    """Return the part of a run without the codes and the blanks around its text; empty where it has none.

    n_texts: how many of the first parts of the run are text that is not blank.
    """
    while low < high:
        if run[low][0].kind != OPEN and n_texts[low + 1] == n_texts[low]:
            low += 1
        elif run[high - 1][0].kind != CLOSE and n_texts[high] == n_texts[high - 1]:
            high -= 1
        elif run[low][0].kind == OPEN and partner[low] == high - 1:
            low, high = low + 1, high - 1
        elif run[low][0].kind == OPEN and n_texts[partner[low]] == n_texts[low]:
            low = partner[low] + 1
        elif run[high - 1][0].kind == CLOSE and n_texts[high] == n_texts[partner[high - 1]]:
            high = partner[high - 1]
        else:
            break
    return low, high


def _unit(text: str, run: list[tuple[UnitPart, int]]) -> Unit:
    first, start = run[0]
    last, at = run[-1]
    end = at + len(last.text)
    if first.kind == TEXT:
        start += len(first.text) - len(first.text.lstrip(" \t\r\n\f"))
    if last.kind == TEXT:
        end -= len(last.text) - len(last.text.rstrip(" \t\r\n\f"))
    parts = [UnitPart(_text(part.text)) if part.kind == TEXT else part for part, _ in run]
    if parts[0].kind == TEXT:
        parts[0] = UnitPart(parts[0].text.lstrip(" "))
    if parts[-1].kind == TEXT:
        parts[-1] = UnitPart(parts[-1].text.rstrip(" "))
    source = escaped_tags(parts, lambda tag: escape(tag, quote=False))
    return Unit(start, "", source, start, end, source, lambda value, _: escaped(value))


def unescape_text(raw: str) -> str:
    """Return text with its character references resolved.

    html.unescape fails for numbers of more than 4,300 digits; they become U+FFFD, as all that are too large.
    """
    return unescape(LONG_REFERENCE.sub(_shortened, raw))


def _shortened(reference: re.Match[str]) -> str:
    digits = reference[0][2:].lstrip("xX").lstrip("0")
    is_hex = reference[0][2] in "xX"
    if len(digits) < 8:
        return f"&#{'x' if is_hex else ''}{digits or 0}"
    return "&#x110000"  # larger than any code point


def _text(raw: str) -> str:
    return SPACE.sub(" ", unescape_text(raw))


def _is_blank(raw: str) -> bool:
    return not _text(raw).strip()


def escaped(parts: Parts) -> str:
    """Return the parts as HTML."""
    return "".join(
        escape(part.text, quote=False).replace("\xa0", "&nbsp;") if part.kind == TEXT else part.text
        for part in parts
    )
