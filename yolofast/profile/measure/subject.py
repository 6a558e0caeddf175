"""What was profiled, in words and numbers."""

import statistics
import time
from itertools import islice

import cv2
import torch

from yolofast.files.threads import usable_cores
from yolofast.loader.device_loader import DeviceLoader
from yolofast.loader.quad import QuadOnDevice
from yolofast.loader.workers import WorkerLoader
from yolofast.profile.measure.measured_loop import Sizes, mean_pixels
from yolofast.profile.records import Setup
from yolofast.store.images import FileImages, JpegImages
from yolofast.structures import Batch
from yolofast.train.batch_record import assigner_of
from yolofast.train.data import workers_of
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.gears.gears import parts_of
from yolofast.train.record import cpu_name
from yolofast.train.run import Run

_PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
_BATCHES_MADE = 5


def described(run: Run, sizes: Sizes, gear: GearBox, epoch: int) -> Setup:
    config, device = run.config, run.step.precision.device
    on_gpu, loader = device.type == "cuda", "main process" if run.makes_batches_here else "workers"
    if isinstance(run.batches, DeviceLoader | QuadOnDevice):
        loader = "gpu"
    height, width = sizes.loaded.most_common(1)[0][0]
    return Setup(
        network=config.cfg or config.weights,
        data=config.data,
        height=height,
        width=width,
        batch=run.source_images_per_step,
        joined=run.images_joined,
        assigner=assigner_of(run.step.criterion),
        device=torch.cuda.get_device_name(device) if on_gpu else cpu_name(),
        on_gpu=on_gpu,
        precision=_PRECISIONS[run.step.precision.dtype],
        gear=gear.now,
        captured=gear.captured,
        compiled=gear.compiled,
        graph_failed=gear.graph_failed,
        compile_failed=gear.compile_failed,
        loader=loader,
        workers=workers_of(config),
        cores=usable_cores(),
        cache=_cache_of(run),
        epoch=epoch,
        epochs=config.epochs,
        sizes=sizes.in_words,
        steps_an_epoch=len(run.batches),
    )


def has_workers(run: Run) -> bool:
    return isinstance(run.batches, WorkerLoader) and not run.makes_batches_here


def sent_bytes(run: Run, batch: Batch, sizes: Sizes) -> float:
    """That a batch of worker processes takes over the bus to a GPU: levels of one byte, and boxes."""
    if run.step.precision.device.type != "cuda" or not isinstance(run.batches, WorkerLoader):
        return 0.0
    images, channels = batch.images.shape[:2]
    return images * channels * mean_pixels(sizes.loaded) + sum(part.nbytes for part in parts_of(batch.targets))


def making_ms(run: Run, epoch: int) -> float | None:
    """In which one process makes a batch, as a worker does: the median of a few. None where the GPU makes them."""
    if not isinstance(run.batches, WorkerLoader):
        return None
    threads, times = cv2.getNumThreads(), []
    cv2.setNumThreads(0)
    try:
        made, begun = run.batches.made_here(epoch), time.perf_counter()
        for _ in islice(made, _BATCHES_MADE):
            times.append(time.perf_counter() - begun)
            begun = time.perf_counter()
    finally:
        cv2.setNumThreads(threads)
    return 1e3 * statistics.median(times)


def _cache_of(run: Run) -> str:
    """Where the pixels really are, if it was left to the run."""
    batches = run.batches
    if isinstance(batches, WorkerLoader):
        images = batches.maker.images
        chosen = "off" if isinstance(images, FileImages) else "jpeg" if isinstance(images, JpegImages) else "ram"
        return chosen if run.config.cache == "auto" else run.config.cache  # auto never takes jpeg-ram
    loader = batches.single if isinstance(batches, QuadOnDevice) else batches
    if isinstance(loader, DeviceLoader) and loader.pixels.resident:
        return "gpu"
    return "ram" if run.config.cache == "auto" else run.config.cache
