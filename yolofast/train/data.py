"""From settings to batches: the splits read, the order of the images, and the loader that makes their batches.

`--image-weights` draws images with rare or badly learnt classes more often, anew after every evaluation. Anchors that
do not suit the boxes are replaced before a run begins.
"""

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from yolofast.augment.by_head import read_head_policy
from yolofast.augment.planner import Planner
from yolofast.config.settings import settings_of
from yolofast.config.train import WORKER_FLAGS, TrainConfig
from yolofast.dataset.data_argument import data_file, read_named_split, shared_images
from yolofast.dataset.split import Reads, read_split
from yolofast.evaluate.v7_metrics import V7Result
from yolofast.files.threads import usable_cores
from yolofast.image_index import ImageIndex
from yolofast.loader.batch_maker import BatchMaker
from yolofast.loader.device_loader import DeviceLoader, InputFormat
from yolofast.loader.device_pixels import device_pixels
from yolofast.loader.order import EpochOrder, rect_order, rect_shapes
from yolofast.loader.pool import workers_are_forked
from yolofast.loader.quad import QuadOnDevice
from yolofast.loader.workers import WorkerLoader
from yolofast.model.autoanchor import autoanchor, begin_at_rates, boxes_at_image_size, evolve_anchors
from yolofast.model.heads import AnchorHead
from yolofast.model.network import Network
from yolofast.precision import Precision
from yolofast.ranks import rank, ranks_here, world
from yolofast.store.images import OpenStore
from yolofast.structures import QUAD_IMAGES
from yolofast.train.distributed.join import open_images_together
from yolofast.train.families.family import Rules

Say = Callable[[str], None]
Batches = WorkerLoader | DeviceLoader | QuadOnDevice
"""What makes the batches of a run."""

_MOST_WORKERS = 8
"""As many as published."""
_SHORT_EPOCH = 200
"""Batches, up to which workers are kept: starting them anew would be felt in every epoch."""


@dataclass(frozen=True)
class Data:
    train: ImageIndex
    val: ImageIndex


def read_data(config: TrainConfig, say: Say) -> Data:
    path = data_file(config.data, say)
    how: Reads = {"single_cls": config.single_cls, "skip_bad": config.skip_bad, "trust": config.trust_index}
    part: Reads = {**how, "fraction": config.fraction}
    train = read_split(path, "train", **part)
    val = read_named_split(path, "val", say, **how)
    if warning := shared_images(train, val, path):
        say(warning)
    return Data(train, val)


def prepare_batches(
    config: TrainConfig, rules: Rules, index: ImageIndex, precision: Precision, model: Network, say: Say,
    opened: Callable[[OpenStore], None],
) -> Batches:  # fmt: skip
    """`opened` gets the store of the pixels, if there is one."""
    device, layout, inputs = precision.device, model.layout, model.inputs
    on_gpu = gpu_makes_batches(config, device)
    if word := idle_flags(config, on_gpu):
        say(f"loader: {word}")
    if config.jpeg_decoder == "nvjpeg" and not on_gpu:
        say("images: --jpeg-decoder nvjpeg has no effect, there is no GPU to decode them")
    augmentation = rules.augmentation
    size = augmentation.width, augmentation.height
    images = open_images_together(
        index, *size, config.cache, device=device if on_gpu else "cpu", say=say, opened=opened
    )
    heads = None
    if config.class_aware_aug:
        heads = read_head_policy(config.head_params, index, layout.head_classes, config.faithful)
    recipe, most_boxes = augmentation.recipe, augmentation.most_boxes
    planner = Planner(index, images.sizes, recipe, *size, seed=config.seed, heads=heads, most_boxes=most_boxes)
    always, repeats = rules.always_shuffled, rules.ingredients.repeats
    arranged = training_order(config, index, max(layout.strides), always_shuffled=always, repeats=repeats)
    if on_gpu:
        pixels = device_pixels(images, device, max(workers_of(config), 1), config.jpeg_decoder, say)
        format_ = InputFormat(dtype=precision.dtype, rgb=inputs.rgb, gain=1 / inputs.divisor)
        loader = DeviceLoader(
            planner, pixels, arranged.order, device, format_,
            shapes=arranged.shapes, close_mosaic_from=augmentation.close_mosaic_from,
            strengths=augmentation.strengths,
        )  # fmt: skip
        return QuadOnDevice(loader) if config.quad else loader
    return WorkerLoader(
        BatchMaker(planner, images, rgb=inputs.rgb, quad=config.quad, skip_bad=config.skip_bad),
        arranged.order,
        workers=workers_of(config),
        persistent=config.persistent_workers or config.fast_dataloader or len(arranged.order) <= _SHORT_EPOCH,
        worker_tensor=config.worker_tensor or config.fast_dataloader,
        shapes=arranged.shapes,
        close_mosaic_from=augmentation.close_mosaic_from,
        strengths=augmentation.strengths,
        timeout=config.worker_timeout,
        say=say,
    )


def gpu_makes_batches(config: TrainConfig, device: torch.device) -> bool:
    return device.type == "cuda" and config.loader != "cpu"


def idle_flags(config: TrainConfig, on_gpu: bool) -> str:
    """Which flags of worker processes were given although there are none, and what would make them matter."""
    given = [settings_of(TrainConfig)[name].flag for name in WORKER_FLAGS if getattr(config, name)]
    if not given:
        return ""
    if workers_of(config) and not on_gpu:
        alone = not workers_are_forked() and (config.worker_tensor or config.fast_dataloader)
        return "batches are copied, on this system worker processes share no memory" if alone else ""
    flags = f"{' and '.join(given)} {'has' if len(given) == 1 else 'have'} no effect"
    if on_gpu:
        return f"{flags}, the GPU makes the batches (--loader cpu: worker processes do)"
    return f"{flags}, the training process makes the batches (--workers 1 or more: worker processes do)"


def workers_of(config: TrainConfig) -> int:
    """Processes that make batches for this one: each needs a core, and the ranks of a machine share its cores."""
    if config.workers is not None:
        return config.workers
    return min(_MOST_WORKERS, max(1, usable_cores() // ranks_here()))


@dataclass(frozen=True)
class TrainingOrder:
    order: EpochOrder
    shapes: npt.NDArray[np.int64] | None
    """`[batches, 2]` heights and widths for `--rect`; None: all batches have the size trained at."""


def training_order(
    config: TrainConfig, index: ImageIndex, stride: int, *, always_shuffled: bool = False, repeats: int | None = None
) -> TrainingOrder:
    """A data set smaller than a batch is one batch.

    The published code of YOLOv7 shuffles only for several GPUs, and takes the batches of `--rect` from the widest to
    the tallest; unless faithful, the latter are shuffled as wholes. YOLOX is `always_shuffled`.
    """
    multiple = QUAD_IMAGES if config.quad else 1
    least = world() * multiple
    size = min(config.batch_size, max(len(index) // least, 1) * least)
    shuffle = always_shuffled or not config.faithful or (world() > 1 and not config.rect)
    images = rect_order(index.sizes) if config.rect else len(index)
    order = EpochOrder(
        images,
        seed=config.seed,
        shuffle=shuffle and not config.rect,
        shuffle_batches=shuffle and config.rect,
        batch_size=size,
        repeats=repeats or 1,
        multiple=multiple,
        rank=rank(),
        world=world(),
    )
    shapes = rect_shapes(index.sizes[images], size, config.train_size, stride, pad=0) if config.rect else None
    return TrainingOrder(order, shapes)


Floats64 = npt.NDArray[np.float64]


def class_weights(index: ImageIndex) -> Floats64:
    """[nc] one over the number of boxes of each class, scaled to a sum of 1; no boxes count as one."""
    counts = np.bincount(index.labels[~index.crowd], minlength=len(index.names))
    weights = 1.0 / np.maximum(counts, 1)
    return np.asarray(weights / weights.sum())


def image_weights(index: ImageIndex, class_weights: npt.ArrayLike, maps: npt.ArrayLike) -> Floats64:
    """[N] sum over an image's boxes of the class's weight · (1 - mAP)²; `maps` [nc] is the mAP of each class so far."""
    per_class = np.asarray(class_weights, np.float64) * (1.0 - np.asarray(maps, np.float64)) ** 2
    per_box = np.where(index.crowd, 0.0, per_class[index.labels])
    return np.bincount(index.image_of_box(), weights=per_box, minlength=len(index)).astype(np.float64)


class ImageWeighting:
    """`maps`, the classes' mAP so far, is all that a resumed run has to know."""

    def __init__(self, index: ImageIndex) -> None:
        self._index, self._class_weights = index, class_weights(index)
        self.maps: Floats64 = np.zeros(len(index.names))

    def learn(self, metrics: V7Result) -> None:
        self.maps = metrics.map_per_class(len(self._index.names))

    def weighted(self, order: EpochOrder) -> EpochOrder:
        """The order of the next epoch. Images without boxes are not drawn, unless there are no others."""
        weights = image_weights(self._index, self._class_weights, self.maps)
        if not weights.any():  # all is learnt perfectly, or there is nothing to learn
            weights = np.ones(len(self._index))
        return dataclasses.replace(order, weights=weights)


def fit_biases(model: Network, index: ImageIndex, size: int, anew: Collection[str], say: Say) -> None:
    """Every class counts one box more than it has, so that none is impossible."""
    real = ~index.crowd
    counts = np.bincount(index.labels[real], minlength=len(index.names)) + 1
    if not begin_at_rates(model, float(real.sum()) / len(index), (counts / counts.sum()).tolist(), size, anew):
        say("data_biases: nothing is changed, the head has learnt already")


def fit_anchors(
    model: nn.Module, index: ImageIndex, size: int, anchor_t: float, seed: int, say: Say, *, always: bool = False
) -> None:
    """Anchors are weights: they are in every checkpoint, and a resumed run takes them from there.

    `always` is for anchors of which only the number was given (`anchors` in the hyper-parameters). The result is a
    function of data, size and seed alone, so every rank comes to the same.
    """
    head = next((module for module in model.modules() if isinstance(module, AnchorHead)), None)
    real = ~index.crowd
    if head is None or not real.any():
        return
    image_sizes = index.sizes[index.image_of_box()[real]]
    boxes = boxes_at_image_size(index.boxes[real, 2:], image_sizes, size, np.random.default_rng(seed))
    if always:
        fitted = evolve_anchors(boxes, head.anchors_px.numel() // 2, anchor_t, seed=seed)
        head.set_anchors(torch.from_numpy(fitted).to(head.anchors_px).view_as(head.anchors_px))
        say(f"anchors: {len(fitted)}, fitted to the boxes")
        return
    result = autoanchor(head.anchors_px.cpu().numpy(), boxes, anchor_t, seed=seed)
    if not result.replaced:
        say(f"anchors: kept, they reach {result.before.bpr:.1%} of the boxes")
        return
    head.set_anchors(torch.from_numpy(result.anchors).to(head.anchors_px))
    say(
        f"anchors: fitted to the boxes, of which they now reach {result.after.bpr:.1%} instead of "
        f"{result.before.bpr:.1%} (--noautoanchor leaves them as they are)"
    )
