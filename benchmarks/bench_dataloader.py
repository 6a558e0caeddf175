"""The project's own worker processes against `torch.utils.data.DataLoader`, making the same batches.

    python -m benchmarks.bench_dataloader [--data voc320/data.yaml] [--workers 8] [--rounds 9] [--passes 1]

Every way makes YOLOv7-tiny's training batches (hyp.scratch.tiny: mosaic, affine, colour, flips, mixup; OpenCV) from the
same packed images. With a GPU they are pinned, copied there and normalised; nothing else uses them. The DataLoader gets
what is best for it: its sampler hands out the jobs, so persistent workers hear of the epoch, and a worker renders
straight into shared memory, as `default_collate` does.

A first epoch by each way starts its workers and proves that all ways make the same batches. Then the ways take turns,
an epoch each, in another order every round. `img/s` is the median over epochs, from asking for an epoch to its last
batch, with the range; `of own` is the median of the ratios within a round to the first row with the same lifetime of
workers. `first` is the time from making the loader to its first batch, `again` the median time to the first batch of a
later epoch. CPU is in percent of one core: `main` is this process with its threads, `host` includes the workers.
"""

import argparse
import gc
import hashlib
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.bench_data import cpu_seconds, to_gpu
from yolofast.augment.planner import Planner
from yolofast.augment.recipe import Recipe
from yolofast.dataset.shapes.made_once import shapes_data_yaml
from yolofast.dataset.split import read_split
from yolofast.files.threads import usable_cores
from yolofast.files.yaml_file import read_yaml
from yolofast.loader.batch_maker import BatchMaker, Job
from yolofast.loader.order import EpochOrder
from yolofast.loader.workers import WorkerLoader
from yolofast.resources import data_yaml, find_resource
from yolofast.store import open_packed, pack
from yolofast.structures import Batch, Targets


class MadeBatches(Dataset[tuple[Any, ...]]):
    """What a DataLoader's worker does: `dataset[job]` is a whole batch."""

    def __init__(self, maker: BatchMaker) -> None:
        self.maker = maker

    def __getitem__(self, job: Job) -> tuple[Any, ...]:
        shape = self.maker.shape(job)
        images = torch.empty(0, dtype=torch.uint8)
        images = images.set_(torch.UntypedStorage._new_shared(int(np.prod(shape)))).view(shape)
        made = self.maker.make(job, images.numpy())
        targets = made.targets
        return images, targets.boxes, targets.labels, targets.valid, self.maker.sources(job), made.mix


class Jobs:
    """The sampler: the jobs of one epoch after another."""

    def __init__(self, maker: BatchMaker, order: EpochOrder) -> None:
        self.maker, self.order, self.epoch = maker, order, 0

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[Job]:
        planner = self.maker.planner
        for part in self.order.batches(self.epoch):
            yield Job(part.images, part.positions, self.epoch, planner.width, planner.height, mosaic=True)


class TorchLoader:
    """A DataLoader with the epochs of a `WorkerLoader`."""

    def __init__(self, maker: BatchMaker, order: EpochOrder, workers: int, prefetch: int, persistent: bool) -> None:
        self._jobs = Jobs(maker, order)
        self._loader = DataLoader(
            MadeBatches(maker),
            batch_size=None,
            sampler=self._jobs,
            num_workers=workers,
            prefetch_factor=prefetch,
            persistent_workers=persistent,
            pin_memory=torch.cuda.is_available(),
            worker_init_fn=as_own_workers,
            collate_fn=as_it_is,
            multiprocessing_context="fork",
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        self._jobs.epoch = number
        for images, boxes, labels, valid, sources, mix in self._loader:
            yield Batch(images, Targets(boxes, labels, valid), sources, mix=mix)


def as_it_is(batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """By default a DataLoader makes tensors of NumPy's arrays, each in shared memory of its own."""
    return batch


def as_own_workers(number: int) -> None:
    """What `loader/pool` does in a worker and DataLoader does not."""
    gc.freeze()
    cv2.setNumThreads(0)


@dataclass
class Way:
    name: str
    base: str
    """Which way it is compared with."""
    epoch: Callable[[int], Iterator[Batch]]
    first: float = 0.0
    rates: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    main: list[float] = field(default_factory=list)
    host: list[float] = field(default_factory=list)

    def measure(self, number: int, consume: Callable[[Batch], object]) -> None:
        """One epoch."""
        (main, host), start = cpu_seconds(), time.perf_counter()
        images, first = 0, None
        for batch in self.epoch(number):
            first = first or time.perf_counter() - start
            consume(batch)
            images += len(batch.images)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        wall, (main_end, host_end) = time.perf_counter() - start, cpu_seconds()
        self.rates.append(images / wall)
        self.again.append(first or wall)
        self.main.append(100 * (main_end - main) / wall)
        self.host.append(100 * (host_end - host) / wall)

    def row(self, base: "Way") -> str:
        ratio = statistics.median(own / other for own, other in zip(self.rates, base.rates, strict=True))
        rate = f"{statistics.median(self.rates):,.0f} ({min(self.rates):,.0f}–{max(self.rates):,.0f})"
        times = f"{self.first:.2f} | {1000 * statistics.median(self.again):.0f}"
        cpu = f"{statistics.median(self.main):.0f} | {statistics.median(self.host):.0f}"
        return f"| {self.name} | {rate} | {ratio:.3f} | {times} | {cpu} |"


def started(name: str, base: str, make: Callable[[], Any]) -> tuple[Way, Any, list[str]]:
    """A way whose workers have made one epoch, its loader, and digests of the batches."""
    start = time.perf_counter()
    loader = make()
    way, digests = Way(name, base, loader.epoch), []
    for batch in loader.epoch(0):
        way.first = way.first or time.perf_counter() - start
        digests.append(digest(batch))
    return way, loader, digests


def digest(batch: Batch) -> str:
    parts = (batch.images, batch.targets.boxes, batch.targets.labels, batch.targets.valid)
    whole = hashlib.sha256(repr((type(batch.sources), batch.sources.tolist(), batch.mix)).encode())
    for tensor in parts:
        whole.update(repr(tuple(tensor.shape)).encode() + tensor.numpy().tobytes())
    return whole.hexdigest()


def all_ways(maker: BatchMaker, order: EpochOrder, args: argparse.Namespace, stack: ExitStack) -> list[Way]:
    """Every way, started; an exception if two of them make different batches."""

    def own(**options: bool) -> WorkerLoader:
        return stack.enter_context(WorkerLoader(maker, order, workers=args.workers, prefetch=args.prefetch, **options))

    def torch_s(persistent: bool) -> TorchLoader:
        return TorchLoader(maker, order, args.workers, args.prefetch, persistent)

    kinds: list[tuple[str, str, Callable[[], Any]]] = [
        ("own, persistent", "own, persistent", lambda: own(persistent=True)),
        ("DataLoader, persistent", "own, persistent", lambda: torch_s(True)),
        ("own, --fast-dataloader", "own, persistent", lambda: own(fast=True)),
        ("own, new workers every epoch", "own, new workers every epoch", own),
        ("DataLoader, new workers every epoch", "own, new workers every epoch", lambda: torch_s(False)),
    ]
    ways, expected = [], None
    for kind in kinds:
        way, _, digests = started(*kind)
        expected = expected or digests
        if digests != expected:
            raise SystemExit(f"{way.name}: not the batches of {ways[0].name}")
        ways.append(way)
    print(f"All ways make the same {len(expected or [])} batches, to the bit.\n", flush=True)
    return ways


def machine() -> str:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{device}, {usable_cores()} cores, torch {torch.__version__}, python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="shapes")
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--prefetch", type=int, default=2, help="batches under way per worker")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--passes", type=int, default=1, help="how often an epoch goes through the images")
    args = parser.parse_args()
    index = read_split(data_yaml(args.data, shapes_data_yaml), "train")
    recipe = Recipe.from_hyp(read_yaml(find_resource("data/hyp.scratch.tiny.yaml", "data")).values)
    images = np.tile(np.arange(len(index)), args.passes)
    order = EpochOrder(images, seed=0, shuffle=True, batch_size=args.batch, drop_last=True)
    what = f"{len(index):,} images, {len(order)} batches of {args.batch} per epoch, {args.size} pixels"
    print(f"{machine()}; {what}, {args.workers} workers, prefetch {args.prefetch}, {args.rounds} rounds\n", flush=True)
    consume = to_gpu if torch.cuda.is_available() else lambda batch: None
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        packed = open_packed(pack(index, args.size, args.size, Path(folder)))
        maker = BatchMaker(Planner(index, packed.sizes, recipe, args.size, args.size), packed)
        ways = all_ways(maker, order, args, stack)
        for number in range(1, args.rounds + 1):
            first = number % len(ways)  # so that no way always follows the same other one at the same place
            for way in (ways[first:] + ways[:first])[:: 1 if number % 2 else -1]:
                way.measure(number, consume)
        print("| way | img/s (range) | of own | first, s | again, ms | main CPU % | host CPU % |")
        print("|---|---|---|---|---|---|---|")
        named = {way.name: way for way in ways}
        for way in ways:
            print(way.row(named[way.base]))


if __name__ == "__main__":
    main()
