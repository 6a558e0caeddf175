"""Overlaps of boxes, and assignments: which detection continues which track.

Most boxes overlap few others, so pairs are kept as lists (rows, columns, a value each) instead of matrices: the work
grows with the pairs, and a solver sees only those whose place is not plain.

At fifty objects a call of NumPy costs as much as its numbers, so what is written here is the way with the fewest calls.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from yolofast.track.trackers.tracks import Bools, Floats, Ints

_TINY, _ZERO = np.array(np.finfo(np.float64).tiny), np.array(0.0)
"""Arrays, because a call takes them faster than numbers."""
_ROUNDING = 1e-6
_OF_BOTH = np.array(2)
"""A pair is one of its row and one of its column."""
_NOTHING = np.zeros(0)
_FEW = 24
"""So many pairs are assigned faster by plain Python than by arrays."""
_MANY = 4096
"""From so many pairs of boxes on a product of matrices finds faster which ones touch."""
_THRICE = np.array(3 * (1 - 1e-9))
"""With room for rounding, where pairs are taken without a solver."""


class MatchedPairs(NamedTuple):
    """Of tracks (rows) and detections (columns), ordered by row, then by column."""

    rows: Ints
    columns: Ints
    overlap: Floats

    def at(self, positions: Ints) -> "MatchedPairs":
        return MatchedPairs(self.rows[positions], self.columns[positions], self.overlap[positions])

    def where(self, kept: Bools) -> "MatchedPairs":
        return self.at(kept.nonzero()[0])


def overlapping(first: Floats, second: Floats, *, border: float = 0.0) -> MatchedPairs:
    """Those with an IoU above 0. With `border` 1 both ends of a box count as pixels, as in the published ByteTrack."""
    rows, columns = touching(first, second, border)
    one, two = first.T.take(rows, 1), second.T.take(columns, 1)
    return MatchedPairs(rows, columns, overlap_between(one, two, border, touch=True))


def touching(first: Floats, second: Floats, border: float = 0.0) -> tuple[Ints, Ints]:
    """Rows and columns of boxes that overlap."""
    one, two = first.T, second.T
    low, high = (two[:2] - border, two[2:] + border) if border else (two[:2], two[2:])
    return places(_touch(one[:2], one[2:], low, high))


def _touch(low: Floats, high: Floats, other_low: Floats, other_high: Floats) -> Bools:
    """[n, m] of boxes [2, n] and [2, m].

    Many are not compared by their ends. Two intervals overlap if (high − other low) · (other high − low) is positive:
    never are both factors negative. As a sum of four products that is one of matrices, which takes half the time.
    Rounding can hide an overlap of 1e-8 pixels.
    """
    if low.shape[1] * other_low.shape[1] < _MANY:
        return _touch_exactly(low, high, other_low, other_high)
    one, two = np.empty((4, *low.shape)), np.empty((4, *other_low.shape))
    one[0], one[1], one[3] = high, low, -1.0
    np.multiply(low, high, out=one[2])
    two[0], two[1], two[2] = other_high, other_low, -1.0
    np.multiply(other_low, other_high, out=two[3])
    in_x, in_y = np.matmul(one.transpose(1, 2, 0), two.transpose(1, 0, 2))
    return np.asarray(np.minimum(in_x, in_y, out=in_x) > _ZERO)


def _touch_exactly(low: Floats, high: Floats, other_low: Floats, other_high: Floats) -> Bools:
    within = low[:, :, None] < other_high[:, None, :]
    within &= high[:, :, None] > other_low[:, None, :]
    both: Bools = within[0]
    both &= within[1]
    return both


def coinciding(boxes: Floats, count: int, least: float, *, border: float = 0.0) -> MatchedPairs:
    """Of the first `count` boxes (columns) and the others (rows, fewer) those with an IoU above `least`: few or none.

    Only a box that covers that share of the other's sides can be one, which is found without overlaps.
    """
    every = boxes.T
    one = every[:, count:].copy()
    size = one[2:] - one[:2]
    slack = (size + border if border else size) * (1 - least + _ROUNDING)
    within = (one[2:] - slack)[:, :, None] < every[2:, None, :count]
    within &= (one[:2] + slack)[:, :, None] > every[:2, None, :count]
    both = within[0]
    both &= within[1]
    rows, columns = places(both)
    if not len(rows):
        return MatchedPairs(rows, columns, _NOTHING)
    overlap = _overlap(one, every, rows, columns, border)
    return MatchedPairs(rows, columns, overlap).where(overlap > least)


def every_pair(first: Floats, second: Floats, *, border: float = 0.0) -> MatchedPairs:
    """Also those that are apart, with an overlap of 0."""
    one, two, slack = first.T, second.T, border + _ROUNDING
    near = _touch_exactly(one[:2], one[2:], two[:2] - slack, two[2:] + slack)
    overlap = np.zeros(near.shape)
    overlap[near] = _overlap(one, two, *places(near), border)
    return MatchedPairs(*every_place(*near.shape), overlap.ravel())


def every_place(rows: int, columns: int) -> tuple[Ints, Ints]:
    """Of a matrix, in the order of `places`."""
    return np.arange(rows).repeat(columns), np.tile(np.arange(columns), rows)


def overlap_of(one: Floats, two: Floats) -> Floats:
    """IoU row by row, of boxes [n, 4]."""
    return overlap_between(one.T.copy(), two.T.copy())


def places(chosen: Bools) -> tuple[Ints, Ints]:
    """Rows and columns that are true. Ten times as fast as `nonzero` of a matrix."""
    found, width = chosen.ravel().nonzero()[0], chosen.shape[1]
    if not len(found):
        return found, found
    rows = found // width
    return rows, found - rows * width


def _overlap(one: Floats, two: Floats, rows: Ints, columns: Ints, border: float) -> Floats:
    """Of these pairs of boxes [4, n] and [4, m]."""
    return overlap_between(one.take(rows, 1), two.take(columns, 1), border)


def overlap_between(one: Floats, two: Floats, border: float = 0.0, *, touch: bool = False) -> Floats:
    """IoU column by column, of boxes [4, n]. Afterwards these hold sizes in the place of their ends.
    `touch`: all do, so nothing is below 0."""
    low, high, other_low, other_high = one[:2], one[2:], two[:2], two[2:]
    sides = np.minimum(high, other_high)
    sides -= np.maximum(low, other_low)
    high -= low
    other_high -= other_low
    if border:
        sides += border
        high += border
        other_high += border
    if not touch:
        np.maximum(sides, _ZERO, out=sides)
    shared: Floats = sides[0] * sides[1]
    union = one[2] * one[3]
    union += two[2] * two[3]
    union -= shared
    if not touch:
        np.maximum(union, _TINY, out=union)
    shared /= union
    return shared


def assign(rows: Ints, columns: Ints, gain: Floats) -> Ints:
    """Which of these pairs give the greatest Σ gain (≥ 0 each), no row or column twice: their positions, ascending.

    With gain = limit − cost that is the published assignment with a limit: another rule than assigning all and dropping
    what is above the limit.
    """
    if len(rows) <= _FEW:
        return np.array(sorted(solved(rows, columns, gain)), np.int64) if len(rows) else rows
    sure, left = surely(rows, columns, gain)
    if len(left):
        sure[left[solved(rows[left], columns[left], gain[left])]] = True
    return sure.nonzero()[0]


def without_rivals(rows: Ints, columns: Ints) -> Bools:
    """Which pairs are the only one of their row and of their column."""
    found = np.bincount(rows)[rows]
    found += np.bincount(columns)[columns]
    return np.asarray(found == _OF_BOTH)


def surely(rows: Ints, columns: Ints, gain: Floats) -> tuple[Bools, Ints]:
    """Pairs that belong to every best assignment, and positions of those that are left to a solver.

    A pair takes the places of at most two others: one in its row, one in its column. If it gains more than all others
    in both together, no assignment without it is best.
    """
    gain = gain + _TINY  # a pair that gains nothing, at the limit, is taken if it has no rival
    of_rows, of_columns = np.bincount(rows, gain), np.bincount(columns, gain)
    rivals = of_rows[rows]
    rivals += of_columns[columns]
    sure = gain * _THRICE > rivals  # both sums hold the pair itself
    found = sure.nonzero()[0]
    if len(found) == len(rows):
        return sure, rows[:0]
    of_rows[rows[found]] = of_columns[columns[found]] = -np.inf
    rivals = of_rows[rows]
    rivals += of_columns[columns]
    return sure, (rivals > _ZERO).nonzero()[0]


def solved(rows: Ints, columns: Ints, gain: Floats) -> list[int]:
    """Positions of the best assignment of a few pairs, so few that plain Python is faster than arrays."""
    own_rows, own_columns, gains = rows.tolist(), columns.tolist(), gain.tolist()
    for own, other in ((own_columns, own_rows), (own_rows, own_columns)):
        best: dict[int, int] = {}
        for place, name in enumerate(own):
            if name not in best or gains[place] >= gains[best[name]]:
                best[name] = place
        if len({other[place] for place in best.values()}) == len(best):
            return list(best.values())  # each gets what is best for it: nothing can be better
    row_of, column_of = (
        {name: place for place, name in enumerate(sorted(set(names)))} for names in (own_rows, own_columns)
    )
    dense, place_of = np.zeros((len(row_of), len(column_of))), {}
    for place, (row, column, value) in enumerate(zip(own_rows, own_columns, gains, strict=True)):
        cell = row_of[row], column_of[column]
        dense[cell], place_of[cell] = value, place
    chosen = zip(*(side.tolist() for side in linear_sum_assignment(dense, maximize=True)), strict=True)
    return [place_of[cell] for cell in chosen if cell in place_of]
