"""Which images a detector does worst on: of each, how many boxes it missed and how many wrong ones it found.

Only two numbers per image are stored, and the detections of the few worst. So counting them in every evaluation costs
next to nothing, in memory and between processes. What is shown of an image is what it was ranked by.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yolofast.evaluate.matching import GroundTruth, pair_up, right_detections
from yolofast.image_index import Ints
from yolofast.structures import Detections

CONFIDENCE = 0.25
"""From which on a detection counts; it is right if it overlaps a box of its class by more than a half."""
MOST_IMAGES = 12
"""Of which the detections are stored."""


class FaultyImage(NamedTuple):
    place: int
    missed: int
    wrong: int
    counted: Detections
    """The detections by which it was judged."""

    @property
    def rank(self) -> tuple[int, int, int]:
        return -(self.missed + self.wrong), -self.missed, self.place


@dataclass(frozen=True)
class Judged:
    """The detections of one image that count, and the true boxes, with what became of them."""

    right: Detections
    wrong: Detections
    missed: GroundTruth


class ImageFaults:
    """Takes batches of any size. Images are identified by their place in the split."""

    def __init__(self) -> None:
        self._rows: list[Ints] = [np.zeros((0, 3), np.int64)]
        """[n, 3] place, missed, wrong."""
        self._worst: list[FaultyImage] = []

    def add(self, detections: Sequence[Detections], truth: Sequence[GroundTruth], places: Ints) -> None:
        """One entry per image in all three."""
        counted = [one[one.scores > CONFIDENCE] for one in detections]
        right = right_detections(pair_up(counted, truth, same_class=True))[:, 0]
        image = np.repeat(np.arange(len(counted)), [len(one) for one in counted])
        found = np.bincount(image[right], minlength=len(counted))
        missed = np.array([len(one.labels) for one in truth], np.int64) - found
        wrong = np.array([len(one) for one in counted], np.int64) - found
        rows = np.stack((places, missed, wrong), axis=1)
        self._rows.append(rows)
        self._keep_worst([FaultyImage(*row) for row in zip(*rows.T.tolist(), counted, strict=True)])

    def merge(self, other: "ImageFaults") -> None:
        """Add what another process gathered."""
        self._rows += other._rows
        self._keep_worst(other._worst)

    def worst(self) -> list[FaultyImage]:
        """The first ones of `per_image`, at most `MOST_IMAGES`."""
        return self._worst

    def per_image(self) -> npt.NDArray[np.int64]:
        """[n, 3] place, missed, wrong; the worst first, of equals the one that comes first in the split."""
        rows = np.concatenate(self._rows)
        places, missed, wrong = rows.T
        return rows[np.lexsort((places, -missed, -(missed + wrong)))]

    def _keep_worst(self, more: list[FaultyImage]) -> None:
        self._worst = sorted([*self._worst, *more], key=lambda image: image.rank)[:MOST_IMAGES]


def judge(found: Detections, truth: GroundTruth) -> Judged:
    """One image, by the same rule."""
    counted = found[found.scores > CONFIDENCE]
    counted = counted[np.argsort(-counted.scores, kind="stable")]
    flat = pair_up([counted], [truth], same_class=True)
    right = right_detections(flat)[:, 0]
    taken = np.zeros(len(truth.labels), np.bool_)
    for detection in np.flatnonzero(right):
        own = flat.detection == detection
        taken[flat.truth[own][flat.overlap[own].argmax()]] = True
    return Judged(counted[right], counted[~right], GroundTruth(truth.boxes[~taken], truth.labels[~taken]))
