"""Detect the language of a text among those that are served: by its script, and among languages of one
script by profiles of byte trigrams, which come with the models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bytenmt.language.ngram import NGram
from bytenmt.language.scripts import script
from bytenmt.language_profile import N_BYTES, LanguageProfile, normalise

SAMPLE_CHARACTERS = 2_000  # of a text, which are looked at
NO_LETTERS = {"digits", "punctuation", "symbols and others", "markup", "spaces and line ends", "not UTF-8"}
LATIN = ("Latin",)
# Each in a script of its own.
OTHERS = ("am", "bn", "gu", "hy", "ka", "km", "kn", "lo", "ml", "my", "pa", "si", "ta", "te")
SCRIPTS = {
    "ko": ("Hangul",),
    "ja": ("Kana", "Han"),
    "zh": ("Han",),
    "el": ("Greek",),
    "he": ("Hebrew",),
    "yi": ("Hebrew",),
    "th": ("Thai",),
    **dict.fromkeys(("ru", "uk", "be", "bg", "mk", "sr", "kk", "ky", "mn", "tg"), ("Cyrillic",)),
    **dict.fromkeys(("ar", "fa", "ur", "ps", "ug"), ("Arabic",)),
    **dict.fromkeys(("hi", "mr", "ne", "sa"), ("Devanagari",)),
    **dict.fromkeys(OTHERS, ("other letters",)),
}


class Guess(NamedTuple):
    """A language with its probability in percent."""

    language: str
    confidence: float


class Detector:
    """Guesses the language of texts.

    languages: to choose from; where nothing tells two apart, the first one comes first. profiles: of some of
    them. Languages of one script are told apart only if all of them have one.
    """

    def __init__(
        self, languages: Sequence[str], profiles: Mapping[str, LanguageProfile] | None = None
    ) -> None:
        self._languages = list(languages)
        self._ngrams = {
            language: NGram.from_counts(profile.keys, profile.counts, N_BYTES - 1)
            for language, profile in (profiles or {}).items()
            if language in languages
        }

    def guesses(self, text: str) -> list[Guess]:
        """Return every language, the likeliest first.

        The confidences add up to at most 100: letters of a script that no language has count for none.
        """
        text = text[:SAMPLE_CHARACTERS]
        share = self._of_scripts(text)
        guesses = []
        for group in self._groups():
            own = share[group[0]]
            for language, part in zip(group, self._shares(group, text), strict=True):
                guesses.append(Guess(language, round(100 * own * part, 1)))
        order = {language: place for place, language in enumerate(self._languages)}
        return sorted(guesses, key=lambda guess: (-guess.confidence, order[guess.language]))

    def _groups(self) -> list[list[str]]:
        """Group the languages by their scripts."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for language in self._languages:
            groups.setdefault(_scripts(language), []).append(language)
        return list(groups.values())

    def _of_scripts(self, text: str) -> dict[str, float]:
        """Return the share of letters in each language's scripts; the same share for all without letters."""
        letters = Counter(kind for kind in map(script, map(ord, text)) if kind not in NO_LETTERS)
        if not letters:
            return dict.fromkeys(self._languages, 1 / len(self._groups()))
        chinese = ("Han",) in {_scripts(language) for language in self._languages}
        shares = {}
        for language in self._languages:
            own = _scripts(language)
            if own == ("Han",) and letters["Kana"]:
                own = ()  # where kana stand too, it is Japanese
            elif "Kana" in own and chinese and not letters["Kana"]:
                own = ()
            shares[language] = sum(letters[kind] for kind in own) / letters.total()
        return shares

    def _shares(self, group: Sequence[str], text: str) -> list[float]:
        """Return the probability of each language of a group; uniform if one has no profile."""
        if len(group) == 1:
            return [1.0]
        if not text or any(language not in self._ngrams for language in group):
            return [1 / len(group)] * len(group)
        data = np.frombuffer(normalise(text), np.uint8)
        nats = np.array([-self._ngrams[one].bits(data).sum() * np.log(2) for one in group])
        weights = np.exp(nats - nats.max())
        shares: list[float] = (weights / weights.sum()).tolist()
        return shares


def _scripts(language: str) -> tuple[str, ...]:
    return SCRIPTS.get(language.replace("_", "-").partition("-")[0].lower(), LATIN)
