"""In which order and in which shapes a run sees its images."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolofast.config.train import TrainConfig
from yolofast.dataset.rect import rect_order, rect_shapes
from yolofast.image_index import ImageIndex
from yolofast.loader.order import EpochOrder
from yolofast.loader.quad import GROUP
from yolofast.ranks import rank, world


@dataclass(frozen=True)
class TrainingOrder:
    order: EpochOrder
    shapes: npt.NDArray[np.int64] | None
    """`[batches, 2]` heights and widths for `--rect`; None: all batches have the size trained at."""


def training_order(
    config: TrainConfig, index: ImageIndex, stride: int, *, always_shuffled: bool = False
) -> TrainingOrder:
    """A data set smaller than a batch is one batch.

    The published code of YOLOv7 shuffles only for several GPUs, and takes the batches of `--rect` from the widest to
    the tallest; unless faithful, the latter are shuffled as wholes. YOLOX is `always_shuffled`.
    """
    multiple = GROUP if config.quad else 1
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
        multiple=multiple,
        rank=rank(),
        world=world(),
    )
    shapes = rect_shapes(index.sizes[images], size, config.train_size, stride, pad=0) if config.rect else None
    return TrainingOrder(order, shapes)
