"""The command `translate-file`. Heavy modules are imported inside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bytenmt.cli.console import CONSOLE
from bytenmt.cli.files import check_output, standard_input, stream_of, writer
from bytenmt.cli.languages import LanguageOptions, agreed_languages
from bytenmt.cli.options import command, models, settings
from bytenmt.config.fields import Doubt, option
from bytenmt.decoding.interface import EngineSpec
from bytenmt.documents import formats
from bytenmt.documents.formats import FORMATS
from bytenmt.documents.unit import CodedText, Document, ReadOptions, primary
from bytenmt.errors import BytenmtError
from bytenmt.serve.languages import Direction

if TYPE_CHECKING:
    from bytenmt.documents.translation import LineTranslation
    from bytenmt.evaluation.judge import Judge
    from bytenmt.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class DocumentOptions(LanguageOptions):
    """The options of `bytenmt translate-file` on the document."""

    format: str | None = option(
        None, "Format of IN (default: by its suffix).", choices=tuple(FORMATS)
    )
    overwrite: bool = option(False, "Also translate units that have a translation already.")
    flag_above: Doubt | None = option(
        None,
        "Doubt above which a translation is unsure (default: the model's own threshold). Unsure and"
        " wrong translations are marked for review: `fuzzy` in PO, `needs-review-translation` in"
        " XLIFF; -v lists them in every format.",
        metavar="DOUBT",
    )
    memory: Path | None = option(
        None,
        "Translation memory (TMX, XLIFF, PO, CSV or TSV). Units that it contains, apart from"
        " placeholders, are taken from it instead of the model.",
    )
    review: Path | None = option(
        None,
        "Also write a table (TSV) of the units to review: place, source, translation, verdict and"
        " reasons.",
    )
    leave_wrong: bool = option(
        False, "Leave units whose translation is wrong in the source language."
    )
    fast: bool = option(
        False,
        "Search as `translate` does, without the opposite model that search.json of MODEL names.",
    )
    column: str | None = option(
        None,
        "Source column of a CSV or TSV file: its name in the first row, which stays as it is, or"
        " its number from 1; then the first row is text, too.",
    )
    to_column: str | None = option(
        None, "Column of a CSV or TSV file for the translations (default: that of --column)."
    )


@command(
    "translate-file",
    models("MODEL IN OUT", "Several models decode as an ensemble."),
    settings("search", "sampling"),
)
def translate_file(
    runs: tuple[Path, ...],
    files: tuple[Path, Path],
    how: DocumentOptions,
    settings: dict[str, Any],
    engine: EngineSpec,
) -> None:
    """Translate the document IN and write it to OUT.

    --format lists the formats. Only text is replaced. Inline codes, placeholders, tags, URLs and
    the like are kept, see --keep. Existing translations stay; doubtful new ones are marked for
    review. OUT appears when it is complete. - is stdin or stdout; stdin needs --format. This needs
    pip install 'bytenmt[documents]'.
    \f
    files: IN and OUT. settings: the given translation options, by name, such as {"beam": 4}.
    """
    from bytenmt.cli import inputs
    from bytenmt.documents.memory import TranslationMemory
    from bytenmt.documents.placement import lines_to_repair, repair
    from bytenmt.documents.translation import lines_to_translate, translate
    from bytenmt.evaluation.judge import FLAG_ABOVE, Judge
    from bytenmt.translation.translator import Translator

    input, output = map(stream_of, files)
    if not how.fast:
        settings, engine = _with_reverse(runs, settings, engine)
    checked = inputs.check_settings(settings)
    source = input or Path("standard input")  # for messages
    record = FORMATS[how.format] if how.format else formats.format_of(source)
    reading = ReadOptions(record.name, how.languages, how.column, how.to_column)
    check_output(output, input)
    check_output(how.review, input, output)
    document = _read_document(input, reading, source)
    runtime = inputs.load_models(runs, engine)
    translator = Translator.from_runtime(runtime, checked)
    corpora = [corpus for run in runtime.runs for corpus in run.facts.corpora]
    languages = agreed_languages(how.languages, runs[0], corpora, CONSOLE.warn)
    if languages and not (how.overwrite and how.pair):
        may_be_source = bool(how.pair) and record.may_declare_source
        _check_targets(document, source, languages, may_be_source)
    memory = TranslationMemory.from_file(how.memory, languages) if how.memory is not None else None
    judge = Judge.from_runtime(runtime, translator.options, how.flag_above, FLAG_ABOVE)
    CONSOLE.detail(judge.describe())
    lines = lines_to_translate(document, how.overwrite, memory)
    if not runtime.has_sentinels:
        _warn_of_codes(runs[0], lines)
    with ExitStack() as stack:
        out = stack.enter_context(writer(output))
        table = stack.enter_context(writer(how.review)) if how.review is not None else None
        translations = _translate_lines(translator, judge, lines)
        torn = lines_to_repair(translations)
        translations |= repair(translations, _translate_lines(translator, judge, torn))
        report = translate(document, translations, how.overwrite, memory, how.leave_wrong)
        out.write(document.dump())
        if table is not None:
            table.write(report.to_table().encode())
    counts = ", ".join(f"{n} {name}" for name, n in sorted(report.counts.items(), reverse=True))
    CONSOLE.say(f"{sum(1 for _ in document.units)} units: {counts or 'none'}")
    for note in report.notes:
        CONSOLE.detail(note.describe())


def _with_reverse(
    runs: tuple[Path, ...], settings: dict[str, Any], engine: EngineSpec
) -> tuple[dict[str, Any], EngineSpec]:
    """Return settings with which the opposite model ranks a wide beam, if a model names one."""
    from bytenmt.decoding.loading import find_reverse
    from bytenmt.translation.reranking import BEAM

    if settings.get("sample") or settings.get("beam", BEAM) == 1:
        return settings, engine
    reverse = engine.reverse or find_reverse(runs, CONSOLE)
    if reverse is None:
        return settings, engine
    return {"beam": BEAM, **settings}, replace(engine, reverse=reverse)


def _read_document(path: Path | None, options: ReadOptions, source: Path) -> Document:
    """Read a file, or standard input for None; print warnings. source: the name for messages."""
    from bytenmt.data.text_file import read_bytes

    data = standard_input().read() if path is None else read_bytes(path).tobytes()
    document = formats.read(data, options, source)
    for warning in document.warnings:
        CONSOLE.warn(f"{source}: {warning}")
    return document


def _warn_of_codes(run: Path, lines: Sequence[CodedText]) -> None:
    """Warn where a model without sentinels translates lines with inline codes."""
    if not all(isinstance(part, str) for line in lines for part in line):
        CONSOLE.warn(
            f"{run} was trained without sentinels: inline codes without a pair are put at the end"
            " of units"
        )


def _check_targets(
    document: Document, name: Path, languages: Direction, may_be_source: bool
) -> None:
    """Raise BytenmtError for a document that is for another language; regions may differ.

    may_be_source: whether it may be for the source language until it is translated, as some
    formats declare; --pair accepts it.
    """
    is_untranslated = not any(unit.target for unit in document.units)
    allowed = languages if may_be_source and is_untranslated else (languages.target,)
    for code in document.targets:
        if code and primary(code) not in map(primary, allowed):
            raise BytenmtError(
                f"{name} is for {code}, not for {languages.target}: give another model, or"
                f" --overwrite --pair {languages} to translate everything anew"
            )


def _translate_lines(
    translator: Translator, judge: Judge, lines: list[CodedText]
) -> dict[CodedText, LineTranslation]:
    """Return the translation of each line, with its flags."""
    from bytenmt.cli import inputs
    from bytenmt.documents.translation import LineTranslation

    results = judge.flag(inputs.translate_lines(translator, lines, 100))
    return {
        line: LineTranslation(result.parts, result.best.flags or ())
        for line, result in zip(lines, results, strict=True)
    }
