"""Translate a document: every distinct line once, and the units put together from their lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bytenmt.documents.lines import (
    UnitLine,
    has_words,
    keeps_codes,
    keeps_spans,
    nest_pairs,
    pairs_with_words,
    split_shortcut,
    split_unit,
)
from bytenmt.documents.unit import CodedText, Document, Unit, merge_strings, to_markup
from bytenmt.sentinels import Code
from bytenmt.translation.confidence import FORMAT, SURE, UNMET, WORDLESS, Verdict
from bytenmt.translation.line_batch import PLACEMENT

if TYPE_CHECKING:
    from bytenmt.documents.memory import TranslationMemory


class LineTranslation(NamedTuple):
    """A translated line: strings and codes (those of UnitLine.parts), and flags: short names of
    what may be wrong with it, such as "unsure" or "loop", the keys of confidence.REASONS."""

    parts: Sequence[str | Code]
    flags: Sequence[str] = ()


@dataclass
class TranslationReport:
    """The counts of units, and notes on some of them, that `translate` returns.

    counts: the number of units by "translated" (with its subsets "from the memory" and "to
    review"), "translated before", "fuzzy before", "without words", "without a translation" and
    "untranslated (ICU)".
    notes: place and reason of each unit that people should look at.
    """

    counts: Counter[str] = field(default_factory=Counter)
    notes: list[tuple[str, str]] = field(default_factory=list)


def lines_to_translate(
    document: Document, overwrite: bool = False, memory: TranslationMemory | None = None
) -> list[CodedText]:
    """Return UnitLine.parts of each distinct line that a model must translate, in order of the
    document.

    overwrite: include units that are translated already. memory: units that it can translate are
    left out.
    """
    lines = dict[CodedText, None]()
    for unit in document.units:
        is_wanted = overwrite or not unit.is_done
        if is_wanted and not (memory and memory.match(unit.parts, unit.name)):
            for piece in split_unit(unit.parts):
                if isinstance(piece, UnitLine) and not (
                    memory and memory.match(piece.parts, unit.name)
                ):
                    lines[piece.parts] = None
    return list(lines)


def translate(
    document: Document,
    translations: Mapping[CodedText, LineTranslation],
    overwrite: bool = False,
    memory: TranslationMemory | None = None,
) -> TranslationReport:
    """Store translations in the units of a document, which `dump` then writes, and return a report.

    translations: one for each line that lines_to_translate returns for the same overwrite and
    memory.
    """
    report = TranslationReport()
    for unit in document.units:
        if unit.is_done and not overwrite:
            report.counts["fuzzy before" if unit.is_doubted else "translated before"] += 1
        elif memory and (match := memory.match(unit.parts, unit.name)):
            report.counts["from the memory"] += 1
            _write(unit, match, [], report)
        else:
            _translate_unit(unit, translations, memory, report)
    return report


def _translate_unit(
    unit: Unit,
    translations: Mapping[CodedText, LineTranslation],
    memory: TranslationMemory | None,
    report: TranslationReport,
) -> None:
    pieces = split_unit(unit.parts)
    sources = [piece.parts for piece in pieces if isinstance(piece, UnitLine)]
    stored = [memory.match(source, unit.name) if memory else None for source in sources]
    lines = [
        LineTranslation(match) if match else translations[source]
        for source, match in zip(sources, stored, strict=True)
    ]
    if not pieces or not all(to_markup(line.parts).strip() for line in lines):
        kind = "without a translation" if pieces else "untranslated (ICU)"
        report.counts[kind] += 1
        report.notes.append((unit.place, kind))
    elif not lines:
        report.counts["without words"] += 1
        if unit.target is not None and (
            unit.target != unit.parts or not unit.is_done or unit.is_doubted
        ):
            unit.write(unit.parts, False)
    else:
        following = iter(lines)
        parts = list[str | Code]()
        for piece in pieces:
            parts += piece.restore(next(following).parts) if isinstance(piece, UnitLine) else piece
        flags = [flag for line in lines for flag in line.flags]
        if all(stored):
            report.counts["from the memory"] += 1
        _write(unit, merge_strings(parts), flags, report)


def _write(unit: Unit, parts: CodedText, flags: list[str], report: TranslationReport) -> None:
    """Put a translation into its document and into a report. Codes that it lacks are put at its
    end."""
    if not keeps_spans(unit.parts, parts):
        flags.append(UNMET)
    if not keeps_codes(unit.parts, parts):
        flags.append(UNMET)
        texts = [part for part in parts if isinstance(part, str)]
        parts = merge_strings([*texts, *(part for part in unit.parts if isinstance(part, Code))])
    if not has_words(split_shortcut(parts)[0]) and has_words(split_shortcut(unit.parts)[0]):
        flags.append(WORDLESS)
    parts = nest_pairs(unit.parts, parts)
    if pairs_with_words(unit.parts) - pairs_with_words(parts):
        flags.append(PLACEMENT)
    if not unit.is_valid(to_markup(parts)):
        flags.append(FORMAT)
    verdict = Verdict.from_flags(flags)
    report.counts["translated"] += 1
    if verdict.level != SURE:
        report.counts["to review"] += 1
        place = f"{unit.place} ({unit.name})" if unit.name else unit.place
        pair = f"{to_markup(unit.parts)!r:.200} -> {to_markup(parts)!r:.200}"
        report.notes.append(
            (place, f"to review: {verdict.level}: {'; '.join(verdict.reasons)}: {pair}")
        )
    if parts != unit.target or not unit.is_done or unit.is_doubted:
        unit.write(parts, verdict.level != SURE)
