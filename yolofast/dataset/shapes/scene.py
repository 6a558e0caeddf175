"""One picture of the built-in data set: shapes laid over one another, and what is still visible of each.

A map of owners says which shape each pixel shows. A shape is only laid down where it leaves enough of every other one
to be recognised; boxes, areas and polygons are read off that map in the end, so they describe what is visible.
"""

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.dataset.shapes.outline import FULL, NAMES, Mask, rasterise
from yolofast.dataset.shapes.paint import Pixels, background, blend, texture

Flags = npt.NDArray[np.bool_]

SIZES = ((320, 240), (240, 320), (320, 320), (320, 200), (256, 256))
"""Width and height of pictures."""
MOST_SHAPES = 5
SMALLEST, LARGEST = 0.16, 0.60
"""A shape's longest side as a share of the picture's shorter one."""
LEAST_VISIBLE = 0.3
"""The share of a shape's pixels that must be visible."""
LEAST_SIDE = 4
"""Pixels of the visible box: less is no longer a shape."""
_LEAST_INSIDE = 0.85
_SPECK_SHARE, _SPECK_PIXELS = 0.02, 4
"""Visible parts smaller than this share of all, or these pixels, do not count."""
_SIMPLER_BY = 1.5
"""Half pixels a polygon may stray: 35 corners on average, where 1.0 leaves 93."""
_TRIES = 20


@dataclass(frozen=True)
class VisibleShape:
    label: int
    box: tuple[int, int, int, int]
    """Left, top, width, height in pixels, tight around what is visible."""
    area: int
    """Visible pixels."""
    polygons: list[list[float]]
    """x, y, x, y, … around each visible part. Holes, and shapes lying inside, are not cut out: polygons cannot."""


@dataclass(frozen=True)
class DrawnScene:
    image: Pixels
    shapes: tuple[VisibleShape, ...]


def draw_scene(rng: np.random.Generator) -> DrawnScene:
    width, height = SIZES[rng.integers(len(SIZES))]
    canvas = _Canvas(background(rng, height, width))
    for label, mask in _draw_shapes(rng, min(width, height)):
        _lay_down(rng, canvas, label, mask)
    return DrawnScene(canvas.image, tuple(canvas.visible_shapes()))


def _draw_shapes(rng: np.random.Generator, short_side: int) -> list[tuple[int, Mask]]:
    """Random shapes in the order they are laid down: large ones tend to come first, so that more of them fit."""
    shapes, order = [], []
    for _ in range(rng.integers(1, MOST_SHAPES + 1)):
        # Evenly spread on a logarithmic scale would make too many tiny ones: the larger of two draws.
        size = SMALLEST * (LARGEST / SMALLEST) ** max(rng.random(), rng.random())
        label, turn, stretch = int(rng.integers(len(NAMES))), rng.random(), 0.75 + 0.5 * rng.random()
        shapes.append((label, rasterise(label, size * short_side, turn, stretch)))
        order.append(-size * (0.5 + rng.random()))
    return [shapes[i] for i in np.argsort(order, kind="stable")]


def _lay_down(rng: np.random.Generator, canvas: "_Canvas", label: int, mask: Mask) -> None:
    """At the first of some random places that suits; without one the shape is left out."""
    height, width = mask.shape
    for _ in range(_TRIES):
        left, top = (
            _random_start(rng, side, room) for side, room in zip((width, height), canvas.owner.shape[::-1], strict=True)
        )
        if canvas.leaves_enough(mask, left, top):
            canvas.add(rng, label, mask, left, top)
            return


def _random_start(rng: np.random.Generator, side: int, room: int) -> int:
    """Where a side of that length starts, so that most of it is within the room."""
    outside = int(side * (1 - _LEAST_INSIDE))
    return int(rng.integers(-outside, room - side + outside + 1))


class _Canvas:
    """The picture so far, and for each pixel the shape it shows (counted from 1; 0 is background)."""

    def __init__(self, image: Pixels) -> None:
        self.image = image
        self.owner: npt.NDArray[np.uint8] = np.zeros(image.shape[:2], np.uint8)
        self._labels: list[int] = []
        self._areas: list[int] = []

    def leaves_enough(self, mask: Mask, left: int, top: int) -> bool:
        """Whether this shape and all it would cover stay visible enough."""
        there, part = overlap(self.owner.shape, mask.shape, left, top)
        solid = mask[part] > FULL // 2
        if not _recognisable(solid, int((mask > FULL // 2).sum())):
            return False
        covered = np.bincount(self.owner[there][solid], minlength=len(self._areas) + 1)
        return all(self._survives(int(other), there, solid) for other in np.flatnonzero(covered[1:]) + 1)

    def _survives(self, shape: int, there: tuple[slice, slice], solid: Flags) -> bool:
        left_over = self.owner == shape
        left_over[there] &= ~solid
        return _recognisable(left_over, self._areas[shape - 1])

    def add(self, rng: np.random.Generator, label: int, mask: Mask, left: int, top: int) -> None:
        height, width = mask.shape
        there, part = overlap(self.owner.shape, mask.shape, left, top)
        solid = mask[part] > FULL // 2
        self._labels.append(label)
        self._areas.append(int((mask > FULL // 2).sum()))
        self.owner[there][solid] = len(self._labels)
        under = self.image[there]
        behind = under[solid].mean(0).astype(np.uint8)
        self.image[there] = blend(under, texture(rng, height, width, behind, label)[part], mask[part])

    def visible_shapes(self) -> list[VisibleShape]:
        return [_describe(label, self.owner == number) for number, label in enumerate(self._labels, 1)]


def overlap(
    canvas: tuple[int, ...], laid_on: tuple[int, ...], left: int, top: int
) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Of two shapes `height, width, …`: the part of the canvas that is covered, and the part of what covers it."""
    (height, width), (rows, columns) = laid_on[:2], canvas[:2]
    above, below = min(max(top, 0), rows), max(min(top + height, rows), 0)
    before, behind = min(max(left, 0), columns), max(min(left + width, columns), 0)
    there = slice(above, max(above, below)), slice(before, max(before, behind))
    return there, (
        slice(there[0].start - top, there[0].stop - top),
        slice(there[1].start - left, there[1].stop - left),
    )


def _recognisable(visible: Flags, whole_area: int) -> bool:
    if not visible.any():
        return False
    _, _, part = without_specks(visible)
    return bool(part.sum() >= LEAST_VISIBLE * whole_area) and min(part.shape) >= LEAST_SIDE


def without_specks(visible: Flags) -> tuple[int, int, Flags]:
    """Left, top and pixels of what catches the eye: single pixels far from the rest would only make the box loose."""
    left, top, part = _cropped(visible)
    _, numbers, stats, _ = cv2.connectedComponentsWithStats(part.view(np.uint8))
    noticed = stats[:, cv2.CC_STAT_AREA] >= max(_SPECK_SHARE * part.sum(), _SPECK_PIXELS)
    noticed[0] = False  # what is not visible
    inner_left, inner_top, part = _cropped(noticed[numbers])
    return left + inner_left, top + inner_top, part


def _cropped(visible: Flags) -> tuple[int, int, Flags]:
    left, top, width, height = (int(value) for value in cv2.boundingRect(visible.view(np.uint8)))
    return left, top, np.ascontiguousarray(visible[top : top + height, left : left + width])


def _describe(label: int, owned: Flags) -> VisibleShape:
    left, top, visible = without_specks(owned)
    height, width = visible.shape
    return VisibleShape(label, (left, top, width, height), int(visible.sum()), _polygons(visible, left, top))


def _polygons(visible: Flags, left: int, top: int) -> list[list[float]]:
    """OpenCV's contours run through the centres of pixels, half a pixel inside; of halved pixels, a quarter."""
    halves = visible.view(np.uint8).repeat(2, 0).repeat(2, 1)
    contours, _ = cv2.findContours(halves, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE, offset=(2 * left, 2 * top))
    simplified = [cv2.approxPolyDP(contour, _SIMPLER_BY, True).reshape(-1, 2) for contour in contours]
    return [((corners + 0.5) / 2).ravel().tolist() for corners in simplified if len(corners) >= 3]
