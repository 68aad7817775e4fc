"""The command `translate-file`.

Heavy modules are imported inside the command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from bytenmt.cli.options import CONSTRAINTS, DECODING, FILE, MACHINE, models, within
from bytenmt.cli.progress import Console, progress
from bytenmt.config.bounds import Bounds
from bytenmt.documents.formats import FORMATS
from bytenmt.errors import BytenmtError

MOST_BITS = 1e6
BATCH = 1000  # lines that are translated together


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
    help="Translation memory (TMX, XLIFF, PO, CSV or TSV). Units that it contains, apart from placeholders,"
    " are taken from it instead of the model.",
)
@click.option(
    "--column", help="Source column of a CSV or TSV file: its name in the first row, or its number from 1."
)
@click.option(
    "--to-column",
    "into",
    help="Column of a CSV or TSV file for the translations (default: that of --column).",
)
@CONSTRAINTS
@DECODING
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
    memory_file: Path | None,
    device: str,
    threads: int | None,
    **decoding: Any,
) -> None:
    """Translate the document IN and write it to OUT.

    Formats: TMX, XLIFF 1.2 and 2, PO, SRT, WebVTT, HTML, Markdown, JSON, ARB, YAML, Fluent, .properties, DTD,
    .ini, .strings, Android's strings.xml, .docx, CSV, TSV and plain text. Only text is replaced. Inline
    codes, placeholders, tags, URLs and the like are kept, see --keep. Existing translations stay; doubtful
    new ones are marked for review. OUT appears when it is complete. - is stdin or stdout; stdin needs
    --format. This needs pip install 'bytenmt[documents]'.
    """
    from bytenmt.cli import decoding_args
    from bytenmt.cli.translation_commands import loaded_runs
    from bytenmt.data.text_file import read_bytes
    from bytenmt.decoding.engine_selection import choose, processes
    from bytenmt.decoding.translator import Translator
    from bytenmt.documents import formats
    from bytenmt.documents.memory import TranslationMemory
    from bytenmt.documents.translation import LineTranslation, lines_to_translate, translate
    from bytenmt.documents.unit import Parts, ReadOptions
    from bytenmt.evaluation.judge import FLAG_ABOVE, Judge

    input, output = (None if path == Path("-") else path for path in files)
    settings = decoding_args.settings(decoding)
    spec = decoding_args.engine_spec(decoding, device, threads)
    source = input or Path("standard input")  # for messages
    if form is None and input is None:
        raise BytenmtError(f"standard input has no suffix: give --format, one of {', '.join(FORMATS)}")
    languages = None if pair is None else language_pair(pair)
    options = ReadOptions(form or formats.format_of(source), languages, column, into)
    with processes(choose(spec).device) as group:
        leads = group is None or group.is_leader
        check_output(output, input)
        check_streams(input, output)
        document = None
        if leads:
            data = standard_input().read() if input is None else read_bytes(input).tobytes()
            document = formats.read(data, options, source)
        runtime = loaded_runs(runs, spec, leads, at_once=True)
        if not runtime.has_source:
            raise BytenmtError(
                f"{runs[0]} is a language model and cannot translate: give a translation model"
            )
        translator = Translator.from_runtime(runtime, settings, group=group)
        if document is None:
            translator.follow()
            return
        trained_on = model_languages([corpus for run in runtime.runs for corpus in run.facts.corpora])
        for side, one, other in language_mismatches(languages or (None, None), trained_on):
            Console().warn(f"--pair has {one} as the {side} language, and {runs[0]} was trained on {other}")
        memory = None
        if memory_file is not None:
            of_memory = pair_of_memory(languages or (None, None), trained_on)
            memory = TranslationMemory.from_file(memory_file, of_memory)
        judge = Judge.from_runtime(runtime, flag_above, FLAG_ABOVE, translator.options.beam)
        detail(judge.describe())
        lines = lines_to_translate(document, overwrite, memory)
        if not runtime.has_sentinels and not all(isinstance(part, str) for line in lines for part in line):
            Console().warn(
                f"{runs[0]} was trained without sentinels: inline codes are put at the end of units"
            )
        translations = dict[Parts, LineTranslation]()
        with progress(len(lines), " lines") as (bar, _):
            for first in range(0, len(lines), BATCH):
                batch = lines[first : first + BATCH]
                results = translator.lead(batch, first)
                for line, result in zip(batch, judge.flag(results), strict=True):
                    translations[line] = LineTranslation(result.parts, result.best.flags or ())
                bar.advance(len(batch))
        translator.release_followers()
        report = translate(document, translations, overwrite, memory)
        written = document.dump()
    with writer(output) as out:
        out.write(written)
    counts = ", ".join(f"{n} {name}" for name, n in sorted(report.counts.items(), reverse=True))
    say(f"{sum(1 for _ in document.units)} units: {counts or 'none'}")
    for place, note in report.notes:
        detail(f"{place}: {note}")
