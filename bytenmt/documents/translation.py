"""Translate a document: every distinct line once, and the units put together from their lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bytenmt.documents.codes import codes_of, keeps_codes, keeps_spans, nest_pairs, pairs_with_words
from bytenmt.documents.lines import UnitLine, split_shortcut, split_unit
from bytenmt.documents.unit import CodedText, Document, Unit, merge_strings, to_markup
from bytenmt.documents.words import has_words
from bytenmt.sentinels import Code
from bytenmt.translation.confidence import FORMAT, SURE, UNMET, WORDLESS, WRONG, Verdict
from bytenmt.translation.line_batch import PLACEMENT

if TYPE_CHECKING:
    from bytenmt.documents.memory import TranslationMemory


class LineTranslation(NamedTuple):
    """A translated line of a document, as the model has written it."""

    # Texts, and between them inline codes, such as tags, of the source line; a model may have lost
    # some or changed their order.
    parts: Sequence[str | Code]
    flags: Sequence[str] = ()  # names of suspected faults, such as "loop"


class UnitNote(NamedTuple):
    """A unit that people should look at: its translation is doubtful, or it has none."""

    place: str  # where it stands in the file, with its name: "line 12 (menu.open)"
    source: str
    translation: str  # empty if there is none
    verdict: str  # "check", "wrong", "untranslated (ICU)" or "without a translation"
    reasons: Sequence[str] = ()  # in words, the gravest first

    def describe(self) -> str:
        """Return the note as a line for people, with at most 200 characters of each text."""
        if not self.reasons:
            return f"{self.place}: {self.verdict}"
        reasons = "; ".join(self.reasons)
        pair = f"{self.source!r:.200} -> {self.translation!r:.200}"
        return f"{self.place}: to review: {self.verdict}: {reasons}: {pair}"


@dataclass
class TranslationReport:
    """The counts of units, and notes on some of them, that `translate` returns."""

    # Numbers of units: "translated" (of these some "from the memory", some "to review"), "left as
    # wrong", "without a translation" (the model gave none), "untranslated (ICU)" (plural forms),
    # "without words", and, as the file had them, "translated before" and "fuzzy before" (doubtful).
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[UnitNote] = field(default_factory=list)  # the units that people should look at

    def to_table(self) -> str:
        """Return the notes as TSV, with the names of the columns in the first row."""
        table = "\t".join(UnitNote._fields) + "\n"
        for note in self.notes:
            cells = (*note[:-1], "; ".join(note.reasons))
            table += "\t".join(re.sub(r"\s+", " ", cell) for cell in cells) + "\n"
        return table


def lines_to_translate(
    document: Document, overwrite: bool = False, memory: TranslationMemory | None = None
) -> list[CodedText]:
    """Return each distinct line that a model must translate, in order.

    A line is given as strings and codes (UnitLine.parts). overwrite: include units that are
    translated already. memory: units and lines that it translates are left out.
    """
    lines = dict[CodedText, None]()
    for unit in document.units:
        if unit.is_done and not overwrite:
            continue
        if memory and memory.match(unit.parts, unit.name):
            continue
        for piece in split_unit(unit.parts):
            if not isinstance(piece, UnitLine) or (memory and memory.match(piece.parts, unit.name)):
                continue
            lines[piece.parts] = None
    return list(lines)


def translate(
    document: Document,
    translations: Mapping[CodedText, LineTranslation],
    overwrite: bool = False,
    memory: TranslationMemory | None = None,
    leave_wrong: bool = False,
) -> TranslationReport:
    """Store translations in the units of a document, for its `dump` to write; return a report.

    translations: one for each line that lines_to_translate returns for the same overwrite and
    memory. overwrite: replace translations in the file. memory: its translations are used first.
    leave_wrong: do not store a translation whose flags mean "wrong", such as "loop".
    """
    report = TranslationReport()
    for unit in document.units:
        if unit.is_done and not overwrite:
            report.counts["fuzzy before" if unit.is_doubted else "translated before"] += 1
        elif memory and (match := memory.match(unit.parts, unit.name)):
            report.counts["from the memory"] += 1
            _write(unit, match, [], report, leave_wrong)
        else:
            _translate_unit(unit, translations, memory, report, leave_wrong)
    return report


def _translate_unit(
    unit: Unit,
    translations: Mapping[CodedText, LineTranslation],
    memory: TranslationMemory | None,
    report: TranslationReport,
    leave_wrong: bool,
) -> None:
    """Put a unit together from the translations of its lines, and write it."""
    pieces = split_unit(unit.parts)
    parts = list[str | Code]()
    lines = list[LineTranslation]()
    n_stored = 0
    for piece in pieces:
        if not isinstance(piece, UnitLine):
            parts += piece
            continue
        if memory and (match := memory.match(piece.parts, unit.name)):
            lines.append(LineTranslation(match))
            n_stored += 1
        else:
            lines.append(translations[piece.parts])
        parts += piece.restore(lines[-1].parts)
    if not pieces:
        _leave(unit, "untranslated (ICU)", report)
    elif not all(to_markup(line.parts).strip() for line in lines):
        _leave(unit, "without a translation", report)
    elif not lines:
        report.counts["without words"] += 1
        if unit.target is not None:
            _store(unit, unit.parts, False)
    else:
        if n_stored == len(lines):
            report.counts["from the memory"] += 1
        flags = [flag for line in lines for flag in line.flags]
        _write(unit, merge_strings(parts), flags, report, leave_wrong)


def _leave(unit: Unit, reason: str, report: TranslationReport) -> None:
    """Note that a unit is not translated."""
    report.counts[reason] += 1
    report.notes.append(UnitNote(_place(unit), to_markup(unit.parts), "", reason))


def _place(unit: Unit) -> str:
    return f"{unit.place} ({unit.name})" if unit.name else unit.place


def _store(unit: Unit, parts: CodedText, is_doubtful: bool) -> None:
    """Write a translation into the file, unless the file has it already as a finished one."""
    if parts != unit.target or not unit.is_done or unit.is_doubted:
        unit.write(parts, is_doubtful)


def _write(
    unit: Unit, parts: CodedText, flags: list[str], report: TranslationReport, leave_wrong: bool
) -> None:
    """Judge a translation, write it with all codes of its source, and count it in a report."""
    if not keeps_spans(unit.parts, parts):
        flags.append(UNMET)
    if not keeps_codes(unit.parts, parts):
        flags.append(UNMET)
        texts = [part for part in parts if isinstance(part, str)]
        parts = merge_strings([*texts, *codes_of(unit.parts)])
    if not has_words(split_shortcut(parts)[0]) and has_words(split_shortcut(unit.parts)[0]):
        flags.append(WORDLESS)
    parts = nest_pairs(unit.parts, parts)
    if pairs_with_words(unit.parts) - pairs_with_words(parts):
        flags.append(PLACEMENT)
    if not unit.is_valid(to_markup(parts)):
        flags.append(FORMAT)
    verdict = Verdict.from_flags(flags)
    if verdict.level != SURE:
        source = to_markup(unit.parts)
        report.notes.append(UnitNote(_place(unit), source, to_markup(parts), *verdict))
    if verdict.level == WRONG and leave_wrong:
        report.counts["left as wrong"] += 1
        return
    report.counts["translated"] += 1
    if verdict.level != SURE:
        report.counts["to review"] += 1
    _store(unit, parts, verdict.level != SURE)
