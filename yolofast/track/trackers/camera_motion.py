"""The camera's own motion between two frames, from sparse optical flow: a 2×3 warp, or None where it cannot be told.

The published code crashes when no corners are found, when the frame size changes or when RANSAC returns nothing. Here
the camera is then believed to have stood still.
"""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from yolofast.errors import UserError, nearest
from yolofast.track.trackers.tracks import Floats

METHODS = ("none", "sparseOptFlow", "given", "file")
_SCALE = 2
"""Frames are halved: corners are found as well, in a quarter of the time."""
_CORNERS = {"maxCorners": 1000, "qualityLevel": 0.01, "minDistance": 1, "blockSize": 3}
_LEAST_POINTS = 5
_LONG_SIDE = 960
"""Larger frames are reduced to it; a phone's camera is no better for this than a VGA one."""


class CameraMotion:
    def __init__(self, method: str, *, faithful: bool = False) -> None:
        if method not in METHODS:
            what = f"cmc_method is {method!r}{nearest(method, METHODS)}"
            raise UserError(what, fix=f"use one of {', '.join(METHODS)}")
        self.method, self._faithful = method, faithful
        self.reset()

    def reset(self) -> None:
        self._grey: NDArray[np.uint8] | None = None
        self._points: NDArray[np.float32] | None = None

    def state_dict(self) -> dict[str, Any]:
        return {"grey": self._grey, "points": self._points}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._grey, self._points = state["grey"], state["points"]

    def warp(self, image: NDArray[np.uint8], boxes: Floats) -> Floats | None:
        """From the last image to this one. Corners on detected boxes are left out, for those move by themselves."""
        if self.method != "sparseOptFlow":
            return None
        grey, scale = self._reduced(image)
        before, points = self._grey, self._points
        mask = None if self._faithful else _without(boxes / scale, grey.shape)
        self._grey = grey
        self._points = cv2.goodFeaturesToTrack(grey, mask=mask, **_CORNERS)  # type: ignore[call-overload]
        if before is None or points is None or before.shape != grey.shape:
            return None
        return _estimated(before, grey, points, scale)

    def _reduced(self, image: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], float]:
        height, width = image.shape[:2]
        scale = float(_SCALE) if self._faithful else max(max(height, width) / _LONG_SIDE, 1.0)
        grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY) if image.ndim == 3 else image
        if scale != 1:
            grey = cv2.resize(grey, (max(int(width / scale), 1), max(int(height / scale), 1)))
        return np.asarray(grey, dtype=np.uint8), scale


def _without(boxes: Floats, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    mask = np.full(shape[:2], 255, np.uint8)
    for x1, y1, x2, y2 in boxes.clip(0).astype(int):
        mask[y1 : y2 + 1, x1 : x2 + 1] = 0
    return mask if mask.any() else np.full_like(mask, 255)


def _estimated(
    before: NDArray[np.uint8], grey: NDArray[np.uint8], points: NDArray[np.float32], scale: float
) -> Floats | None:
    moved, is_found, _ = cv2.calcOpticalFlowPyrLK(before, grey, points, None)  # type: ignore[call-overload]
    if moved is None:
        return None
    kept = is_found.reshape(-1) == 1
    if kept.sum() < _LEAST_POINTS:
        return None
    matrix, _ = cv2.estimateAffinePartial2D(points[kept], moved[kept], method=cv2.RANSAC)
    if matrix is None or not np.isfinite(matrix).all():
        return None
    found = np.array(matrix, dtype=np.float64)
    found[:, 2] *= scale
    return found
