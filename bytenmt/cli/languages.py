"""The option --pair, and a comparison of the languages of a document with those of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bytenmt.config.fields import option
from bytenmt.data.pair_files import PairFiles
from bytenmt.documents.unit import primary
from bytenmt.serve.languages import Direction, model_languages


@dataclass(frozen=True, kw_only=True)
class LanguageOptions:
    """The option --pair: source and target language, such as en-de, of a document or a model."""

    pair: str | None = option(
        None,
        "Source and target language, such as en-de or en-US:pt-BR, if the model names none.",
        metavar="SRC-TGT",
    )

    @property
    def languages(self) -> Direction | None:
        """The languages of --pair, None if not given. Raises BytenmtError if it is malformed."""
        return None if self.pair is None else Direction.parse(self.pair)


def agreed_languages(
    pair: Direction | None, run: Path, corpora: Sequence[PairFiles], tell: Callable[[str], object]
) -> Direction | None:
    """Return the languages of --pair, else those a model was trained on; None if not known.

    pair: of --pair. corpora: training files of the model `run`, whose names have language codes.
    tell: called with a message for each side, source or target, where --pair has another language
    than the training files; another region (de-AT for de) is not one.
    """
    trained_on = model_languages(corpora)
    for side, code, other in zip(("source", "target"), pair or (), trained_on or (), strict=False):
        if primary(code) != primary(other):
            tell(f"--pair has {code} as the {side} language, and {run} was trained on {other}")
    return pair or trained_on
