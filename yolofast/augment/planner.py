"""Batches of one data set, planned: what they show, which boxes that has, and what is pasted into it.

Pasted objects are mirrored on their own canvas (copy_paste), or come from other images (paste_in). Both need polygons.
Whether an object finds room depends on the boxes already there, so a few images of a batch are planned one object at a
time.
"""

import dataclasses
from dataclasses import KW_ONLY, dataclass, field

import cv2
import numpy as np
import numpy.typing as npt

from yolofast.augment.by_head import HeadPolicy
from yolofast.augment.draws import Doubles, uniform, whole
from yolofast.augment.labels import (
    LabelledBoxes,
    PlacedBoxes,
    first_boxes,
    on_canvas,
    place_boxes,
    polygons_on_canvas,
    taken,
    to_rows,
    transform_labels,
)
from yolofast.augment.plan import Copies, Mask, Pastes, Plan, draw_plan
from yolofast.augment.recipe import Recipe
from yolofast.errors import UserError, shorten
from yolofast.image_index import ImageIndex, Ints

_COPY_STREAM, _PASTE_STREAM = 1, 2
_MOST_COPIES = 64
_MOST_COVERED = 0.30
# Largest share of the output's sides each slot may take.
_SLOTS = (0.75,) * 2 + (0.5,) * 4 + (0.25,) * 4 + (0.125,) * 4 + (0.0625,) * 6
_SKIPPED = 0.2
_SLOT_OVER, _OBJECT_OVER, _MASK_OVER = 20, 10, 60


def objects_with_polygon(index: ImageIndex) -> Ints:
    """Places in the index of what may be pasted."""
    return np.flatnonzero((np.diff(index.point_starts) > 0) & ~index.crowd)


def add_copies(plan: Plan, placed: PlacedBoxes, index: ImageIndex) -> tuple[Plan, PlacedBoxes]:
    """Mosaics get mirrored copies of some of their objects, each where it covers little of any box there."""
    share = plan.recipe.copy_paste
    corners = on_canvas(placed, index)
    draws = uniform(*plan.key, plan.positions, 2 * _MOST_COPIES, _COPY_STREAM).reshape(len(plan), 2, _MOST_COPIES)
    mosaic = (plan.source_BVT >= 0).sum(axis=2).reshape(-1) > 1
    views, masks, copied = [], [], []
    for view in np.unique(placed.view[mosaic[placed.view]]):
        own = np.flatnonzero(placed.view == view)
        chosen = _copies_of(own, corners, placed, index, share, draws[view // 2, view % 2])
        if len(chosen):
            views.append(int(view))
            masks.append(_mirrored_mask(chosen, placed, index, plan.canvas_BV2.reshape(-1, 2)[view]))
            copied.append(chosen)
    if not copied:
        return plan, placed
    plan = dataclasses.replace(plan, copies=Copies(np.array(views), tuple(masks)))
    return plan, _with_mirrored(placed, np.concatenate(copied))


def _copies_of(
    own: Ints, corners: Doubles, placed: PlacedBoxes, index: ImageIndex, share: float, draws: Doubles
) -> Ints:
    candidates = own[np.diff(index.point_starts)[placed.box[own]] > 0][:_MOST_COPIES]
    order = np.argsort(draws[: len(candidates)], kind="stable")[: round(share * len(candidates))]
    width = placed.canvas[own[0], 0]
    there = corners[own]
    chosen = []
    for candidate in candidates[np.sort(order)]:
        mirrored = corners[candidate].copy()
        mirrored[0::2] = width - mirrored[2::-2]
        if (covered_share(mirrored, there) < _MOST_COVERED).all():
            chosen.append(candidate)
            there = np.concatenate((there, mirrored[None]))
    return np.array(chosen, dtype=np.int64)


def _mirrored_mask(chosen: Ints, placed: PlacedBoxes, index: ImageIndex, canvas: Ints) -> Mask:
    points, counts = polygons_on_canvas(placed, index, chosen)
    mask = np.zeros((int(canvas[1]), int(canvas[0])), np.uint8)
    for polygon in np.split(points, np.cumsum(counts)[:-1]):
        cv2.fillPoly(mask, [polygon.astype(np.int32)], (1,))
    return np.ascontiguousarray(mask[:, ::-1])


def _with_mirrored(placed: PlacedBoxes, copied: Ints) -> PlacedBoxes:
    """The boxes with those of the copies behind each view's own."""
    everything = np.concatenate((np.arange(len(placed.view)), copied))
    is_copy = np.arange(len(everything)) >= len(placed.view)
    order = np.argsort(placed.view[everything], kind="stable")
    return dataclasses.replace(taken(placed, everything[order]), mirrored=is_copy[order])


@dataclass(frozen=True)
class _Pasted:
    source: int
    label: int
    crop: Doubles
    place: Ints
    mask: Mask

    @property
    def corners(self) -> Ints:
        return np.concatenate((self.place[:2], self.place[:2] + self.place[2:]))


def add_pastes(
    plan: Plan, boxes: LabelledBoxes, index: ImageIndex, stored_sizes: Ints, objects: Ints
) -> tuple[Plan, LabelledBoxes]:
    """Some images get objects of other images, scaled into random slots that cover little of any box there."""
    draws = uniform(*plan.key, plan.positions, 1 + 6 * len(_SLOTS), _PASTE_STREAM)
    pasted: list[tuple[int, _Pasted]] = []
    for image in np.flatnonzero(draws[:, 0] < plan.recipe.paste_in) if len(objects) else ():
        there = boxes.corners[boxes.image == image]
        new = _paste_into(plan, there, draws[image, 1:].reshape(-1, 6), index, stored_sizes, objects)
        pasted += [(int(image), item) for item in new]
    if not pasted:
        return plan, boxes
    images = np.array([image for image, _ in pasted])
    items = [item for _, item in pasted]
    pastes = Pastes(
        image=images,
        source=np.array([item.source for item in items]),
        crop=np.stack([item.crop for item in items]),
        place=np.stack([item.place for item in items]),
        masks=tuple(item.mask for item in items),
    )
    boxes = LabelledBoxes(
        np.concatenate((boxes.image, images)),
        np.concatenate((boxes.view, np.zeros_like(images))),
        np.concatenate((boxes.label, [item.label for item in items])),
        np.concatenate((boxes.corners, [item.corners for item in items])),
    )
    return dataclasses.replace(plan, pastes=pastes), taken(boxes, np.argsort(boxes.image, kind="stable"))


def _paste_into(
    plan: Plan, there: Doubles, draws_S6: Doubles, index: ImageIndex, stored_sizes: Ints, objects: Ints
) -> list[_Pasted]:
    pasted = []
    for share, draw in zip(_SLOTS, draws_S6, strict=True):
        slot = _slot(plan, share, draw[1:5])
        too_small = (slot[2:] - slot[:2] <= _SLOT_OVER).any()
        if draw[0] < _SKIPPED or too_small or not (covered_share(slot, there) < _MOST_COVERED).all():
            continue
        item = _fit_object(index, int(objects[whole(len(objects), draw[5])]), stored_sizes, slot)
        if item is not None:
            pasted.append(item)
            there = np.concatenate((there, item.corners[None]))
    return pasted


def _slot(plan: Plan, share: float, draw: Doubles) -> Doubles:
    """x1, y1, x2, y2: a random size up to the share of the output, at a random place, cut where the output ends."""
    output = np.array((plan.width, plan.height))
    side = 1 + whole(np.maximum((output * share).astype(np.int64), 1), draw[:2])
    low = np.maximum(whole(output, draw[2:]) - side // 2, 0)
    return np.concatenate((low, np.minimum(low + side, output))).astype(np.float64)


def _fit_object(index: ImageIndex, box: int, stored_sizes: Ints, slot: Doubles) -> _Pasted | None:
    """The object as large as fits into the slot, or None if it would be too small to see."""
    source = int(np.searchsorted(index.starts, box, side="right") - 1)
    polygon = index.points[index.point_starts[box] : index.point_starts[box + 1]] * stored_sizes[source]
    # A polygon without area on the far edge still takes the last pixels, not those behind them.
    low = np.minimum(np.floor(polygon.min(axis=0)), stored_sizes[source] - 1)
    crop = np.maximum(np.ceil(polygon.max(axis=0)) - low, 1)
    scale = ((slot[2:] - slot[:2]) / crop).min()
    side = (crop * scale).astype(np.int64)
    if (side <= _OBJECT_OVER).any():
        return None
    mask = np.zeros((int(side[1]), int(side[0])), np.uint8)
    cv2.fillPoly(mask, [((polygon - low) * scale).astype(np.int32)], (1,))
    if mask.sum() <= _MASK_OVER:
        return None
    place = np.concatenate((slot[:2].astype(np.int64), side))
    return _Pasted(source, int(index.labels[box]), np.concatenate((low, crop)), place, mask)


def covered_share(corners: Doubles, there: Doubles) -> Doubles:
    """[n] how much of each box a rectangle covers."""
    overlap = np.minimum(corners[2:], there[:, 2:]) - np.maximum(corners[:2], there[:, :2])
    area = (there[:, 2:] - there[:, :2]).prod(axis=1)
    share: Doubles = np.maximum(overlap, 0).prod(axis=1) / np.maximum(area, 1e-16)
    return share


@dataclass(frozen=True)
class PlannedBatch:
    plan: Plan
    rows: npt.NDArray[np.float32]
    """[n, 6] image class cx cy w h, normalised: what the rendered images show."""


@dataclass(eq=False, repr=False)
class Planner:
    """Plans are a pure function of seed, epoch, positions and images: any process may make any of them."""

    index: ImageIndex
    stored_sizes: Ints
    recipe: Recipe
    width: int
    height: int
    _: KW_ONLY
    seed: int = 0
    heads: HeadPolicy | None = None
    most_boxes: tuple[int, int] | None = None
    """Of an image by itself, and of a mosaic; those beyond are left out."""
    _objects: Ints = field(init=False)
    _labelled: Ints = field(init=False)
    """Images with boxes."""
    _changed: dict[tuple[int, int, bool, float], "Planner"] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        _check(self.index, self.stored_sizes, self.width, self.height, self.seed)
        self._objects = objects_with_polygon(self.index) if self.recipe.paste_in > 0 else np.zeros(0, np.int64)
        self._labelled = np.unique(self.index.image_of_box()[~self.index.crowd])

    def changed(self, height: int, width: int, mosaic: bool, strength: float = 1.0) -> "Planner":
        """The same images in batches of another shape, with the recipe's mosaics or without any. Made once each."""
        key = height, width, mosaic, strength
        if key == (self.height, self.width, True, 1.0):
            return self
        if key not in self._changed:
            recipe = self.recipe if mosaic else self.recipe.without_mosaic()
            recipe = recipe if strength == 1 else recipe.weakened(strength)
            self._changed[key] = dataclasses.replace(self, recipe=recipe, width=width, height=height)
        return self._changed[key]

    def plan(self, images: npt.ArrayLike, positions: npt.ArrayLike, epoch: int) -> PlannedBatch:
        """The batch of these images, which are at these positions of the epoch."""
        plan = draw_plan(
            self.recipe, images, positions, self.stored_sizes, self.width, self.height,
            seed=self.seed, epoch=epoch, labelled=self._labelled, heads=self.heads,
        )  # fmt: skip
        placed = place_boxes(plan, self.index, self.stored_sizes)
        if self.recipe.style == "yolox":
            plan, placed = _blend_only_into_labelled(plan, placed)
        if self.recipe.copy_paste > 0:
            plan, placed = add_copies(plan, placed, self.index)
        boxes = transform_labels(placed, plan, self.index)
        if self.recipe.paste_in > 0:
            plan, boxes = add_pastes(plan, boxes, self.index, self.stored_sizes, self._objects)
        rows = to_rows(boxes, plan)
        return PlannedBatch(plan, rows if self.most_boxes is None else first_boxes(rows, plan, *self.most_boxes))


def _check(index: ImageIndex, stored_sizes: Ints, width: int, height: int, seed: int) -> None:
    if width < 1 or height < 1:
        raise UserError(f"images of {width}×{height} pixels cannot be planned", fix="give sizes above 0")
    if np.shape(stored_sizes) != (len(index), 2):
        what = f"the stored sizes have shape {np.shape(stored_sizes)}, but there are {len(index):,} images"
        raise UserError(what, fix="give the images of the same split: Planner(index, images.sizes, …)")
    if not 0 <= seed < 2**64:
        raise UserError(f"the seed is {shorten(seed)}", fix="give one from 0 to 2^64 - 1")


def _blend_only_into_labelled(plan: Plan, placed: PlacedBoxes) -> tuple[Plan, PlacedBoxes]:
    """YOLOX blends nothing into a mosaic of images without boxes. Whether a box is still in sight does not matter."""
    views = plan.source_BVT.shape[1]
    bare = np.ones(len(plan), np.bool_)
    bare[placed.view[placed.view % views == 0] // views] = False
    source_BVT, blend_B = plan.source_BVT.copy(), np.where(bare, 1.0, plan.blend_B)
    source_BVT[bare, 1] = -1
    plan = dataclasses.replace(plan, source_BVT=source_BVT, blend_B=blend_B)
    return plan, taken(placed, ~bare[placed.view // views])
