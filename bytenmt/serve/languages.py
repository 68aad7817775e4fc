"""The languages of a server: their names, detection, and the models between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bytenmt.data.pair_files import PairFiles
from bytenmt.data.sentences import languages_of_files
from bytenmt.errors import BytenmtError
from bytenmt.serve.work_queue import Refusal

ENGLISH_NAMES = """
    ar:Arabic az:Azerbaijani be:Belarusian bg:Bulgarian bn:Bengali ca:Catalan cs:Czech da:Danish
    de:German el:Greek en:English eo:Esperanto es:Spanish et:Estonian eu:Basque fa:Persian
    fi:Finnish fr:French ga:Irish gl:Galician he:Hebrew hi:Hindi hr:Croatian hu:Hungarian
    hy:Armenian id:Indonesian is:Icelandic it:Italian ja:Japanese ka:Georgian kk:Kazakh ko:Korean
    ky:Kyrgyz lt:Lithuanian lv:Latvian mk:Macedonian mr:Marathi ms:Malay nb:Norwegian nl:Dutch
    pl:Polish pt:Portuguese ro:Romanian ru:Russian sk:Slovak sl:Slovenian sq:Albanian sr:Serbian
    sv:Swedish sw:Swahili ta:Tamil te:Telugu th:Thai tl:Tagalog tr:Turkish uk:Ukrainian ur:Urdu
    uz:Uzbek vi:Vietnamese zh:Chinese
"""
NAME_BY_CODE = dict(pair.split(":") for pair in ENGLISH_NAMES.split())
CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
SAMPLE_CHARACTERS = 2_000  # of a text, which are looked at to detect its language
# A text is in a language that no model translates where that is likelier than all others together,
# and so many times likelier than each one of the server: the identifier knows dialects and close
# relatives, too.
MIN_FOREIGN_SHARE = 0.5
MIN_FOREIGN_RATIO = 10.0


class Direction(NamedTuple):
    """The source and target language codes of a model; str() gives a text such as "en-de"."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def opposite(self) -> Direction:
        """The direction from the target to the source language."""
        return Direction(self.target, self.source)

    @staticmethod
    def parse(text: str) -> Direction:
        """Parse a pair such as en-de, or zh-Hans:en if a code has a hyphen. Raises BytenmtError."""
        parts = text.split(":" if ":" in text else "-")
        are_codes = all(CODE.fullmatch(part) for part in parts)
        if len(parts) != 2 or not are_codes or parts[0] == parts[1]:
            raise BytenmtError(
                f"{text!r} is not a language pair: expected one such as en-de or zh-Hans:en"
            )
        return Direction(*parts)


def model_languages(corpora: Sequence[PairFiles]) -> Direction | None:
    """Return a model's languages by the names of its training files, such as train.en.gz.

    corpora: its training files. None if the names of the source files, or of the target files, tell
    no language or several.
    """
    sources = languages_of_files(corpus.src for corpus in corpora if corpus.src)
    targets = languages_of_files(corpus.tgt for corpus in corpora if corpus.tgt)
    if len(sources) == len(targets) == 1 and sources != targets:
        return Direction(*sources, *targets)
    return None


def check_direction(direction: Direction, file: Path, corpora: Sequence[PairFiles]) -> None:
    """Raise BytenmtError if a model was trained for another direction than it is to be served in.

    direction: to serve. file: the model, for the message. corpora: the model's training files; any
    direction passes if their names tell no languages. Regions may differ (de-AT), and a code of
    three letters passes for any of two, as it may name the same language.
    """
    own = model_languages(corpora)
    for code, other in zip(direction, own or (), strict=False):
        given = _primary(code)
        trained_on = _primary(other)
        if given != trained_on and len(given) == len(trained_on):
            raise BytenmtError(
                f"{direction}={file}: this model translates {own}, as the names of its training"
                f" files say: give {own}={file}"
            )


class LanguageGuess(msgspec.Struct, frozen=True):
    """The code of a language that a text may be in, and the confidence in that, from 0 to 100."""

    language: str
    confidence: float


def name_of(code: str) -> str:
    """Return the English name of a language, or its code if the name is unknown."""
    return NAME_BY_CODE.get(code, NAME_BY_CODE.get(_primary(code), code))


class ServedLanguages:
    """The languages of a server; `all` lists their codes. directions: those that have a model."""

    def __init__(self, directions: Sequence[Direction]) -> None:
        self.directions = list(directions)
        self.all = list(dict.fromkeys(code for direction in directions for code in direction))

    def known(self, code: str) -> str:
        """Return the server's code for a language: de for DE, de-AT. Raises Refusal if none."""
        wanted = code.replace("_", "-").casefold()
        served = {name.replace("_", "-").casefold(): name for name in reversed(self.all)}
        by_language = {tag.partition("-")[0]: name for tag, name in served.items()}
        if (
            match := served.get(wanted)
            or served.get(wanted.partition("-")[0])
            or by_language.get(wanted)
        ):
            return match
        raise Refusal(400, f"{code[:50]!r} is not a served language: see /languages")

    def listed(self) -> list[dict[str, Any]]:
        """Return the code, name and target codes (its own, too) of each language, for clients."""
        languages = []
        for code in self.all:
            targets = {code, *(to for source, to in self.directions if source == code)}
            languages.append({"code": code, "name": name_of(code), "targets": sorted(targets)})
        return languages

    def guesses(self, text: str) -> list[LanguageGuess]:
        """Return how likely a text is in each language of the server, the likeliest first.

        A language that is not served is put before them if the text is almost certainly in it. The
        first call loads the language identifier, which takes a second.
        """
        shares = dict(_identifier().rank(text[:SAMPLE_CHARACTERS]))
        served = {code: shares.get(_primary(code), 0.0) for code in self.all}
        likeliest = max(shares, key=lambda code: shares[code])
        if shares[likeliest] > max(MIN_FOREIGN_SHARE, MIN_FOREIGN_RATIO * max(served.values())):
            served[likeliest] = shares[likeliest]
        total = sum(served.values()) or 1.0
        ranked = sorted(served, key=lambda code: -served[code])
        return [LanguageGuess(code, round(100 * served[code] / total, 1)) for code in ranked]


def _primary(code: str) -> str:
    """Return the language of a code without its script and region, as the identifier names it."""
    language = code.replace("_", "-").partition("-")[0].lower()
    return {"nb": "no", "nn": "no"}.get(language, language)


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
