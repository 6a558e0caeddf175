"""What a frame may be made of. Anything else is refused by name: which argument, which value, and what it should be.

Callers give lists, arrays of any number type, and tensors on the CPU. Text that looks like numbers, masked values and
complex numbers would be read as something they are not.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yolofast.errors import UserError, in_one_line, shorten
from yolofast.track.trackers.tracks import Bools, Floats, Ints, normalised

MOST_CLASSES = 100_000
"""Each track has a sum of scores for each."""
_FARTHEST = 1e7
"""Pixels; overlaps of boxes that are much farther away cannot be told from none."""
_LARGEST = 1e100
_ONE = np.array(1.0).view(np.uint64)
"""As whole numbers, no number from 0 to 1 has greater bits; those of others, of NaN too, are: one call."""
_SCORE_ROUNDING = 1e-6
_WHOLE, _REAL = "iu", "fiub"
_FLOAT64 = np.dtype(np.float64)
_FORMS = {
    "boxes": "[n, 4]: x1 y1 x2 y2", "scores": "[n]", "labels": "[n], whole", "features": "[n, d]",
    "warp": "[2, 3], from the last frame to this",
}  # fmt: skip


def checked_boxes(boxes: ArrayLike) -> tuple[Floats, Bools | None]:
    """Also which of them have an area; None: all."""
    found = _floats(boxes, "boxes")
    if not found.size:
        return found.reshape(0, 4), None
    if found.ndim != 2 or found.shape[1] != 4:
        raise UserError(f"boxes have the shape {found.shape}", fix="give [n, 4]: x1 y1 x2 y2")
    columns = found.T.copy()
    wide, near = columns[2:] > columns[:2], np.abs(columns) < _FARTHEST
    if np.count_nonzero(wide) == wide.size and np.count_nonzero(near) == near.size:
        return columns.T, None
    right = (columns[2:] >= columns[:2]).all(0) & near.all(0)
    if not right.all():
        row = int(right.argmin())
        what = f"box {row} is {shorten(found[row].tolist())}"
        raise UserError(what, fix="give finite x1 y1 x2 y2 in pixels with x1 ≤ x2 and y1 ≤ y2")
    return columns.T, wide[0] & wide[1]


def checked_scores(scores: ArrayLike, count: int) -> Floats:
    found = _floats(scores, "scores")
    if found.shape != (count,):
        found = _column(found, count, "scores")
    if np.count_nonzero(found.view(np.uint64) <= _ONE) < count:
        wrong = ~((found >= -_SCORE_ROUNDING) & (found <= 1 + _SCORE_ROUNDING))
        if wrong.any():
            fix = "give scores from 0 to 1: thresholds of trackers are such scores"
            raise UserError(f"scores contain {float(found[wrong][0]):g}", fix=fix)
    return found


def checked_labels(labels: ArrayLike, count: int) -> Ints:
    given = _column(_numbers(labels, "labels"), count, "labels")
    with np.errstate(invalid="ignore"):  # NaN is refused below
        found: Ints = given.astype(np.int64, copy=False)
    wrong = (found < 0) | (found >= MOST_CLASSES)
    if given.dtype.kind not in _WHOLE:
        wrong |= given != found
    if np.count_nonzero(wrong):
        value = shorten(given[wrong][0].item())
        raise UserError(f"labels contain {value}", fix=f"give whole numbers from 0 to {MOST_CLASSES - 1:,}")
    return found


def checked_features(features: ArrayLike, count: int, width: int | None) -> Floats:
    """L2-normalised rows; `width` is what earlier frames had."""
    found = _floats(features, "features")
    if found.ndim != 2 or len(found) != count or not found.shape[1]:
        raise UserError(f"features have the shape {found.shape} for {count} boxes", fix="give [n, d], one row per box")
    if width is not None and found.shape[1] != width and count:
        raise UserError(f"features have {found.shape[1]} values, {width} before", fix="use one network for all frames")
    if not (np.abs(found) < _LARGEST).all():
        raise UserError("features contain NaN, infinity or a huge number", fix="give finite features")
    return normalised(found)


def checked_warp(warp: ArrayLike) -> Floats:
    found = _floats(warp, "warp")
    if found.shape != (2, 3) or not (np.abs(found) < _FARTHEST).all():
        what = f"warp is {shorten(found.tolist())}"
        raise UserError(what, fix="give a finite 2×3 matrix from the last frame to this")
    return found


def checked_time(time: Any) -> float:
    try:
        seconds = math.nan if isinstance(time, str | bytes | bool) else float(time)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise UserError(f"time is {shorten(time)}", fix="give seconds, one finite number")
    return seconds


def checked_size(size: Any) -> tuple[int, int]:
    try:
        width, height = (int(side) for side in size)
    except (TypeError, ValueError, OverflowError):
        width = height = 0
    if not (0 < width < _FARTHEST and 0 < height < _FARTHEST):
        raise UserError(f"size is {shorten(size)}", fix="give (width, height) of the image in pixels")
    return width, height


def check_image(image: object) -> None:
    if not isinstance(image, np.ndarray):
        got = type(image).__name__
    elif image.dtype == np.uint8 and image.size and image.shape[2:] in ((), (3,), (4,)) and image.ndim > 1:
        return
    else:
        got = f"{image.dtype} {list(image.shape)}"
    raise UserError(f"an image is {got}", fix="give uint8 [height, width, 3], blue, green, red, or [height, width]")


def _floats(given: Any, name: str) -> Floats:
    if type(given) is np.ndarray and given.dtype is _FLOAT64:
        return given
    return _numbers(given, name).astype(np.float64, copy=False)


def _numbers(given: Any, name: str) -> NDArray[Any]:
    if type(given) is np.ndarray and given.dtype.kind in _REAL:
        return given
    fix = f"give numbers, {_FORMS[name]}"
    if np.ma.is_masked(given):
        raise UserError(f"{name}: some values are masked", fix=f"{fix}, without what is masked")
    if given is None:
        raise UserError(f"{name} is None", fix=fix)
    try:
        found = np.asarray(given)
        if found.dtype.kind == "O":
            found = found.astype(np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # of NumPy, or of another library's tensors
        raise UserError(f"{name}: {in_one_line(error)}", fix=fix) from None
    if found.dtype.kind not in _REAL:
        raise UserError(f"{name}: {shorten(given)} is not made of numbers", fix=fix)
    return found


def _column(found: NDArray[Any], count: int, name: str) -> NDArray[Any]:
    if found.ndim != 1:
        if found.size != max(found.shape, default=1):
            raise UserError(f"{name} have the shape {found.shape}", fix=f"give [n], one of the {name} per box")
        found = found.reshape(-1)
    if len(found) != count:
        raise UserError(f"{len(found)} {name} for {count} boxes", fix=f"give one of the {name} per box")
    return found
