"""What is counted, for Prometheus: requests, latency, queues and batches; over all processes with `--workers`."""

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # where the processes of one service keep their numbers; read by prometheus_client


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("whence_requests", "Requests answered.", ["route", "status"], registry=registry)
        self._seconds = Histogram(
            "whence_request_seconds", "Time from request to response.", ["route"], registry=registry, buckets=SECONDS
        )
        self._queue = Gauge(
            "whence_queue_length", "Requests that wait.", ["lane"], registry=registry, multiprocess_mode="livesum"
        )
        self._sizes = Histogram("whence_batch_size", "Requests per batch.", ["lane"], registry=registry, buckets=SIZES)
        self._by_status: dict[tuple[str, int], Counter] = {}
        self._by_route: dict[str, Histogram] = {}
        self._by_lane: dict[str, tuple[Gauge, Histogram]] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request. `route` is one of the service's own paths, so that strangers cannot make up new labels."""
        if (route, status) not in self._by_status:
            self._by_status[route, status] = self._requests.labels(route, str(status))
        if route not in self._by_route:
            self._by_route[route] = self._seconds.labels(route)
        self._by_status[route, status].inc()
        self._by_route[route].observe(seconds)

    def queued(self, lane: str, length: int) -> None:
        """Note how many requests wait in a lane."""
        self._lane(lane)[0].set(length)

    def batched(self, lane: str, size: int) -> None:
        """Note how many requests one batch took."""
        self._lane(lane)[1].observe(size)

    def _lane(self, lane: str) -> tuple[Gauge, Histogram]:
        if lane not in self._by_lane:
            self._by_lane[lane] = self._queue.labels(lane), self._sizes.labels(lane)
        return self._by_lane[lane]

    def text(self) -> bytes:
        """The numbers in Prometheus' format, of all processes of the service."""
        registry = self._registry
        folder = os.environ.get(FOLDER)
        if folder is not None and Path(folder).is_dir():
            registry = CollectorRegistry()
            MultiProcessCollector(registry, folder)
        return generate_latest(registry)
