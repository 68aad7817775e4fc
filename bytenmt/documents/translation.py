"""Translate a document: every distinct segment once, and the units put together from their segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bytenmt.decoding.confidence import LOST, SURE, Verdict
from bytenmt.documents.document import Document, Parts, Unit, Value
from bytenmt.documents.inline_tags import restore_tags
from bytenmt.documents.segments import Segment, split_unit
from bytenmt.reporter import Bar

if TYPE_CHECKING:
    from bytenmt.decoding.interface import Hypothesis
    from bytenmt.decoding.line_batch import TranslationResult
    from bytenmt.decoding.translator import Translator
    from bytenmt.documents.memory import MemoryMatch, TranslationMemory

BATCH = 1000  # segments that are translated together

TranslateSegments = Callable[[Sequence[Segment]], "Sequence[Hypothesis]"]
Flag = Callable[["Sequence[TranslationResult]"], "Sequence[TranslationResult]"]  # see judge.Judge.flag


@dataclass
class TranslationReport:
    """A summary of the translation of a document.

    n_translated: units with a new translation; n_matched: those of them from a translation memory, n_exact:
    with the same placeholders and numbers as there. n_kept: units that were translated already. review: line
    and column of every translation that needs a review, and why, in words. empty: line and column of every
    unit that was left as it was because its translation is empty.
    """

    n_translated: int = 0
    n_matched: int = 0
    n_exact: int = 0
    n_kept: int = 0
    review: list[tuple[str, str]] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def segment_translator(translator: Translator, flag: Flag = lambda results: results) -> TranslateSegments:
    """Return a function that has a Translator translate segments. flag: adds flags to the translations.

    In a group of processes only the leader calls it; it sends the lines to the others. The translator's
    settings say which spans are kept; tags that they do not cover are restored afterwards.
    """
    n_lines = 0

    def translate_segments(segments: Sequence[Segment]) -> list[Hypothesis]:
        nonlocal n_lines
        lines = [segment.text for segment in segments]
        results = flag(translator.lead(lines, n_lines))
        n_lines += len(lines)
        return [result.best for result in results]

    return translate_segments


def translate(
    document: Document,
    translate_segments: TranslateSegments,
    *,
    limit: int,
    overwrite: bool = False,
    bar: Bar | None = None,
    memory: TranslationMemory | None = None,
) -> tuple[bytes, TranslationReport]:
    """Return the bytes of the document with its units translated, and a report.

    limit: bytes of a segment. overwrite: translate units that are translated already, too. bar: is advanced
    by segments, of which there are as many as segments_to_translate returns. memory: whose translations are
    taken without asking the model. A translation with flags needs a review. Raises BytenmtError where the
    file's encoding lacks a character.
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
        None if pieces is None else _join_unit(document, unit, pieces, results, report)
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
    flags = [flag for segment in segments for flag in segment.flags or ()]
    verdict = Verdict.from_flags(flags if whole else [*flags, LOST])
    if verdict.level != SURE:
        report.review.append((document.place(unit.at), f"{verdict.level}: {'; '.join(verdict.reasons)}"))
    report.n_translated += 1
    return parts, verdict.level != SURE
