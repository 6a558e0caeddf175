"""Images that vanish during training stand in as grey, without boxes, rather than end the run (`--skip-bad`)."""

import dataclasses
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from yolofast.augment.plan import FILL
from yolofast.augment.planner import Planner
from yolofast.errors import UserError
from yolofast.pixels import Image, ImageSource

_MOST_MISSING = 16
"""In one batch. More than that is not a bad file but a drive that is gone."""


class ForgivingImages:
    """A source that gives a grey image for one that cannot be read, and remembers why."""

    def __init__(self, images: ImageSource) -> None:
        self._images = images
        self.missing: dict[int, UserError] = {}

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        return self._images.sizes

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
    """The same planner, to which these images are empty: their boxes count as crowds, which nobody learns."""
    index = planner.index
    crowd = index.crowd.copy()
    for image in missing:
        crowd[index.boxes_of(image)] = True
    return dataclasses.replace(planner, index=dataclasses.replace(index, crowd=crowd))
