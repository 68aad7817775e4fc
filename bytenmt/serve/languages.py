"""The languages of a server, and the steps that lead from one to another."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from bytenmt.errors import BytenmtError

NAMES_IN_ENGLISH = """
    ar:Arabic az:Azerbaijani be:Belarusian bg:Bulgarian bn:Bengali ca:Catalan cs:Czech da:Danish
    de:German el:Greek en:English eo:Esperanto es:Spanish et:Estonian eu:Basque fa:Persian fi:Finnish
    fr:French ga:Irish gl:Galician he:Hebrew hi:Hindi hr:Croatian hu:Hungarian hy:Armenian id:Indonesian
    is:Icelandic it:Italian ja:Japanese ka:Georgian kk:Kazakh ko:Korean ky:Kyrgyz lt:Lithuanian
    lv:Latvian mk:Macedonian mr:Marathi ms:Malay nb:Norwegian nl:Dutch pl:Polish pt:Portuguese
    ro:Romanian ru:Russian sk:Slovak sl:Slovenian sq:Albanian sr:Serbian sv:Swedish sw:Swahili ta:Tamil
    te:Telugu th:Thai tl:Tagalog tr:Turkish uk:Ukrainian ur:Urdu uz:Uzbek vi:Vietnamese zh:Chinese
"""
NAMES = dict(pair.split(":") for pair in NAMES_IN_ENGLISH.split())
CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")


class Direction(NamedTuple):
    """A pair of languages."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    @staticmethod
    def parse(text: str) -> Direction:
        """Parse a pair such as en-de, or zh-Hans:en if a code has a hyphen. Raises BytenmtError."""
        parts = text.split(":" if ":" in text else "-")
        if len(parts) != 2 or not all(CODE.fullmatch(part) for part in parts) or parts[0] == parts[1]:
            raise BytenmtError(f"{text!r} is not a language pair: expected one such as en-de or zh-Hans:en")
        return Direction(*parts)


def name_of(code: str) -> str:
    """Return the English name of a language, or its code if the name is unknown."""
    return NAMES.get(code, NAMES.get(code.partition("-")[0], code))


class Languages:
    """The languages that can be reached from each other, directly or over others.

    directions: those that have a model.
    """

    def __init__(self, directions: Sequence[Direction]) -> None:
        self.directions = list(directions)
        self.sources = list(dict.fromkeys(one.source for one in directions))
        self.all = list(dict.fromkeys(code for one in directions for code in one))
        self._paths = {source: self._from(source) for source in self.sources}

    def path(self, source: str, target: str) -> list[Direction] | None:
        """Return the shortest path between two languages: empty if they are equal, None if there is none."""
        if source == target and source in self.all:
            return []
        return self._paths.get(source, {}).get(target)

    def known(self, code: str) -> str | None:
        """Return the served code that matches in any letter case, such as de for de-AT; None without one."""
        wanted = code.replace("_", "-").casefold()
        by_case = {own.replace("_", "-").casefold(): own for own in self.all}
        return by_case.get(wanted) or by_case.get(wanted.partition("-")[0])

    def listed(self) -> list[dict[str, Any]]:
        """Return the languages in the form of LibreTranslate's GET /languages.

        "direct" lists the targets that need no third language. A source stands among its own targets, as some
        clients expect.
        """
        return [
            {
                "code": code,
                "name": name_of(code),
                "targets": sorted({code, *self._paths.get(code, ())}),
                "direct": sorted(step.target for step in self.directions if step.source == code),
            }
            for code in self.all
        ]

    def _from(self, source: str) -> dict[str, list[Direction]]:
        """Return the shortest path to every language that can be reached."""
        paths: dict[str, list[Direction]] = {source: []}
        waiting = deque([source])
        while waiting:
            here = waiting.popleft()
            for step in self.directions:
                if step.source == here and step.target not in paths:
                    paths[step.target] = [*paths[here], step]
                    waiting.append(step.target)
        del paths[source]
        return paths
