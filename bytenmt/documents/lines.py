"""Split a unit into the lines that are translated, and put their translations together.

A unit is split at line ends, tabs, the bars between plural forms, and the gaps between columns.
What has no text to translate is copied: white space and symbols around a line, codes that enclose
it, options in front of their descriptions. ICU messages with several forms are not translated. The
mark of a keyboard shortcut, as in &File, is removed and set again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bytenmt.documents.unit import CodedText, merge_strings, split_codes, to_markup
from bytenmt.sentinels import Code, find_spans, match_pairs, replace_spans
from bytenmt.translation.confidence import NO_TEXT

SEPARATOR = re.compile(r"(\r\n|[\n\r\t]|[ ]+\|[ ]+|[ ]{2,})")
OPTION = re.compile(r"-[-\w].*|[!-`{-~ ]+")  # what stands in the first column of an option table
# Of a product, such as GitHub; not German StudentInnen.
NAME = re.compile(r"(?<!\w)(?!\w+I(?:n|nnen)\b)[A-Za-z]*[a-z][A-Z][A-Za-z0-9]*(?!\w)")
# White space and symbols such as notes, arrows, bullets and pictograms at the ends of a line.
START = re.compile(r"[\s\u2022\u2190-\u2bff\U0001f000-\U0001faff\ufe0f]*+")
END = re.compile(f"(?<!{START.pattern[:-2]}){START.pattern}$")
# Ends that a translation must have if its source has them; the two forms of a line are equivalent.
ENDS = ((":", "\uff1a"), ("\u2026", "..."), ("?", "\uff1f"), ("!", "\uff01"))
PERIOD = re.compile(r"[.!]+((?:</\w+>)*+)[.!]*\s*$")  # at the end, or one in and one behind tags
# The mark before the letter of a keyboard shortcut: &File, _Open, and inside a word as in E&xit or
# E_xit.
SHORTCUT = re.compile(
    r"(?<![\w&])([&_])(?=[^\W\d_])(?!\w+;)|(?<=[A-Za-z])(&)(?=[a-z])(?!\w+;)|\b[A-Z][a-z]*(_)[a-z]+\b"
)
IN_TEXT = -2  # Code.pair of what split_spans makes a code
MAX_SHORTCUT = 80  # characters of a text that may have a shortcut
# {n, plural, one {…} other {…}}, in the syntax of ICU's and Java's MessageFormat: a program, not a
# text.
ICU_FORMS = re.compile(r"\{\s*+[\w.-]++\s*+,\s*+(?:plural|select|selectordinal|choice)\s*,")
# A value of a program, or a list of codes of languages.
VALUE = re.compile(
    r"\s*(?:#[0-9A-Fa-f]{3,8}|true|false|null|(?:[a-z]{2,3}(?:-\w{2,4})?(?:,\s*|\s*$)){5,})"
)


@dataclass(frozen=True)
class UnitLine:
    """A piece of a unit that a model translates on its own.

    parts: strings and codes as the translator gets them, the codes renumbered <1>, </1>, <2/>.
    codes: what each of them replaces in the unit. shortcut: the mark of a keyboard shortcut and its
    letter, such as "&F", of which the mark has been removed from the text; empty for none.
    """

    parts: CodedText
    codes: dict[Code, CodedText] = field(default_factory=dict)
    shortcut: str = ""

    def restore(self, translation: Sequence[str | Code]) -> CodedText:
        """Return a translation of `parts` for the unit: with the original codes and the shortcut
        mark.

        A final sign of the source (ENDS) is added if the translation lacks it. Where both end with
        a period, or the translation with an exclamation mark instead, it gets one period, behind
        all codes.
        """
        parts = list(translation)
        source, text = self.parts[-1], to_markup(parts).rstrip()
        for signs in ENDS:
            if isinstance(source, str) and source.endswith(signs) and not text.endswith(signs):
                if isinstance(parts[-1], str):
                    parts[-1] = parts[-1].rstrip(" .,;:!\u3002")
                parts.append(next(sign for sign in signs if source.endswith(sign)))
        if (
            isinstance(source, str)
            and re.search(r"(?<!\.)\.$", source)
            and text.endswith((".", "!"))
        ):
            for index in reversed(range(len(parts))):
                part = parts[index]
                if isinstance(part, str):
                    parts[index] = part = PERIOD.sub(r"\1", part)
                if part and (isinstance(part, str) or part.opens or part.pair < 0):
                    break
            parts.append(".")
        if self.shortcut:
            parts = [_set_shortcut(to_markup(parts), *self.shortcut)]
        return merge_strings(
            item
            for part in parts
            for item in ([part] if isinstance(part, str) else self.codes.get(part, ()))
        )


def is_icu_message(source: CodedText) -> bool:
    """Return whether a unit is an ICU message with forms, as {n, plural, one {# file} other {#
    files}}."""
    return any(isinstance(part, str) and ICU_FORMS.search(part) for part in source)


def has_words(parts: Sequence[str | Code]) -> bool:
    """Return whether there is a word to translate.

    Letters in codes, kept spans (URLs, placeholders) and names such as GitHub do not count, nor
    does a string that is a value of a program, such as true or #fff.
    """
    for part in parts:
        if isinstance(part, str) and not VALUE.fullmatch(part):
            text = NAME.sub(lambda match: "0" * len(match[0]), part)
            if any(
                map(str.isalpha, replace_spans(text, [(span, "") for span in find_spans(part)]))
            ):
                return True
    return False


def split_unit(source: CodedText) -> list[UnitLine | CodedText]:
    """Split a unit into a list, in order: a UnitLine is translated, a tuple of parts between lines
    is copied.

    Empty for an ICU message, which is left as it is.
    """
    if is_icu_message(source):
        return []
    pieces_of_unit, texts = list[UnitLine | CodedText](), [list[str | Code]()]
    for part in source:
        split_parts = SEPARATOR.split(part) if isinstance(part, str) else [part]
        texts[-1].append(split_parts[0])
        for separator, piece in zip(split_parts[1::2], split_parts[2::2], strict=True):
            texts += [[separator], [piece]]
    for text, following in pairwise([*map(merge_strings, texts), ()]):
        leading, core, trailing = _split_surroundings(text)
        core, shortcut = split_shortcut(core)
        is_option = OPTION.fullmatch(to_markup(core)) and to_markup(following).startswith("  ")
        if is_option or not has_words(core):
            pieces_of_unit.append(text)
        else:
            pieces_of_unit += [leading, _make_line(core, shortcut), trailing]
    return pieces_of_unit


def _pair_partners(parts: Sequence[str | Code]) -> dict[int, int]:
    """Map the index of each code of a pair to that of the other one, if it is there."""
    opening_of = match_pairs(
        (str(part.pair), part.opens) if isinstance(part, Code) and part.pair >= 0 else None
        for part in parts
    )
    return opening_of | {opening: closing for closing, opening in opening_of.items()}


def _split_surroundings(text: CodedText) -> tuple[CodedText, CodedText, CodedText]:
    """Split off the white space and symbols around a text, enclosing pairs, and halves of other
    pairs."""
    partners, low, high = _pair_partners(text), 0, len(text)

    def is_beside(index: int) -> bool:
        part = text[index]
        return (
            not END.sub("", part)
            if isinstance(part, str)
            else part.pair >= 0 and index not in partners
        )

    while low < high:
        if is_beside(low):
            low += 1
        elif is_beside(high - 1):
            high -= 1
        elif partners.get(low) == high - 1:
            low, high = low + 1, high - 1
        else:
            break
    before, core, behind = list(text[:low]), list(text[low:high]), list(text[high:])
    if core and isinstance(first := core[0], str):
        core[0] = START.sub("", first, count=1)
        before.append(first[: -len(core[0])])
    if core and isinstance(last := core[-1], str):
        core[-1] = END.sub("", last)
        behind.insert(0, last[len(core[-1]) :])
    return merge_strings(before), merge_strings(core), merge_strings(behind)


def split_shortcut(core: CodedText) -> tuple[CodedText, str]:
    """Return a short text without the mark of its keyboard shortcut, and the mark with its letter,
    as "&F".

    The second is "" where there is no mark, or where another sign like it makes it doubtful.
    """
    text = core[0] if len(core) == 1 and isinstance(core[0], str) else ""
    shortcuts = list(SHORTCUT.finditer(text)) if len(text) <= MAX_SHORTCUT else []
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
    parts, codes, numbers = list[str | Code](), dict[Code, CodedText](), dict[int, int]()
    partners, end = _pair_partners(core), -1
    for index, part in enumerate(core):
        if index <= end:
            continue
        if isinstance(part, str):
            pieces = split_codes(part, NAME)
            parts += pieces
            codes |= {piece: (piece.text,) for piece in pieces if isinstance(piece, Code)}
            continue
        closing, number = partners.get(index, index), len(codes) + 1
        if closing > index and not has_words(core[index:closing]):
            end = closing
        if end > index or closing == index:
            code = Code(f"<{number}/>")
        else:
            number = numbers.setdefault(part.pair, number)
            code = Code(f"<{number}>" if part.opens else f"</{number}>", number, part.opens)
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


def split_spans(parts: CodedText) -> CodedText:
    """Return parts in which placeholders, tags and addresses in strings are codes, but not those of
    ICU."""
    pieces = list[str | Code]()
    for part in parts:
        if isinstance(part, Code) or ICU_FORMS.search(part):
            pieces.append(part)
            continue
        last = 0
        for begin, end in find_spans(part, NO_TEXT):
            pieces += [part[last:begin], Code(part[begin:end], IN_TEXT)]
            last = end
        pieces.append(part[last:])
    return merge_strings(pieces)


def keeps_spans(source: CodedText, translation: CodedText) -> bool:
    """Return whether a translation has all codes, placeholders, tags and addresses of its source.

    A model that was trained without sentinels, which protect them, may lose some.
    """
    spans = Counter(part.text for part in split_spans(source) if isinstance(part, Code))
    written = to_markup(translation)
    return all(written.count(span) >= n for span, n in spans.items())


def keeps_codes(source: CodedText, translation: CodedText) -> bool:
    """Return whether a translation has each code as often as its source, and no other code."""
    codes = [
        Counter(part for part in parts if isinstance(part, Code)) for parts in (source, translation)
    ]
    return codes[0] == codes[1]


def pairs_with_words(parts: CodedText) -> set[int]:
    """Return the numbers (Code.pair) of the pairs of codes with a word between them; see has_words."""
    partners = _pair_partners(parts)
    openings = (
        (index, code) for index, code in enumerate(parts) if isinstance(code, Code) and code.opens
    )
    return {
        code.pair
        for index, code in openings
        if has_words(parts[index : partners.get(index, index)])
    }


def nest_pairs(source: CodedText, translation: CodedText) -> CodedText:
    """Return a translation in which a pair of codes is inside another one only where it is so in
    the source.

    An outer pair is closed before a pair that does not belong into it: a link may not be in another
    one. White space just inside a pair moves out of it: Markdown has no emphasis in ** a**.
    """
    outer_pairs, open_pairs = dict[int, set[int]](), list[int]()
    for part in source:
        if isinstance(part, Code) and part.opens:
            outer_pairs[part.pair] = {*open_pairs}
            open_pairs.append(part.pair)
        elif isinstance(part, Code) and part.pair in open_pairs:
            open_pairs.remove(part.pair)
    closing = {part.pair: part for part in source if isinstance(part, Code) and not part.opens}
    nested, open_pairs = list[str | Code](), []

    def close() -> None:
        last = nested.pop()
        stripped = last.rstrip() if isinstance(last, str) else last
        space = last[len(stripped) :] if isinstance(last, str) else ""
        nested.extend([stripped, closing[open_pairs.pop()], space])

    for part in translation:
        if isinstance(part, str):
            first_opening = len(nested)
            while (
                first_opening
                and isinstance(before := nested[first_opening - 1], Code)
                and before.opens
            ):
                first_opening -= 1
            # Not a second space behind one that has moved.
            stripped = (
                part.lstrip() if first_opening < len(nested) or nested[-1:] == [" "] else part
            )
            space = part[: len(part) - len(stripped)] if first_opening < len(nested) else ""
            nested[first_opening:] = [space, *nested[first_opening:], stripped]
        elif part.opens:
            while open_pairs and open_pairs[-1] not in outer_pairs[part.pair]:
                close()
            nested.append(part)
            open_pairs.append(part.pair)
        elif part.pair < 0:
            nested.append(part)
        while isinstance(part, Code) and part.pair in open_pairs and not part.opens:
            close()
    return merge_strings(nested)
