"""Which boxes of the truth and of the results overlap, in all frames of a sequence at once, and who is whose.

Overlap is plain IoU, 0 for a box without area. Of the pairs of a frame only those that overlap are kept: everything
that is scored depends on them alone, and in a video they are few. They are sorted by frame, then by place in the truth,
then in the results.

An assignment is solved only in frames where it is in doubt. Where no box overlaps two others, the pairs are the answer.
In doubt the frame's whole matrix is solved, because a solver breaks ties by what is around them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.optimize import linear_sum_assignment

from yolofast.errors import UserError
from yolofast.files.budget import Budget
from yolofast.track.formats.sequence import Bools, Floats, Ints, Sequence

EPS = float(np.finfo(np.float64).eps)
_AT_ONCE = 2_000_000
"""Pairs that are looked at together; their temporary arrays are some tens of megabytes."""
_MOST_IN_FRAME, _MOST_COMPARED, _MOST_KEPT = 4_000_000, 500_000_000, 8_000_000
"""Pairs of boxes: 2,000 and as many in a frame; in all frames of a sequence; and of these such that overlap. Every row
of a file meets all others of its frame, so a megabyte could take any time."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """p pairs of boxes that overlap: places in the truth and in the results, and how much."""

    truth: Ints
    result: Ints
    overlap: Floats
    starts: Ints
    """[length + 1] pairs of frame f are `starts[f - 1] : starts[f]`."""
    truth_starts: Ints
    result_starts: Ints
    """Of the boxes, likewise."""

    def at_least(self, threshold: float) -> "Pairs":
        keep = self.overlap >= threshold
        before = np.concatenate([[0], np.cumsum(keep)])
        return Pairs(
            self.truth[keep], self.result[keep], self.overlap[keep], before[self.starts],
            self.truth_starts, self.result_starts,
        )  # fmt: skip

    @cached_property
    def in_doubt(self) -> Ints:
        """Frames, from 0, in which a box overlaps several."""
        several = np.zeros(len(self.truth), np.bool_)
        for side in (self.truth, self.result):
            several |= np.bincount(side, minlength=1)[side] > 1 if len(side) else several
        return np.unique(np.searchsorted(self.starts, np.flatnonzero(several), side="right") - 1)

    def clear(self) -> Bools:
        """[p] whether a pair is in a frame without doubt."""
        result = np.ones(len(self.truth), np.bool_)
        for frame in self.in_doubt.tolist():
            result[self.starts[frame] : self.starts[frame + 1]] = False
        return result

    def assigned(self, weight: Callable[[int, slice], Floats]) -> Bools:
        """[p] which pairs the assignment of each frame chooses; `weight` of a frame's pairs decides where in doubt."""
        chosen = self.clear()
        for frame in self.in_doubt.tolist():
            own = slice(int(self.starts[frame]), int(self.starts[frame + 1]))
            chosen[own] = self.solved(frame, own, weight(frame, own))
        return chosen

    def solved(self, frame: int, own: slice, weight: Floats) -> Bools:
        """Of a frame's pairs, those of the assignment with the largest sum of weights."""
        first_truth, first_result = self.truth_starts[frame], self.result_starts[frame]
        shape = self.truth_starts[frame + 1] - first_truth, self.result_starts[frame + 1] - first_result
        rows, columns = self.truth[own] - first_truth, self.result[own] - first_result
        matrix = np.zeros(shape)
        matrix[rows, columns] = -weight
        row, column = linear_sum_assignment(matrix)
        partner = np.full(shape[0], -1)
        partner[row] = column
        found: Bools = partner[rows] == columns
        return found


def overlapping(truth: Sequence, results: Sequence) -> Pairs:
    assert truth.length == results.length
    truth_starts, result_starts = truth.starts(), results.starts()
    compared = np.diff(truth_starts) * np.diff(result_starts)
    if len(compared) and compared.max() > _MOST_IN_FRAME:
        raise _too_many(truth, f"frame {compared.argmax() + 1} has {compared.max():,} pairs of boxes", _MOST_IN_FRAME)
    if compared.sum() > _MOST_COMPARED:
        raise _too_many(truth, f"its frames have {compared.sum():,} pairs of boxes", _MOST_COMPARED)
    kept = Budget(_MOST_KEPT, lambda: _too_many(truth, "more pairs of boxes overlap", _MOST_KEPT))
    there = np.diff(result_starts)[truth.frame - 1]  # results in the frame of each box of the truth
    areas = _areas(truth.box), _areas(results.box)
    before = np.concatenate([[0], np.cumsum(there)])
    cuts = np.searchsorted(before, np.arange(0, before[-1], _AT_ONCE), side="right") - 1
    parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    bounds = [*np.unique(cuts).tolist(), len(truth)]
    for low, high in pairwise(bounds):
        count = there[low:high]
        row = np.repeat(np.arange(low, high), count)
        first = result_starts[truth.frame[low:high] - 1] - (before[low:high] - before[low])
        column = np.arange(len(row)) + np.repeat(first, count)
        parts.append(_overlap(truth.box, results.box, *areas, row, column))
        kept.spend(len(parts[-1][0]))
    row, column, overlap = (np.concatenate(column) for column in zip(*parts, strict=True))
    frame = truth.frame[row]
    starts = np.searchsorted(frame, np.arange(1, truth.length + 2))
    return Pairs(row, column, overlap, starts, truth_starts, result_starts)


def _too_many(truth: Sequence, what: str, most: int) -> UserError:
    fix = "check that the files are those of a video, or divide it"
    return UserError(f"sequence {truth.name}: {what}, and {most:,} are scored", fix=fix)


def _overlap(
    one: Floats, other: Floats, one_area: Floats, other_area: Floats, row: Ints, column: Ints
) -> tuple[Ints, Ints, Floats]:
    """Of those pairs that overlap; pairs are dropped as early as can be."""
    for low, high in ((0, 2), (1, 3)):
        left = np.maximum(one[row, low], other[column, low])
        apart = np.minimum(one[row, high], other[column, high]) - left
        keep = np.flatnonzero(apart > 0)
        row, column = row[keep], column[keep]
    sides = [
        np.minimum(one[row, 2 + k], other[column, 2 + k]) - np.maximum(one[row, k], other[column, k]) for k in (0, 1)
    ]
    shared = sides[0] * sides[1]
    union = one_area[row] + other_area[column] - shared
    usable = (one_area[row] > EPS) & (other_area[column] > EPS) & (union > EPS)
    row, column = row[usable], column[usable]
    overlap = shared[usable] / union[usable]
    positive = overlap > 0
    return row[positive], column[positive], overlap[positive]


def _areas(box: Floats) -> Floats:
    area: Floats = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
    return area
