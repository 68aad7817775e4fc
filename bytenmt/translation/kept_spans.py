"""Replace the kept spans of a line by sentinels, and the sentinels of its translation by the spans
again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bytenmt.kernel_constants import FIRST_SENTINEL, N_SENTINELS
from bytenmt.sentinels import (
    CLASSES,
    Code,
    compile_patterns,
    drop_overlaps,
    find_spans,
    match_pairs,
    pair_tags,
    sentinel_char,
    to_bytes,
)
from bytenmt.translation.glossary import Glossary, Term

NONE = "none"  # the value of --keep that keeps nothing
TextOrCode = str | Code
SourceLine = bytes | Sequence[TextOrCode]  # UTF-8; of a document, texts and inline codes in turn

# The end of the words before a sentence: none, or those of another one, and opening quotes.
_SENTENCE_BEGIN = re.compile(r"(?:\A|[.!?…][\"')\]»”’]*)\s*[\"'(\[«»„“‚‘]*\Z")


class KeptSpan(NamedTuple):
    """A part of a line for which a sentinel, a byte 0xF5 to 0xFC, stands: the model does not
    translate it.

    It is one or several texts (as URLs), inline codes and glossary terms with nothing between them.
    source: the part as it stands in the line. parts: what the sentinel becomes in the translation:
    texts and codes stay as they are, a Term becomes its target, with a capital where the term in
    the line has one and a sentence begins.
    """

    source: str
    parts: tuple[TextOrCode | Term, ...]


class MarkedText(NamedTuple):
    """A text in which each kept span was replaced by a sentinel.

    data: UTF-8; all sentinels in it are the byte FIRST_SENTINEL, to be numbered later. spans: the
    k-th sentinel stands for spans[k]. pairs: indices into `spans` of an opening and its closing
    tag; a translation has to write the first of a pair first.
    """

    data: bytes
    spans: tuple[KeptSpan, ...]
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class KeepSpec:
    """The choice of the spans that translations copy unchanged, and of the terms with fixed
    translations.

    patterns: regular expressions of kept spans, see sentinels.py. glossary: None for no terms.
    """

    patterns: tuple[re.Pattern[str], ...] = compile_patterns()
    glossary: Glossary | None = None

    @classmethod
    def from_settings(
        cls, keep: Any = None, keep_pattern: Any = (), glossary: Any = None
    ) -> KeepSpec:
        """Return the KeepSpec of the settings with these names.

        keep: classes of sentinels.PATTERNS, as one text with commas ("urls,numbers") or as several
        names; None: all classes; "none" or "": no class. keep_pattern: one further regular
        expression or several.
        glossary: a file, a Glossary, or None. Raises SettingError, and DataError for a malformed
        file.
        """
        if isinstance(keep, str):
            keep = tuple(name.strip() for name in keep.split(",") if name.strip() not in ("", NONE))
        patterns = (keep_pattern,) if isinstance(keep_pattern, str) else tuple(keep_pattern or ())
        classes = CLASSES if keep is None else tuple(dict.fromkeys(keep))
        if isinstance(glossary, str | Path):
            glossary = Glossary.from_file(Path(glossary))
        return cls(compile_patterns(classes, patterns), glossary)

    def mark(self, parts: Iterable[TextOrCode]) -> MarkedText:
        """Return a line as a text in which sentinels replace its inline codes, kept spans and
        terms.

        parts: the texts and codes of the line, in order. Spans with nothing between them share a
        sentinel.
        """
        texts, groups, tags = [], list[list[KeptSpan]](), list[tuple[int, TextOrCode | Term]]()
        is_adjacent = False
        for part in parts:
            for piece in (
                self._pieces(part) if isinstance(part, str) else [KeptSpan(part.text, (part,))]
            ):
                if isinstance(piece, str):
                    texts.append(piece)
                    is_adjacent = False
                    continue
                if not is_adjacent:
                    texts.append(sentinel_char(0))
                    groups.append([])
                groups[-1].append(piece)
                is_adjacent = True
                tags += [(len(groups) - 1, tag) for tag in piece.parts]
        spans = tuple(
            KeptSpan(
                "".join(span.source for span in group),
                tuple(part for span in group for part in span.parts),
            )
            for group in groups
        )
        return MarkedText(to_bytes("".join(texts)), spans, _pairs(tags))

    def _pieces(self, text: str) -> Iterable[str | KeptSpan]:
        """Return the parts of a text between kept spans, and the spans, in order; without empty
        texts."""
        terms = self.glossary.find(text) if self.glossary else {}
        chosen = find_spans(text, self.patterns)
        if terms:
            chosen = drop_overlaps([*chosen, *terms])
        pieces, end = list[str | KeptSpan](), 0
        for span in chosen:
            source, term = text[span.begin : span.end], terms.get(span)
            kept = KeptSpan(source, (term._replace(source=source) if term else source,))
            pieces += [text[end : span.begin], kept]
            end = span.end
        return filter(None, [*pieces, text[end:]])


def _pairs(tags: Sequence[tuple[int, TextOrCode | Term]]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of MarkedText. tags: each kept text, code or term, with the number of its
    span."""
    partners = pair_tags([tag if isinstance(tag, str) else "" for _, tag in tags])
    partners |= match_pairs(
        (str(tag.pair), tag.opens) if isinstance(tag, Code) and tag.pair >= 0 else None
        for _, tag in tags
    )
    pairs = ((tags[opening][0], tags[closing][0]) for closing, opening in partners.items())
    return tuple(sorted({(first, second) for first, second in pairs if first != second}))


def restore_parts(data: bytes, spans: Sequence[KeptSpan]) -> list[TextOrCode]:
    """Return a translation as texts and inline codes, in which the spans stand again for the
    sentinels.

    data: the output of a model, valid UTF-8 with sentinels. spans: sentinel k (0xF5 + k) becomes
    spans[k].
    """
    parts, end = list[TextOrCode](), 0
    words = ""  # so far, without tags and codes
    for position, byte in enumerate(data):
        if FIRST_SENTINEL <= byte < FIRST_SENTINEL + N_SENTINELS:
            for part in (data[end:position].decode(), *spans[byte - FIRST_SENTINEL].parts):
                new = _target(part, words) if isinstance(part, Term) else part
                parts.append(new)
                words += "" if isinstance(new, Code) or new.startswith("<") else new
            end = position + 1
    return merge_texts([*parts, data[end:].decode()])


def _target(term: Term, words: str) -> str:
    """Return the target of a term; where a sentence begins, with a capital if the term has one.

    words: before it.
    """
    if term.source[:1].isupper() and _SENTENCE_BEGIN.search(words):
        return term.target[:1].upper() + term.target[1:]
    return term.target


def merge_texts(parts: Iterable[TextOrCode]) -> list[TextOrCode]:
    """Join adjacent texts of a sequence of texts and codes, and drop empty ones."""
    merged, texts = list[TextOrCode](), list[str]()
    for part in parts:
        if isinstance(part, Code):
            merged += ["".join(texts), part]
            texts.clear()
        else:
            texts.append(part)
    return [part for part in (*merged, "".join(texts)) if part]


def mark_prefix(prefix: bytes, spans: Sequence[KeptSpan]) -> bytes:
    """Return a forced prefix in which the kept spans that it contains are replaced by their
    sentinels.

    Otherwise the search would write these spans once more. prefix: UTF-8.
    """
    marked = prefix
    for symbol in range(FIRST_SENTINEL, FIRST_SENTINEL + len(spans)):
        text = restore_text(bytes([symbol]), spans)
        longer = marked.replace(text, bytes([symbol]), 1)
        if (
            text and restore_text(longer, spans) == prefix
        ):  # the case of a term may be another there
            marked = longer
    return marked


def restore_text(data: bytes, spans: Sequence[KeptSpan]) -> bytes:
    """Return the output of a model as UTF-8 with the kept spans, as texts, in place of its
    sentinels.

    data: valid UTF-8 with sentinels. spans: sentinel k (0xF5 + k) becomes spans[k].
    """
    if not spans:
        return data
    return "".join(
        part if isinstance(part, str) else part.text for part in restore_parts(data, spans)
    ).encode()
