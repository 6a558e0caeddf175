"""A batch on one picture: `val_batch0_labels.jpg` with its true boxes, `val_batch0_pred.jpg` with those found."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.boxes import cxcywh_to_xyxy, to_pixels
from yolofast.files.atomic_file import write_output
from yolofast.pixels import Image
from yolofast.runs.layout import FILES, numbered
from yolofast.structures import Detections, Targets

_MOST_IMAGES = 16
_LONGEST_SIDE = 1920
_CONFIDENCE = 0.25
_LEGIBLE = 256
"""Pixels of a long side below which images are enlarged."""
_FONT = cv2.FONT_HERSHEY_SIMPLEX


def save_mosaics(
    folder: str | Path,
    batch: int,
    images: Tensor,
    targets: Targets,
    detections: Sequence[Detections],
    names: Sequence[str],
) -> tuple[Path, Path]:
    """Images as in `Batch` (R, G, B; levels, or floats up to 1), detections in input pixels. Writes both pictures."""
    height, width = images.shape[2:]
    truth = as_detections(targets, width, height)
    found = [one[one.scores > _CONFIDENCE] for one in detections]
    folder = Path(folder)
    labels = write_output(
        folder / numbered(FILES.val_batch_labels, batch), _picture(images, truth, names, scores=False)
    )
    predictions = write_output(
        folder / numbered(FILES.val_batch_pred, batch), _picture(images, found, names, scores=True)
    )
    return labels, predictions


def as_detections(targets: Targets, width: int, height: int) -> list[Detections]:
    """The true boxes, in pixels."""
    boxes = cxcywh_to_xyxy(to_pixels(targets.boxes, width, height)).float().cpu().numpy()
    labels, valid = targets.labels.cpu().numpy(), targets.valid.cpu().numpy()
    return [
        Detections(box[use], np.ones(int(use.sum()), np.float32), label[use])
        for box, label, use in zip(boxes, labels, valid, strict=True)
    ]


def _picture(images: Tensor, boxes: Sequence[Detections], names: Sequence[str], *, scores: bool) -> bytes:
    shown = min(len(images), _MOST_IMAGES)
    height, width = images.shape[2:]
    columns = int(np.ceil(np.sqrt(shown)))
    rows = -(-shown // columns)
    scale = min(float(enlarged(height, width)), _LONGEST_SIDE / max(rows * height, columns * width))
    low, narrow = max(int(height * scale), 1), max(int(width * scale), 1)
    picture = np.full((rows * low, columns * narrow, 3), 255, np.uint8)
    for place in range(shown):
        tile: Image = np.asarray(
            cv2.resize(_levels(images[place]), (narrow, low), interpolation=interpolation_for(scale)), np.uint8
        )
        draw_boxes(tile, boxes[place], scale, names, scores=scores)
        top, left = place // columns * low, place % columns * narrow
        picture[top : top + low, left : left + narrow] = tile
    return cv2.imencode(".jpg", picture)[1].tobytes()


def _levels(image: Tensor) -> Image:
    """[H, W, 3] blue, green, red."""
    if image.dtype != torch.uint8:
        image = (image.float() * 255).round().clamp(0, 255).to(torch.uint8)
    pixels: npt.NDArray[np.uint8] = image.flip(0).permute(1, 2, 0).cpu().numpy()
    return np.ascontiguousarray(pixels)


def draw_boxes(
    tile: Image, boxes: Detections, scale: float, names: Sequence[str], *, scores: bool, line_width: int = 2
) -> None:
    """Best last, so that it is on top."""
    font, stroke = 0.2 * line_width, max(line_width - 1, 1)
    for box, score, label in zip(boxes.boxes[::-1], boxes.scores[::-1], boxes.labels[::-1], strict=True):
        left, top, right, bottom = (int(value) for value in (box * scale).round())
        colour = stable_colour(int(label))
        cv2.rectangle(tile, (left, top), (right, bottom), colour, line_width, cv2.LINE_AA)
        text = f"{names[int(label)]} {score:.2f}" if scores else names[int(label)]
        (width, height), _ = cv2.getTextSize(text, _FONT, font, stroke)
        base = max(top, height + 4)  # above the box, or at the upper edge of the image
        cv2.rectangle(tile, (left, base - height - 4), (left + width, base), colour, cv2.FILLED)
        cv2.putText(tile, text, (left, base - 3), _FONT, font, ink_on(colour), stroke, cv2.LINE_AA)


def enlarged(height: int, width: int) -> int:
    """How many times larger an image is shown, so that its labels do not cover it."""
    return max(1, _LEGIBLE // max(height, width))


def interpolation_for(scale: float) -> int:
    return cv2.INTER_AREA if scale <= 1 else cv2.INTER_LINEAR


def ink_on(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    """Black or white, whichever contrasts more with blue, green, red: green is bright to the eye, blue is not."""
    shares = ((level / 255) ** 2.2 for level in colour)
    luminance = sum(weight * share for weight, share in zip((0.0722, 0.7152, 0.2126), shares, strict=True))
    against_black, against_white = (luminance + 0.05) / 0.05, 1.05 / (luminance + 0.05)
    return (0, 0, 0) if against_black > against_white else (255, 255, 255)


def stable_colour(number: int) -> tuple[int, int, int]:
    """Steps of the golden ratio around the colour circle keep neighbouring classes or identities apart."""
    hue = int(number * 0.618034 % 1 * 180)
    blue, green, red = cv2.cvtColor(np.array([[[hue, 200, 190]]], np.uint8), cv2.COLOR_HSV2BGR)[0, 0]
    return int(blue), int(green), int(red)
