"""Pixels of a plan by OpenCV on the host, one image at a time, as published trainers make them."""

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.augment.plan import FILL, Plan
from yolofast.pixels import Image, ImageSource

_GREY = (FILL, FILL, FILL)


def render(plan: Plan, images: ImageSource, out: npt.NDArray[np.uint8], *, rgb: bool = True) -> None:
    """Write the batch into `out [B, 3, height, width]`."""
    for b in range(len(plan)):
        write_image(render_one(plan, b, images), out[b], rgb)


def write_image(image: Image, out: npt.NDArray[np.uint8], rgb: bool) -> None:
    """[h, w, B G R] into [3, h, w]."""
    channels = cv2.split(image)
    for channel, plane in enumerate(reversed(channels) if rgb else channels):
        out[channel] = plane


def render_one(plan: Plan, b: int, images: ImageSource) -> Image:
    """[height, width, B G R]."""
    image = _view(plan, b, 0, images)
    if plan.blend_B[b] < 1:
        share = plan.blend_B[b]
        image = (image * share + _view(plan, b, 1, images) * (1 - share)).astype(np.uint8)
    image = _coloured(image, plan.colour_B3[b], plan.recipe.style == "yolox")
    _paste(plan, b, image, images)
    down, right = plan.flip_B2[b]
    if down:
        image = image[::-1]
    if right:
        image = image[:, ::-1]
    return image


def _view(plan: Plan, b: int, v: int, images: ImageSource) -> Image:
    canvas_width, canvas_height = (int(side) for side in plan.canvas_BV2[b, v])
    canvas: Image = np.full((canvas_height, canvas_width, 3), FILL, np.uint8)
    for t in np.flatnonzero(plan.source_BVT[b, v] >= 0):
        x1, y1, x2, y2 = (int(side) for side in plan.tile_BVT4[b, v, t])
        left, top = (int(side) for side in plan.corner_BVT2[b, v, t])
        tile = images.image(int(plan.source_BVT[b, v, t]))
        canvas[y1:y2, x1:x2] = tile[y1 - top : y2 - top, x1 - left : x2 - left]
    copied = np.flatnonzero(plan.copies.view == b * plan.source_BVT.shape[1] + v)
    for copy in copied:
        canvas = np.where(plan.copies.masks[copy][..., None] > 0, canvas[:, ::-1], canvas)
    return _warped(canvas, plan.matrix_BV33[b, v], plan.width, plan.height)


def _warped(canvas: Image, matrix: npt.NDArray[np.float64], width: int, height: int) -> Image:
    if canvas.shape[:2] == (height, width) and np.array_equal(matrix, np.eye(3)):
        return canvas
    size = (width, height)
    if np.array_equal(matrix[2], (0, 0, 1)):
        return cv2.warpAffine(canvas, matrix[:2], size, borderValue=_GREY)  # type: ignore[return-value]
    return cv2.warpPerspective(canvas, matrix, size, borderValue=_GREY)  # type: ignore[return-value]


def _coloured(image: Image, change: npt.NDArray[np.float64], additive: bool) -> Image:
    if (change == (0 if additive else 1)).all():
        return image
    levels = np.arange(256, dtype=np.float64)
    hue, saturation, value = (levels + by if additive else levels * by for by in change)
    tables = (hue % 180, np.clip(saturation, 0, 255), np.clip(value, 0, 255))
    hsv = cv2.cvtColor(image, cv2.COLOR_BGR2HSV)
    table = np.stack([t.astype(np.uint8) for t in tables], axis=-1)[None]
    return cv2.cvtColor(cv2.LUT(hsv, table), cv2.COLOR_HSV2BGR)  # type: ignore[return-value]


def _paste(plan: Plan, b: int, image: Image, images: ImageSource) -> None:
    for p in np.flatnonzero(plan.pastes.image == b):
        x, y, width, height = (int(side) for side in plan.pastes.place[p])
        left, top, crop_width, crop_height = (int(side) for side in plan.pastes.crop[p])
        source = images.image(int(plan.pastes.source[p]))[top : top + crop_height, left : left + crop_width]
        resized = cv2.resize(source, (width, height))
        target = image[y : y + height, x : x + width]
        np.copyto(target, resized, where=plan.pastes.masks[p][..., None] > 0)
