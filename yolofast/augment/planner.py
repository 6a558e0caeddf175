"""Batches of one data set, planned: what is seen, which boxes it has, and what is pasted into it."""

import dataclasses
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import numpy.typing as npt

from yolofast.augment.by_head import HeadPolicy
from yolofast.augment.labels import PlacedBoxes, first_boxes, place_boxes, to_rows, transform_labels
from yolofast.augment.paste import add_copies, add_pastes, objects_with_polygon
from yolofast.augment.plan import Plan, draw_plan
from yolofast.augment.recipe import Recipe
from yolofast.errors import UserError, shorten
from yolofast.image_index import ImageIndex

Ints = npt.NDArray[np.int64]


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
    _changed: dict[tuple[int, int, bool], "Planner"] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        _check(self.index, self.stored_sizes, self.width, self.height, self.seed)
        self._objects = objects_with_polygon(self.index) if self.recipe.paste_in > 0 else np.zeros(0, np.int64)
        self._labelled = np.unique(self.index.image_of_box()[~self.index.crowd])

    def changed(self, height: int, width: int, mosaic: bool) -> "Planner":
        """The same images in batches of another shape, with the recipe's mosaics or without any. Made once each."""
        key = height, width, mosaic
        if key == (self.height, self.width, True):
            return self
        if key not in self._changed:
            recipe = self.recipe if mosaic else self.recipe.without_mosaic()
            self._changed[key] = dataclasses.replace(self, recipe=recipe, width=width, height=height)
        return self._changed[key]

    def plan(self, images: npt.ArrayLike, positions: npt.ArrayLike, epoch: int) -> PlannedBatch:
        """The batch of these images, which stand at these positions of the epoch."""
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
    keep = ~bare[placed.view // views]
    kept = {field.name: getattr(placed, field.name)[keep] for field in dataclasses.fields(PlacedBoxes)}
    return dataclasses.replace(plan, source_BVT=source_BVT, blend_B=blend_B), PlacedBoxes(**kept)
