"""The Kalman filters of ByteTrack and BoT-SORT. They differ in what they estimate of a box."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from yolofast.track.trackers.motion import kalman
from yolofast.track.trackers.motion.model import Gaps, Motion
from yolofast.track.trackers.state import array_of
from yolofast.track.trackers.tracks import Bools, Floats, Ints, TrackerFrame

_HALF = np.array(0.5)
"""An array, because a call takes it faster than a number."""


class Noise(NamedTuple):
    """Variances: shares of the squared size, but for the aspect ratio, the third coordinate, if that is estimated."""

    shares: Floats
    """One for each coordinate, or for each row of the squared size that stands for two."""
    aspects: tuple[float, ...] | None
    variances: int
    """How many a coordinate has."""

    def of(self, squared_size: Floats) -> Floats:
        """[variances, 4, n] of [n], or of [2, n] for sizes along x and y."""
        found: Floats = np.multiply.outer(self.shares, squared_size).reshape(self.variances, 4, squared_size.shape[-1])
        if self.aspects is not None:
            for place, aspect in enumerate(self.aspects):
                found[place, 2] = aspect
        return found


def _noise(*deviations: float, aspect: tuple[float, ...] | None = None) -> Noise:
    """Standard deviations as shares of the size; those of the aspect ratio are given. Of three the second belongs to
    the covariance of position and velocity, which is 0."""
    each = 2 if aspect is None else 4
    shares = np.repeat([one * one for one in deviations], each)
    aspects = None if aspect is None else tuple(one * one for one in aspect)
    return Noise(shares, aspects, len(deviations))


class _Kalman(Motion):
    """Four coordinates and their velocities; what the coordinates are is the subclass's."""

    process: ClassVar[Noise]
    """Of position and velocity, per frame."""
    at_birth: ClassVar[Noise]
    measurement: ClassVar[Noise]
    size_velocities: ClassVar[slice]
    """They are forgotten when a track is lost."""

    def clear(self) -> None:
        self._filters = np.zeros((5, 4, 0))
        self._blocks: Floats | None = None
        """Covariances, once the camera has moved."""

    def born(self, boxes: Floats, place: int) -> None:
        filters, old = np.zeros((5, 4, len(boxes))), self._filters
        filters[0] = self._measured(boxes)
        filters[2:] = self.at_birth.of(self._squared_size(filters[0]))
        self._filters = np.concatenate((old[:, :, :place], filters, old[:, :, place:]), axis=2)
        if self._blocks is not None:
            parts = self._blocks[..., :place], kalman.blocks(filters[2:]), self._blocks[..., place:]
            self._blocks = np.concatenate(parts, axis=-1)

    def take(self, rows: Ints) -> None:
        self._filters = self._filters.take(rows, 2)
        if self._blocks is not None:
            self._blocks = self._blocks.take(rows, -1)

    def predict(self, frame: TrackerFrame, tracked: int, waiting: Bools | None) -> None:
        filters, elapsed = self._filters, frame.elapsed if waiting is None else np.where(waiting, 0.0, frame.elapsed)
        filters[1, self.size_velocities, tracked:] = 0.0
        noise = self.process.of(self._squared_size(filters[0]))
        if self._blocks is None:
            kalman.predict(filters, elapsed, noise)
        else:
            kalman.predict_blocks(filters[:2], self._blocks, elapsed, noise)

    def warp(self, matrix: Floats) -> None:
        if self._blocks is None:
            self._blocks = kalman.blocks(self._filters[2:])
        kalman.warp_blocks(self._filters[:2], self._blocks, matrix)

    def correct(self, rows: Ints, boxes: Floats, gaps: Gaps | None = None) -> None:
        filters, blocks = self._corrected(rows, boxes)
        self._filters[:, :, rows] = filters
        if self._blocks is not None:
            self._blocks[..., rows] = blocks

    def follow(self, rows: Ints, boxes: Floats, others: Ints) -> None:
        filters, blocks = self._corrected(rows, boxes)
        self._filters = np.concatenate((filters, self._filters.take(others, 2)), axis=2)
        if self._blocks is not None:
            self._blocks = np.concatenate((blocks, self._blocks.take(others, -1)), axis=-1)

    def _corrected(self, rows: Ints, boxes: Floats) -> tuple[Floats, Floats]:
        """The filters and blocks of these rows. Without camera motion there are no blocks, and what is returned for
        them means nothing."""
        filters, measured = self._filters.take(rows, 2), self._measured(boxes)
        noise = self.measurement.of(self._squared_size(filters[0]))[0]
        if self._blocks is None:
            kalman.correct(filters, measured, noise)
            return filters, noise
        blocks = self._blocks.take(rows, -1)
        kalman.correct_blocks(filters[:2], blocks, measured, noise)
        return filters, blocks

    def state_dict(self) -> dict[str, Any]:
        blocks = {} if self._blocks is None else {"blocks": self._blocks.copy()}
        return {"filters": self._filters.copy(), **blocks}

    def load_state_dict(self, state: Mapping[str, Any], count: int) -> None:
        filters = array_of(state, "filters", (5, 4, count), np.float64)
        blocks = array_of(state, "blocks", (3, 2, 2, 2, count), np.float64) if "blocks" in state else None
        self._filters, self._blocks = filters, blocks

    @abstractmethod
    def _measured(self, boxes: Floats) -> Floats:
        """The coordinates that are estimated, [4, n]."""

    @abstractmethod
    def _squared_size(self, position: Floats) -> Floats:
        """What noises are proportional to, of positions [4, n]: [n], or [2, n] along x and y."""


class KalmanAspect(_Kalman):
    """ByteTrack's: centre, aspect ratio and height; noises are proportional to the height, that of the ratio is not."""

    name = "kalman_aspect"
    process = _noise(1 / 20, 0.0, 1 / 160, aspect=(1e-2, 0.0, 1e-5))
    at_birth = _noise(2 / 20, 0.0, 10 / 160, aspect=(1e-2, 0.0, 1e-5))
    measurement = _noise(1 / 20, aspect=(1e-1,))
    size_velocities = slice(3, 4)

    def boxes(self) -> Floats:
        position = self._filters[0]
        half = position[2:] * _HALF
        half[0] *= position[3]
        return _around(position[:2], half)

    def _measured(self, boxes: Floats) -> Floats:
        found = centre_and_size(boxes)
        found[2] /= found[3]
        return found

    def _squared_size(self, position: Floats) -> Floats:
        height = position[3]
        return np.asarray(height * height)


class KalmanSides(_Kalman):
    """BoT-SORT's: centre, width and height; noises are proportional to the side along their axis."""

    name = "kalman_sides"
    process = _noise(1 / 20, 0.0, 1 / 160)
    at_birth = _noise(2 / 20, 0.0, 10 / 160)
    measurement = _noise(1 / 20)
    size_velocities = slice(2, 4)

    def boxes(self) -> Floats:
        position = self._filters[0]
        return _around(position[:2], position[2:] * _HALF)

    def _measured(self, boxes: Floats) -> Floats:
        return centre_and_size(boxes)

    def _squared_size(self, position: Floats) -> Floats:
        sides = position[2:]
        return np.asarray(sides * sides)


def centre_and_size(boxes: Floats) -> Floats:
    """[4, n] of [n, 4]."""
    corners, found = boxes.T, np.empty((4, len(boxes)))
    centre, size = found[:2], found[2:]
    np.subtract(corners[2:], corners[:2], out=size)
    np.multiply(size, _HALF, out=centre)
    centre += corners[:2]
    return found


def _around(centre: Floats, half: Floats) -> Floats:
    """Boxes [n, 4] of centres and halves of sizes, [2, n]. In memory they lie coordinate by coordinate, as all arrays
    here."""
    found = np.empty((4, centre.shape[1]))
    np.subtract(centre, half, out=found[:2])
    np.add(centre, half, out=found[2:])
    return found.T
