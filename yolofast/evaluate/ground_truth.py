"""What really is on an image, in the form detections are compared with."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolofast.image_index import ImageIndex


@dataclass(frozen=True)
class GroundTruth:
    boxes: npt.NDArray[np.float32]
    """[m, 4] x1, y1, x2, y2 in pixels."""
    labels: npt.NDArray[np.int64]
    """[m]"""


def ground_truth(index: ImageIndex, images: Iterable[int]) -> list[GroundTruth]:
    """The boxes of these images of the split in original pixels, without crowds: YOLOv7's labels do not know them."""
    return [_of_image(index, int(image)) for image in images]


def _of_image(index: ImageIndex, image: int) -> GroundTruth:
    chosen = index.boxes_of(image)
    real = ~index.crowd[chosen]
    boxes = pixel_corners(index.boxes[chosen][real], index.sizes[image])
    return GroundTruth(boxes.astype(np.float32), index.labels[chosen][real])


def pixel_corners(boxes: npt.NDArray[np.float32], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """cx, cy, w, h as shares to x1, y1, x2, y2 in pixels; `sizes` are width and height, of all or of each."""
    centre, half = boxes[:, :2].astype(np.float64), boxes[:, 2:].astype(np.float64) / 2
    return np.concatenate(((centre - half) * sizes, (centre + half) * sizes), axis=1)
