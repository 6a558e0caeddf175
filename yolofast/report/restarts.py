"""Iterations that start again, in a file that says no epochs: does an epoch begin there, or another run?

Both look alike where all are equally long. But an epoch goes on where the one before ended, while a run begins where
its predecessor began, with its losses and with its learning rates. If neither moved in between, nothing tells.
"""

from enum import Enum

import numpy as np

from yolofast.report.history import Floats, Ints
from yolofast.report.statistics import noise_between

_WINDOW_SHARE, _LEAST_WINDOW = 0.05, 5
"""Of the rows between two starts: those that say where losses begin and end."""
_NEAR = 1 / 3
"""Of the way from the end back to the beginning: as far as either may be missed."""
_SURE_IN_ERRORS = 6.0
_LR_MOVED, _LR_SAME = 0.05, 0.01
"""Of the highest rate; of what it moved."""


class Restart(Enum):
    EPOCH = "epoch"
    RUN = "run"
    UNKNOWN = "unknown"


def equal_restarts(iteration: Floats) -> Ints:
    """Where it starts from its beginning again, if most of the times, and at the end, it has come no further than ever.

    Nothing where lengths differ: epochs of a run are equally long.
    """
    falls = np.flatnonzero(np.diff(iteration) < 0) + 1
    ends = iteration[falls - 1]
    if not len(falls) or iteration[-1] > ends.max() or 2 * int((ends == ends.max()).sum()) <= len(ends):
        return falls[:0]
    return np.asarray(falls[iteration[falls] <= iteration[0]])


def kinds_of(restarts: Ints, loss: Floats, lr: Floats | None) -> list[Restart]:
    """What begins at each of these rows. One that is not known is what the others are, if those are alike.

    Each is compared with the beginning of its run and the end of the epoch before it.
    """
    kinds, begin = [], 0
    for place, start in enumerate(restarts.tolist()):
        before = int(restarts[place - 1]) if place else 0
        after = int(restarts[place + 1]) if place + 1 < len(restarts) else len(loss)
        ends = begin, before, start, after
        said = {_by_loss(loss, *ends), _by_rate(lr, *ends)} - {Restart.UNKNOWN}
        kinds.append(said.pop() if len(said) == 1 else Restart.UNKNOWN)  # if they contradict one another
        begin = start if kinds[-1] is Restart.RUN else begin
    known = set(kinds) - {Restart.UNKNOWN}
    common = known.pop() if len(known) == 1 else Restart.UNKNOWN
    return [common if kind is Restart.UNKNOWN else kind for kind in kinds]


def _by_loss(loss: Floats, begin: int, before: int, start: int, after: int) -> Restart:
    window = max(round(_WINDOW_SHARE * (start - before)), _LEAST_WINDOW)
    rows = loss[begin : begin + window], loss[max(start - window, before) : start], loss[start : start + window]
    if after - start < window or not all(np.isfinite(values).any() for values in rows):
        return Restart.UNKNOWN
    first, last, now = (float(np.median(values[np.isfinite(values)])) for values in rows)
    around = loss[begin:start]  # of all its epochs: one may have few rows
    error = noise_between(around[np.isfinite(around)]) * np.sqrt(2 / window)
    return _nearer(first, last, now) if abs(first - last) > _SURE_IN_ERRORS * error else Restart.UNKNOWN


def _by_rate(lr: Floats | None, begin: int, before: int, start: int, after: int) -> Restart:
    """Rates that stay for a whole epoch may be those of runs as well, with another rate each."""
    if lr is None or not np.isfinite(lr).all() or not np.ptp(lr[before:start]) > 0:
        return Restart.UNKNOWN
    least = _LR_MOVED * lr.max()
    now, at_first = lr[start:after], lr[begin : begin + after - start]
    if np.ptp(now) > least and np.abs(now - at_first).max() < _LR_SAME * np.ptp(now):
        return Restart.RUN  # a rate that rises from 0 and falls to 0 ends where it began
    return _nearer(lr[begin], lr[start - 1], lr[start]) if abs(lr[begin] - lr[start - 1]) > least else Restart.UNKNOWN


def _nearer(first: float, last: float, now: float) -> Restart:
    way_back = (now - last) / (first - last)
    return Restart.EPOCH if way_back < _NEAR else Restart.RUN if way_back > 1 - _NEAR else Restart.UNKNOWN
