"""Translate a document: every distinct segment once, and the units put together from their segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bytenmt.documents.document import Document, Parts, Unit, Value
from bytenmt.documents.inline_tags import restore_tags
from bytenmt.documents.segments import Segment, split_unit
from bytenmt.reporter import Bar

if TYPE_CHECKING:
    from bytenmt.decoding.interface import Hypothesis
    from bytenmt.decoding.translator import Translator
    from bytenmt.documents.memory import MemoryMatch, TranslationMemory

BATCH = 1000  # segments that are translated together
# A translation with more bits per byte needs a review. Of the sample's 500 test lines, as a
# model that has 398 right translates them, 46 are above it, 35 of them wrong; above 0.1 there are 144 and 79.
FLAG_ABOVE = 0.2


TranslateSegments = Callable[[Sequence[Segment]], "Sequence[Hypothesis]"]


@dataclass
class TranslationReport:
    """A summary of the translation of a document.

    n_translated: units with a new translation; n_matched: those of them from a translation memory, n_exact:
    with the same placeholders and numbers as there. n_kept: units that were translated already. review: line
    and column of every translation that needs a review, and why. empty: line and column of every unit that
    was left as it was because its translation is empty.
    """

    n_translated: int = 0
    n_matched: int = 0
    n_exact: int = 0
    n_kept: int = 0
    review: list[tuple[str, str]] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def segment_translator(translator: Translator) -> TranslateSegments:
    """Return a function that has a Translator translate segments.

    In a group of processes only the leader calls it; it sends the lines to the others. The translator's
    settings say which spans are kept; tags that they do not cover are restored afterwards.
    """
    n_lines = 0

    def translate_segments(segments: Sequence[Segment]) -> list[Hypothesis]:
        nonlocal n_lines
        lines = [segment.text for segment in segments]
        results = translator.lead(lines, n_lines)
        n_lines += len(lines)
        return [result.best for result in results]

    return translate_segments


def translate(
    document: Document,
    translate_segments: TranslateSegments,
    *,
    limit: int,
    overwrite: bool = False,
    flag_above: float = FLAG_ABOVE,
    bar: Bar | None = None,
    memory: TranslationMemory | None = None,
) -> tuple[bytes, TranslationReport]:
    """Return the bytes of the document with its units translated, and a report.

    limit: bytes of a segment. overwrite: translate units that are translated already, too. flag_above: bits
    per byte of a translation above which it needs a review. bar: is advanced by segments, of which there are
    as many as segments_to_translate returns. memory: whose translations are taken without asking the model.
    Raises BytenmtError where the file's encoding lacks a character.
    """
    report = TranslationReport()
    matches = _matches(document, overwrite, memory)
    split = [
        split_unit(unit.source, limit) if (overwrite or not unit.done) and index not in matches else None
        for index, unit in enumerate(document.units)
    ]
    results: dict[Segment, Hypothesis] = {}
    for batch in _batches(_distinct(split)):
        results.update(zip(batch, translate_segments(batch), strict=True))
        (bar or Bar()).advance(len(batch))
    values: list[Value | None] = [
        None if pieces is None else _join_unit(document, unit, pieces, results, flag_above, report)
        for unit, pieces in zip(document.units, split, strict=True)
    ]
    for index, match in matches.items():
        values[index] = match.target, False
    report.n_kept = split.count(None) - len(matches)
    report.n_translated += len(matches)
    report.n_matched, report.n_exact = len(matches), sum(match.is_exact for match in matches.values())
    return document.with_units(values, matches), report


def segments_to_translate(
    document: Document, limit: int, overwrite: bool, memory: TranslationMemory | None = None
) -> list[Segment]:
    """Return the distinct segments that a model translates, in order. For the arguments see translate."""
    matches = _matches(document, overwrite, memory)
    return _distinct(
        split_unit(unit.source, limit)
        for index, unit in enumerate(document.units)
        if (overwrite or not unit.done) and index not in matches
    )


def _matches(document: Document, overwrite: bool, memory: TranslationMemory | None) -> dict[int, MemoryMatch]:
    """Return the translations that a memory has, by the index of the unit."""
    if memory is None:
        return {}
    units = enumerate(document.units)
    found = ((index, memory.match(unit.source)) for index, unit in units if overwrite or not unit.done)
    return {index: match for index, match in found if match is not None}


def _distinct(pieces: Iterable[list[str | Segment] | None]) -> list[Segment]:
    every = (piece for some in pieces for piece in some or () if isinstance(piece, Segment))
    return list(dict.fromkeys(every))


def _batches(segments: list[Segment]) -> Iterator[list[Segment]]:
    """Yield the segments in batches."""
    for first in range(0, len(segments), BATCH):
        yield segments[first : first + BATCH]


def _join_unit(
    document: Document,
    unit: Unit,
    pieces: Sequence[str | Segment],
    results: dict[Segment, Hypothesis],
    flag_above: float,
    report: TranslationReport,
) -> tuple[Parts, bool] | None:
    """Return the translation of a unit and whether it needs a review; None if there is none."""
    if not any(isinstance(piece, Segment) for piece in pieces):  # numbers, signs and codes alone
        return (unit.source, False) if "".join(map(str, pieces)).strip() else None
    segments = [results[piece] for piece in pieces if isinstance(piece, Segment)]
    if not all(segment.text.strip() for segment in segments):
        report.empty.append(document.place(unit.at))
        return None
    output = "".join(p.restore(results[p].text.decode()) if isinstance(p, Segment) else p for p in pieces)
    parts, whole = restore_tags(unit.source, output)
    bits = max(segment.bits_per_byte or 0.0 for segment in segments)
    review = not whole or bits > flag_above
    if review:
        why = f"{bits:.2f} bits per byte" if whole else "tags or placeholders were lost"
        report.review.append((document.place(unit.at), why))
    report.n_translated += 1
    return parts, review
