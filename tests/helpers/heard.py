"""A reporter that keeps what it is told."""

from collections.abc import Iterator
from contextlib import contextmanager

from bytenmt.reporter import Bar, Reporter


class Heard(Reporter):
    """lines: said, in order; shown: the share of 1 that each of the bars stood at, from its beginning on."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown: list[float] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def bar(self, total: float, unit: str, begun: float = 0.0, what: str = "") -> Iterator[Bar]:
        yield _BarLog(self.shown)


class _BarLog(Bar):
    def __init__(self, shown: list[float]) -> None:
        self._shown = shown

    def show(self, done: float, text: str) -> None:
        self._shown.append(done)
