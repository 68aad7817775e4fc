"""Split lines into sentences, list marks and repeated signs, and these into chunks.

A chunk fits a model and is translated by itself; white space between chunks is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bytenmt.data.sentences import ends_at_signs, is_sign, sentence_ends
from bytenmt.kernel_constants import N_SENTINELS
from bytenmt.sentinels import (
    SENTINELS,
    compile_patterns,
    find_spans,
    replace_spans,
    sentinel_char,
    to_bytes,
    to_text,
)
from bytenmt.translation.kept_spans import KeptSpan, MarkedText

ADDRESS_PATTERNS = compile_patterns(("urls", "emails"))  # no model translates them
SPAN_CHARACTER = "\ue000"  # for private use: stands for a kept span where sentences are looked for
UNNUMBERED_SENTINEL = SENTINELS[:1]  # the byte of every sentinel of a MarkedText


class Chunk(NamedTuple):
    """A part of a line, usually a sentence, that is translated by itself."""

    text: bytes  # as it stands in the line: valid UTF-8
    separator: bytes  # white space up to the next chunk, copied into translations
    source: bytes  # the text as the model reads it: sentinel k (byte 0xF5 + k) is spans[k]
    spans: tuple[KeptSpan, ...] = ()  # the kept spans of the text, in order
    # Indices into spans of an opening and its closing tag: the first must be written first.
    pairs: tuple[tuple[int, int], ...] = ()


def split_line(marked: MarkedText, max_bytes: int, languages: Sequence[str] = ()) -> list[Chunk]:
    """Split a line, whose kept spans are sentinels, into sentences, and these into chunks.

    A chunk has at most max_bytes bytes and N_SENTINELS (8) kept spans. A list mark, as in `- item`,
    and a sign that is repeated, as in `Name: ____`, are chunks of their own. languages: codes of
    the languages whose rules end a sentence, such as "de"; (): the line is one sentence.
    """
    sentences = split_sentences(marked.data, languages) if languages else [(marked.data, b"")]
    chunks = []
    n_spans = 0  # of the chunks so far
    for sentence, after in sentences:
        for piece, separator in cut_text(sentence, after, max_bytes):
            chunks.append(_number_sentinels(piece, separator, marked, n_spans))
            n_spans += len(chunks[-1].spans)
    return chunks


def _number_sentinels(piece: bytes, separator: bytes, marked: MarkedText, first: int) -> Chunk:
    """Return the chunk of a piece of a marked text. first: the number of its first span in it."""
    before, *others = piece.split(UNNUMBERED_SENTINEL)  # the texts before and after each span
    end = first + len(others)
    spans = marked.spans[first:end]
    text = source = before
    for number, (span, other) in enumerate(zip(spans, others, strict=True)):
        text += span.source.encode() + other
        source += SENTINELS[number : number + 1] + other
    pairs = tuple(
        (opening - first, closing - first)
        for opening, closing in marked.pairs
        if first <= opening < end and first <= closing < end
    )
    return Chunk(text, separator, source, spans, pairs)


def split_sentences(data: bytes, languages: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Split a line into sentences: return (text, white space after it) of each.

    List marks, such as "-", and repeated signs, such as "____", are texts of their own. If a line
    of several texts begins with white space, an empty text comes before it.
    data: the line in UTF-8; the byte UNNUMBERED_SENTINEL (0xF5) stands for each span to be copied.
    languages: codes such as "de", whose abbreviations are known; with several, a sentence ends
    where the rules of all of them end one, but never inside a URL or e-mail address.
    """
    text = to_text(data)
    probe = text.replace(sentinel_char(0), SPAN_CHARACTER)
    ends = sorted({*sentence_ends(probe, languages), *ends_at_signs(probe)})
    if not ends:
        return [(data, b"")]
    addresses = find_spans(text, ADDRESS_PATTERNS)
    begin = len(text) - len(text.lstrip())
    bounds = [(0, 0, begin)] if begin else []  # begin, end, end of the white space after it
    for end in ends:
        if not any(span.begin < end < span.end for span in addresses):
            after = end + len(text[end:]) - len(text[end:].lstrip())
            bounds.append((begin, end, after))
            begin = after
    bounds.append((begin, begin + len(text[begin:].rstrip()), len(text)))
    return [(to_bytes(text[first:end]), to_bytes(text[end:after])) for first, end, after in bounds]


def cut_text(data: bytes, after: bytes, max_bytes: int) -> list[tuple[bytes, bytes]]:
    """Cut UTF-8 with sentinels into texts of at most max_bytes bytes and N_SENTINELS sentinels.

    Returns (text, separator) of each. A text ends at the last space within its limits, which is
    then its separator, else between two characters. after: separator to return with the last text.
    max_bytes: at least 4, the length of the longest character.
    """
    texts = []
    start = 0
    while True:
        reach = data[start : start + max_bytes + 1]
        between = reach.split(UNNUMBERED_SENTINEL)[: N_SENTINELS + 1]
        last = start + min(max_bytes, len(UNNUMBERED_SENTINEL.join(between)))
        if last >= len(data):
            texts.append((data[start:], after))
            return texts
        end = data.rfind(b" ", start + 1, last + 1)
        separator = b" "
        if end <= start:  # no space
            separator = b""
            end = last
            while data[end] & 0xC0 == 0x80:  # a continuation byte: its character began before
                end -= 1
        texts.append((data[start:end], separator))
        start = end + len(separator)


def has_translatable_text(source: bytes, has_sentinels: bool) -> bool:
    """Return whether a text has letters besides sentinels, URLs and e-mail addresses; else it is
    copied.

    has_sentinels: whether the model keeps spans; if not, digits and emoji count as letters.
    """
    text = to_text(source.translate(None, SENTINELS))
    if any(sign in text for sign in ("@", ".", "://")):
        text = replace_spans(text, [(span, "") for span in find_spans(text, ADDRESS_PATTERNS)])
    if has_sentinels:
        return any(map(str.isalpha, text))
    return not all(character.isspace() or is_sign(character) for character in text)
