"""The command `translate-file`.

Heavy modules are imported inside the command.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bytenmt.cli.console import (
    Command,
    check_output,
    check_streams,
    detail,
    say,
    standard_input,
    writer,
)
from bytenmt.cli.documents.languages import (
    PAIR,
    language_mismatches,
    language_pair,
    model_languages,
    pair_of_memory,
)
from bytenmt.cli.options import (
    CONSTRAINTS,
    DECODING,
    FILE,
    FILES,
    MACHINE,
    errors_option,
    headed,
    models,
    within,
)
from bytenmt.cli.progress import Console, progress
from bytenmt.config.bounds import Bounds
from bytenmt.decoding.setting_table import BEAM_OF_DOCUMENTS, KEPT_OF_DOCUMENTS
from bytenmt.documents.document import DeclaredLanguages
from bytenmt.documents.formats import FORMATS
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.documents.document import Document
    from bytenmt.documents.translation import TranslationReport

MOST_BITS = 1e6


@click.command("translate-file", cls=Command)
@models("Several models decode as an ensemble.", "MODEL IN OUT", n_files=(2, 2))
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), help="Format of IN (default: by its suffix)."
)
@click.option("--overwrite", is_flag=True, help="Also translate units that have a translation already.")
@click.option(
    "--flag-above",
    type=within(Bounds(0.0, MOST_BITS, whole=False)),
    metavar="BITS",
    help="Threshold of an unsure translation in bits per byte (default: the model's own). Unsure and wrong"
    " translations are marked for review: `fuzzy` in PO, `needs-review-translation` in XLIFF; -v lists them"
    " in every format.",
)
@PAIR
@click.option(
    "--memory",
    "memory_file",
    type=FILE,
    help="Translation memory (TMX, XLIFF, PO, CSV or TSV). Units that it contains, apart from placeholders"
    " and numbers, are taken from it instead of the model.",
)
@click.option(
    "--column", help="Source column of a CSV or TSV file: its name in the first row, or its number from 1."
)
@click.option(
    "--to-column",
    "into",
    help="Column of a CSV or TSV file for the translations (default: that of --column).",
)
@click.option(
    "--encoding", help="Character encoding of IN and OUT (default: the one IN declares, otherwise UTF-8)."
)
@CONSTRAINTS
@DECODING
@headed(FILES, errors_option(default="strict"))
@MACHINE
def translate_file(
    runs: tuple[Path, ...],
    files: tuple[Path, Path],
    form: str | None,
    overwrite: bool,
    flag_above: float | None,
    pair: str | None,
    column: str | None,
    into: str | None,
    encoding: str | None,
    memory_file: Path | None,
    errors: str,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Translate the document IN and write it to OUT.

    Formats: TMX, XLIFF 1.2 and 2, PO, SRT, WebVTT, HTML, Markdown, JSON, .properties, .strings, Android's
    strings.xml, .docx, CSV, TSV and plain text. Only text is replaced; everything else stays byte for byte,
    in the encoding of IN. Placeholders, tags, URLs and e-mail addresses are copied unchanged, see --keep;
    --beam-size is 4 by default, since greedy search places them worse. Existing translations stay; doubtful
    new ones are marked for review. OUT appears when it is complete. - is stdin or stdout; stdin needs
    --format.
    """
    from bytenmt.cli import decoding_args
    from bytenmt.cli.translation_commands import loaded_runs
    from bytenmt.data.text_file import read_bytes
    from bytenmt.decoding.engine_selection import choose, processes
    from bytenmt.decoding.translator import Translator
    from bytenmt.documents import formats
    from bytenmt.documents.memory import TranslationMemory
    from bytenmt.documents.translation import segment_translator, segments_to_translate, translate
    from bytenmt.evaluation.judge import FLAG_ABOVE, Judge

    input, output = (None if path == Path("-") else path for path in files)
    if decoding["keep"] is None:
        decoding["keep"] = ",".join(KEPT_OF_DOCUMENTS)
    if decoding["beam"] is None and not decoding["sample"]:
        decoding["beam"] = BEAM_OF_DOCUMENTS
    settings = decoding_args.settings(decoding)
    spec = decoding_args.engine_spec(decoding, device, threads)
    source = input or Path("standard input")  # for messages
    name = form or _format_by_suffix(input, output)
    options = formats.ReadOptions(
        None if pair is None else language_pair(pair), column, into, encoding, errors == "strict"
    )
    formats.check_options(name, options)
    with processes(choose(spec).device) as group:
        leads = group is None or group.is_leader
        check_output(output, input)
        check_streams(input, output)
        document = None
        if leads:
            data = standard_input().read() if input is None else read_bytes(input).tobytes()
            document = formats.read(data, name, source, options)
        runtime = loaded_runs(runs, spec, leads, at_once=True)
        if not runtime.has_source:
            raise BytenmtError(
                f"{runs[0]} is a language model and cannot translate: give a translation model"
            )
        translator = Translator.from_runtime(runtime, settings, group=group)
        if document is None:
            translator.follow()
            return
        declared = options.pair or document.languages
        trained_on = model_languages([corpus for run in runtime.runs for corpus in run.facts.corpora])
        _warn(source, document, options.pair, runs[0], trained_on)
        memory = None
        if memory_file is not None:
            memory = TranslationMemory.from_file(memory_file, pair_of_memory(declared, trained_on))
        judge = Judge.from_runtime(runtime, flag_above, FLAG_ABOVE, settings.search.beam)
        detail(judge.describe())
        limit = translator.max_source_bytes
        n_segments = len(segments_to_translate(document, limit, overwrite, memory))
        with progress(n_segments, " segments") as (bar, _):
            written, report = translate(
                document,
                segment_translator(translator, judge.flag),
                limit=limit,
                overwrite=overwrite,
                bar=bar,
                memory=memory,
            )
        translator.release_followers()
    with writer(output) as out:
        out.write(written)
    _print_report(report, len(document.units))


def _format_by_suffix(input: Path | None, output: Path | None) -> str:
    """Return the name of IN's format, and warn where OUT has the suffix of another one.

    input: None for standard input, which has no suffix. Raises BytenmtError for an unknown one.
    """
    from bytenmt.documents import formats

    if input is None:
        raise BytenmtError(f"standard input has no suffix: give --format, one of {', '.join(FORMATS)}")
    name = formats.format_of(input)
    of_output = None if output is None else formats.format_of_suffix(output)
    if of_output not in (None, name):
        Console().warn(f"{output} gets the format of {input}, {name}, and has the suffix of {of_output}")
    return name


def _warn(
    path: Path,
    document: Document,
    pair: tuple[str, str] | None,
    run: Path,
    trained_on: tuple[str | None, str | None],
) -> None:
    """Print the document's warnings, and where another language is declared than the model was trained on.

    The target languages that a file declares do not count with --pair, which sets them.
    """
    for warning in document.warnings:
        Console().warn(f"{path}: {warning}")
    declared = [("--pair", DeclaredLanguages(*pair))] if pair else []
    for one in (document.languages, *document.other_languages):
        declared.append((str(path), one._replace(target=None) if pair else one))
    found = dict.fromkeys(
        (where, *mismatch) for where, one in declared for mismatch in language_mismatches(one, trained_on)
    )
    for where, side, language, trained in found:
        Console().warn(
            f"{where} declares {language} as the {side} language, and {run} was trained on {trained}"
        )


def _print_report(report: TranslationReport, n_units: int) -> None:
    """Print a summary on stderr, and with -v each place that needs a review."""
    copied = f", {report.n_copied} without words" if report.n_copied else ""
    left = f", {len(report.icu_messages)} ICU messages left as they were" if report.icu_messages else ""
    empty = f", {len(report.empty)} without a translation left as they were" if report.empty else ""
    matched = f" ({report.n_matched} from the memory)" if report.n_matched else ""
    say(
        f"{n_units} units: {report.n_translated} translated{matched}, {report.n_kept} translated before"
        f"{copied}{left}, {len(report.review)} to review{empty}"
    )
    if report.n_matched:
        other = report.n_matched - report.n_exact
        detail(f"from the memory: {report.n_exact} as they are, {other} with other placeholders or numbers")
    for place, why in report.review:
        detail(f"to review: {place}: {why}")
    for place in report.icu_messages:
        detail(f"ICU message left as it was: {place}")
    for place in report.empty:
        detail(f"without a translation: {place}")
