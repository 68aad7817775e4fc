"""The option --pair, and a comparison of the languages of a document with those of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bytenmt.config.fields import Option
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.config.facts import CorpusFact

PAIR = Option(
    "pair",
    str | None,
    None,
    "Source and target language, such as en-de or en-US:pt-BR. Required for TMX; XLIFF, PO, HTML, ARB and"
    " YAML files of Rails then declare the target language.",
    metavar="SRC-TGT",
)


def language_pair(codes: str) -> tuple[str, str]:
    """Split `en-de` or `en-US:de` into two language codes. Raises BytenmtError."""
    for separator in (":", "-"):
        source, found, target = codes.partition(separator)
        if found and source and target and (separator == ":" or "-" not in target):
            return source, target
    raise BytenmtError(f"--pair {codes}: expected two languages, such as en-de or en-US:pt-BR")


def model_languages(corpora: Sequence[CorpusFact]) -> tuple[str | None, str | None]:
    """Return source and target language of a model by the names of its training files: train.en, train.de.gz.

    None for a side whose files have no language in their names, or several.
    """
    from bytenmt.serve.languages import NAMES

    def language(names: Sequence[str | None]) -> str | None:
        suffixes = [[one[1:].lower() for one in Path(name).suffixes] for name in names if name]
        found = {next((code for code in reversed(some) if code in NAMES), None) for some in suffixes}
        return found.pop() if len(found) == 1 else None

    source, target = language([one.src for one in corpora]), language([one.tgt for one in corpora])
    return (source, target) if source != target else (None, None)


def pair_of_memory(
    declared: Sequence[str | None], trained_on: Sequence[str | None]
) -> tuple[str, str] | None:
    """Return the languages in which a translation memory is read, None if one of them is not known.

    declared: source and target language of a document or of --pair; trained_on: those of the model.
    """
    source, target = (one or other for one, other in zip(declared, trained_on, strict=True))
    return (source, target) if source and target else None


def language_mismatches(
    declared: Sequence[str | None], of_model: Sequence[str | None]
) -> Iterator[tuple[str, str, str]]:
    """Yield source or target, the declared language, and the model's, where they differ but for a region."""
    for side, one, other in zip(("source", "target"), declared, of_model, strict=True):
        if one and other and re.split("[-_]", one.lower())[0] != re.split("[-_]", other.lower())[0]:
            yield side, one, other
