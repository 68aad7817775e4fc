"""Split a unit into the lines that are translated, and put their translations together.

A unit is split at line ends, tabs, the bars between plural forms, and the gaps between columns.
What is not to be translated is copied: white space and symbols around a line, codes that enclose
it, options in front of their descriptions. ICU messages with several forms are not translated. The
mark of a keyboard shortcut, such as & in &File, is removed and set again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bytenmt.documents.codes import ALONE, IN_TEXT, codes_of, is_in_text, pair_partners
from bytenmt.documents.text_tags import split_kept
from bytenmt.documents.unit import CodedText, merge_strings, to_markup
from bytenmt.documents.words import has_words, is_icu_message
from bytenmt.sentinels import Code, find_spans

# Symbols such as notes, arrows, bullets and pictograms; of the latter, those of people and faces.
SYMBOLS = r"\u2022\u2190-\u2bff\U0001f000-\U0001faff\ufe0f\u200d"
FACES = (
    r"\U0001f600-\U0001f64f\U0001f910-\U0001f92f\U0001f970-\U0001f97a"
    r"\U0001f389\U0001f38a\U0001f3fb-\U0001f3ff\U0001f44a-\U0001f450"
)
# Line ends, tabs, bars and gaps; and pictograms between two sentences.
SEPARATOR = re.compile(
    r"(\r\n|[\n\r\t]|[ ]+\|[ ]+|[ ]{2,}"
    rf"|(?<=[.!?\u2026])[ ]?[{SYMBOLS}]+[ ]?(?=[A-Z])|[ ]?[{FACES}]+[ ]?(?=[A-Z]))"
)
OPTION = re.compile(r"-[-\w].*|[!-`{-~ ]+")  # what stands in the first column of an option table
# What may stand before and behind a line, which is copied; a time such as [10:30] only before it.
TIME = r"[\[(]\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,3})?[\])](?!\s*[a-z])"
START = re.compile(rf"(?:[\s{SYMBOLS}]|{TIME})*+")
END = re.compile(rf"(?<![\s{SYMBOLS}])[\s{SYMBOLS}]*+$")
BRACKETED = re.compile(r"([(\[])([^()\[\]]{2,})([)\]])")  # a line: (optional), [door slams]
JOINER = re.compile(r"\s?[-+/>\u2192]\s?")  # of codes kept as one: <kbd>Ctrl</kbd> + <kbd>C</kbd>
# Signs and spaces at the end of a line, of which a translation has those of its source.
FINAL_SIGNS = re.compile(r"[\s.,:;!?\u2026\u3002\uff01\uff1a\uff1f]*$")
CLOSING_TAG = re.compile(r"(</\w+>)")
# Forms of the same sign.
SAME_SIGNS = str.maketrans(
    {"\u2026": "...", "\u3002": ".", "\uff01": "!", "\uff1a": ":", "\uff1f": "?"}
)
# The mark before the letter of a keyboard shortcut: &File, _Open, and inside a word as in E&xit or
# E_xit, but not in #&1, T&Ms or CD&s.
SHORTCUT = re.compile(
    r"(?<![\w&])([&_])(?=[^\W\d_])(?!\w+;)"
    r"|(?<=[A-Za-z])(?<![A-Z]{2})(&)(?=[a-z])(?!\w+;)"
    r"|\b[A-Z][a-z]*(_)[a-z]+\b"
)
MAX_SHORTCUT_CHARS = 80  # of a text that may have a shortcut


@dataclass(frozen=True)
class UnitLine:
    """A piece of a unit (a paragraph or message), such as a line, that is translated on its own."""

    # What is translated: strings, and codes <1>, </1>, <2/> and so on in place of the unit's own
    # codes; names of products are codes, too.
    parts: CodedText
    codes: dict[Code, CodedText] = field(default_factory=dict)  # what each code stands for
    # The mark of a keyboard shortcut and its letter, such as "&F", of which the mark has been
    # removed from the text; empty for none.
    shortcut: str = ""

    def restore(self, translation: Sequence[str | Code]) -> CodedText:
        """Return a translation of `parts` as the unit has it, to be stored in the document.

        The unit's own codes replace <1> and the like, the mark of a shortcut is set again, and the
        last sign, such as a colon, becomes that of the source.
        """
        parts = list(translation)
        if isinstance(self.parts[-1], str):
            _restore_end(self.parts[-1], parts)
        if self.shortcut:
            parts = [_set_shortcut(to_markup(parts), *self.shortcut)]
        restored = list[str | Code]()
        for part in parts:
            if isinstance(part, str):
                restored.append(part)
            else:
                restored += self.codes.get(part, ())
        return merge_strings(restored)


def _restore_end(source: str, parts: list[str | Code]) -> None:
    """Give a translation the final signs of its source, once and behind all closing codes.

    The form of the translation stays if it is the same sign, such as a wide colon. If the source
    ends with a period, a translation without one stays, too.
    """
    wanted = _final_signs(source).strip(" ,;")
    if not wanted:
        return
    stripped = _split_closing_tags(parts)
    removed = ""
    is_inside = False  # whether a closing code stands behind the sign
    for index in reversed(range(len(stripped))):
        part = stripped[index]
        if isinstance(part, str):
            end = _final_signs(part)
            stripped[index] = part.removesuffix(end)
            removed = end + removed
            if stripped[index]:
                break
        elif part.opens or part.pair == ALONE:
            break
        else:
            is_inside = is_inside or not removed.strip()
    signs = "".join(removed.split()).strip(",;")
    if wanted == "." and not signs.startswith((".", "!")):
        return
    if signs.translate(SAME_SIGNS) != "".join(wanted.split()).translate(SAME_SIGNS):
        signs = wanted
    elif not is_inside:
        return
    parts[:] = [to_markup([part]) if is_in_text(part) else part for part in stripped]
    parts.append(signs)


def _split_closing_tags(parts: Sequence[str | Code]) -> list[str | Code]:
    """Return parts in which closing tags that a string has are codes."""
    pieces = list[str | Code]()
    for part in parts:
        if isinstance(part, Code):
            pieces.append(part)
            continue
        text, *others = CLOSING_TAG.split(part)
        pieces.append(text)
        for tag, following in zip(others[::2], others[1::2], strict=True):
            pieces += [Code(tag, IN_TEXT), following]
    return pieces


def _final_signs(text: str) -> str:
    """Return the signs and spaces at the end of a text, but not those of kept spans: :name:."""
    signs = FINAL_SIGNS.search(text)
    if signs is None or signs.start() == len(text):
        return ""
    return text[max([signs.start(), *(span.end for span in find_spans(text))]) :]


def split_unit(source: CodedText) -> list[UnitLine | CodedText]:
    """Split the text of a unit into lines to translate and texts to copy (CodedText), in order.

    Return [] for an ICU message with plural or select forms, which is not translated.
    """
    if is_icu_message(source):
        return []
    pieces_of_unit = list[UnitLine | CodedText]()
    for text, following in pairwise([*_split_at_separators(source), ()]):
        leading, core, trailing = _split_surroundings(text)
        core, shortcut = split_shortcut(core)
        is_option = OPTION.fullmatch(to_markup(core)) and to_markup(following).startswith("  ")
        if is_option or not has_words(core):
            pieces_of_unit.append(text)
        else:
            pieces_of_unit += [leading, _make_line(core, shortcut), trailing]
    return pieces_of_unit


def _split_at_separators(source: CodedText) -> list[CodedText]:
    """Split a text at line ends, tabs and the like; these are items of the list as well."""
    texts = [list[str | Code]()]
    for part in source:
        if isinstance(part, Code):
            texts[-1].append(part)
            continue
        first, *others = SEPARATOR.split(part)
        texts[-1].append(first)
        texts += [[piece] for piece in others]
    return [merge_strings(text) for text in texts]


def _split_surroundings(text: CodedText) -> tuple[CodedText, CodedText, CodedText]:
    """Split off white space and symbols around a text, enclosing pairs and halves of others."""
    partners = pair_partners(text)
    low = 0
    high = len(text)

    def is_beside(index: int) -> bool:
        part = text[index]
        if isinstance(part, str):
            return not END.sub("", part)
        return part.pair >= 0 and index not in partners

    while low < high:
        if is_beside(low):
            low += 1
        elif is_beside(high - 1):
            high -= 1
        elif partners.get(low) == high - 1:
            low += 1
            high -= 1
        else:
            break
    before = list(text[:low])
    core = list(text[low:high])
    behind = list(text[high:])
    if core and isinstance(first := core[0], str):
        core[0] = START.sub("", first, count=1)
        before.append(first[: -len(core[0])])
    if core and isinstance(last := core[-1], str):
        core[-1] = END.sub("", last)
        behind.insert(0, last[len(core[-1]) :])
    brackets = BRACKETED.fullmatch(to_markup(core))
    if brackets is not None and len(core) == 1 and has_words(core):
        before.append(brackets[1])
        core = [brackets[2]]
        behind.insert(0, brackets[3])
    return merge_strings(before), merge_strings(core), merge_strings(behind)


def split_shortcut(core: CodedText) -> tuple[CodedText, str]:
    """Return a text without the mark of its keyboard shortcut, and the mark with its letter.

    ("&File",) gives (("File",), "&F"). The second is "", and the text unchanged, if it has more
    than 80 characters, inline codes, no mark, or several signs that may be one.
    """
    if len(core) != 1 or isinstance(core[0], Code) or len(core[0]) > MAX_SHORTCUT_CHARS:
        return core, ""
    text = core[0]
    shortcuts = list(SHORTCUT.finditer(text))
    if len(shortcuts) != 1:
        return core, ""
    position = shortcuts[0].start(shortcuts[0].lastindex or 0)
    if text.count(text[position]) > 1:
        return core, ""
    return (text[:position] + text[position + 1 :],), text[position : position + 2]


def _make_line(core: CodedText, shortcut: str) -> UnitLine:
    """Return a line, whose codes are <1>, </1>, <2/> and so on.

    A pair around kept text alone is one code, also one of tags in strings. Names of products are
    codes as well.
    """
    parts = list[str | Code]()
    codes = dict[Code, CodedText]()
    number_of_pair = dict[int, int]()
    partners = pair_partners(core)
    index = 0
    while index < len(core):
        part = core[index]
        end = _kept_end(core, partners, index)
        number = len(codes) + 1
        if isinstance(part, str):
            pieces = split_kept(part)
            parts += pieces
            codes |= {code: (code.text,) for code in codes_of(pieces)}
        elif end > index:
            parts.append(Code(f"<{number}/>"))
            codes[Code(f"<{number}/>")] = core[index:end]
        else:
            number = number_of_pair.setdefault(part.pair, number)
            markup = f"<{number}>" if part.opens else f"</{number}>"
            parts.append(Code(markup, number, part.opens))
            codes[Code(markup, number, part.opens)] = (part,)
        index = max(end, index + 1)
    return UnitLine(merge_strings(parts), codes, shortcut)


def _kept_end(core: CodedText, partners: dict[int, int], index: int) -> int:
    """Return the end of the codes at an index that are kept as one, or the index itself.

    A code that stands alone is kept, and a pair around kept text alone, also several of them that
    are joined, such as keys that are pressed together.
    """
    closing = partners.get(index, index)
    if isinstance(core[index], str) or closing < index:
        return index
    if closing > index and has_words(core[index:closing]):
        return index
    joiner = closing + 1
    if joiner + 1 < len(core) and isinstance(text := core[joiner], str) and JOINER.fullmatch(text):
        following = _kept_end(core, partners, joiner + 1)
        if following > joiner + 1:
            return following
    return closing + 1


def _set_shortcut(text: str, mark: str, letter: str) -> str:
    """Return a translation with the mark of a shortcut before its letter, or before the first one.

    In a script without capitals it stands behind the text with the letter: (&F).
    """
    for pattern in (rf"(?i)(?<!\w){letter}", rf"(?i){letter}", r"[^\W\d_]"):
        letter_match = re.search(pattern, text)
        if letter_match is not None and letter_match[0].lower() != letter_match[0].upper():
            return text[: letter_match.start()] + mark + text[letter_match.start() :]
    return f"{text}({mark}{letter.upper()})"
