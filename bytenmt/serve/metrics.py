"""The server's metrics for Prometheus."""

from __future__ import annotations

from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from bytenmt import __version__
from bytenmt.prometheus import NAMESPACE

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # of histograms, in seconds

disable_created_metrics()  # type: ignore[no-untyped-call]  # the time at which each counter was made


class Metrics:
    """Counters, gauges and histograms of a server, beside those of its process, such as its memory."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        own: dict[str, Any] = {"namespace": NAMESPACE, "registry": self.registry}
        Gauge("build_info", "The version.", ["version"], **own).labels(__version__).set(1)
        self.requests = Counter("requests", "Answered requests.", ["path", "status"], **own)
        self.seconds = Histogram(
            "request_seconds", "From headers to answer.", ["path"], buckets=BOUNDS, **own
        )
        self.wait = Histogram("queue_wait_seconds", "Until the first line is decoded.", buckets=BOUNDS, **own)
        self.abandoned = Counter("abandoned", "Requests whose clients left first.", ["kind"], **own)
        self.deadlines = Counter("deadlines", "Requests that were not answered in time.", **own)
        self.reloads = Counter("reloads", "Times that models and keys were read again.", ["result"], **own)
        self.source_bytes = Counter("source_bytes", "Bytes that models translated.", ["direction"], **own)
        self.in_flight = Gauge("requests_in_flight", "Requests that wait or are decoded.", **own)
        self.running = Gauge("sentences_running", "Sentences that are decoded.", ["direction"], **own)
