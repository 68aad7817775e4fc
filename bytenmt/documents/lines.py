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

from bytenmt.documents.codes import codes_of, pair_partners
from bytenmt.documents.unit import CodedText, merge_strings, split_codes, to_markup
from bytenmt.documents.words import NAME, has_words, is_icu_message
from bytenmt.sentinels import Code

SEPARATOR = re.compile(r"(\r\n|[\n\r\t]|[ ]+\|[ ]+|[ ]{2,})")
OPTION = re.compile(r"-[-\w].*|[!-`{-~ ]+")  # what stands in the first column of an option table
# White space and symbols such as notes, arrows, bullets and pictograms at the ends of a line.
START = re.compile(r"[\s\u2022\u2190-\u2bff\U0001f000-\U0001faff\ufe0f]*+")
END = re.compile(f"(?<!{START.pattern[:-2]}){START.pattern}$")
# Ends that a translation must have if its source has them; the two forms of a line are equivalent.
ENDS = ((":", "\uff1a"), ("\u2026", "..."), ("?", "\uff1f"), ("!", "\uff01"))
FINAL_PERIOD = re.compile(r"(?<!\.)\.$")  # not that of an ellipsis
PERIOD = re.compile(r"[.!]+((?:</\w+>)*+)[.!]*\s*$")  # at the end, or one in and one behind tags
# The mark before the letter of a keyboard shortcut: &File, _Open, and inside a word as in E&xit or
# E_xit.
SHORTCUT = re.compile(
    r"(?<![\w&])([&_])(?=[^\W\d_])(?!\w+;)"
    r"|(?<=[A-Za-z])(&)(?=[a-z])(?!\w+;)"
    r"|\b[A-Z][a-z]*(_)[a-z]+\b"
)
MAX_SHORTCUT_CHARS = 80  # of a text that may have a shortcut


@dataclass(frozen=True)
class UnitLine:
    """A piece of a unit that a model translates on its own."""

    # Strings and codes as the translator gets them, the codes renumbered <1>, </1>, <2/>.
    parts: CodedText
    # What each of these codes replaces in the unit.
    codes: dict[Code, CodedText] = field(default_factory=dict)
    # The mark of a keyboard shortcut and its letter, such as "&F", of which the mark has been
    # removed from the text; empty for none.
    shortcut: str = ""

    def restore(self, translation: Sequence[str | Code]) -> CodedText:
        """Return a translation of `parts` for the unit: with its codes, shortcut and final sign."""
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
    """Give a translation the final sign of its source.

    One of ENDS is added if the translation lacks it. Where both end with a period, or the
    translation with an exclamation mark instead, it gets one period, behind all codes.
    """
    text = to_markup(parts).rstrip()
    for signs in ENDS:
        if source.endswith(signs) and not text.endswith(signs):
            if isinstance(parts[-1], str):
                parts[-1] = parts[-1].rstrip(" .,;:!\u3002")
            parts.append(next(sign for sign in signs if source.endswith(sign)))
    if not FINAL_PERIOD.search(source) or not text.endswith((".", "!")):
        return
    for index in reversed(range(len(parts))):
        part = parts[index]
        if isinstance(part, str):
            part = PERIOD.sub(r"\1", part)
            parts[index] = part
            if part:
                break
        elif part.opens or part.pair < 0:
            break
    parts.append(".")


def split_unit(source: CodedText) -> list[UnitLine | CodedText]:
    """Split a unit into a list, in order: lines to translate, and what is copied between them.

    Each UnitLine is translated, each tuple of parts copied. Empty for an ICU message, which is left
    as it is.
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
    return merge_strings(before), merge_strings(core), merge_strings(behind)


def split_shortcut(core: CodedText) -> tuple[CodedText, str]:
    """Return a short text without the mark of its keyboard shortcut, and the mark with its letter.

    The second is "" where there is no mark, or where another sign like it makes it doubtful.
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

    A pair around kept text alone is one code. Names of products are codes, too.
    """
    parts = list[str | Code]()
    codes = dict[Code, CodedText]()
    number_of_pair = dict[int, int]()
    partners = pair_partners(core)
    end = -1  # the last index that the code before covers
    for index, part in enumerate(core):
        if index <= end:
            continue
        if isinstance(part, str):
            pieces = split_codes(part, NAME)
            parts += pieces
            codes |= {code: (code.text,) for code in codes_of(pieces)}
            continue
        closing = partners.get(index, index)
        number = len(codes) + 1
        if closing > index and not has_words(core[index:closing]):
            end = closing
        if end > index or closing == index:
            code = Code(f"<{number}/>")
        else:
            number = number_of_pair.setdefault(part.pair, number)
            markup = f"<{number}>" if part.opens else f"</{number}>"
            code = Code(markup, number, part.opens)
        parts.append(code)
        codes[code] = core[index : max(index, end) + 1]
    return UnitLine(merge_strings(parts), codes, shortcut)


def _set_shortcut(text: str, mark: str, letter: str) -> str:
    """Return a translation with the mark of a shortcut before its letter, or before the first one.

    In a script without capitals it stands behind the text with the letter: (&F).
    """
    for pattern in (rf"(?i)(?<!\w){letter}", rf"(?i){letter}", r"[^\W\d_]"):
        letter_match = re.search(pattern, text)
        if letter_match is not None and letter_match[0].lower() != letter_match[0].upper():
            return text[: letter_match.start()] + mark + text[letter_match.start() :]
    return f"{text}({mark}{letter.upper()})"
