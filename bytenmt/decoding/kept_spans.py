"""Replace the kept spans of a line by sentinels, and the sentinels of its translation by the spans again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bytenmt.decoding.glossary import Glossary
from bytenmt.errors import SettingError
from bytenmt.sentinels import (
    CLASSES,
    Code,
    Span,
    choose_spans,
    compile_patterns,
    find_spans,
    pair_tags,
    sentinel,
    to_bytes,
)
from bytenmt.utf8 import FIRST_SENTINEL, N_SENTINELS

NONE = "none"  # the value of --keep that keeps nothing
Part = str | Code  # of a line of a document

_SENTENCE_END = re.compile(r"[.!?…][\"')\]»”’]*\s*\Z")


class KeptSpan(NamedTuple):
    """The text that a sentinel stands for.

    source: its text in the line. parts: what takes its place in the translation. is_term: whether that is the
    target of a glossary's term, which begins with a capital where the term does and a sentence begins.
    """

    source: str
    parts: tuple[Part, ...]
    is_term: bool = False


class MarkedText(NamedTuple):
    """A text with a sentinel for each kept span.

    data: UTF-8, in which all sentinels are the first one. spans: what they stand for, in order. pairs:
    numbers of spans that belong together, as an opening and its closing tag: the first one has to be written
    first.
    """

    data: bytes
    spans: tuple[KeptSpan, ...]
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class KeepSpec:
    """The patterns of kept spans (sentinels.py), and the glossary whose terms are translated by it."""

    patterns: tuple[re.Pattern[str], ...] = compile_patterns()
    glossary: Glossary | None = None

    @classmethod
    def from_settings(cls, keep: Any = None, keep_pattern: Any = (), glossary: Any = None) -> KeepSpec:
        """Return what these settings keep.

        keep: names of classes of sentinels.PATTERNS, as one text with commas or as several; None: all of
        them, "none" or "": none. keep_pattern: one regular expression or several. glossary: a file or a
        Glossary. Raises SettingError, and DataError for a file that cannot be used.
        """
        if isinstance(keep, str):
            keep = tuple(name.strip() for name in keep.split(",") if name.strip() not in ("", NONE))
        patterns = (keep_pattern,) if isinstance(keep_pattern, str) else tuple(keep_pattern or ())
        classes = CLASSES if keep is None else tuple(dict.fromkeys(keep))
        for name in (*classes, *patterns):
            if not isinstance(name, str):
                raise SettingError(f"to keep {name!r}: give names, {', '.join(CLASSES)}, or patterns")
        if glossary is not None and not isinstance(glossary, str | Path | Glossary):
            raise SettingError(f"the glossary is {glossary!r}: give the name of a file")
        if isinstance(glossary, str | Path):
            glossary = Glossary.from_file(Path(glossary))
        return cls(compile_patterns(classes, patterns), glossary)

    def mark(self, parts: Iterable[Part]) -> MarkedText:
        """Return the text of a line, given in parts, with sentinels for its codes and kept spans.

        Spans with nothing between them share a sentinel.
        """
        texts, spans, tags = [], list[KeptSpan](), list[tuple[int, Part]]()
        is_adjacent = False
        for part in parts:
            for piece in self._pieces(part) if isinstance(part, str) else [KeptSpan(part.text, (part,))]:
                if isinstance(piece, str):
                    texts.append(piece)
                    is_adjacent = False
                    continue
                if is_adjacent:
                    before = spans.pop()
                    spans.append(KeptSpan(before.source + piece.source, before.parts + piece.parts))
                else:
                    texts.append(sentinel(0))
                    spans.append(piece)
                is_adjacent = True
                tags += [(len(spans) - 1, tag) for tag in piece.parts]
        return MarkedText(to_bytes("".join(texts)), tuple(spans), _pairs(tags))

    def _pieces(self, text: str) -> Iterable[str | KeptSpan]:
        """Return the parts of a text between kept spans, and the spans, in order; without empty ones."""
        terms = {match.span: match.term for match in self.glossary.find(text)} if self.glossary else {}
        chosen = find_spans(text, self.patterns)
        if terms:
            chosen = choose_spans([*chosen, *terms])
        pieces, end = list[str | KeptSpan](), 0
        for span in chosen:
            source, term = text[span.begin : span.end], terms.get(Span(*span))
            pieces += [
                text[end : span.begin],
                KeptSpan(source, (term.target if term else source,), term is not None),
            ]
            end = span.end
        return filter(None, [*pieces, text[end:]])


def _pairs(tags: Sequence[tuple[int, Part]]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of MarkedText. tags: each kept text or code, with the number of its span."""
    partners = pair_tags([tag if isinstance(tag, str) else "" for _, tag in tags])
    opened = {tag.pair: index for index, (_, tag) in enumerate(tags) if isinstance(tag, Code) and tag.opens}
    for index, (_, tag) in enumerate(tags):
        if isinstance(tag, Code) and not tag.opens and tag.pair in opened:
            partners[index] = opened[tag.pair]
    pairs = ((tags[opening][0], tags[closing][0]) for closing, opening in partners.items())
    return tuple(sorted({(first, second) for first, second in pairs if first != second}))


def restore(data: bytes, spans: Sequence[KeptSpan]) -> list[Part]:
    """Return the parts of a translation: its text, and what its sentinels stand for. data: valid UTF-8."""
    parts, text, end = list[Part](), "", 0
    for at, byte in enumerate(data):
        if FIRST_SENTINEL <= byte < FIRST_SENTINEL + N_SENTINELS:
            span = spans[byte - FIRST_SENTINEL]
            text += data[end:at].decode()
            end = at + 1
            for part in span.parts:
                if isinstance(part, Code):
                    parts += [text, part]
                    text = ""
                else:
                    is_first = not (text.strip() or parts) or bool(_SENTENCE_END.search(text))
                    text += _with_case_of(part, span.source) if span.is_term and is_first else part
    return [part for part in (*parts, text + data[end:].decode()) if part]


def _with_case_of(target: str, source: str) -> str:
    """Return the target of a term at the beginning of a sentence, with a capital where the term has one."""
    return target[:1].upper() + target[1:] if source[:1].isupper() else target


def restored_text(data: bytes, spans: Sequence[KeptSpan]) -> bytes:
    """Return a translation as UTF-8, with the texts of its spans and codes."""
    if not spans:
        return data
    return "".join(part if isinstance(part, str) else part.text for part in restore(data, spans)).encode()
