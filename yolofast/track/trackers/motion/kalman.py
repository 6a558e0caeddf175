"""Constant-velocity Kalman filters of many tracks at once, in closed form.

The published filters keep eight values per track and an 8×8 covariance. Without camera motion no coordinate is coupled
to another one: four filters of position and velocity each, so five numbers per coordinate describe a track. They are
one array, [5, 4, n]: position, velocity, variance of the position, covariance, variance of the velocity.

At fifty objects the time of a frame is that of its calls. Calls on whole arrays that lie in memory without gaps, or
on one and a number, take a third of the time of others, which repeat or skip parts. So each line is of that kind.

A camera warp mixes x with y and width with height; from then on covariances are 2×2 blocks, [3, 2, 2, 2, n]. Both forms
compute what the 8×8 matrices would.

Axes: 4 coordinates, whose meaning (width or aspect ratio …) is the tracker's; n tracks.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from yolofast.track.trackers.tracks import Floats

_ONE = np.array(1.0)
"""An array, because a call takes it faster than a number."""


def move(filters: Floats, elapsed: Floats | float) -> None:
    """In place, without noise. `elapsed` in frames, per track or for all."""
    position, variance, shared = filters[0], filters[2], filters[3]
    if isinstance(elapsed, float) and elapsed == 1:
        variance += shared
        position += filters[1]
        shared += filters[4]
        variance += shared  # as it was, and as it is: twice the covariance and the variance of the velocity
        return
    variance += elapsed * shared
    position += elapsed * filters[1]
    shared += elapsed * filters[4]
    variance += elapsed * shared


def predict(filters: Floats, elapsed: Floats | float, noise: Floats) -> None:
    """In place. `noise` is that of a frame, [3, 4, n]: variances of position and velocity, and zeros between them,
    because one call on a whole array is faster than two."""
    move(filters, elapsed)
    variances = filters[2:]
    if isinstance(elapsed, float) and elapsed == 1:
        variances += noise
    else:
        add_noise(variances, elapsed, noise)


def add_noise(variances: Floats, elapsed: Floats | float, noise: Floats) -> None:
    """Of so many frames, one after another, to the variance of the position, the covariance and the variance of the
    velocity: [3, 4, n], in place. What changes the velocity in a frame moves the position in all that follow."""
    position, _, velocity = noise
    pairs = elapsed * (elapsed - 1) / 2
    variances[0] += elapsed * position
    variances += np.array((pairs * (2 * elapsed - 1) / 3, pairs, elapsed)).reshape(3, 1, -1) * velocity


def correct(filters: Floats, measured: Floats, noise: Floats) -> None:
    """In place, by one measurement per track, [4, n]; `noise` are its variances."""
    mean, spread, last = filters[:2], filters[2:4], filters[4]
    off = measured - filters[0]
    gain = spread / (filters[2] + noise)  # of position and velocity
    last -= gain[1] * filters[3]
    np.multiply(gain, noise, out=spread)  # what is left of it
    gain *= off
    mean += gain


def correct_in_units(filters: Floats, measured: Floats) -> None:
    """`correct` where the noise of measurements is always the same, and all variances are in units of it."""
    mean, spread, last = filters[:2], filters[2:4], filters[4]
    off, shared = measured - filters[0], filters[3].copy()
    spread /= filters[2] + _ONE  # what is left of a variance is the gain
    shared *= filters[3]
    last -= shared
    mean += spread * off


def correct_some(filters: Floats, measured: Floats, noise: Floats) -> None:
    """`correct_in_units` of those with a `noise` [n] of 1; with less a measurement counts for more. With infinity a
    track stays as it is: faster than to take some rows out of an array and to put them back."""
    position, velocity, variance, shared, last = filters[0], filters[1], filters[2], filters[3], filters[4]
    total, off = variance + noise, measured - position
    share, gain = variance / total, shared / total
    last -= gain * shared
    shared -= share * shared
    variance -= share * variance
    gain *= off
    velocity += gain
    share *= off
    position += share


def repeated(*values: tuple[float, ...]) -> Callable[[int], Floats]:
    """The same values for each of so many tracks, [values, 4, tracks]: calls with it are faster than with [values, 4,
    1]."""

    @lru_cache(maxsize=1024)
    def of(count: int) -> Floats:
        found = np.repeat(np.array(values)[:, :, None], count, axis=2)
        found.setflags(write=False)
        return found

    return of


def blocks(variances: Floats) -> Floats:
    """[…, 4, n] as […, 2, 2, 2, n]: matrices for pairs of coordinates."""
    *more, _, count = variances.shape
    found = np.zeros((*more, 2, 2, 2, count))
    found[..., 0, 0, :] = variances[..., ::2, :]
    found[..., 1, 1, :] = variances[..., 1::2, :]
    return found


def predict_blocks(mean: Floats, cov: Floats, elapsed: Floats | float, noise: Floats) -> None:
    """`predict` for positions and velocities [2, 4, n], and blocks."""
    mean[0] += elapsed * mean[1]
    both, moved = cov[1], elapsed * cov[2]
    cov[0] += elapsed * (both + both.swapaxes(1, 2) + moved)
    cov[1] += moved
    grown = np.zeros((3, 4, mean.shape[-1]))
    add_noise(grown, elapsed, noise)
    cov += blocks(grown)


def correct_blocks(mean: Floats, cov: Floats, measured: Floats, noise: Floats) -> None:
    """`correct` for positions and velocities [2, 4, n], and blocks."""
    first, both = cov[0], cov[1]
    inverse = _inverse(first + blocks(noise))
    # `both` is the covariance of position (rows) and velocity (columns).
    gain, velocity_gain = _product(first, inverse), _product(both.swapaxes(1, 2), inverse)
    off = (measured - mean[0]).reshape(2, 2, 1, -1)
    mean[0] += _product(gain, off).reshape(4, -1)
    mean[1] += _product(velocity_gain, off).reshape(4, -1)
    cov[2] -= _product(velocity_gain, both)
    cov[1] -= _product(gain, both)
    cov[0] -= _product(gain, first)


def warp_blocks(mean: Floats, cov: Floats, matrix: Floats) -> None:
    """Moves positions, velocities and blocks with the camera, in place."""
    turn = matrix[:, :2, None]
    mean[:] = _product(turn, mean.reshape(4, 2, 1, -1)).reshape(mean.shape)
    mean[0, :2] += matrix[:, 2:]
    cov[:] = _product(_product(turn, cov), turn.swapaxes(0, 1))


def _product(first: Floats, second: Floats) -> Floats:
    """Of 2×2 matrices, or of those and columns: […, 2, 2, n] each. As sums of two products, because there are so many
    small ones."""
    found: Floats = first[..., :1, :] * second[..., :1, :, :]
    found += first[..., 1:, :] * second[..., 1:, :, :]
    return found


def _inverse(matrices: Floats) -> Floats:
    """Of symmetric 2×2 ones."""
    found = np.empty_like(matrices)
    first, off, second = matrices[:, 0, 0], matrices[:, 0, 1], matrices[:, 1, 1]
    found[:, 0, 0], found[:, 1, 1] = second, first
    found[:, 0, 1] = found[:, 1, 0] = -off
    found /= (first * second - off * off)[:, None, None]
    return found
