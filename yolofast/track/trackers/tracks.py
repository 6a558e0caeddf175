"""What a tracker gets and gives: the detections of one frame, tracks, and what was decided about both."""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yolofast.errors import UserError, shorten

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Tracks:
    """Of one frame. Boxes are x1 y1 x2 y2."""

    ids: Ints
    boxes: Floats
    scores: Floats
    labels: Ints
    confirmed: Bools
    """False for a track that was seen in one frame only, which faithful BoT-SORT gives, too."""
    detections: Ints
    """The row of the detection each one was matched to, -1 for none."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Frame:
    """Checked detections, and when and from where they were seen."""

    boxes: Floats
    scores: Floats
    labels: Ints
    features: Floats | None
    warp: Floats | None
    """2×3, from the previous frame to this one."""
    elapsed: float
    """Since the previous frame, in frames at the tracker's rate."""
    time: float
    """In seconds."""


@dataclass(frozen=True)
class Stage:
    """One association of a frame, kept if decisions are to be explained. Pairs that are not listed do not overlap."""

    name: str
    ids: Ints
    """Of the tracks before the frame, one per row; 0 for those that have none yet."""
    rows: Bools
    columns: Bools
    """Which tracks and which detections took part."""
    pairs: Ints
    """[pairs, 2]: tracks and detections, those that took part."""
    cost: Floats
    limit: float
    """A pair may be matched up to this cost."""
    matched: Bools
    """Which pairs were."""


State = TypeVar("State")


def take(state: State, rows: Any) -> State:
    """The same columns with other rows."""
    return type(state)(*(getattr(state, field.name)[rows] for field in fields(state)))  # type: ignore[arg-type]


def joined(first: State, second: State) -> State:
    names = [field.name for field in fields(first)]  # type: ignore[arg-type]
    return type(first)(*(np.concatenate((getattr(first, name), getattr(second, name))) for name in names))


def checked_boxes(boxes: ArrayLike) -> Floats:
    found = np.asarray(boxes, dtype=np.float64)
    if found.size == 0:
        return found.reshape(0, 4)
    if found.ndim != 2 or found.shape[1] != 4:
        raise UserError(f"boxes have the shape {found.shape}", fix="give [n, 4]: x1 y1 x2 y2")
    if not np.isfinite(found).all() or (found[:, 2:] < found[:, :2]).any():
        row = int((~np.isfinite(found).all(1) | (found[:, 2:] < found[:, :2]).any(1)).argmax())
        what = f"box {row} is {shorten(found[row].tolist())}"
        raise UserError(what, fix="give finite x1 y1 x2 y2 with x1 ≤ x2 and y1 ≤ y2")
    return found


def checked_column(values: ArrayLike, count: int, name: str, kind: type) -> NDArray[Any]:
    found: NDArray[Any] = np.asarray(values, dtype=kind).reshape(-1)
    if len(found) != count:
        raise UserError(f"{len(found)} {name} for {count} boxes", fix=f"give one of the {name} per box")
    if not np.isfinite(found).all():
        raise UserError(f"{name} contain {shorten(found[~np.isfinite(found)][0])}", fix=f"give finite {name}")
    return found


def checked_features(features: ArrayLike, count: int, width: int | None) -> Floats:
    """L2-normalised rows; `width` is what earlier frames had."""
    found = np.asarray(features, dtype=np.float64)
    if found.ndim != 2 or len(found) != count:
        raise UserError(f"features have the shape {found.shape} for {count} boxes", fix="give [n, d], one row per box")
    if width is not None and found.shape[1] != width and count:
        raise UserError(f"features have {found.shape[1]} values, {width} before", fix="use one network for all frames")
    if not np.isfinite(found).all():
        raise UserError("features contain NaN or infinity", fix="give finite features")
    return normalised(found)


def normalised(vectors: Floats) -> Floats:
    """Rows of length 1."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


def checked_warp(warp: ArrayLike) -> Floats:
    found = np.asarray(warp, dtype=np.float64)
    if found.shape != (2, 3) or not np.isfinite(found).all():
        raise UserError(
            f"warp is {shorten(found.tolist())}", fix="give a finite 2×3 matrix from the last frame to this"
        )
    return found
