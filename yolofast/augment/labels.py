"""What a plan does to boxes and polygons: one function for a whole batch, whichever renderer makes the pixels.

Published trainers resample each polygon to 1,000 points to find its box after the transform. Here each edge is cut to
the image and its ends are taken. More and more points tend to just that, and this costs only the corners there are.

Axes: n boxes of all tiles in question.
"""

from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from yolofast.augment.draws import Doubles, apply, translation
from yolofast.augment.plan import Plan
from yolofast.image_index import ImageIndex, Ints, expand, starts_of

Bools = npt.NDArray[np.bool_]

_SMALLEST_SIDE = 2.0
_LARGEST_ASPECT = 20.0
_AREA_LEFT, _AREA_LEFT_POLYGON = 0.10, 0.01
_TINY = 1e-16


@dataclass(frozen=True)
class LabelledBoxes:
    """Boxes in pixels of the output before flips, in the order of images, views, tiles and labels."""

    image: Ints
    """[n] which image of the batch."""
    view: Ints
    """[n] which of its views."""
    label: Ints
    corners: Doubles
    """[n, 4] x1, y1, x2, y2."""


@dataclass(frozen=True)
class PlacedBoxes:
    """The boxes of all tiles of a batch, where they are on their canvases."""

    view: Ints
    """[n] b · V + v."""
    box: Ints
    """[n] place in the index."""
    origin: Doubles
    """[n, 2] the canvas coordinates of their image's corner."""
    size: Doubles
    """[n, 2] their image's stored width and height."""
    canvas: Doubles
    """[n, 2] the canvas's width and height."""
    mirrored: Bools
    """[n] copies, mirrored on the canvas."""


Boxes = TypeVar("Boxes", LabelledBoxes, PlacedBoxes)


def taken(boxes: Boxes, chosen: Ints | Bools) -> Boxes:
    """These of the boxes, in this order."""
    return type(boxes)(**{field.name: getattr(boxes, field.name)[chosen] for field in fields(boxes)})


def transform_labels(placed: PlacedBoxes, plan: Plan, index: ImageIndex) -> LabelledBoxes:
    """The boxes a batch shows."""
    matrix = _matrices_of_boxes(plan)[placed.view]
    before = on_canvas(placed, index)
    after = _warped_corners(matrix, before)
    # YOLOX moves boxes by their corners, even if polygons are known.
    has_polygon = (np.diff(index.point_starts)[placed.box] > 0) & (plan.recipe.style == "yolov7")
    if has_polygon.any():
        chosen = np.flatnonzero(has_polygon)
        after[chosen] = _polygon_boxes(plan, index, placed, chosen, matrix)
    after = np.clip(after, 0, np.array((plan.width, plan.height) * 2, np.float64))
    scale = plan.scale_BV.reshape(-1)[placed.view]
    if plan.recipe.style == "yolov7":
        keep = _enough_left(before * scale[:, None], after, np.where(has_polygon, _AREA_LEFT_POLYGON, _AREA_LEFT))
    else:
        keep = (after[:, 2:] - after[:, :2]).min(axis=1, initial=np.inf) > 1.0
    views = plan.source_BVT.shape[1]
    view = placed.view[keep]
    return LabelledBoxes(view // views, view % views, index.labels[placed.box[keep]], after[keep])


def _matrices_of_boxes(plan: Plan) -> Doubles:
    """[B · V, 3, 3] as for pixels, apart from the image YOLOX blends in: resizing keeps edges in place, not centres."""
    matrix = plan.matrix_BV33
    if plan.recipe.style == "yolox":
        matrix = matrix.copy()
        matrix[:, 1] = translation([0.5], [0.5]) @ matrix[:, 1] @ translation([-0.5], [-0.5])
    return matrix.reshape(-1, 3, 3)


def to_rows(boxes: LabelledBoxes, plan: Plan) -> npt.NDArray[np.float32]:
    """Rows `image class cx cy w h`, normalised, after the plan's flips."""
    size = np.array((plan.width, plan.height), np.float64)
    centre = (boxes.corners[:, :2] + boxes.corners[:, 2:]) / 2 / size
    flip = plan.flip_B2[boxes.image][:, ::-1]  # left to right concerns x, upside down y
    centre = np.where(flip, 1 - centre, centre)
    sides = (boxes.corners[:, 2:] - boxes.corners[:, :2]) / size
    return np.column_stack((boxes.image, boxes.label, centre, sides)).astype(np.float32)


def first_boxes(rows: npt.NDArray[np.float32], plan: Plan, alone: int, mosaic: int) -> npt.NDArray[np.float32]:
    """Of rows in the order of images, the first few of each: so many of a mosaic, and of an image by itself."""
    is_mosaic = plan.canvas_BV2[:, 0, 0] > plan.width
    image = rows[:, 0].astype(np.int64)
    place = np.arange(len(rows)) - starts_of(np.bincount(image, minlength=len(plan)))[image]
    return rows[place < np.where(is_mosaic, mosaic, alone)[image]]


def place_boxes(plan: Plan, index: ImageIndex, stored_sizes: Ints) -> PlacedBoxes:
    """The boxes of all tiles. `stored_sizes` are all images' widths and heights as stored."""
    tiles = plan.source_BVT.shape[2]
    shown = np.flatnonzero(plan.source_BVT.reshape(-1) >= 0)
    image = plan.source_BVT.reshape(-1)[shown]
    box = expand(index.starts[image], index.starts[image + 1])
    tile = np.repeat(shown, np.diff(index.starts)[image])
    image = np.repeat(image, np.diff(index.starts)[image])
    real = ~index.crowd[box]
    box, tile, image = box[real], tile[real], image[real]
    view = tile // tiles
    return PlacedBoxes(
        view=view,
        box=box,
        origin=plan.corner_BVT2.reshape(-1, 2)[tile].astype(np.float64),
        size=stored_sizes[image].astype(np.float64),
        canvas=plan.canvas_BV2.reshape(-1, 2)[view].astype(np.float64),
        mirrored=np.zeros(len(box), np.bool_),
    )


def on_canvas(placed: PlacedBoxes, index: ImageIndex) -> Doubles:
    """[n, 4] corners, cut where the canvas ends."""
    box = index.boxes[placed.box].astype(np.float64)
    half = box[:, 2:] / 2
    low = (box[:, :2] - half) * placed.size + placed.origin
    high = (box[:, :2] + half) * placed.size + placed.origin
    corners = np.concatenate((np.clip(low, 0, placed.canvas), np.clip(high, 0, placed.canvas)), axis=1)
    corners[placed.mirrored, 0::2] = placed.canvas[placed.mirrored, :1] - corners[placed.mirrored, 2::-2]
    return corners


def polygons_on_canvas(placed: PlacedBoxes, index: ImageIndex, chosen: Ints) -> tuple[Doubles, Ints]:
    """The polygons' corners `[c, 2]`, cut where the canvas ends, one polygon after the other, and how many each has."""
    box = placed.box[chosen]
    counts = np.diff(index.point_starts)[box]
    points = index.points[expand(index.point_starts[box], index.point_starts[box + 1])].astype(np.float64)
    points *= np.repeat(placed.size[chosen], counts, axis=0)
    points += np.repeat(placed.origin[chosen], counts, axis=0)
    canvas = np.repeat(placed.canvas[chosen], counts, axis=0)
    np.clip(points, 0, canvas, out=points)
    if placed.mirrored.any():
        mirrored = np.repeat(placed.mirrored[chosen], counts)
        points[mirrored, 0] = canvas[mirrored, 0] - points[mirrored, 0]
    return points, counts


def _warped_corners(matrix: Doubles, corners: Doubles) -> Doubles:
    """[n, 4] the upright boxes around the warped ones."""
    if not matrix[:, 2, :2].any():
        centre = (corners[:, :2] + corners[:, 2:]) / 2
        half = (corners[:, 2:] - corners[:, :2]) / 2
        x, y = apply(matrix, centre, 1)
        reach = np.abs(matrix[:, :2, :2])
        across, down = (reach[:, i, 0] * half[:, 0] + reach[:, i, 1] * half[:, 1] for i in (0, 1))
        return np.stack((x - across, y - down, x + across, y + down), axis=1)
    points = corners[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2)
    x, y = (axis.reshape(-1, 4).T for axis in apply(matrix, points, 4))
    return np.stack((x.min(axis=0), y.min(axis=0), x.max(axis=0), y.max(axis=0)), axis=1)


def _polygon_boxes(plan: Plan, index: ImageIndex, placed: PlacedBoxes, chosen: Ints, matrix: Doubles) -> Doubles:
    """The upright boxes around the parts of the warped polygons in the image; without area if there are none."""
    points, counts = polygons_on_canvas(placed, index, chosen)
    x, y = apply(matrix[chosen], points, counts)
    ends = starts_of(counts)
    extremes = (np.minimum.reduceat, np.maximum.reduceat)
    boxes = np.stack([extreme(axis, ends[:-1]) for extreme in extremes for axis in (x, y)], axis=1)
    low, high = boxes[:, :2], boxes[:, 2:]
    limit = np.array((plan.width, plan.height), np.float64)
    crossing = np.flatnonzero(((low < 0) | (high > limit)).any(axis=1) & ((high >= 0) & (low <= limit)).all(axis=1))
    boxes[((high < 0) | (low > limit)).any(axis=1)] = 0
    if len(crossing):
        edge = expand(ends[crossing], ends[crossing + 1])
        following = edge + 1
        following[starts_of(counts[crossing])[1:] - 1] = ends[crossing]  # the corner after the last is the first
        boxes[crossing] = _boxes_of_cut_edges(x, y, edge, following, starts_of(counts[crossing])[:-1], limit)
    return boxes


def _boxes_of_cut_edges(x: Doubles, y: Doubles, edge: Ints, following: Ints, first: Ints, limit: Doubles) -> Doubles:
    """Boxes around polygons' edges, each edge cut where the image ends (Liang–Barsky); zeros if nothing is left."""
    enter, leave = np.zeros(len(edge)), np.ones(len(edge))
    axes = [(axis[edge], axis[following] - axis[edge], side) for axis, side in zip((x, y), limit, strict=True)]
    for start, step, side in axes:
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = -start / step, (side - start) / step
        still, within = step == 0, (start >= 0) & (start <= side)
        enter = np.maximum(enter, np.where(still, np.where(within, 0, np.inf), np.minimum(one, other)))
        leave = np.minimum(leave, np.where(still, np.where(within, 1, -np.inf), np.maximum(one, other)))
    lost = enter > leave
    enter, leave = np.where(lost, 0, enter), np.where(lost, 0, leave)
    ends = [(start + step * enter, start + step * leave) for start, step, _ in axes]
    low = [np.minimum.reduceat(np.where(lost, np.inf, np.minimum(*pair)), first) for pair in ends]
    high = [np.maximum.reduceat(np.where(lost, -np.inf, np.maximum(*pair)), first) for pair in ends]
    boxes = np.stack((*low, *high), axis=1)
    return np.where(np.isfinite(boxes).all(axis=1, keepdims=True), boxes, 0.0)


def _enough_left(before: Doubles, after: Doubles, least_area: Doubles) -> Bools:
    """Boxes worth learning: not too small, not too cut, not too thin."""
    old_width, old_height = (before[:, 2:] - before[:, :2]).T
    width, height = (after[:, 2:] - after[:, :2]).T
    aspect = np.maximum(width / (height + _TINY), height / (width + _TINY))
    area = width * height / (old_width * old_height + _TINY)
    large = (width > _SMALLEST_SIDE) & (height > _SMALLEST_SIDE)
    keep: Bools = large & (area > least_area) & (aspect < _LARGEST_ASPECT)
    return keep
