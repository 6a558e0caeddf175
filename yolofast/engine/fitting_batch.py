"""Which batch fits a run's GPU: asked before a run (`--batch-size -1`), and after memory has run out.

Measured is the run's own step in its own gear, on batches as full of boxes as those to come. On the CPU nothing is
measured: memory there is shared with everything else, and running out of it ends processes instead of raising errors.
"""

import dataclasses
import gc

import numpy as np
import torch

from yolofast.config.environment import compile_request
from yolofast.config.hyp import hyp_of
from yolofast.config.train import TrainConfig
from yolofast.engine.auto_batch import SHARE, MemoryOf, largest_batch
from yolofast.engine.devices import device_of
from yolofast.engine.distributed_machine import device_of_rank
from yolofast.engine.families import rules_of
from yolofast.engine.gears import EagerGear, GraphGear
from yolofast.engine.plan import plan_of
from yolofast.engine.precision import Precision
from yolofast.engine.setup import Say, prepare_model, prepare_step, read_data
from yolofast.engine.step import StepKind, TrainStep
from yolofast.engine.views import Views
from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.loader.quad import GROUP
from yolofast.optim.schedule import NOMINAL_BATCH
from yolofast.pixels import fitted_size
from yolofast.ranks import world
from yolofast.store.choose import AUTO_GPU_SHARE
from yolofast.structures import Batch, Targets, bucketed

_MOSAIC = 4
_SLOTS = 2


def with_fitting_batch(config: TrainConfig, say: Say) -> TrainConfig:
    """The settings with a number in place of `--batch-size -1`."""
    if config.batch_size != -1:
        return config
    if world() > 1:
        raise UserError("--batch-size -1 is measured on one GPU", fix="measure with --device 0, then give a number")
    device = device_of(config.device)
    if device.type != "cuda":
        what = "--batch-size -1 measures the memory of a GPU, and this run is on the CPU"
        raise UserError(what, fix="give a number, such as --batch-size 16")
    found = _measured(config, device, most=None)
    if found is None:
        raise UserError("not even the smallest batch fits the free GPU memory", fix="a smaller --img-size or --cfg")
    say(f"batch size: {found}, the largest that takes at most {SHARE:.0%} of the free GPU memory")
    return dataclasses.replace(config, batch_size=found)


def with_smaller_batch(config: TrainConfig, say: Say) -> TrainConfig:
    """After memory has run out: the settings to go on with, or without `--reduce-batch` a message that names them."""
    device, least = device_of_rank(config.device), _least(config)
    if device.type == "cuda" and world() == 1:
        found, how = _measured(config, device, most=config.batch_size - 1), "which fits, measured"
    else:
        found, how = config.batch_size // 2 // least * least, "half of it"
    what = f"memory ran out with a batch of {config.batch_size}"
    if not found:
        raise UserError(f"{what}, and no smaller one fits", fix="a smaller --img-size or --cfg")
    if not config.reduce_batch or world() > 1:
        fix = f"--batch-size {found} ({how})"
        raise UserError(what, fix=fix if world() > 1 else f"{fix}, or --reduce-batch to go on by itself")
    say(f"{what}: the epoch starts again with {found} ({how})")
    return dataclasses.replace(config, batch_size=found)


def _least(config: TrainConfig) -> int:
    return world() * (GROUP if config.quad else 1)


def _measured(config: TrainConfig, device: torch.device, most: int | None) -> int | None:
    _free()
    data = read_data(config, _silent)
    hyp, usual = hyp_of(config), dataclasses.replace(config, batch_size=NOMINAL_BATCH)
    model = prepare_model(config, data.train.names, device, _silent, hyp.get("anchors")).model
    plan_of(config, model).heaviest(model).freeze(model)
    _, step = prepare_step(rules_of(usual, hyp, model), model, Precision.choose(config.precision, device))
    rules = rules_of(config, hyp, model)
    available = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    available -= _store_bytes(config, data.train, rules.views, available)
    images = len(data.train) if most is None else min(most, len(data.train))
    boxes = bucketed(_boxes(data.train)) * (GROUP if config.quad else 1)
    memory_of = _memory_of(config, step, rules.largest_input, boxes)
    return largest_batch(memory_of, available, multiple=_least(config), most=images)


def _memory_of(config: TrainConfig, step: TrainStep, shape: tuple[int, int], boxes: int) -> MemoryOf:
    device = step.precision.device
    as_graph = compile_request(config.gear).gear in ("auto", "graph")

    def memory_of(batch: int) -> int:
        _free()
        torch.cuda.reset_peak_memory_stats(device)
        made = _batch(batch // (GROUP if config.quad else 1), shape, boxes, step)
        gear = GraphGear(step) if as_graph else EagerGear(step)
        for kind in _kinds(batch):
            gear.run(made, kind)
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_reserved(device) + _SLOTS * made.images.nbytes

    return memory_of


def _kinds(batch: int) -> list[StepKind]:
    """Those of a run with such batches: small ones are summed up, after a while."""
    alone = StepKind(sums=False, updates=True)
    summed = [StepKind(sums=True, updates=False), StepKind(sums=True, updates=True)]
    return [alone, *summed] if round(NOMINAL_BATCH / batch) > 1 else [alone]


def _batch(images: int, shape: tuple[int, int], boxes: int, step: TrainStep) -> Batch:
    """Grey images with boxes all over them."""
    device = step.precision.device
    pixels = torch.full((images, 3, *shape), 0.5, dtype=step.precision.dtype, device=device)
    centre_and_size = torch.rand(images, boxes, 4, generator=torch.Generator().manual_seed(0)) * 0.3 + 0.3
    targets = Targets(
        centre_and_size,
        torch.zeros(images, boxes, dtype=torch.int64),
        torch.ones(images, boxes, dtype=torch.bool),
    )
    return Batch(pixels.contiguous(memory_format=torch.channels_last), targets.to(device), np.arange(images))


def _boxes(index: ImageIndex) -> int:
    """Of an image of the fuller ones, as a mosaic of them shows."""
    return int(np.quantile(np.diff(index.starts), 0.95)) * _MOSAIC


def _store_bytes(config: TrainConfig, index: ImageIndex, views: Views, available: int) -> int:
    """What the pixels will take of the GPU's memory, if they are to live there."""
    if config.loader == "cpu" or config.cache not in ("auto", "gpu"):
        return 0
    needed = int(fitted_size(index.sizes, views.width, views.height).prod(axis=1).sum()) * 3
    return needed if config.cache == "gpu" or needed <= AUTO_GPU_SHARE * available else 0


def _free() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _silent(text: str) -> None:
    pass
