"""The boxes of a scene in its cameras: key frames as annotated, sweeps in between, filtered and with identities.

A key frame shows the annotations of its sample, from where the vehicle was when that image was taken. A sweep has none:
its boxes are on their way between those of the samples before and after, if an instance is in both. Images before the
first sample or after the last have nothing to go by and are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from yolofast.track.formats.sequence import Bools, Floats, Ints
from yolofast.track.nuscenes.columns import ColumnTable
from yolofast.track.nuscenes.geometry import Solids, between, make_views, see
from yolofast.track.nuscenes.occlusion import covered_shares
from yolofast.track.nuscenes.tables import Tables


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which boxes are kept."""

    min_visibility: int = 1
    """Level, 1 to 4; above 1 those of unknown visibility are left out too."""
    max_occlusion: float = 1.0
    min_size: float = 2.0
    """Pixels of the shorter side."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Boxes(ColumnTable):
    """n boxes, sorted by image."""

    image: Ints
    """[n] row of the image"""
    label: Ints
    instance: Ints
    box: Floats
    """[n, 4] x1, y1, x2, y2 in pixels"""
    level: Ints
    truncated: Floats
    occluded: Floats
    distance: Floats
    """[n] metres on the ground from the vehicle"""


@dataclass(frozen=True, eq=False)
class CameraBoxes:
    """What one camera saw in one scene."""

    camera: int
    images: Ints
    """Rows of its images, one for each frame."""
    frame: Ints
    """[n] of each box, from 1"""
    id: Ints
    """[n] from 1, in the order of appearance"""
    boxes: Boxes


@dataclass(frozen=True, kw_only=True, eq=False)
class _Placed(ColumnTable):
    """Boxes in space, each for one image."""

    image: Ints
    instance: Ints
    level: Ints
    centre: Floats
    size: Floats
    rotation: Floats

    def solids(self) -> Solids:
        return Solids(centre=self.centre, size=self.size, rotation=self.rotation)


class SceneBoxes:
    """Makes the boxes of any scene of the tables."""

    def __init__(self, tables: Tables, filters: Filters) -> None:
        self._tables, self._filters = tables, filters
        scenes = sum(map(len, tables.splits.values()))
        self._first_image = np.searchsorted(tables.images.scene, np.arange(scenes + 1))
        self._first_annotation = np.searchsorted(tables.annotations.sample, np.arange(len(tables.sample_time) + 1))
        by_scene = np.lexsort((tables.sample_time, tables.sample_scene))
        ends = np.searchsorted(tables.sample_scene[by_scene], np.arange(1, scenes))
        self._samples = np.split(by_scene, ends)

    def of(self, scene: int) -> Iterator[CameraBoxes]:
        """Of each camera that took images."""
        images = np.arange(self._first_image[scene], self._first_image[scene + 1])
        samples = self._samples[scene]
        images = images[self._is_annotated(images, samples)]
        boxes = self._seen(self._placed(images, samples))
        camera = self._tables.images.camera[images]
        for number in range(len(self._tables.cameras)):
            own = images[camera == number]  # neighbours, as images are sorted
            if len(own):
                part = boxes[slice(*np.searchsorted(boxes.image, (own[0], own[-1] + 1)).tolist())]
                frame = np.searchsorted(own, part.image) + 1
                yield CameraBoxes(number, own, frame, by_appearance(part.instance), part)

    def _is_annotated(self, images: Ints, samples: Ints) -> Bools:
        time, is_key = self._tables.images.time[images], self._tables.images.is_key[images]
        if not len(samples):
            return is_key
        times = self._tables.sample_time[samples]
        inside: Bools = is_key | ((time >= times[0]) & (time <= times[-1]))
        return inside

    def _placed(self, images: Ints, samples: Ints) -> _Placed:
        """Sorted by image, and within one as the annotations are."""
        tables = self._tables
        is_key = tables.images.is_key[images]
        keys, sweeps = images[is_key], images[~is_key]
        image, row = _each_with([self._rows_of(sample) for sample in tables.images.sample[keys].tolist()], keys)
        parts = [self._at(image, row, row, np.zeros(len(row)))]
        before = np.searchsorted(tables.sample_time[samples], tables.images.time[sweeps], side="right") - 1
        before = np.minimum(before, len(samples) - 2)  # one taken at the time of the last sample is between two, too
        for number, (one, other) in enumerate(pairwise(samples.tolist())):
            parts.append(self._on_the_way(sweeps[before == number], one, other))
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])}
        placed = _Placed(**columns)
        return placed[np.argsort(placed.image, kind="stable")]

    def _on_the_way(self, images: Ints, one: int, other: int) -> _Placed:
        """Instances of two samples, in images taken between them."""
        instance, times = self._tables.annotations.instance, self._tables.sample_time
        first, second = self._rows_of(one), self._rows_of(other)
        _, at, there = np.intersect1d(instance[first], instance[second], assume_unique=True, return_indices=True)
        order = np.argsort(at)
        first, second = first[at[order]], second[there[order]]
        image, pair = _each_with([np.arange(len(first))] * len(images), images)
        share = (self._tables.images.time[image] - times[one]) / max(times[other] - times[one], 1)
        return self._at(image, first[pair], second[pair], share)

    def _at(self, image: Ints, one: Ints, other: Ints, share: Floats) -> _Placed:
        annotations = self._tables.annotations
        solids, after = (
            Solids(centre=annotations.centre[rows], size=annotations.size[rows], rotation=annotations.rotation[rows])
            for rows in (one, other)
        )
        if share.any():
            solids = between(solids, after, share)
        level = np.minimum(annotations.level[one], annotations.level[other])
        return _Placed(image=image, instance=annotations.instance[one], level=level, **vars(solids))

    def _rows_of(self, sample: int) -> Ints:
        return np.arange(self._first_annotation[sample], self._first_annotation[sample + 1])

    def _seen(self, placed: _Placed) -> Boxes:
        """Those that show in their images and that the filters keep."""
        tables, filters = self._tables, self._filters
        images = tables.images[placed.image]
        views = make_views(tables.pose[images.pose], tables.mount[images.calibration], images.size)
        seen = see(placed.solids(), views)
        shown = np.isfinite(seen.box[:, 0])
        away = (placed.centre - tables.pose.place[images.pose])[shown]
        placed, seen = placed[shown], seen[shown]
        boxes = Boxes(
            image=placed.image, label=tables.label[placed.instance], instance=placed.instance, box=seen.box,
            level=placed.level, truncated=seen.truncated, distance=np.hypot(away[:, 0], away[:, 1]),
            occluded=covered_shares(placed.image, seen.box, seen.depth),
        )  # fmt: skip
        sides = boxes.box[:, 2:] - boxes.box[:, :2]
        return boxes[
            (boxes.label >= 0)
            & ((boxes.level >= filters.min_visibility) | (filters.min_visibility <= 1))
            & (boxes.occluded <= filters.max_occlusion)
            & (sides >= filters.min_size).all(axis=1)
        ]


def by_appearance(instance: Ints) -> Ints:
    """Numbers from 1 in the order in which instances appear."""
    _, first, inverse = np.unique(instance, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(1, len(first) + 1)
    return rank[inverse]


def _each_with(rows: Sequence[Ints], images: Ints) -> tuple[Ints, Ints]:
    """Each image with each of its rows."""
    counts = np.array([len(one) for one in rows], np.int64)
    return np.repeat(images, counts), np.concatenate([np.zeros(0, np.int64), *rows])
