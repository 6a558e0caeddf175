"""The recorded motion of a camera: text with a line for a frame, its number from 1 and the six values of its warp.

A warp is a 2×3 matrix from the frame before to this one, row by row: `frame a b tx c d ty`, with commas, blanks or tabs
between them. The camera stands still in frames without a line.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from yolofast.errors import UserError, shorten
from yolofast.track.formats.mot import text_of
from yolofast.track.formats.sequence import Floats

_VALUES = 7
_ROWS = "frame,a,b,tx,c,d,ty"
_FIX = f"write {_ROWS} on each line: numbers, frames from 1"


def read_warps(path: str | Path) -> dict[int, Floats]:
    """By frame; the first thing wrong is refused, with its line."""
    found: dict[int, Floats] = {}
    for number, line in enumerate(text_of(Path(path), _ROWS).split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = np.array([float(word) for word in line.replace(",", " ").split()])
        except ValueError:
            raise UserError(f"{shorten(line)} is not numbers", where=path, line=number, fix=_FIX) from None
        if len(values) != _VALUES or not np.isfinite(values).all() or values[0] < 1 or values[0] % 1:
            raise UserError(f"{shorten(line)} is not a warp", where=path, line=number, fix=_FIX)
        if int(values[0]) in found:
            raise UserError(f"frame {int(values[0])} has two warps", where=path, line=number, fix="remove one of them")
        found[int(values[0])] = values[1:].reshape(2, 3)
    return found


def chained(warps: Iterable[Floats | None]) -> Floats | None:
    """One after the other, as one; None: the camera stands still."""
    moves = [one for one in warps if one is not None]
    if len(moves) < 2:
        return moves[0] if moves else None
    whole = np.eye(3)
    for one in moves:
        whole = np.vstack((one, [0.0, 0.0, 1.0])) @ whole
    return whole[:2]
