"""The server's counters, gauges and latency histogram, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from bytenmt.prometheus import NAMESPACE

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
# Counters: their help and the names of their labels.
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "requests_total": ("Requests that were answered, by path and status.", ("path", "status")),
    "abandoned_total": ("Requests whose clients had gone before they were answered.", ()),
    "deadlines_total": (
        "Deadlines that have passed: of computing, sending, a whole request or draining.",
        ("what",),
    ),
    "characters_total": ("Characters of texts that were translated, by direction.", ("direction",)),
    "source_bytes_total": ("Bytes of lines that were asked of a model, by direction.", ("direction",)),
    "target_bytes_total": ("Bytes of their translations, by direction.", ("direction",)),
}
# Values that other objects hold and that are read when the metrics are asked for.
CURRENT = {
    "requests_in_flight": "Requests that wait or are decoded.",
    "characters_in_flight": "Characters of their texts.",
    "sentences_running": "Sentences that are decoded side by side, by direction.",
    "steps_total": "Decoding steps, by direction.",
    "sentence_steps_total": "Decoding steps times the sentences that took part, by direction.",
}
CurrentValue = tuple[str, dict[str, str], float]  # a name of CURRENT, labels, value

disable_created_metrics()  # type: ignore[no-untyped-call]  # the time at which each counter was made


class Metrics:
    """Counters of a server and a histogram of its response times."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._counters = {
            name: Counter(name, text, labels, namespace=NAMESPACE, registry=self._registry)
            for name, (text, labels) in COUNTERS.items()
        }
        self._seconds = Histogram(
            "request_seconds",
            "From a translation request's body to its answer.",
            namespace=NAMESPACE,
            buckets=BOUNDS,
            registry=self._registry,
        )

    def count(self, name: str, n: int = 1, **labels: str) -> None:
        """Add n to a counter of COUNTERS."""
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(n)

    def observe(self, seconds: float) -> None:
        """Record the response time of a translation request."""
        self._seconds.observe(seconds)

    def text(self, current: Iterable[CurrentValue] = ()) -> str:
        """Return all metrics in Prometheus' text format, version 0.0.4."""
        snapshot = CollectorRegistry(auto_describe=False)
        snapshot.register(self._registry)  # a registry collects like a collector
        snapshot.register(_CurrentValues(current))
        return generate_latest(snapshot).decode()


class _CurrentValues:
    """A collector of values that are given once."""

    def __init__(self, values: Iterable[CurrentValue]) -> None:
        self._values = list(values)

    def collect(self) -> Iterator[Metric]:
        """Yield a metric for every name, with a sample for every set of labels."""
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for name, labels, value in self._values:
            if name not in families:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                families[name] = kind(f"{NAMESPACE}_{name}", CURRENT[name], labels=list(labels))
            families[name].add_metric(list(labels.values()), value)
        yield from families.values()
