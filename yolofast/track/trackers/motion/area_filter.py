"""OC-SORT's Kalman filter: centre, area and aspect ratio; the last has no velocity.

After a gap it is run again from the first missed frame on, as if the track had been seen in every frame: along the
straight line between the two observations. Variances are in units of the noise of measurements.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from yolofast.track.trackers.motion import kalman
from yolofast.track.trackers.motion.box_filters import centre_and_size
from yolofast.track.trackers.motion.model import Gaps, Motion
from yolofast.track.trackers.state import array_of
from yolofast.track.trackers.tracks import Bools, Floats, Ints, TrackerFrame

_ALONE = (1.0, 1.0, 0.1, 0.1), (0.01, 0.01, 1e-5, 0.0)
"""What a frame adds to the variances of position and velocity."""
_PROCESS_NOISE = kalman.repeated(_ALONE[0], (0.0,) * 4, _ALONE[1])
_AT_BIRTH = kalman.repeated((10.0, 10.0, 1.0, 1.0), (0.0, 0.0, 0.0, 0.0), (1e4, 1e4, 1e3, 0.0))
"""In units of the noise of measurements, which is 1 for the centre and 10 for area and aspect ratio."""
_GUARD, _TINY, _ZERO, _HALF = np.array(1e-6), np.array(1e-12), np.array(0.0), np.array(0.5)
_ONCE, _NEVER = np.array(1.0), np.array(np.inf)
"""The noise of a measurement, and of none."""
_FEW = 2
"""So many tracks are faster in plain Python than in arrays: most gaps are short, the rest are of one or two."""
_TWICE = 0.5
"""Published: what ends a gap counts twice, which is a measurement with half the noise."""


class KalmanArea(Motion):
    name = "kalman_area"

    def clear(self) -> None:
        self._filters = np.zeros((5, 4, 0))
        """See `kalman.py`."""
        self._missed = np.zeros((5, 4, 0))
        """As they were, predicted, in the first frame of a gap."""
        self._place = np.zeros((4, 0))
        """The last observation: centre and size."""
        self._seen = np.zeros(0, bool)
        """Corrected in the last frame."""

    def born(self, boxes: Floats, place: int) -> None:
        filters, where = np.zeros((5, 4, len(boxes))), centre_and_size(boxes)
        filters[0], filters[2:] = _measured(where), _AT_BIRTH(len(boxes))
        news = filters, filters, where, np.zeros(len(boxes), bool)
        self._filters, self._missed, self._place, self._seen = (
            np.concatenate((old[..., :place], new, old[..., place:]), axis=-1)
            for old, new in zip((self._filters, self._missed, self._place, self._seen), news, strict=True)
        )

    def take(self, rows: Ints) -> None:
        self._filters, self._missed = self._filters.take(rows, 2), self._missed.take(rows, 2)
        self._place, self._seen = self._place.take(rows, 1), self._seen[rows]

    def predict(self, frame: TrackerFrame, tracked: int, waiting: Bools | None) -> None:
        filters, elapsed = self._filters, frame.elapsed if waiting is None else np.where(waiting, 0.0, frame.elapsed)
        kalman.predict(filters, elapsed, _PROCESS_NOISE(filters.shape[2]))
        area = filters[0, 2]
        gone = (area <= _ZERO).nonzero()[0]
        if len(gone):  # an area that would vanish stays as it was
            area[gone] -= (elapsed * filters[1, 2])[gone]
            filters[1, 2, gone] = 0.0

    def correct(self, rows: Ints, boxes: Floats, gaps: Gaps | None = None) -> None:
        seen, where = np.zeros(len(self._seen), bool), centre_and_size(boxes)
        seen[rows] = True
        np.copyto(self._missed, self._filters, where=self._seen > seen)
        self._seen = seen
        noise = np.where(seen, _ONCE, _NEVER)
        if gaps is not None:
            again = rows[gaps.places]
            noise[again] = _TWICE
            self._filters[:, :, again] = self._run_again(again, where.take(gaps.places, 1), gaps)
        self._place[:, rows] = where
        kalman.correct_some(self._filters, _measured(self._place), noise)

    def _run_again(self, rows: Ints, ends: Floats, gaps: Gaps) -> Floats:
        """The filters of those that are seen again, run along the lines from where they were to these places, which are
        left out."""
        filters, start, frames = self._missed.take(rows, 2), self._place.take(rows, 1), gaps.frames
        lengths = frames.tolist()
        elapsed = None if gaps.waited.tolist() == lengths else gaps.waited / frames
        numbers = np.arange(1, lengths[0])[:, None, None]
        line = _measured(start + numbers * ((ends - start) / frames))
        count = len(lengths)
        for number, place in enumerate(line, 1):
            while lengths[count - 1] <= number:  # these have arrived; the longest gaps come first
                count -= 1
            if count <= _FEW and elapsed is None:
                for track in range(count):
                    steps = line[number - 1 : lengths[track] - 1, :, track].tolist()
                    filters[:, :, track] = _run_alone(filters[:, :, track].tolist(), steps)
                break
            going, noise = filters[:, :, :count], _PROCESS_NOISE(count)
            kalman.correct_in_units(going, place[:, :count])
            kalman.predict(going, 1.0 if elapsed is None else elapsed[:count], noise)
        return filters

    def boxes(self) -> Floats:
        centre, area, aspect = self._filters[0, :2], self._filters[0, 2], self._filters[0, 3]
        found, half = np.empty((4, len(area))), np.empty((2, len(area)))
        width, height = half[0], half[1]
        np.multiply(area, aspect, out=width)
        np.maximum(width, _TINY, out=width)
        np.sqrt(width, out=width)
        np.divide(area, width, out=height)
        half *= _HALF
        np.subtract(centre, half, out=found[:2])
        np.add(centre, half, out=found[2:])
        return found.T

    def state_dict(self) -> dict[str, Any]:
        return {
            "filters": self._filters.copy(), "missed": self._missed.copy(), "place": self._place.copy(),
            "seen": self._seen.copy(),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any], count: int) -> None:
        filters, missed = (array_of(state, name, (5, 4, count), np.float64) for name in ("filters", "missed"))
        place, seen = array_of(state, "place", (4, count), np.float64), array_of(state, "seen", (count,), np.bool_)
        self._filters, self._missed, self._place, self._seen = filters, missed, place, seen


def _run_alone(filters: list[list[float]], line: list[list[float]]) -> list[list[float]]:
    """Those of one track, [5, 4]: corrected by each of these places and predicted by a frame, as `kalman` does it."""
    done = []
    for *state, grown, jolt, places in zip(*filters, *_ALONE, zip(*line, strict=True), strict=True):
        position, velocity, variance, shared, last = state
        for place in places:
            total = variance + 1.0
            gain = shared / total
            last -= gain * shared
            variance /= total
            off = place - position
            velocity += gain * off
            position += variance * off
            position += velocity
            variance += gain
            shared = gain + last
            variance += shared
            variance += grown
            last += jolt
        done.append((position, velocity, variance, shared, last))
    return [list(values) for values in zip(*done, strict=True)]


def _measured(place: Floats) -> Floats:
    """Centre, area and aspect ratio, of centre and size, […, 4, n] each."""
    found, width, height = place.copy(), place[..., 2, :], place[..., 3, :]
    np.multiply(width, height, out=found[..., 2, :])
    np.divide(width, height + _GUARD, out=found[..., 3, :])
    return found
