"""The command `adapt`. Heavy modules are imported inside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from pathlib import Path

from bytenmt.cli.console import CONSOLE
from bytenmt.cli.files import output_lock
from bytenmt.cli.languages import LanguageOptions, agreed_languages
from bytenmt.cli.options import command, models
from bytenmt.config.fields import Seed, option
from bytenmt.errors import BytenmtError, DataError


@dataclass(frozen=True, kw_only=True)
class AdaptOptions(LanguageOptions):
    """The options of `bytenmt adapt`."""

    output: Path = option(
        MISSING, "Folder of the adapted model; it must not hold a model yet.", "-o", "--output"
    )
    seed: Seed = option(1, "Random seed of the held-out part and of the training.")


@command("adapt", models("MODEL MEMORY...", most=1))
def adapt(runs: tuple[Path, ...], files: tuple[Path, ...], how: AdaptOptions) -> None:
    """Adapt a model to the translations of a project.

    MEMORY is a TMX, XLIFF or PO file, or a .tsv table of lines `source TAB translation` as the
    server writes with --suggestions. It needs 20 or more translations. A fifth of them is held out
    to stop the training and to measure the result. Of a model with tables of n-grams, such as those
    in the clone, only the tables of long n-grams and of words learn, so that it hardly gets worse
    on other text. It takes one to two minutes.
    \f
    runs: MODEL alone. files: the paths MEMORY.
    """
    from bytenmt.checkpoints.weights import PUBLISHED, has_weights, read_run
    from bytenmt.training.adaptation import adapt as adapt_model

    def refuse(line: str) -> None:
        raise BytenmtError(line)

    (model,) = runs
    output = how.output
    if output.is_file() or has_weights(output):
        raise BytenmtError(f"{output} already exists: give another folder by -o")
    contents = read_run(model)[1]
    languages = agreed_languages(how.languages, model, contents.facts.corpora, refuse)
    limit = min(contents.config.data.max_source_bytes, contents.config.data.max_target_bytes)
    pairs: list[tuple[str, str]] = []
    for path in files:
        pairs_of_file = list(_lines(path, languages, limit))
        if not pairs_of_file:
            raise DataError(f"{path} contains no translated texts")
        CONSOLE.say(f"{path}: {len(pairs_of_file):,} pairs")
        pairs += pairs_of_file
    output.parent.mkdir(parents=True, exist_ok=True)
    with output_lock(output):
        names = [path.name for path in files]
        report = adapt_model(model, pairs, output, names=names, seed=how.seed, reporter=CONSOLE)
    before, after = report.held_out
    CONSOLE.say(
        f"{report.n_pairs:,} different pairs, {report.n_updates} updates;"
        f" {report.n_held_out:,} held out:"
        f" chrF {before.chrf:.1f} -> {after.chrf:.1f},"
        f" bits per byte {before.bits:.3f} -> {after.bits:.3f}"
    )
    CONSOLE.say(f"{output / PUBLISHED}: written")


def _lines(path: Path, pair: tuple[str, str] | None, limit: int) -> Iterator[tuple[str, str]]:
    """Yield the translated lines of a file as a model sees them, of at most `limit` bytes."""
    from bytenmt.documents import formats
    from bytenmt.documents.lines import UnitLine, split_unit
    from bytenmt.documents.unit import to_markup

    kind = formats.format_of(path, "name a table .tsv; there are")
    for source, target, *_ in formats.unit_pairs(path, kind, pair):
        lines = [line for line in split_unit(source) if isinstance(line, UnitLine)]
        translations = [line for line in split_unit(target) if isinstance(line, UnitLine)]
        if len(lines) != len(translations):
            continue
        for line, translation in zip(lines, translations, strict=True):
            texts = to_markup(line.parts), to_markup(translation.parts)
            if all(text and len(text.encode()) <= limit for text in texts):
                yield texts
