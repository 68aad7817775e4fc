"""The command `adapt`.

Heavy modules are imported inside the command.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bytenmt.cli.console import say
from bytenmt.cli.languages import (
    language_mismatches,
    language_pair,
    model_languages,
    pair_of_memory,
)
from bytenmt.cli.options import command, models, plain
from bytenmt.cli.progress import Console
from bytenmt.config.fields import Option, Seed
from bytenmt.errors import BytenmtError, DataError

if TYPE_CHECKING:
    from bytenmt.training.adaptation import Measurement

OUTPUT = Option(
    "output",
    Path,
    None,
    "Folder of the adapted model; it must not hold a model yet.",
    ("-o", "--output"),
)
PAIR = Option(
    "pair", str | None, None, "Language pair such as en-de (default: the model's).", metavar="SRC-TGT"
)
SEED = Option("seed", Seed, 1, "Random seed of the held-out part and of the training.")


@command("adapt", models("MODEL MEMORY...", most=1), plain(OUTPUT, required=True), plain(PAIR, SEED))
def adapt(runs: tuple[Path, ...], files: tuple[Path, ...], output: Path, pair: str | None, seed: int) -> None:
    """Adapt a model to the translations of a project.

    MEMORY is a TMX, XLIFF or PO file, or a table of lines `source TAB translation` such as the server writes
    with --suggestions. It needs 20 or more translations. A fifth of them is held out to stop the training and
    to measure the result. The new weights are mixed with the old ones, so that the model gets better on the
    held-out translations and loses next to nothing on a built-in text. It takes one to two minutes.
    """
    from bytenmt.checkpoints.weights import PUBLISHED, read_run
    from bytenmt.training.adaptation import adapt as adapt_model
    from bytenmt.training.adaptation import read_probe

    (model,) = runs
    if (output / PUBLISHED).exists() or (output.exists() and not output.is_dir()):
        raise BytenmtError(f"{output} exists already: give -o another folder")
    contents = read_run(model)[1]
    trained_on = model_languages(contents.facts.corpora)
    given = (None, None) if pair is None else language_pair(pair)
    for side, language, other in language_mismatches(given, trained_on):
        raise BytenmtError(
            f"--pair has {language} as the {side} language, and {model} was trained on {other}"
        )
    languages = pair_of_memory(given, trained_on)
    limit = min(contents.config.data.max_source_bytes, contents.config.data.max_target_bytes)
    pairs: list[tuple[str, str]] = []
    for path in files:
        some = list(_lines(path, languages, limit))
        if not some:
            raise DataError(f"{path} has no pair of texts that are translated")
        say(f"{path}: {len(some):,} pairs")
        pairs += some
    probe = read_probe(*languages) if languages else []
    if not probe:
        Console().warn("there is no probe text in these languages: what the model forgets is not measured")
    report = adapt_model(
        model, pairs, output, name=files[-1].name, probe=probe, seed=seed, reporter=Console()
    )
    say(
        f"{report.n_pairs:,} different pairs, {report.n_held_out:,} held out; {report.n_updates} updates,"
        f" weights {report.factor:.0%} of the way"
    )
    say(_described(f"new text ({report.n_held_out:,} held-out pairs)", *report.new))
    if report.old is not None:
        say(_described(f"old text ({len(probe)} sentences)", *report.old))
    say(f"{output / PUBLISHED}: written")


def _lines(path: Path, pair: tuple[str, str] | None, limit: int) -> Iterator[tuple[str, str]]:
    """Yield the translated lines of a file, as a model sees them. limit: bytes of a line, not exceeded."""
    from bytenmt.documents import formats
    from bytenmt.documents.lines import Line, split_unit
    from bytenmt.documents.unit import joined

    for source, target, *_ in formats.unit_pairs(path, formats.format_of(path), pair):
        sides = [[one for one in split_unit(parts) if isinstance(one, Line)] for parts in (source, target)]
        for line, translation in zip(*sides, strict=True) if len(sides[0]) == len(sides[1]) else ():
            texts = joined(line.parts), joined(translation.parts)
            if all(text and len(text.encode()) <= limit for text in texts):
                yield texts


def _described(name: str, before: Measurement, after: Measurement) -> str:
    return (
        f"{name}: chrF {before.chrf:.1f} -> {after.chrf:.1f},"
        f" bits per byte {before.bits:.3f} -> {after.bits:.3f}"
    )
