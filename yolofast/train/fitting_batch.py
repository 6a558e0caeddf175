"""Which batch fits the GPU: measured before a run (`--batch-size -1`) and after memory has run out.

Memory grows linearly with the images of a batch on top of what the model takes. So a few small batches give the line,
and the batch that meets the limit is measured itself. The limit is a share of the free memory: the allocator needs
slack, and other batches have more boxes. Measured is the run's own step in its own gear, with many boxes. On the CPU
nothing is measured: running out of memory there ends processes instead of raising errors.

Of several ranks each measures its own part of a batch, on its own. All take the smallest part that was found.
"""

import dataclasses
import gc
from collections.abc import Callable

import numpy as np
import torch

from yolofast.config.hyp import hyp_of
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.image_index import ImageIndex, fitted_size
from yolofast.optim.schedule import NOMINAL_BATCH
from yolofast.precision import Precision, memory_ran_out
from yolofast.ranks import each_for_itself, reduces, smallest_of_all, world
from yolofast.store.choose import AUTO_GPU_SHARE
from yolofast.structures import QUAD_IMAGES, Batch, Targets, bucketed
from yolofast.train.data import Data, Say, read_data
from yolofast.train.distributed.join import device_of_rank, in_turn
from yolofast.train.families.family import Augmentation, rules_of
from yolofast.train.finetune.freeze_plan import plan_of
from yolofast.train.gears.compiling import compile_request
from yolofast.train.gears.gear_box import gear_of_ranks
from yolofast.train.gears.gears import EagerGear, GraphGear
from yolofast.train.run import prepare_model, prepare_step
from yolofast.train.step import StepKind, TrainStep

MemoryOf = Callable[[int], int]
"""The bytes that a training step with so many images takes; where there are too few, an error of `memory_ran_out`."""

SHARE = 0.85
_FIRST, _MOST = 4, 4096
_EIGHT = 8
_POINTS = 3  # of the line, the last ones: small batches take other algorithms
_STEP_DOWN = 0.8
_ROUNDING = 1e-6
_IMAGES_OF_A_MOSAIC = 4
_BATCHES_ON_THEIR_WAY = 2


def largest_batch(memory_of: MemoryOf, available: int, *, multiple: int = 1, most: int = _MOST) -> int | None:
    """At most `most` images that take no more than 85 % of `available` bytes; None if not even the fewest do.

    A multiple of `multiple`, and of 8 too where that is possible.
    """
    limit = int(available * SHARE)
    measured = _measure(memory_of, limit, multiple, most)
    batch = _rounded(min(_on_line(measured, limit), most), multiple)
    while batch:
        if batch not in measured:
            measured[batch] = _taken(memory_of, batch)
        if measured[batch] <= limit:
            return batch
        batch = _rounded(int(batch * _STEP_DOWN), multiple)
    return None


def _measure(memory_of: MemoryOf, limit: int, multiple: int, most: int) -> dict[int, float]:
    """Bytes by batch size: ever larger ones until half of the limit is taken, or until one does not fit."""
    measured: dict[int, float] = {}
    size = max(_FIRST // multiple, 1) * multiple
    while not measured or size <= most:
        measured[size] = _taken(memory_of, size)
        if measured[size] > limit / 2 and len(measured) > 1:
            break
        size *= 2
    return measured


def _taken(memory_of: MemoryOf, batch: int) -> float:
    try:
        return memory_of(batch)
    except (RuntimeError, MemoryError) as error:
        if not memory_ran_out(error):
            raise
        return float("inf")


def _on_line(measured: dict[int, float], limit: int) -> int:
    """The batch at which the line through the last points reaches the limit."""
    points = [(size, taken) for size, taken in measured.items() if taken < float("inf")][-_POINTS:]
    if len(points) < 2:  # no line: what fits a limit in proportion fits it certainly
        return int(points[0][0] * limit / points[0][1]) if points else min(measured)
    sizes, taken = np.array(points).T
    slope, start = np.polyfit(sizes, taken, 1)
    return int((limit - start) / slope + _ROUNDING) if slope > 0 else _MOST


def _rounded(batch: int, multiple: int) -> int:
    """Down to a multiple of what the run needs, and of 8 where that leaves something."""
    both = int(np.lcm(multiple, _EIGHT))
    unit = both if batch >= both else multiple
    return max(batch, 0) // unit * unit


def with_fitting_batch(config: TrainConfig, say: Say) -> TrainConfig:
    """The settings with a number in place of `--batch-size -1`."""
    if config.batch_size != -1:
        return config
    device = device_of_rank(config.device)
    if device.type != "cuda":
        what = "--batch-size -1 measures the memory of a GPU, and this run is on the CPU"
        raise UserError(what, fix="give a number, such as --batch-size 16")
    found = _agreed(config, device, most=None)
    if found is None:
        raise UserError("not even the smallest batch fits the free GPU memory", fix="a smaller --img-size or --cfg")
    of_each = f" ({found // world()} on each of {world()} GPUs)" if world() > 1 else ""
    say(f"batch size: {found}{of_each}, the largest that takes at most {SHARE:.0%} of the free GPU memory")
    return dataclasses.replace(config, batch_size=found)


def with_smaller_batch(config: TrainConfig, say: Say) -> TrainConfig:
    """After memory has run out: settings to continue with, or without `--reduce-batch` a message that names them.

    With it all ranks have come here. Without it perhaps only this one has, so nothing is asked of the others.
    """
    device, least = device_of_rank(config.device), world() * _joined(config)
    if device.type == "cuda" and (world() == 1 or config.reduce_batch):
        found, how = _agreed(config, device, most=config.batch_size - 1), "which fits, measured"
    else:
        found, how = config.batch_size // 2 // least * least, "half of it"
    what = f"memory ran out with a batch of {config.batch_size}"
    if not found:
        raise UserError(f"{what}, and no smaller one fits", fix="a smaller --img-size or --cfg")
    if not config.reduce_batch:
        raise UserError(what, fix=f"--batch-size {found} ({how}), or --reduce-batch to continue by itself")
    say(f"{what}: the epoch starts again with {found} ({how})")
    return dataclasses.replace(config, batch_size=found)


def _joined(config: TrainConfig) -> int:
    """How many images of the data set make one that the network sees."""
    return QUAD_IMAGES if config.quad else 1


def _agreed(config: TrainConfig, device: torch.device, most: int | None) -> int | None:
    """The batch of all ranks, of at most that many images. Each waits for the others."""
    _free()
    data = in_turn(lambda: read_data(config, lambda text: None))
    images = len(data.train) if most is None else min(most, len(data.train))
    with each_for_itself():
        own = _own_part(dataclasses.replace(config, sync_bn=False), data, device, images // world())
    return smallest_of_all(own) * world() or None


def _own_part(config: TrainConfig, data: Data, device: torch.device, most: int) -> int:
    """The largest part of a batch that this rank has room for; 0 if it has none."""
    hyp, usual = hyp_of(config), dataclasses.replace(config, batch_size=NOMINAL_BATCH)
    model = prepare_model(config, data.train.names, device, lambda text: None, hyp.get("anchors")).model
    max(plan_of(config, model).phases, key=lambda phase: phase.trainable(model)).freeze(model)
    _, step = prepare_step(rules_of(usual, hyp, model), model, Precision.choose(config.precision, device))
    rules = rules_of(config, hyp, model)
    available = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    available -= _store_bytes(config, data.train, rules.augmentation, available)
    if reduces():  # gradients are copied into buckets to be summed
        available -= sum(p.numel() * p.element_size() for p in model.parameters())
    # As a mosaic of the fuller images has.
    boxes = bucketed(int(np.quantile(np.diff(data.train.starts), 0.95)) * _IMAGES_OF_A_MOSAIC) * _joined(config)
    several = rules.ingredients.update_batches is not None
    memory_of = _memory_of(config, step, rules.largest_input, boxes, adds_up=several)
    return largest_batch(memory_of, available, multiple=_joined(config), most=most) or 0


def _memory_of(config: TrainConfig, step: TrainStep, shape: tuple[int, int], boxes: int, *, adds_up: bool) -> MemoryOf:
    device = step.precision.device
    requested = compile_request(config.gear).gear
    as_graph = gear_of_ranks(requested, device, lambda text: None, sync_bn=config.sync_bn) in ("auto", "graph")

    def memory_of(batch: int) -> int:
        _free()
        torch.cuda.reset_peak_memory_stats(device)
        made = _batch(batch // _joined(config), shape, boxes, step)
        gear = GraphGear(step) if as_graph else EagerGear(step)
        kinds = [StepKind(sums=False, updates=True)]
        if adds_up or round(NOMINAL_BATCH / (batch * world())) > 1:  # gradients of small batches, after a while
            kinds += [StepKind(sums=True, updates=False), StepKind(sums=True, updates=True)]
        for kind in kinds:
            for _ in range(2):  # as written, then captured
                gear.run(made, kind)
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_reserved(device) + _BATCHES_ON_THEIR_WAY * made.images.nbytes

    return memory_of


def _batch(images: int, shape: tuple[int, int], boxes: int, step: TrainStep) -> Batch:
    """Grey images with boxes all over them."""
    device = step.precision.device
    pixels = torch.full((images, 3, *shape), 0.5, dtype=step.precision.dtype, device=device)
    centre_and_size = torch.rand(images, boxes, 4, generator=torch.Generator().manual_seed(0)) * 0.3 + 0.3
    targets = Targets(centre_and_size, torch.zeros(images, boxes).long(), torch.ones(images, boxes).bool())
    return Batch(pixels.contiguous(memory_format=torch.channels_last), targets.to(device), np.arange(images))


def _store_bytes(config: TrainConfig, index: ImageIndex, augmentation: Augmentation, available: int) -> int:
    """What the pixels will take of the GPU's memory, if they are to live there."""
    if config.loader == "cpu" or config.cache not in ("auto", "gpu"):
        return 0
    needed = int(fitted_size(index.sizes, augmentation.width, augmentation.height).prod(axis=1).sum()) * 3
    return needed if config.cache == "gpu" or needed <= AUTO_GPU_SHARE * available else 0


def _free() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
