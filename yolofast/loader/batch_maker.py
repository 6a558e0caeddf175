"""One batch from start to end: planned, rendered by OpenCV, its boxes padded. Every process makes the same one.

Images that vanish during training are grey and without boxes, instead of ending the run (`--skip-bad`).
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from yolofast.augment.plan import FILL
from yolofast.augment.planner import Planner
from yolofast.augment.render_cv2 import render
from yolofast.errors import UserError
from yolofast.image_index import Ints
from yolofast.loader.quad import choose_enlarged, join_images, join_rows
from yolofast.pixels import Image, ImageSource
from yolofast.structures import QUAD_IMAGES, BatchMix, Targets

Rows = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]
Shape = tuple[int, int, int, int]

_MOST_MISSING = 16
"""In one batch. More than that is not a bad file but a drive that is gone."""


class TolerantImages:
    """A source that gives a grey image for one that cannot be read, and remembers why."""

    def __init__(self, images: ImageSource) -> None:
        self._images, self.sizes = images, images.sizes
        self.missing: dict[int, UserError] = {}

    def image(self, index: int) -> Image:
        if index not in self.missing:
            try:
                return self._images.image(index)
            except UserError as error:
                self._note(index, error)
        width, height = self.sizes[index]
        return np.full((int(height), int(width), 3), FILL, np.uint8)

    def _note(self, index: int, error: UserError) -> None:
        self.missing[index] = error
        if len(self.missing) > _MOST_MISSING:
            what = f"{len(self.missing)} images of one batch cannot be read; one of them: {error.what}"
            raise UserError(what, where=error.where, fix="check that the drive is still there") from error


def without_boxes_of(planner: Planner, missing: Iterable[int]) -> Planner:
    """The same planner, to which these images are empty: their boxes count as crowds, which are not trained on."""
    index = planner.index
    crowd = index.crowd.copy()
    for image in missing:
        crowd[index.boxes_of(image)] = True
    return dataclasses.replace(planner, index=dataclasses.replace(index, crowd=crowd))


@dataclass(frozen=True)
class Job:
    """What a batch is made of."""

    images: Ints
    positions: Ints
    epoch: int
    width: int
    height: int
    """Of the single images, before four of them are joined."""
    mosaic: bool
    """Whether the recipe's mosaics (and what builds upon them) are allowed."""
    strength: float = 1.0
    """Of augmentation."""


@dataclass(frozen=True)
class Made:
    targets: Targets
    mix: BatchMix
    skipped: tuple[str, ...] = ()
    """One message for each image that could not be read and is grey instead."""


class BatchMaker:
    """Holds what all batches of a run have in common; forked processes share it."""

    def __init__(
        self, planner: Planner, images: ImageSource, *, rgb: bool = True, quad: bool = False, skip_bad: bool = False
    ) -> None:
        self.planner, self.images = planner, images
        self.rgb, self.quad, self.skip_bad = rgb, quad, skip_bad

    def shape(self, job: Job) -> Shape:
        """Of the batch's images."""
        if self.quad:
            return len(job.images) // QUAD_IMAGES, 3, 2 * job.height, 2 * job.width
        return len(job.images), 3, job.height, job.width

    def sources(self, job: Job) -> Ints:
        """Which image of the data set each image of the batch is, or begins with."""
        if not self.quad:
            return job.images
        enlarged = self._enlarged(job)
        return job.images[np.where(enlarged >= 0, enlarged, np.arange(len(enlarged)) * QUAD_IMAGES)]

    def make(self, job: Job, out: Pixels) -> Made:
        """Render the batch into `out`, which has its shape."""
        if not self.quad:
            rows, mix, skipped = self._render(job, out)
        else:
            single = np.empty((len(job.images), 3, job.height, job.width), np.uint8)
            rows, mix, skipped = self._render(job, single)
            enlarged = self._enlarged(job)
            join_images(single, enlarged, out)
            rows = join_rows(rows, enlarged)
        return Made(Targets.from_rows(torch.from_numpy(rows), len(out)), mix, skipped)

    def _enlarged(self, job: Job) -> Ints:
        return choose_enlarged(self.planner.seed, job.epoch, job.positions)

    def _render(self, job: Job, out: Pixels) -> tuple[Rows, BatchMix, tuple[str, ...]]:
        planner = self.planner.changed(job.height, job.width, job.mosaic, job.strength)
        if not self.skip_bad:
            return *_plan_and_render(planner, job, self.images, out, self.rgb), ()
        # Which images are needed is known only by rendering, and an image that is missing takes its boxes with it: the
        # batch is made again until nothing new is missing. Nothing is remembered, so no process knows more than others.
        tolerant = TolerantImages(self.images)
        rows, mix = _plan_and_render(planner, job, tolerant, out, self.rgb)
        known = 0
        while known < len(tolerant.missing):
            known = len(tolerant.missing)
            rows, mix = _plan_and_render(without_boxes_of(planner, tolerant.missing), job, tolerant, out, self.rgb)
        return rows, mix, tuple(str(error) for error in tolerant.missing.values())


def _plan_and_render(planner: Planner, job: Job, images: ImageSource, out: Pixels, rgb: bool) -> tuple[Rows, BatchMix]:
    planned = planner.plan(job.images, job.positions, job.epoch)
    render(planned.plan, images, out, rgb=rgb)
    return planned.rows, planned.plan.mix()
