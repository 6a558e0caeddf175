"""An oscillation with a period: one frequency that stands out from its neighbours.

A network that wanders has more power at low frequencies, which is no period. So a frequency is compared with those
around it: without an oscillation its power over theirs is exponentially distributed.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from yolofast.report.logs.history import Floats

LEAST_CYCLES, LEAST_VALUES = 5, 24
_NEIGHBOURS = (17, 49)
"""The fewer follow a slope, the more are surer: the higher of both counts."""
_SURE = 1e-6


@dataclass(frozen=True)
class Period:
    length: float
    """In values."""
    amplitude: float
    chance: float
    """Of a frequency standing out this far without an oscillation, over all frequencies."""


def find_period(values: Floats) -> Period | None:
    count = len(values)
    if count < LEAST_VALUES:
        return None
    # Faded in and out, so that a wave that does not end where it began leaks only into its next neighbours.
    power = np.abs(np.fft.rfft((values - values.mean()) * np.hanning(count)))[1:] ** 2  # of 1, 2, … cycles
    if not power.sum() > 0:
        return None
    candidates = np.arange(LEAST_CYCLES - 1, len(power))
    # The mean there would be without a line, from the median, which a line does not move.
    medians = [scipy.ndimage.median_filter(power, min(size, len(power)) | 1, mode="reflect") for size in _NEIGHBOURS]
    usual = np.maximum(*medians) / np.log(2)
    ratio = power[candidates] / np.maximum(usual[candidates], 1e-300)
    best = int(ratio.argmax())
    chance = _chance(float(ratio[best]), float(power[candidates[best]] / power.sum()), len(candidates))
    if chance > _SURE:
        return None
    cycles = _refined(values, int(candidates[best]) + 1)
    cosine, sine = _waves(count, count / cycles)
    amplitude = 2 / count * float(np.hypot(values @ cosine, values @ sine))
    return Period(count / cycles, amplitude, chance)


def _chance(ratio: float, share: float, frequencies: int) -> float:
    """By the neighbours, and by all frequencies (Fisher): a few neighbours may be low by chance."""
    by_neighbours = np.exp(-min(ratio, 700.0))
    by_all = (1 - min(share, 1.0)) ** (frequencies - 1)
    return float(min(frequencies * max(by_neighbours, by_all), 1.0))


def without_period(values: Floats, period: Period) -> Floats:
    waves = np.column_stack((*_waves(len(values), period.length), np.ones(len(values))))
    return np.asarray(values - waves @ np.linalg.lstsq(waves, values, rcond=None)[0])


def _refined(values: Floats, cycles: int) -> float:
    """Between two whole numbers of cycles, where the wave fits best."""
    tried = np.linspace(cycles - 0.75, cycles + 0.75, 61)
    fits = [np.square([values @ wave for wave in _waves(len(values), len(values) / c)]).sum() for c in tried.tolist()]
    return float(tried[int(np.argmax(fits))])


def _waves(count: int, length: float) -> tuple[Floats, Floats]:
    angle = 2 * np.pi * np.arange(count) / length
    return np.cos(angle), np.sin(angle)
