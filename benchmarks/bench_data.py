"""How many images per second each way of making training batches gives, and what it costs the host.

    python -m benchmarks.bench_data --data voc320/data.yaml [--sizes 320 640] [--batch 64] [--workers 16] [--seconds 4]

Every row makes YOLOv7's batches (hyp.scratch.tiny: mosaic, affine, colour, flips, mixup) from the same packed images
and delivers them on the GPU as normalised floats; nothing else uses them. `img/s` and `ms/batch` are over whole epochs
and at least that many seconds after a warm-up epoch. CPU is in percent of one core: `main` is this process with its
threads, `host` includes its workers. `render` rows time the kernel alone, by CUDA events.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import torch

from benchmarks.timing import environment, median_ms
from yolofast.augment import render_torch, render_triton
from yolofast.augment.planner import Planner
from yolofast.augment.recipe import Recipe
from yolofast.augment.render_table import build_table
from yolofast.dataset.split import read_split
from yolofast.files.yaml_file import read_yaml
from yolofast.image_index import ImageIndex
from yolofast.loader.batch_maker import BatchMaker
from yolofast.loader.device_loader import DeviceLoader, InputFormat
from yolofast.loader.device_pixels import StagedPixels, device_pixels
from yolofast.loader.order import EpochOrder
from yolofast.loader.workers import WorkerLoader
from yolofast.pixels import PackedImages
from yolofast.resources import find_resource
from yolofast.store import JpegImages, in_host_memory, jpegs_on, open_packed, pack, pack_jpeg, to_device
from yolofast.structures import Batch

Epoch = Callable[[int], Iterator[Batch]]


def cpu_seconds() -> tuple[float, float]:
    """Of this process, and of it and its children, those that ended included."""
    process = psutil.Process()
    own = process.cpu_times()
    main = own.user + own.system
    ended = own.children_user + own.children_system
    running = 0.0
    for child in process.children(recursive=True):
        try:
            times = child.cpu_times()
            running += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return main, main + ended + running


def measure(name: str, size: int, epoch: Epoch, seconds: float, consume: Callable[[Batch], object]) -> str:
    for batch in epoch(0):
        consume(batch)
    torch.cuda.synchronize()
    start, (main, host) = time.perf_counter(), cpu_seconds()
    images = batches = number = 0
    while time.perf_counter() - start < seconds:
        number += 1
        for batch in epoch(number):
            consume(batch)
            images, batches = images + len(batch.images), batches + 1
    torch.cuda.synchronize()
    wall, (main_end, host_end) = time.perf_counter() - start, cpu_seconds()
    main_share, host_share = (100 * (b - a) / wall for a, b in ((main, main_end), (host, host_end)))
    rate, each = images / wall, 1000 * wall / batches
    return f"| {name} | {size} | {rate:,.0f} | {each:.2f} | {main_share:.0f} | {host_share:.0f} |"


_CATCH_UP = 0.1  # seconds a paced consumer may be late and make up for it


class Paced:
    """A consumer that takes a batch and then waits as long as a training step of that many images per second would."""

    def __init__(self, images_per_second: float) -> None:
        self._rate, self._due = images_per_second, 0.0

    def __call__(self, batch: Batch) -> None:
        now = time.perf_counter()
        self._due = max(self._due, now - _CATCH_UP) + len(batch.images) / self._rate
        time.sleep(max(self._due - now, 0))


def to_gpu(batch: Batch) -> object:
    images = batch.images.cuda(non_blocking=True).float() / 255
    return images, batch.targets.to("cuda", non_blocking=True)


def worker_rows(maker: BatchMaker, order: EpochOrder, args: argparse.Namespace, size: int) -> Iterator[str]:
    for flags in ((), ("persistent",), ("worker_tensor",), ("fast",)):
        with WorkerLoader(maker, order, workers=args.workers, **dict.fromkeys(flags, True)) as loader:
            name = f"cv2, {args.workers} workers, {' '.join(flags) or 'plain'}"
            yield measure(name, size, loader.epoch, args.seconds, to_gpu)


def device_rows(
    index: ImageIndex, planner: Planner, order: EpochOrder, packed: PackedImages, args: argparse.Namespace, size: int,
    folder: Path,
) -> Iterator[str]:  # fmt: skip
    store = pack_jpeg(index, size, size, folder)
    jpeg, jpeg_on_gpu = JpegImages(store), jpegs_on("cuda", store)
    on_gpu = to_device(packed, "cuda")
    ways = {
        "store on GPU": device_pixels(on_gpu, "cuda", args.workers),
        "store in RAM": device_pixels(in_host_memory(packed, pinned=True), "cuda", args.workers),
        "mapped file, threads": device_pixels(packed, "cuda", args.workers),
        "JPEG, decoded on GPU": device_pixels(jpeg, "cuda", args.workers, "nvjpeg"),
        "JPEG on GPU, decoded there": device_pixels(jpeg_on_gpu, "cuda", args.workers, "nvjpeg"),
        "JPEG, threads": StagedPixels(jpeg, torch.device("cuda"), args.workers),
    }
    for name, pixels in ways.items():
        loader = DeviceLoader(planner, pixels, order, "cuda", InputFormat(dtype=torch.bfloat16))
        try:
            yield measure(f"GPU path, {name}", size, loader.epoch, args.seconds, lambda batch: None)
            if name in ("store on GPU", "store in RAM"):
                paced = f"GPU path, {name}, taken at {args.pace:,} img/s"
                yield measure(paced, size, loader.epoch, args.seconds, Paced(args.pace))
        except Exception as error:  # noqa: BLE001 - the other rows are still wanted
            yield f"| GPU path, {name} | {size} | failed: {str(error)[:80]} | | | |"


def render_rows(planner: Planner, packed: PackedImages, args: argparse.Namespace, size: int) -> Iterator[str]:
    """The renderers alone: the table is on the device, the pixels too."""
    images = np.arange(args.batch) % len(planner.index)
    on_gpu = to_device(packed, "cuda")
    out = torch.empty(args.batch, 3, size, size, dtype=torch.bfloat16, device="cuda").contiguous(
        memory_format=torch.channels_last
    )
    times = []
    for epoch in range(8):
        plan = planner.plan(images, np.arange(args.batch), epoch).plan
        table = build_table(plan, packed.starts, packed.sizes).to("cuda")
        times.append(
            median_ms(
                lambda t=table: render_triton.render_table(t, on_gpu.data, out, additive=False, rgb=True, gain=1 / 255)
            )
        )
    each = statistics.median(times)
    yield f"| render, Triton | {size} | {args.batch / each * 1000:,.0f} | {each:.3f} | | |"
    plan = planner.plan(images, np.arange(args.batch), 0).plan
    each = median_ms(lambda: render_torch.render(plan, on_gpu), repeats=5, warmup=1)
    yield f"| render, torch on GPU | {size} | {args.batch / each * 1000:,.0f} | {each:.2f} | | |"
    few = planner.plan(images[:16], np.arange(16), 0).plan
    start = time.perf_counter()
    render_torch.render(few, packed)
    each = (time.perf_counter() - start) * args.batch / 16 * 1000
    yield f"| render, torch on CPU | {size} | {args.batch / each * 1000:,.0f} | {each:.0f} | | |"


def rows_of(size: int, index: ImageIndex, recipe: Recipe, order: EpochOrder, args: argparse.Namespace) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packed = open_packed(pack(index, size, size, folder))
        planner = Planner(index, packed.sizes, recipe, size, size)
        if "render" in args.rows:
            yield from render_rows(planner, packed, args, size)
        if "device" in args.rows:
            yield from device_rows(index, planner, order, packed, args, size, folder)
        if "workers" in args.rows:
            yield from worker_rows(BatchMaker(planner, packed), order, args, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[320, 640])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--pace", type=int, default=8200, help="images per second of the paced rows")
    parser.add_argument("--rows", nargs="+", default=["render", "device", "workers"])
    args = parser.parse_args()
    index = read_split(args.data, "train")
    recipe = Recipe.from_hyp(read_yaml(find_resource("data/hyp.scratch.tiny.yaml", "data")).values)
    print(f"{environment()}, {psutil.cpu_count()} cores, {len(index):,} images, batch {args.batch}\n")
    print("| way | img | img/s | ms/batch | main CPU % | host CPU % |\n|---|---|---|---|---|---|", flush=True)
    order = EpochOrder(len(index), seed=0, shuffle=True, batch_size=args.batch, drop_last=True)
    for size in args.sizes:
        for row in rows_of(size, index, recipe, order, args):
            print(row, flush=True)


if __name__ == "__main__":
    main()
