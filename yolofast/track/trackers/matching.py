"""Overlaps of boxes, and assignments: which detection continues which track.

Most boxes overlap few others, so pairs are kept as lists (rows, columns, a value each) instead of matrices: the work
grows with the pairs, and a solver sees only those that have a rival.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from yolofast.track.trackers.tracks import Bools, Floats, Ints

_TINY = np.finfo(np.float64).tiny


class Pairs(NamedTuple):
    """Of tracks (rows) and detections (columns), ordered by row, then by column."""

    rows: Ints
    columns: Ints
    overlap: Floats

    def where(self, kept: Bools) -> "Pairs":
        return Pairs(self.rows[kept], self.columns[kept], self.overlap[kept])


def overlapping(first: Floats, second: Floats, *, border: float = 0.0) -> Pairs:
    """Those with an IoU above 0. With `border` 1 both ends of a box count as pixels, as in the published ByteTrack."""
    one, two = first.T[:, :, None], np.ascontiguousarray(second.T)
    touch = one[0] < two[2] + border
    touch &= one[2] > two[0] - border
    touch &= one[1] < two[3] + border
    touch &= one[3] > two[1] - border
    rows, columns = touch.nonzero()
    return Pairs(rows, columns, overlap_of(first[rows], second[columns], border))


def every_pair(first: Floats, second: Floats, *, border: float = 0.0) -> Pairs:
    """Also those that are apart, with an overlap of 0."""
    rows, columns = np.ones((len(first), len(second)), bool).nonzero()
    return Pairs(rows, columns, overlap_of(first[rows], second[columns], border))


def overlap_of(one: Floats, two: Floats, border: float = 0.0) -> Floats:
    """IoU row by row."""
    sides = np.minimum(one[:, 2:], two[:, 2:]) - np.maximum(one[:, :2], two[:, :2]) + border
    np.maximum(sides, 0.0, out=sides)
    shared: Floats = sides[:, 0] * sides[:, 1]
    return shared / np.maximum(_areas(one, border) + _areas(two, border) - shared, _TINY)


def _areas(boxes: Floats, border: float) -> Floats:
    sides = boxes[:, 2:] - boxes[:, :2]
    if border:
        sides += border
    product: Floats = sides[:, 0] * sides[:, 1]
    return product


def assign(rows: Ints, columns: Ints, gain: Floats) -> Ints:
    """Which of these pairs give the greatest Σ gain (≥ 0 each), no row or column twice: their positions, ascending.

    With gain = limit − cost that is the published assignment with a limit: another rule than assigning all and dropping
    what is above the limit.
    """
    if not len(rows):
        return rows
    rivals = (np.bincount(rows)[rows] > 1) | (np.bincount(columns)[columns] > 1)
    if not rivals.any():
        return np.arange(len(rows))
    some = rivals.nonzero()[0]
    row_of, row_count = _numbered(rows[some])
    column_of, column_count = _numbered(columns[some])
    dense, position = np.zeros((row_count, column_count)), np.full((row_count, column_count), -1)
    dense[row_of, column_of], position[row_of, column_of] = gain[some], some
    found = position[linear_sum_assignment(dense, maximize=True)]
    kept = ~rivals
    kept[found[found >= 0]] = True
    return kept.nonzero()[0]


def _numbered(positions: Ints) -> tuple[Ints, int]:
    """The same without holes, and how many different ones there are; faster than `np.unique` for so few."""
    there = np.bincount(positions) > 0
    numbers = there.cumsum()
    return numbers[positions] - 1, int(numbers[-1])
