"""Replace the kept spans of a line by sentinels, and restore them in its translation."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from bytenmt.checkpoints.facts import SourceWords
from bytenmt.config.fields import shorten
from bytenmt.errors import SettingError
from bytenmt.kernel_constants import FIRST_SENTINEL, N_SENTINELS
from bytenmt.sentinels import (
    SENTINELS,
    Code,
    Span,
    compile_patterns,
    drop_overlaps,
    find_spans,
    match_pairs,
    pair_tags,
    sentinel_char,
    to_bytes,
)
from bytenmt.span_classes import CLASSES, NAMES
from bytenmt.translation.glossary import Glossary, Term
from bytenmt.translation.names import find_names

PATTERN_SECONDS = 2.0  # of processor time, for the user's patterns on a line
NONE = "none"  # the value of --keep that keeps nothing
TextOrCode = str | Code
# A line as UTF-8, or, of a document, as its texts and inline codes in order.
SourceLine = bytes | Sequence[TextOrCode]

_SENTINEL = b"[" + re.escape(SENTINELS) + b"]"
# Between a sentinel and what it should not touch.
_BESIDE_WORD = re.compile(
    rb"(?<=[A-Za-z0-9.!?])(?=%b)|(?<=%b)(?=[A-Za-z0-9]|%b)" % (_SENTINEL, _SENTINEL, _SENTINEL)
)
# The end of the words before a sentence: none, or those of another one, and opening quotes.
_SENTENCE_BEGIN = re.compile(r"(?:\A|[.!?…][\"')\]»”’]*)\s*[\"'(\[«»„“‚‘]*\Z")


class KeptSpan(NamedTuple):
    """A part of a line that is not translated; the model sees a sentinel (byte 0xF5 to 0xFC)."""

    source: str  # the part as it stands in the line
    # What the sentinel becomes in the translation: texts and codes stay as they are, a Term becomes
    # its target, with a capital where the term in the line has one and a sentence begins.
    parts: tuple[TextOrCode | Term, ...]


class MarkedText(NamedTuple):
    """A text in which each kept span was replaced by a sentinel."""

    data: bytes  # UTF-8; all sentinels in it are the byte FIRST_SENTINEL, to be numbered later
    spans: tuple[KeptSpan, ...] = ()  # the k-th sentinel stands for spans[k]
    # Indices into spans of an opening tag, which a translation must write first, and its closing
    # tag.
    pairs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class KeepSpec:
    """The spans that translations copy unchanged, and the terms with fixed translations."""

    patterns: tuple[re.Pattern[str], ...] | None = None  # of spans to copy; None: of all classes
    glossary: Glossary | None = None  # None: no terms
    has_own_patterns: bool = False  # whether some are the user's: their time is limited
    keeps_names: bool = True  # whether names of people and products are copied
    words: SourceWords | None = None  # the model's, by which names are found; None: no names

    @classmethod
    def from_settings(
        cls, keep: Any = None, keep_pattern: Any = (), glossary: Any = None
    ) -> KeepSpec:
        """Return the KeepSpec of the settings with these names.

        keep: classes of spans, as one text with commas ("urls,numbers") or as several names; None:
        all classes; "none" or "": no class. keep_pattern: regular expressions (one or several) of
        further spans. glossary: a file, a Glossary, or None. Raises SettingError for an unknown
        class or wrong expression, DataError for a wrong glossary file.
        """
        if isinstance(keep, str):
            keep = tuple(name.strip() for name in keep.split(",") if name.strip() not in ("", NONE))
        patterns = (keep_pattern,) if isinstance(keep_pattern, str) else tuple(keep_pattern or ())
        classes = CLASSES if keep is None else tuple(dict.fromkeys(keep))
        compiled = None
        if keep is not None or patterns:
            compiled = compile_patterns(classes, patterns)
        if isinstance(glossary, str | Path):
            glossary = Glossary.from_file(Path(glossary))
        return cls(compiled, glossary, bool(patterns), NAMES in classes)

    def split_text(self, text: str) -> list[str | KeptSpan]:
        """Return the kept spans and terms of a text, and the texts between them, in order."""
        terms = self.glossary.find(text) if self.glossary else {}
        with _time_limit(text) if self.has_own_patterns else nullcontext():
            spans = find_spans(text, self.patterns)
        if terms:
            spans = drop_overlaps([*spans, *terms])
        if self.keeps_names and self.words is not None:
            spans = _add_names(spans, find_names(text, self.words))
        pieces = list[str | KeptSpan]()
        end = 0
        for span in spans:
            source = text[span.begin : span.end]
            term = terms.get(span)
            kept = source if term is None else term._replace(source=source)
            pieces += [text[end : span.begin], KeptSpan(source, (kept,))]
            end = span.end
        pieces.append(text[end:])
        return [piece for piece in pieces if piece]


@contextmanager
def _time_limit(text: str) -> Iterator[None]:
    """Raise SettingError if patterns take more than PATTERN_SECONDS of processor time on a text.

    Python checks for signals while it matches a regular expression. It does so in the main thread
    alone; in others, and where a program uses the timer itself, there is no limit.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise SettingError(
            f"the patterns to keep take more than {PATTERN_SECONDS:g} s on the line"
            f" {shorten(text)}: avoid repetitions of repetitions, such as (a+)+"
        )

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATTERN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _add_names(spans: Sequence[Span], names: Iterable[Span]) -> list[Span]:
    """Return spans with the names that overlap none of them, in order."""
    added = list(spans)
    for name in names:
        if not any(span.begin < name.end and name.begin < span.end for span in spans):
            added.append(name)
    return sorted(added)


def mark_spans(line: SourceLine, keep: KeepSpec | None) -> MarkedText:
    """Return a line as a text in which sentinels replace its inline codes, kept spans and terms.

    Spans with nothing between them share a sentinel. line: UTF-8, or texts and inline codes. keep:
    the spans to replace; None for a model without sentinels: inline codes that are words, such as
    names, become text, and the others are left out.
    """
    parts = [line.decode()] if isinstance(line, bytes) else line
    if keep is None:
        return MarkedText("".join(map(_text_without_sentinels, parts)).encode())
    texts = []
    spans = []
    pieces = _split_parts(parts, keep)
    for is_span, group in groupby(pieces, lambda piece: isinstance(piece, KeptSpan)):
        if is_span:
            spans.append(_merge_touching(group))
            texts.append(sentinel_char(0))
        else:
            texts += map(str, group)
    return MarkedText(to_bytes("".join(texts)), tuple(spans), _pair_spans(spans))


def _text_without_sentinels(part: TextOrCode) -> str:
    """Return what a model without sentinels reads of a part: a text, or the name that a code is."""
    if isinstance(part, str):
        return part
    return part.text if part.text.isidentifier() else ""


def _split_parts(parts: Iterable[TextOrCode], keep: KeepSpec) -> Iterable[str | KeptSpan]:
    """Yield the texts, and the kept spans and codes between them, of the parts of a line."""
    for part in parts:
        if isinstance(part, Code):
            yield KeptSpan(part.text, (part,))
        else:
            yield from keep.split_text(part)


def _merge_touching(spans: Iterable[Any]) -> KeptSpan:
    """Return one kept span for several with nothing between them."""
    source = ""
    parts = list[TextOrCode | Term]()
    for span in spans:
        source += span.source
        parts += span.parts
    return KeptSpan(source, tuple(parts))


def _pair_spans(spans: Sequence[KeptSpan]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of a MarkedText: of opening and closing tags in its texts, and of codes."""
    tags = list[TextOrCode | Term]()
    span_numbers = []  # of each tag
    for number, span in enumerate(spans):
        tags += span.parts
        span_numbers += [number] * len(span.parts)
    partners = pair_tags([tag if isinstance(tag, str) else "" for tag in tags])
    partners |= match_pairs(map(pair_key, tags))
    pairs = {
        (span_numbers[opening], span_numbers[closing]) for closing, opening in partners.items()
    }
    return tuple(sorted((opening, closing) for opening, closing in pairs if opening != closing))


def pair_key(tag: TextOrCode | Term) -> tuple[str, bool] | None:
    """Return (number of its pair as a str, whether it opens the pair) of an inline code.

    None for a text, a term, or a code that stands alone.
    """
    if isinstance(tag, Code) and tag.pair >= 0:
        return str(tag.pair), tag.opens
    return None


def separate_spans(data: bytes, source: bytes) -> bytes:
    """Return the output of a model with spaces between a sentinel and a word that it touches.

    A space is added only where in the source the sentinel has a space, or the end of the text, on
    that side. For outputs that the model would have ended without all of their sentinels. data: the
    output. source: the text that the model has read, with the same sentinels.
    """

    def space(match: re.Match[bytes]) -> bytes:
        position = match.start()
        if FIRST_SENTINEL <= data[position] < FIRST_SENTINEL + N_SENTINELS:
            index = source.find(data[position])
            neighbour = source[max(index - 1, 0) : index]
        else:
            index = source.find(data[position - 1])
            neighbour = source[index + 1 : index + 2]
        return b" " if neighbour in (b"", b" ") else b""

    return _BESIDE_WORD.sub(space, data)


def restore_spans(data: bytes, spans: Sequence[KeptSpan]) -> list[TextOrCode]:
    """Return a translation as texts and inline codes, with spans[k] in place of sentinel k.

    Adjacent texts are joined. data: the output of a model, valid UTF-8 with sentinels.
    """
    parts = list[TextOrCode]()
    words = ""  # so far, without tags and codes
    end = 0
    for position, byte in enumerate(data if spans else b""):
        if FIRST_SENTINEL <= byte < FIRST_SENTINEL + N_SENTINELS:
            for part in (data[end:position].decode(), *spans[byte - FIRST_SENTINEL].parts):
                new = _target(part, words) if isinstance(part, Term) else part
                parts.append(new)
                if isinstance(new, str) and not new.startswith("<"):
                    words += new
            end = position + 1
    parts.append(data[end:].decode())
    return merge_texts(parts)


def _target(term: Term, words: str) -> str:
    """Return the target of a term: with a capital if the term has one and a sentence begins behind
    `words`."""
    if term.source[:1].isupper() and _SENTENCE_BEGIN.search(words):
        return term.target[:1].upper() + term.target[1:]
    return term.target


def merge_texts(parts: Iterable[TextOrCode]) -> list[TextOrCode]:
    """Join adjacent texts of a sequence of texts and codes, and drop empty ones."""
    merged = list[TextOrCode]()
    texts = list[str]()
    for part in parts:
        if isinstance(part, Code):
            merged += ["".join(texts), part]
            texts.clear()
        else:
            texts.append(part)
    merged.append("".join(texts))
    return [part for part in merged if part]


def encode_parts(parts: Iterable[TextOrCode]) -> bytes:
    """Join texts and inline codes, each as its markup, to one text in UTF-8."""
    return "".join(part if isinstance(part, str) else part.text for part in parts).encode()


def mark_prefix(prefix: bytes, spans: Sequence[KeptSpan]) -> bytes:
    """Return a prefix with sentinels in place of the kept spans of the source that it contains.

    So the search does not write these spans once more. prefix: text, in UTF-8, with which the
    translation must begin. spans: sentinel k, the byte 0xF5 + k, stands for spans[k].
    """
    marked = prefix
    for symbol in range(FIRST_SENTINEL, FIRST_SENTINEL + len(spans)):
        text = encode_parts(restore_spans(bytes([symbol]), spans))
        longer = marked.replace(text, bytes([symbol]), 1)
        # The case of a term may be another one there.
        if text and encode_parts(restore_spans(longer, spans)) == prefix:
            marked = longer
    return marked
