"""Constant-velocity Kalman filters of many tracks at once, in closed form.

The published filters keep eight values per track and an 8×8 covariance. Without camera motion no coordinate is coupled
to another one: four filters of position and velocity each, so a covariance is three numbers per coordinate (variance of
the position, covariance, variance of the velocity): [n, 3, 4]. A camera warp mixes x with y and width with height; from
then on they are 2×2 blocks: [n, 3, 2, 2, 2]. Both forms compute what the 8×8 matrices would.

Axes: n tracks; 4 coordinates, whose meaning (width or aspect ratio …) is the tracker's; 3 as above.
"""

import numpy as np

from yolofast.track.trackers.tracks import Floats


def predict(mean: Floats, cov: Floats, elapsed: Floats | float, position_noise: Floats, velocity_noise: Floats) -> None:
    """In place. `elapsed` in frames, per track [n, 1] or for all; noises are variances per frame, [n, 4]."""
    mean[:, :4] += elapsed * mean[:, 4:]
    if cov.ndim == 3:
        each, position, velocity = elapsed, elapsed * position_noise, elapsed * velocity_noise
    else:
        each = np.reshape(elapsed, (-1, 1, 1, 1))
        position, velocity = blocks(elapsed * position_noise), blocks(elapsed * velocity_noise)
    both, last = cov[:, 1], cov[:, 2]
    turned = both if cov.ndim == 3 else both.swapaxes(-1, -2)
    cov[:, 0] += each * (both + turned + each * last) + position
    cov[:, 1] += each * last
    cov[:, 2] += velocity


def correct(mean: Floats, cov: Floats, measured: Floats, noise: Floats) -> None:
    """In place, by one measurement per track; `noise` are variances [n, 4]."""
    off = measured - mean[:, :4]
    first, both = cov[:, 0], cov[:, 1]
    if cov.ndim == 3:
        gain, velocity_gain = first / (first + noise), both / (first + noise)
        mean[:, :4] += gain * off
        mean[:, 4:] += velocity_gain * off
        cov[:, 2] -= velocity_gain * both
        cov[:, 1] -= gain * both
        cov[:, 0] -= gain * first
        return
    inverse = _inverse(first + blocks(noise))
    # `both` is the covariance of position (rows) and velocity (columns).
    gain, velocity_gain = first @ inverse, both.swapaxes(-1, -2) @ inverse
    off = off.reshape(-1, 2, 2, 1)
    mean[:, :4] += (gain @ off).reshape(-1, 4)
    mean[:, 4:] += (velocity_gain @ off).reshape(-1, 4)
    new_last, new_both = cov[:, 2] - velocity_gain @ both, both - gain @ both
    cov[:, 0] = first - gain @ first
    cov[:, 1], cov[:, 2] = new_both, new_last


def warp(mean: Floats, cov: Floats, matrix: Floats) -> Floats:
    """Moves with the camera, the means in place; the covariances come back as blocks."""
    turn, shift = matrix[:, :2], matrix[:, 2]
    mean[:] = (mean.reshape(-1, 4, 2) @ turn.T).reshape(-1, 8)
    mean[:, :2] += shift
    found = cov if cov.ndim == 5 else blocks(cov)
    return turn @ found @ turn.T


def blocks(diagonal: Floats) -> Floats:
    """[…, 4] as […, 2, 2, 2]: pairs of coordinates."""
    found = np.zeros((*diagonal.shape[:-1], 2, 2, 2))
    found[..., 0, 0] = diagonal[..., ::2]
    found[..., 1, 1] = diagonal[..., 1::2]
    return found


def _inverse(matrices: Floats) -> Floats:
    """Of symmetric 2×2 ones."""
    found = np.empty_like(matrices)
    first, off, second = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 1, 1]
    found[..., 0, 0], found[..., 1, 1] = second, first
    found[..., 0, 1] = found[..., 1, 0] = -off
    found /= (first * second - off * off)[..., None, None]
    return found
