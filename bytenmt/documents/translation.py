"""Translate a document: every distinct segment once, and the units put together from their segments."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Required, TypedDict, Unpack

from bytenmt.decoding.confidence import FORMAT, LOST, SURE, Verdict
from bytenmt.documents.document import Document, Parts, Unit
from bytenmt.documents.inline_tags import restore_tags
from bytenmt.documents.segments import Segment, is_icu_message, split_unit
from bytenmt.reporter import Bar

if TYPE_CHECKING:
    from bytenmt.decoding.interface import Hypothesis
    from bytenmt.decoding.line_batch import TranslationResult
    from bytenmt.decoding.translator import Translator
    from bytenmt.documents.memory import MemoryMatch, TranslationMemory

BATCH = 1000  # segments that are translated together

TranslateSegments = Callable[[Sequence[Segment]], "Sequence[Hypothesis]"]
Flag = Callable[["Sequence[TranslationResult]"], "Sequence[TranslationResult]"]  # see judge.Judge.flag

OTHER_CONTEXT = "the memory has it in another context"  # why a translation from a memory is checked

# Where the translation of a unit comes from: it stood in the file, the source is copied since there are no
# words in it, a model, a translation memory, nowhere since the model gave an empty text.
KEPT, COPIED, MACHINE, MEMORY, EMPTY = "kept", "copied", "machine", "memory", "empty"


class UnitTranslation(NamedTuple):
    """The translation of a unit.

    parts: the translation, None where the unit is left as it is. origin: KEPT, COPIED, MACHINE, MEMORY or
    EMPTY. verdict: of the translation. is_exact: whether the entry of a memory has the same source,
    its placeholders and numbers too.
    """

    parts: Parts | None
    origin: str
    verdict: Verdict = Verdict(SURE, ())
    is_exact: bool = False


@dataclass
class TranslationReport:
    """A summary of the translation of a document.

    n_translated: units with a new translation; n_matched: those of them from a translation memory, n_exact:
    with the same placeholders and numbers as there. n_kept: units that were translated already. n_copied:
    units without words, which are the same in any language. review: line and column of every translation
    that needs a review, and why, in words. empty: line and column of every unit that was left as it was
    because its translation is empty. icu_messages: line and column of every unit that was left as it was
    because it is an ICU message.
    """

    n_translated: int = 0
    n_matched: int = 0
    n_exact: int = 0
    n_kept: int = 0
    n_copied: int = 0
    review: list[tuple[str, str]] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    icu_messages: list[str] = field(default_factory=list)


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


class UnitOptions(TypedDict, total=False):
    """Options of `translate` and `translate_units`.

    limit: bytes of a segment. overwrite: translate units that are translated already, too. bar: is advanced
    by segments, of which there are as many as segments_to_translate returns. memory: whose translations are
    taken without asking the model.
    """

    limit: Required[int]
    overwrite: bool
    bar: Bar | None
    memory: TranslationMemory | None


def translate(
    document: Document, translate_segments: TranslateSegments, **options: Unpack[UnitOptions]
) -> tuple[bytes, TranslationReport]:
    """Return the bytes of the document with its units translated, and a report.

    A translation with flags needs a review. Raises BytenmtError where the file's encoding lacks a character.
    """
    units = translate_units(document, translate_segments, **options)
    report = TranslationReport()
    for unit, one in zip(document.units, units, strict=True):
        report.n_kept += one.origin == KEPT
        report.n_translated += one.origin in (MACHINE, MEMORY)
        report.n_matched += one.origin == MEMORY
        report.n_exact += one.is_exact
        if one.origin == EMPTY:
            report.empty.append(document.place(unit.at))
        elif one.origin == COPIED and is_icu_message(unit.source):
            report.icu_messages.append(document.place(unit.at))
        else:
            report.n_copied += one.origin == COPIED
        if one.verdict.level != SURE:
            reasons = "; ".join(one.verdict.reasons)
            report.review.append((document.place(unit.at), f"{one.verdict.level}: {reasons}"))
    values = [None if one.parts is None else (one.parts, one.verdict.level != SURE) for one in units]
    matches = {index for index, one in enumerate(units) if one.origin == MEMORY}
    return document.with_units(values, matches), report


def translate_units(
    document: Document, translate_segments: TranslateSegments, **options: Unpack[UnitOptions]
) -> list[UnitTranslation]:
    """Return the translation of each unit of a document."""
    limit, overwrite, bar = options["limit"], options.get("overwrite", False), options.get("bar")
    matches = _matches(document, overwrite, options.get("memory"))
    split = _split_units(document, matches, limit, overwrite)
    results: dict[Segment, Hypothesis] = {}
    for batch in _batches(_distinct(split)):
        results.update(zip(batch, translate_segments(batch), strict=True))
        (bar or Bar()).advance(len(batch))
    return [
        _from_match(unit, matches[index])
        if index in matches
        else UnitTranslation(None, KEPT)
        if pieces is None
        else _join_unit(unit, pieces, results)
        for index, (unit, pieces) in enumerate(zip(document.units, split, strict=True))
    ]


def segments_to_translate(
    document: Document, limit: int, overwrite: bool, memory: TranslationMemory | None = None
) -> list[Segment]:
    """Return the distinct segments that a model translates, in order. For the arguments see UnitOptions."""
    return _distinct(_split_units(document, _matches(document, overwrite, memory), limit, overwrite))


def is_copied(unit: Unit, limit: int) -> bool:
    """Return whether a unit is not given to a model: numbers, signs and codes alone, or an ICU message."""
    return not any(isinstance(piece, Segment) for piece in split_unit(unit.source, limit))


def _matches(document: Document, overwrite: bool, memory: TranslationMemory | None) -> dict[int, MemoryMatch]:
    """Return the translations that a memory has, by the index of the unit; of an ICU message an exact one."""
    if memory is None:
        return {}
    found = (
        (index, memory.match(unit.source, document.is_xml, unit.name, unit.has_context))
        for index, unit in enumerate(document.units)
        if overwrite or not unit.done
    )
    return {
        index: match
        for index, match in found
        if match is not None and (match.is_exact or not is_icu_message(document.units[index].source))
    }


def _split_units(
    document: Document, matches: Container[int], limit: int, overwrite: bool
) -> list[list[str | Segment] | None]:
    """Split the units that a model translates, see split_unit; None for those in `matches` or kept."""
    return [
        split_unit(unit.source, limit) if (overwrite or not unit.done) and index not in matches else None
        for index, unit in enumerate(document.units)
    ]


def _distinct(pieces: Iterable[list[str | Segment] | None]) -> list[Segment]:
    every = (piece for some in pieces for piece in some or () if isinstance(piece, Segment))
    return list(dict.fromkeys(every))


def _batches(segments: list[Segment]) -> Iterator[list[Segment]]:
    """Yield the segments in batches."""
    for first in range(0, len(segments), BATCH):
        yield segments[first : first + BATCH]


def _from_match(unit: Unit, match: MemoryMatch) -> UnitTranslation:
    flags = [] if unit.is_valid(match.target) else [FORMAT]
    flags += [OTHER_CONTEXT] if match.is_other_context else []
    return UnitTranslation(match.target, MEMORY, Verdict.from_flags(flags), match.is_exact)


def _join_unit(
    unit: Unit, pieces: Sequence[str | Segment], results: dict[Segment, Hypothesis]
) -> UnitTranslation:
    """Return the translation of a unit from those of its segments. pieces: see split_unit."""
    segments = [results[piece] for piece in pieces if isinstance(piece, Segment)]
    if not segments:  # numbers, signs and codes alone; no pieces of an ICU message
        return UnitTranslation(unit.source if "".join(map(str, pieces)).strip() else None, COPIED)
    if not all(segment.text.strip() for segment in segments):
        return UnitTranslation(None, EMPTY)
    output = "".join(p.restore(results[p].text.decode()) if isinstance(p, Segment) else p for p in pieces)
    parts, whole = restore_tags(unit.source, output)
    flags = [flag for segment in segments for flag in segment.flags or ()]
    flags += ([] if whole else [LOST]) + ([] if unit.is_valid(parts) else [FORMAT])
    return UnitTranslation(parts, MACHINE, Verdict.from_flags(flags))
