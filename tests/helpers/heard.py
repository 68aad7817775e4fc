"""A reporter that keeps what it is told."""

from collections.abc import Iterator
from contextlib import contextmanager

from bytenmt.reporter import Bar, Reporter


class Heard(Reporter):
    """lines: said, in order; shown: the share of 1 that each of the bars stood at, from its beginning on, and
    words: what stood beside it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown: list[float] = []
        self.words: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def bar(self, total: float, unit: str, begun: float = 0.0, what: str = "") -> Iterator[Bar]:
        yield _BarLog(self.shown, self.words)


class _BarLog(Bar):
    def __init__(self, shown: list[float], words: list[str]) -> None:
        self._shown, self._words = shown, words

    def show(self, done: float, text: str) -> None:
        self._shown.append(done)
        self._words.append(text)
