"""Images side by side with boxes on them, as one JPEG."""

import math
from collections.abc import Sequence

import cv2
import numpy as np
import torch
from torch import Tensor

from yolofast.boxes import cxcywh_to_xyxy, to_pixels
from yolofast.evaluate.mosaic_picture import draw_boxes
from yolofast.pixels import Image
from yolofast.structures import Detections, InputConvention, Targets

_LONGEST_SIDE = 1920
_LEAST_SIDE = 240
"""Of a tile: on smaller ones names would hide the image."""
_GREY = 114


def picture_grid(
    images: Sequence[Image], boxes: Sequence[Detections], names: Sequence[str], *, scores: bool, tile: int = 640
) -> bytes:
    """Images [height, width, 3] of blue, green and red, of any size, each made to fit a square of `tile` at most."""
    columns = math.ceil(math.sqrt(len(images)))
    rows = -(-len(images) // columns)
    largest = max(max(image.shape[:2]) for image in images)
    side = min(tile, _LONGEST_SIDE // columns, max(largest, _LEAST_SIDE))
    picture = np.full((rows * side, columns * side, 3), _GREY, np.uint8)
    for place, (image, found) in enumerate(zip(images, boxes, strict=True)):
        small = _with_boxes(image, found, names, side, scores=scores)
        top, left = place // columns * side, place % columns * side
        picture[top : top + small.shape[0], left : left + small.shape[1]] = small
    return cv2.imencode(".jpg", picture)[1].tobytes()


def _with_boxes(image: Image, found: Detections, names: Sequence[str], side: int, *, scores: bool) -> Image:
    """Scaled first, so that lines and letters keep their size."""
    scale = side / max(image.shape[:2])
    height, width = (min(max(round(length * scale), 1), side) for length in image.shape[:2])
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    resized: Image = np.asarray(cv2.resize(image, (width, height), interpolation=how), np.uint8)
    draw_boxes(resized, found, scale, names, scores=scores)
    return resized


def as_pictures(images: Tensor, inputs: InputConvention) -> list[Image]:
    """A batch's images, as levels or as the network takes them, the way OpenCV has them."""
    if images.dtype != torch.uint8:
        images = (images.float() * inputs.divisor).round().clamp(0, 255).to(torch.uint8)
    blue_first = images.flip(1) if inputs.rgb else images
    return [np.ascontiguousarray(image) for image in blue_first.permute(0, 2, 3, 1).cpu().numpy()]


def as_detections(targets: Targets, width: int, height: int) -> list[Detections]:
    """The true boxes, in pixels."""
    boxes = cxcywh_to_xyxy(to_pixels(targets.boxes, width, height)).float().cpu().numpy()
    labels, valid = targets.labels.cpu().numpy(), targets.valid.cpu().numpy()
    return [
        Detections(box[use], np.ones(int(use.sum()), np.float32), label[use])
        for box, label, use in zip(boxes, labels, valid, strict=True)
    ]
