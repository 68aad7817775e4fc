"""The option --pair, and a comparison of the languages of a document with those of a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bytenmt.config.fields import option
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.config.facts import CorpusFact


@dataclass(frozen=True, kw_only=True)
class LanguageOptions:
    """The option --pair, for commands that read documents in several languages."""

    pair: str | None = option(
        None,
        "Source and target language, such as en-de or en-US:pt-BR. Required for TMX; XLIFF, PO, HTML, ARB and"
        " YAML files of Rails then declare the target language.",
        metavar="SRC-TGT",
    )


def language_pair(codes: str | None) -> tuple[str, str] | None:
    """Split `en-de` or `en-US:de` into two language codes; None stays None. Raises BytenmtError."""
    if codes is None:
        return None
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


def agreed_languages(
    pair: tuple[str, str] | None, run: Path, corpora: Sequence[CorpusFact], tell: Callable[[str], object]
) -> tuple[str, str] | None:
    """Return source and target language: those of --pair, else of the model; None if not both are known.

    corpora: the training files of the model `run`. tell: called with a line for each side where --pair and
    the model have different languages; regions (de-AT) may differ.
    """
    trained_on = model_languages(corpora)
    for side, one, other in zip(("source", "target"), pair or (), trained_on, strict=False):
        if other and re.split("[-_]", one.lower())[0] != re.split("[-_]", other.lower())[0]:
            tell(f"--pair has {one} as the {side} language, and {run} was trained on {other}")
    source, target = pair or trained_on
    return (source, target) if source and target else None
