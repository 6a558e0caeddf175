"""BoostTrack's Kalman filter: centre, height and aspect ratio. Variances are in units of the noise of measurements."""

import numpy as np

from yolofast.track.trackers.motion import kalman
from yolofast.track.trackers.tracks import Floats

_MEASUREMENT_NOISE = (1.0, 1.0, 10.0, 0.01)
_PROCESS_NOISE = kalman.repeated((1.0, 1.0, 0.1, 100.0), (0.0,) * 4, (0.01, 0.01, 1e-3, 1.0))
_AT_BIRTH = kalman.repeated((10.0, 10.0, 1.0, 1e3), (0.0, 0.0, 0.0, 0.0), (1e4, 1e4, 1e3, 1e6))
_PRECISION = kalman.repeated(tuple(1 / noise for noise in _MEASUREMENT_NOISE))
_ROUNDING = 1e-6
_ZERO, _ONE, _HALF, _MINUS_TWO = np.array(0.0), np.array(1.0), np.array(0.5), np.array(-2.0)


def born(values: Floats) -> Floats:
    """Filters of tracks that begin with what was measured, [4, n]."""
    filters = np.zeros((5, *values.shape))
    filters[0], filters[2:] = values, _AT_BIRTH(values.shape[1])
    return filters


def predict(filters: Floats, elapsed: float) -> None:
    """In place."""
    kalman.predict(filters, elapsed, _PROCESS_NOISE(filters.shape[2]))


def measured(boxes: Floats) -> Floats:
    """Centre, height, aspect ratio, of boxes [4, n]."""
    size, found = boxes[2:] - boxes[:2], np.empty(boxes.shape)
    centre, height = found[:2], found[2]
    np.multiply(size, _HALF, out=centre)
    centre += boxes[:2]
    np.maximum(size[1], _ROUNDING, out=height)
    np.divide(size[0], height, out=found[3])
    return found


def boxes_of(position: Floats) -> Floats:
    """[n, 4]"""
    half, found, centre = np.empty((2, position.shape[1])), np.empty(position.shape), position[:2]
    np.maximum(position[2] * _HALF, _ZERO, out=half[1])
    np.multiply(half[1], np.maximum(position[3], _ZERO), out=half[0])
    np.subtract(centre, half, out=found[:2])
    np.add(centre, half, out=found[2:])
    return found.T


def distances(filters: Floats, values: Floats) -> Floats:
    """Squared Mahalanobis distances of tracks and what was measured, Σ weight · (value − mean)², as one product of
    matrices. Rounding may leave them a little below 0, which does no harm."""
    mean, count = filters[0], filters.shape[2]
    one, two = np.empty((12, count)), np.empty((12, values.shape[1]))
    weight, shifted = one[:4], one[4:8]
    np.divide(_PRECISION(count)[0], filters[2] + _ONE, out=weight)
    np.multiply(weight, mean, out=shifted)
    np.multiply(shifted, mean, out=one[8:])
    shifted *= _MINUS_TWO
    np.multiply(values, values, out=two[:4])
    two[4:8], two[8:] = values, 1.0
    return np.asarray(one.T @ two)
