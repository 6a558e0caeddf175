"""The CPU path: batches made by worker processes (or by this one), always the same ones in the same order.

What a batch holds depends on seed, epoch and position alone. So the number of workers, their speed and the transport
change nothing but the time it takes.

Why not `torch.utils.data.DataLoader`? Not for speed: with 8 workers on VOC at 320 pixels it made 0.96 to 1.10 of the
images per second of plain workers here. Those of `--fast-dataloader` made 1.14 to 1.17. But a killed worker then raises
its error anywhere in the training process, not where a batch is requested. Batches are in /dev/shm, which is too small
in many containers, and orphaned workers stay for 5 s. Figures and trial:
benchmarks/results/2026-11-16-dataloader-h200.md.
"""

import warnings
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch

from yolofast.errors import UserError
from yolofast.loader.batch_maker import BatchMaker, Job
from yolofast.loader.carriers import Carrier, FreshBlocks, Reply, Ring, SentCopies, check_room, slot_bytes
from yolofast.loader.order import BatchForm, EpochOrder
from yolofast.loader.pinning import in_background, pinned_copy
from yolofast.loader.pool import WorkerPool, workers_are_forked
from yolofast.loader.worker import Beat
from yolofast.pixels import Image, ImageSource
from yolofast.structures import Batch

# Batches of a ring that the consumer may hold: the one in use and the one before, whose copy may be under way.
_HELD = 2


class WorkerLoader:
    """Batches of uint8 images on the host. Close it, or use it in a `with`; forgotten, it cleans up after itself.

    `order` may be exchanged between epochs (image weights change with the results).
    """

    def __init__(
        self,
        maker: BatchMaker,
        order: EpochOrder,
        *,
        workers: int = 0,
        persistent: bool = False,
        worker_tensor: bool = False,
        fast: bool = False,
        pin_memory: bool = True,
        prefetch: int = 2,
        shapes: npt.NDArray[np.int64] | None = None,
        close_mosaic_from: int | None = None,
        strengths: Sequence[float] = (),
        timeout: float = 120,
        say: Callable[[str], None] = warnings.warn,
    ) -> None:
        """`workers` 0 makes batches in this process. `persistent` keeps the workers from epoch to epoch.

        `worker_tensor` lets them render into a shared ring, in which a batch is valid until the next but one is
        requested; `fast` is both. `pin_memory` is for fast copies to a GPU, if there is one. `prefetch` is how many
        batches per worker are under way. `shapes` `[batches, 2]` are the heights and widths of rectangular batches,
        which have no mosaics; nor has any epoch from `close_mosaic_from` on. `strengths` are those of augmentation, by
        epoch. A worker that begins no image for `timeout` seconds is replaced once (0: never). `say` is called with
        skipped images and replaced workers.
        """
        if workers < 0:
            raise UserError(f"--workers is {workers}", fix="give 0 (no worker processes) or more")
        if prefetch < 1:
            raise UserError(f"prefetch is {prefetch}", fix="give at least 1 batch per worker")
        self.maker, self.order, self._workers = maker, order, workers
        self._forked = not workers or workers_are_forked()  # others take seconds to start, and share no memory
        self._persistent = persistent or fast or not self._forked
        self._worker_tensor = (worker_tensor or fast) and self._forked
        self._pin = pin_memory and torch.cuda.is_available()
        self._in_flight = prefetch * workers
        self._form = BatchForm(maker.planner.height, maker.planner.width, shapes, close_mosaic_from, strengths)
        self._timeout, self._say = timeout, say
        self._reported: set[str] = set()
        self._replaced: set[int] = set()
        self._pool: WorkerPool | None = None
        self._outdated = False
        self._turn = 0  # of the batch that is handed out next
        self._running: weakref.ref[Generator[Batch]] | None = None
        self._carrier = self._make_carrier() if workers else None

    def __len__(self) -> int:
        """Batches of an epoch."""
        return len(self.order)

    def epoch(self, number: int, start_batch: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from `start_batch` on. An epoch begun before ends there."""
        self._end_epoch()
        jobs = self._jobs(number, start_batch)
        if self._carrier is None:
            return map(self._make_here, jobs)
        batches = self._made_by(self._ready_pool(self._carrier), self._carrier, jobs)
        if self._pin and not self._worker_tensor:
            batches = in_background(batches, pinned_copy)
        self._running = weakref.ref(batches)
        return batches

    def made_here(self, number: int) -> Iterator[Batch]:
        """The batches of an epoch made by this process, whoever makes them in training: to see how long one takes."""
        return map(self._make_here, self._jobs(number, 0))

    def close(self) -> None:
        """End the workers and give the memory back; batches the caller still holds stay as they are."""
        self._end_epoch()
        if self._pool is not None:
            self._pool.close()
        if self._carrier is not None:
            self._carrier.close()

    @property
    def ahead(self) -> int:
        """Batches that are made before they are requested, at most."""
        return self._in_flight

    def processes(self) -> list[int]:
        """The workers' process numbers, while there are any."""
        return [] if self._pool is None else self._pool.processes()

    def __enter__(self) -> "WorkerLoader":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def renew_workers(self) -> None:
        """From the next epoch on: those there are see memory as it was when they were forked."""
        self._outdated = True

    def _end_epoch(self) -> None:
        running = None if self._running is None else self._running()
        if running is not None:
            running.close()

    def _jobs(self, epoch: int, start_batch: int) -> Iterator[Job]:
        mosaic, strength = self._form.has_mosaics(epoch), self._form.strength(epoch)
        for part in self.order.batches(epoch, start_batch):
            height, width = self._form.shape(part)
            yield Job(part.images, part.positions, epoch, width, height, mosaic, strength)

    def _make_here(self, job: Job) -> Batch:
        images = torch.empty(self.maker.shape(job), dtype=torch.uint8, pin_memory=self._pin)
        made = self.maker.make(job, images.numpy())
        self._report(made.skipped)
        return Batch(images, made.targets, self.maker.sources(job), mix=made.mix)

    def _make_carrier(self) -> Carrier:
        batch = self.order.batch_size // self.order.world
        image_bytes, slots = batch * 3 * self._form.most_pixels, self._in_flight + _HELD
        needed = slots * (slot_bytes(batch, image_bytes) if self._worker_tensor else image_bytes)
        if not self._forked:
            return SentCopies()
        check_room(needed, f"{slots} batches of {batch} images for {self._workers} workers")
        return Ring(slots, batch, image_bytes, pinned=self._pin) if self._worker_tensor else FreshBlocks()

    def _ready_pool(self, carrier: Carrier) -> WorkerPool:
        """The workers of the epoch before, idle, or new ones."""
        if self._pool is not None and self._outdated:
            self._pool.close()
        self._outdated = False
        if self._pool is not None and self._pool.is_open:
            self._pool.discard()
        else:
            self._pool = WorkerPool(
                self._workers, _Work(self.maker, carrier),
                timeout=self._timeout, image_name=partial(_name_of, self.maker), say=self._say, replaced=self._replaced,
            )  # fmt: skip
        return self._pool

    def _made_by(self, pool: WorkerPool, carrier: Carrier, jobs: Iterator[Job]) -> Generator[Batch]:
        under_way: deque[Job] = deque()

        def give(count: int) -> None:
            for job in islice(jobs, count):
                pool.submit((job, self._turn + len(under_way)))
                under_way.append(job)

        try:
            give(self._in_flight)
            while under_way:
                (boxes, mix, skipped), file = pool.collect()
                job = under_way.popleft()
                images, targets = carrier.take(self.maker.shape(job), self._turn, boxes, file)
                self._turn += 1
                give(1)  # into the place of the batch before the last, which is not held any more
                self._report(skipped)
                yield Batch(images, targets, self.maker.sources(job), mix=mix)
        finally:
            if not self._persistent:
                pool.close()

    def _report(self, messages: tuple[str, ...]) -> None:
        for message in messages:
            if message not in self._reported:
                self._reported.add(message)
                self._say(f"skipped: {message}")


@dataclass(frozen=True)
class _Work:
    """What a worker does with a task. Not a method of the loader, which the workers' pool must not keep alive."""

    maker: BatchMaker
    carrier: Carrier

    def __call__(self, task: tuple[Job, int], beat: Beat) -> tuple[Reply, int | None]:
        job, turn = task
        maker = copy(self.maker)
        maker.images = _Noted(self.maker.images, beat)
        return self.carrier.make(maker, job, turn)


class _Noted:
    """Images of which each is noted before it is read."""

    def __init__(self, images: ImageSource, beat: Beat) -> None:
        self._images, self.sizes, self._beat = images, images.sizes, beat

    def image(self, index: int) -> Image:
        self._beat(index)
        return self._images.image(index)


def _name_of(maker: BatchMaker, image: int) -> str:
    return str(maker.planner.index.path(image))
