"""Images of waiting requests, detected together.

One thread decodes what waits, a few images at once, another has the network see them. So the next batch is ready when
one is done, and grows by itself while the network is busy. What is kept is bounded: encoded images by the queue,
decoded ones by two batches.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from yolofast.pixels import Image
from yolofast.serve.pictures import RefusedError
from yolofast.structures import Detections

DetectAll = Callable[[Sequence[Image]], list[Detections]]
_DECODERS = 4
_STOP = None


@dataclass(frozen=True)
class ImageAnswer:
    detections: Detections
    width: int
    height: int
    batch: int
    """Images that were detected together."""
    waited: float
    """Seconds until the network began."""
    network: float
    """Seconds of fitting, network and suppression, of the whole batch."""


@dataclass
class _Job:
    content: bytes
    future: "Future[ImageAnswer]" = field(default_factory=Future)
    since: float = field(default_factory=time.perf_counter)


class Batcher:
    """`submit` from any thread."""

    def __init__(
        self, detect: DetectAll, decode: Callable[[bytes], Image], *, batch: int, waiting: int, wait_s: float = 0.0
    ) -> None:
        """`wait_s` is how long a lone image waits for company; without it, a batch is what came meanwhile."""
        self._detect, self._decode, self._batch, self._wait_s = detect, decode, batch, wait_s
        self._most, self._lock, self._unfinished, self._closed = waiting, threading.Lock(), 0, False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._ready: queue.Queue[list[tuple[_Job, Image]] | None] = queue.Queue(maxsize=1)
        self._decoders = ThreadPoolExecutor(_DECODERS, "yolofast-decode")
        self._threads = [
            threading.Thread(target=work, name=f"yolofast-{name}", daemon=True)
            for name, work in (("gather", self._gather), ("detect", self._run))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def unfinished(self) -> int:
        """Images that wait, or are being looked at."""
        return self._unfinished

    @property
    def closed(self) -> bool:
        return self._closed

    def submit(self, content: bytes) -> "Future[ImageAnswer]":
        """What the network sees in an encoded image. A cancelled one is not looked at."""
        with self._lock:
            if self._closed:
                raise RefusedError(503, "the service is stopping")
            if self._unfinished >= self._most:
                raise RefusedError(503, f"{self._unfinished} images are waiting; come back in a second")
            self._unfinished += 1
            job = _Job(content)
            job.future.add_done_callback(self._finished)
            self._jobs.put(job)
        return job.future

    def close(self) -> None:
        """Returns when everything that was accepted has been answered."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(_STOP)
        for thread in self._threads:
            thread.join()
        self._decoders.shutdown()

    def _finished(self, future: "Future[ImageAnswer]") -> None:
        with self._lock:
            self._unfinished -= 1

    def _gather(self) -> None:
        more = True
        while more:
            some, more = self._next_jobs()
            jobs = [job for job in some if job.future.set_running_or_notify_cancel()]
            pictures = self._decoders.map(self._decoded, jobs)
            if batch := [(job, picture) for job, picture in zip(jobs, pictures, strict=True) if picture is not None]:
                self._ready.put(batch)
        self._ready.put(_STOP)

    def _next_jobs(self) -> tuple[list[_Job], bool]:
        """At least one, at most a batch; and whether more may come."""
        first = self._jobs.get()
        if first is _STOP:
            return [], False
        found, end = [first], time.perf_counter() + self._wait_s
        while len(found) < self._batch:
            try:
                job = (
                    self._jobs.get(timeout=max(end - time.perf_counter(), 0)) if self._wait_s else self._jobs.get(False)
                )
            except queue.Empty:
                break
            if job is _STOP:
                return found, False
            found.append(job)
        return found, True

    def _decoded(self, job: _Job) -> Image | None:
        try:
            return self._decode(job.content)
        except Exception as error:  # noqa: BLE001 - whatever it is, its own request hears of it
            job.future.set_exception(error)
            return None

    def _run(self) -> None:
        while (batch := self._ready.get()) is not _STOP:
            started = time.perf_counter()
            try:
                found = self._detect([picture for _, picture in batch])
                assert len(found) == len(batch), "detections of each image"
            except Exception as error:  # noqa: BLE001 - the service lives on, and the requests hear of it
                for job, _ in batch:
                    job.future.set_exception(error)
                continue
            spent = time.perf_counter() - started
            for (job, picture), one in zip(batch, found, strict=True):
                height, width = picture.shape[:2]
                job.future.set_result(ImageAnswer(one, width, height, len(batch), started - job.since, spent))
