"""Counts and durations as Prometheus reads them, in its text format."""

import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Counter:
    def __init__(self, name: str, words: str, label: str) -> None:
        self.name, self.words, self._label = name, words, label
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, value: str, count: int = 1) -> None:
        with self._lock:
            self._counts[value] = self._counts.get(value, 0) + count

    def lines(self) -> list[str]:
        counts = sorted(self._counts.items())
        rows = [f'{self.name}{{{self._label}="{value}"}} {count}' for value, count in counts]
        return [f"# HELP {self.name} {self.words}", f"# TYPE {self.name} counter", *rows]


class Histogram:
    def __init__(self, name: str, words: str, bounds: Sequence[float] = _SECONDS) -> None:
        self.name, self.words, self._bounds = name, words, tuple(bounds)
        self._counts, self._sum = [0] * (len(self._bounds) + 1), 0.0
        self._lock = threading.Lock()

    def add(self, value: float) -> None:
        with self._lock:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += value

    def lines(self) -> list[str]:
        with self._lock:
            counts, total = list(self._counts), self._sum
        rows, so_far = [], 0
        for bound, count in zip((*self._bounds, "+Inf"), counts, strict=True):
            so_far += count
            rows.append(f'{self.name}_bucket{{le="{bound}"}} {so_far}')
        rows += [f"{self.name}_sum {total:.6f}", f"{self.name}_count {so_far}"]
        return [f"# HELP {self.name} {self.words}", f"# TYPE {self.name} histogram", *rows]


class Metrics:
    """Of the service."""

    def __init__(self, batch: int) -> None:
        sizes = [size for size in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) if size < batch] + [batch]
        self.requests = Counter("yolofast_requests_total", "Requests to detect, by HTTP status.", "status")
        self.detections = Counter("yolofast_detections_total", "Objects found, by class.", "class")
        self.seconds = Histogram("yolofast_request_seconds", "From the request's head to its answer.")
        self.waited = Histogram("yolofast_wait_seconds", "Until the network began, decoding included.")
        self.network = Histogram("yolofast_network_seconds", "Of each image's batch, from fitting to suppression.")
        self.batch = Histogram("yolofast_batch_images", "Images that were detected together, for each image.", sizes)

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """`gauges` are values of now, by name, with what they are."""
        lines = [
            line for one in (self.requests, self.detections, self.seconds, self.waited, self.network, self.batch)
            for line in one.lines()
        ]  # fmt: skip
        for name, (words, value) in gauges.items():
            lines += [f"# HELP {name} {words}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def label_text(text: str) -> str:
    """As a label's value."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
