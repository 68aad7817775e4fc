"""What a server counts, as Prometheus' text format has it (version 0.0.4). Knows numbers and names."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from bytenmt.prometheus import PREFIX, heading, number, shown

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
HELP = {
    "requests_total": "Requests that were answered, by path and status.",
    "abandoned_total": "Requests whose clients had gone before they were answered.",
    "deadlines_total": "Deadlines that have passed: of computing, sending or a whole request.",
    "characters_total": "Characters of texts that were translated, by direction.",
    "source_bytes_total": "Bytes of lines that were asked of a model, by direction.",
    "target_bytes_total": "Bytes of their translations, by direction.",
    "request_seconds": "From a translation request's body to its answer.",
    "requests_in_flight": "Requests that wait or are decoded.",
    "characters_in_flight": "Characters of their texts.",
    "sentences_running": "Sentences that are decoded side by side, by direction.",
    "steps_total": "Decoding steps, by direction.",
    "sentence_steps_total": "Decoding steps times the sentences that took part, by direction.",
}


class Metrics:
    """Counters, and one histogram of seconds. For one thread."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()  # by name and labels
        self._buckets = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def count(self, name: str, n: int = 1, **labels: str) -> None:
        """n more of it."""
        self._counts[name, shown(labels)] += n

    def observe(self, seconds: float) -> None:
        """A request has taken so long."""
        self._buckets[bisect_left(BOUNDS, seconds)] += 1
        self._seconds += seconds

    def text(self, gauges: Iterable[tuple[str, dict[str, str], float]] = ()) -> str:
        """All of it; gauges: name, labels and value of what is known elsewhere."""
        values = dict(self._counts)
        values.update({(name, shown(labels)): value for name, labels, value in gauges})  # type: ignore[misc]
        lines: list[str] = []
        last = ""
        for (name, labels), value in sorted(values.items()):
            if name != last:
                lines += heading(name, "counter" if name.endswith("_total") else "gauge", HELP[name])
                last = name
            lines.append(number(name, value, labels))
        return "\n".join([*lines, *self._histogram()]) + "\n"

    def _histogram(self) -> Iterator[str]:
        name = "request_seconds"
        yield from heading(name, "histogram", HELP[name])
        total = 0
        for bound, n in zip((*map(str, BOUNDS), "+Inf"), self._buckets, strict=True):
            total += n
            yield f'{PREFIX}{name}_bucket{{le="{bound}"}} {total}'
        yield f"{PREFIX}{name}_sum {self._seconds:.6f}"
        yield f"{PREFIX}{name}_count {total}"
