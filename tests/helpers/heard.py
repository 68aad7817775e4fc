"""A reporter that keeps what it is told."""

from collections.abc import Iterator
from contextlib import contextmanager

from bytenmt.reporter import Bar, Reporter


class Heard(Reporter, Bar):
    """A reporter that remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.shown: list[float] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def bar(self, total: float, unit: str, begun: float = 0.0, what: str = "") -> Iterator[Bar]:
        yield self

    def show(self, done: float, text: str) -> None:
        self.shown.append(done)
