"""How much of each 2-D box is covered by boxes of nearer objects in the same image: an estimate.

A box is taken for covered wherever that of a nearer object lies over it. Objects do not fill their boxes, so this is an
upper bound of what they hide of one another; walls and trees are not in the tables and hide nothing here.

Coverage is looked up at the middles of 16 × 16 cells of a box: a row of cells is a number of 16 bits, and what several
boxes cover together is the bits of one or another. So no area counts twice.
"""

import numpy as np

from yolofast.track.formats.sequence import Floats, Ints

_CELLS = 16
_BIT = (1 << np.arange(_CELLS)).astype(np.uint16)
_AT_ONCE = 1 << 18
"""Pairs of boxes: 8 MB of cells."""


def covered_shares(image: Ints, box: Floats, depth: Floats) -> Floats:
    """[n] from 0 to 1; `image` [n] ascends."""
    far, near = _pairs(image, box, depth)
    cells = np.zeros((len(box), _CELLS), np.uint16)
    for start in range(0, len(far), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        masks = _mask(box[far[part]], box[near[part]])
        owners, first = np.unique(far[part], return_index=True)
        cells[owners] |= np.bitwise_or.reduceat(masks, first, axis=0)
    shares: Floats = np.unpackbits(cells.view(np.uint8), axis=1).sum(axis=1) / _CELLS**2
    return shares


def _pairs(image: Ints, box: Floats, depth: Floats) -> tuple[Ints, Ints]:
    """Boxes that meet in an image: the farther, ascending, and the nearer."""
    counts = np.diff(np.append(np.flatnonzero(np.diff(image, prepend=-1)), len(image)))
    group = np.repeat(counts, counts)  # of each box, how many there are in its image
    first = np.repeat(np.cumsum(counts) - counts, counts)
    one = np.repeat(np.arange(len(image)), group)
    within = np.arange(len(one)) - np.repeat(np.cumsum(group) - group, group)
    other = np.repeat(first, group) + within
    nearer = np.flatnonzero(depth[other] < depth[one])
    one, other = one[nearer], other[nearer]
    meet = (np.maximum(box[one, :2], box[other, :2]) < np.minimum(box[one, 2:], box[other, 2:])).all(axis=1)
    return one[meet], other[meet]


def _mask(far: Floats, near: Floats) -> "np.ndarray[tuple[int, int], np.dtype[np.uint16]]":
    """[n, 16] rows of bits: the cells of `far` whose middle is in `near`."""
    middles = (np.arange(_CELLS) + 0.5) / _CELLS
    points = far[:, :2, None] + (far[:, 2:] - far[:, :2])[:, :, None] * middles  # [n, 2, cells]
    inside = (points >= near[:, :2, None]) & (points <= near[:, 2:, None])
    across = (inside[:, 0] * _BIT).sum(axis=1, dtype=np.uint16)
    return np.where(inside[:, 1], across[:, None], np.uint16(0))
