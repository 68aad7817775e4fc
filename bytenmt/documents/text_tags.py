"""Tags that stand in the strings of a text, as in catalogues: <b>, <xliff:g id="x">.

In formats whose codes are elements, tags in strings are text, which translations keep as spans.
Here they become codes where that is needed, and texts again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeGuard

from bytenmt.documents.unit import CodedText, merge_strings
from bytenmt.documents.words import NAME, has_words
from bytenmt.sentinels import Code, find_spans

TAG = re.compile(r"</?([A-Za-z][\w:.-]*)(?:\s[^<>]*)?>")
# Tags around a text without others.
TAG_PAIR = re.compile(r"<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?(?<!/)>([^<>]*)</\1>")
# Code.pair of a tag in a string that is not paired yet. Pairs of such tags have greater numbers,
# pairs of a document's own codes smaller ones.
UNPAIRED = 1 << 20


def split_kept(text: str) -> CodedText:
    """Split a string into strings and Codes: names of products, such as GitHub, become Codes.

    A pair of tags without a word to translate between them becomes one Code with its content, such
    as <b>42</b>. Names inside tags and URLs stay part of them: <a href="GitHub">.
    """
    spans = list(find_spans(text))
    kept = [match.span() for match in TAG_PAIR.finditer(text) if not has_words([match[2]])]
    for match in NAME.finditer(text):
        begin, end = match.span()
        if not any(begin < last and first < end for first, last in [*spans, *kept]):
            kept.append((begin, end))
    parts = list[str | Code]()
    last = 0
    for begin, end in sorted(kept):
        parts += [text[last:begin], Code(text[begin:end])]
        last = end
    return merge_strings([*parts, text[last:]])


def split_tags(parts: Sequence[str | Code], source: Sequence[str | Code] = ()) -> CodedText:
    """Turn paired tags that stand in the strings of a text, such as <b>, into Codes.

    Their Code.pair is above UNPAIRED (2 ** 20), that of a document's own codes below. source: if
    `parts` are a translation, the result for its source text, so that the k-th pair of equal tags
    gets the number that it has there.
    """
    pieces = list[str | Code]()
    for part in parts:
        if isinstance(part, Code):
            pieces.append(part)
            continue
        last = 0
        for match in TAG.finditer(part):
            pieces += [part[last : match.start()], Code(match[0], UNPAIRED)]
            last = match.end()
        pieces.append(part[last:])
    return merge_strings(_number_pairs(pieces, _numbers_of(source)))


def join_tags(parts: Sequence[str | Code]) -> CodedText:
    """Turn the Codes that split_tags made back into strings; other codes stay."""
    return merge_strings(part.text if _is_tag(part) else part for part in parts)


def _is_tag(part: str | Code) -> TypeGuard[Code]:
    return isinstance(part, Code) and part.pair >= UNPAIRED


def _numbers_of(source: Sequence[str | Code]) -> dict[tuple[str, int], int]:
    """Return the number of each pair of tags by its opening tag and how often it came before."""
    numbers = dict[tuple[str, int], int]()
    count = Counter[str]()
    for part in source:
        if isinstance(part, Code) and part.opens and _is_tag(part):
            numbers[part.text, count[part.text]] = part.pair
            count[part.text] += 1
    return numbers


def _number_pairs(
    pieces: list[str | Code], numbers: dict[tuple[str, int], int]
) -> list[str | Code]:
    """Return pieces with the numbers of their pairs of tags; other tags become texts again.

    numbers: of pairs of the source.
    """
    numbered = [piece.text if _is_tag(piece) else piece for piece in pieces]
    open_tags = list[tuple[str, int]]()
    count = Counter[str]()
    following = UNPAIRED + len(pieces)
    for index, piece in enumerate(pieces):
        if not _is_tag(piece) or (match := TAG.match(piece.text)) is None:
            continue
        if not piece.text.startswith("</"):
            if not piece.text.endswith("/>"):
                open_tags.append((match[1], index))
            continue
        names = [name for name, _ in open_tags]
        if match[1] not in names:
            continue
        position = len(names) - 1 - names[::-1].index(match[1])
        opening = pieces[open_tags[position][1]]
        del open_tags[position + 1 :]
        _, begin = open_tags.pop()
        assert isinstance(opening, Code)
        text = opening.text
        following += 1
        number = numbers.get((text, count[text]), following)
        count[text] += 1
        numbered[begin] = Code(text, number, True)
        numbered[index] = Code(piece.text, number)
    return numbered
