"""`yolofast preview`: augmented images with their boxes in one picture, as training would get them.

They are the first images of an epoch, planned as every loader plans them. OpenCV renders them straight from the image
files, so a preview needs neither a packed store nor a GPU.
"""

import argparse
import math
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.augment.planner import PlannedBatch, Planner
from yolofast.augment.recipe import Recipe
from yolofast.augment.render_cv2 import render_one
from yolofast.config.flags import from_args
from yolofast.config.hyp import read_hyp
from yolofast.config.tools import PreviewConfig
from yolofast.dataset.data_argument import data_file
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.evaluate.mosaic_picture import enlarged, ink_on, interpolation_for
from yolofast.files.atomic_file import write_output
from yolofast.image_index import ImageIndex
from yolofast.loader.order import EpochOrder
from yolofast.pixels import Image
from yolofast.store.images import FileImages

_DEFAULT_HYP = "data/hyp.scratch.tiny.yaml"
_FORMATS = (".jpg", ".jpeg", ".png")
_MOST_IMAGES = 400
_WIDEST_PICTURE = 2560
_GAP = 4
_FONT, _FONT_SCALE = cv2.FONT_HERSHEY_SIMPLEX, 0.45


def run(args: argparse.Namespace) -> None:
    config = from_args(PreviewConfig, args)
    _check(config)
    hyp = read_hyp(config.hyp, read_hyp(_DEFAULT_HYP))
    recipe = Recipe.yolox() if config.style == "yolox" else Recipe.from_hyp(hyp)
    index = read_split(data_file(config.data), config.split, skip_bad=config.skip_bad)
    height, width = (*config.img_size, config.img_size[0])[:2]
    count = min(config.n, len(index))
    images = FileImages(index, width, height, augmented=True)
    first = next(EpochOrder(len(index), seed=config.seed, shuffle=True, batch_size=count).batches(config.epoch))
    planner = Planner(index, images.sizes, recipe, width, height, seed=config.seed)
    planned = planner.plan(first.images, first.positions, config.epoch)
    columns = math.ceil(math.sqrt(count))
    scale = min(float(enlarged(height, width)), _WIDEST_PICTURE / (columns * width))
    cells = [_cell(planned, b, render_one(planned.plan, b, images), index, scale) for b in range(count)]
    write_output(config.out, cv2.imencode(Path(config.out).suffix.lower(), _grid(cells, columns))[1].tobytes())
    print(f"{count} images of epoch {config.epoch} with {len(planned.rows)} boxes: {config.out}")


def _check(config: PreviewConfig) -> None:
    """What can be checked before the data set is read, which may take long."""
    if not 1 <= config.n <= _MOST_IMAGES:
        raise UserError(f"--n is {config.n}", fix=f"give 1 to {_MOST_IMAGES} images")
    if not (0 <= config.seed < 2**64 and 0 <= config.epoch < 2**32):
        raise UserError(f"--seed is {config.seed} and --epoch {config.epoch}", fix="neither may be negative")
    if Path(config.out).suffix.lower() not in _FORMATS:
        raise UserError("cannot draw into this", where=config.out, fix=f"end the name in {', '.join(_FORMATS)}")
    if config.style == "yolox" and config.hyp is not None:
        raise UserError("--hyp holds YOLOv7's values, which YOLOX does not use", fix="omit --hyp")


def _cell(planned: PlannedBatch, b: int, image: Image, index: ImageIndex, scale: float) -> Image:
    """One image with its boxes, scaled first so that lines and letters keep their size."""
    height, width = (max(round(side * scale), 1) for side in image.shape[:2])
    cell: Image = np.ascontiguousarray(
        image if scale == 1 else cv2.resize(image, (width, height), interpolation=interpolation_for(scale))
    )
    rows = planned.rows[planned.rows[:, 0] == b]
    # Large ones first, so that small ones inside stay visible.
    for _, label, cx, cy, w, h in rows[np.argsort(-rows[:, 4] * rows[:, 5], kind="stable")]:
        low = round((cx - w / 2) * width), round((cy - h / 2) * height)
        high = round((cx + w / 2) * width), round((cy + h / 2) * height)
        _draw_box(cell, low, high, index.names[int(label)], _colour(int(label)))
    return cell


def _draw_box(
    cell: Image, low: tuple[int, int], high: tuple[int, int], name: str, colour: tuple[int, int, int]
) -> None:
    cv2.rectangle(cell, low, high, colour, 2)
    (width, height), below = cv2.getTextSize(name, _FONT, _FONT_SCALE, 1)
    x = max(min(low[0], cell.shape[1] - width - 2), 0)
    y = max(low[1], height + below)  # inside at the top edge, above the box elsewhere
    cv2.rectangle(cell, (x, y - height - below), (x + width + 2, y), colour, cv2.FILLED)
    cv2.putText(cell, name, (x + 1, y - below + 2), _FONT, _FONT_SCALE, ink_on(colour), 1, cv2.LINE_AA)


def _colour(label: int) -> tuple[int, int, int]:
    """Hues a golden section apart: neighbours in the list of classes differ most."""
    hue = label * 0.618034 % 1 * 180
    blue, green, red = cv2.cvtColor(np.array([[[hue, 210, 255]]], np.uint8), cv2.COLOR_HSV2BGR)[0, 0].tolist()
    return blue, green, red


def _grid(cells: list[Image], columns: int) -> Image:
    height, width = cells[0].shape[:2]
    rows = -(-len(cells) // columns)
    picture: npt.NDArray[np.uint8] = np.full(
        (rows * (height + _GAP) + _GAP, columns * (width + _GAP) + _GAP, 3), 255, np.uint8
    )
    for place, cell in enumerate(cells):
        top, left = (place // columns) * (height + _GAP) + _GAP, (place % columns) * (width + _GAP) + _GAP
        picture[top : top + height, left : left + width] = cell
    return picture
