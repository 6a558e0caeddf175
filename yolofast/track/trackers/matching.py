"""Overlaps of boxes, and assignments: which detection continues which track."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from yolofast.track.trackers.tracks import Floats, Ints

NO_PAIRS: Ints = np.zeros((0, 2), dtype=np.int64)


def overlaps(first: Floats, second: Floats, *, border: float = 0.0) -> Floats:
    """IoU of every pair, [n, m]. With `border` 1 both ends of a box count as pixels, as in the published ByteTrack."""
    one, two = first.T[:, :, None], second.T[:, None, :]
    sides = np.minimum(one[2:], two[2:])
    sides -= np.maximum(one[:2], two[:2])
    if border:
        sides += border
    np.maximum(sides, 0.0, out=sides)
    shared = sides[0]
    shared *= sides[1]
    union = areas(first, border)[:, None] + areas(second, border)
    union -= shared
    if not border:  # boxes without an area
        np.maximum(union, np.finfo(np.float64).tiny, out=union)
    shared /= union
    return shared


def areas(boxes: Floats, border: float = 0.0) -> Floats:
    sides = boxes[:, 2:] - boxes[:, :2] + border
    product: Floats = sides[:, 0] * sides[:, 1]
    return product


def assign(cost: Floats, limit: float) -> Ints:
    """Pairs with the least Σ(cost − limit), none above the limit; rows ascend.

    That is another rule than assigning all and dropping what is above the limit. Most pairs have no rival: only those
    that have one need a solver.
    """
    rows, columns = (cost <= limit).nonzero()
    if not len(rows):
        return NO_PAIRS
    per_row, per_column = np.bincount(rows, minlength=len(cost)), np.bincount(columns, minlength=cost.shape[1])
    rivals = (per_row[rows] > 1) | (per_column[columns] > 1)
    if not rivals.any():
        return np.stack((rows, columns), axis=1)
    some_rows, some_columns = np.unique(rows[rivals]), np.unique(columns[rivals])
    part = cost[np.ix_(some_rows, some_columns)]
    found_rows, found_columns = linear_sum_assignment(np.minimum(part - limit, 0.0))
    allowed = part[found_rows, found_columns] <= limit
    rows = np.concatenate((rows[~rivals], some_rows[found_rows[allowed]]))
    columns = np.concatenate((columns[~rivals], some_columns[found_columns[allowed]]))
    order = np.argsort(rows, kind="stable")
    return np.stack((rows[order], columns[order]), axis=1)


def assign_all(value: Floats) -> Ints:
    """Pairs with the greatest Σ value, as many as the shorter side has; rows ascend."""
    return np.stack(linear_sum_assignment(value, maximize=True), axis=1) if value.size else NO_PAIRS


def rest(count: int, taken: Ints) -> Ints:
    """Positions below `count` that are not among `taken`."""
    free = np.ones(count, dtype=bool)
    free[taken] = False
    return free.nonzero()[0]
