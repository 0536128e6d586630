"""Metrics for Prometheus: requests, their durations, batches, refusals, memory."""

from collections.abc import Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The counters of one service."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter(
            "unitail_requests",
            "Requests by route and status.",
            ["route", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "unitail_request_seconds",
            "Time to answer.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.at_work = Gauge(
            "unitail_requests_at_work",
            "Requests in progress, without those whose answer is being sent.",
            registry=self._registry,
        )
        self.rows = Counter("unitail_rows", "Rows answered.", registry=self._registry)
        self.batch_requests = Histogram(
            "unitail_batch_requests",
            "Requests answered together.",
            buckets=SIZES,
            registry=self._registry,
        )
        self.shed = Counter(
            "unitail_shed", "Requests refused because of the load.", registry=self._registry
        )
        self.decoder_deaths = Counter(
            "unitail_decoder_deaths",
            "Decoders that died or took too long.",
            registry=self._registry,
        )
        self.examples = Gauge(
            "unitail_examples", "Examples of a classifier.", ["name"], registry=self._registry
        )

    def count_batch(self, questions: int, rows: int) -> None:
        """Count a batch and its rows."""
        self.batch_requests.observe(questions)
        self.rows.inc(rows)

    def count_request(self, route: str, status: int, seconds: float | None = None) -> None:
        """Count a request, and observe its duration unless it was refused without work."""
        self.requests.labels(route, str(status)).inc()
        if seconds is not None:
            self.seconds.labels(route).observe(seconds)

    def watch_examples(self, name: str, count: Callable[[], float]) -> None:
        """Report a classifier's number of examples, counted at each scrape."""
        self.examples.labels(name).set_function(count)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)
