"""The camera's own motion between two frames: a 2×3 warp, or None where it cannot be estimated.

`sparseOptFlow` follows corners and fits their motion; `ecc` aligns whole images, slower and less exactly. The published
code crashes when no corners are found, when the frame size changes or when no fit is found. Here the camera is then
believed to have stood still.
"""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from yolofast.errors import UserError, nearest
from yolofast.track.trackers.tracks import Floats

METHODS = ("none", "sparseOptFlow", "ecc", "given", "file")
_SCALE = 2.0
"""By which the published code reduces frames."""
_LONG_SIDE = 960
"""To which larger frames are reduced otherwise: more pixels do not make it better."""
_CORNERS = {"maxCorners": 1000, "qualityLevel": 0.01, "minDistance": 1, "blockSize": 3}
_LEAST_POINTS = 5
_ECC_STEPS = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 100, 1e-5)

Grey = NDArray[np.uint8]


class CameraMotion:
    def __init__(self, method: str, *, faithful: bool = False) -> None:
        """`faithful`: corners on moving objects count, too, and `ecc` has its two published defects: it compares with
        the first frame for ever, and does not scale its shift back."""
        if method not in METHODS:
            what = f"cmc_method is {method!r}{nearest(method, METHODS)}"
            raise UserError(what, fix=f"use one of {', '.join(METHODS)}")
        self.method, self._faithful = method, faithful
        self.reset()

    def reset(self) -> None:
        self._grey: Grey | None = None
        self._points: NDArray[np.float32] | None = None

    def state_dict(self) -> dict[str, Any]:
        return {"grey": self._grey, "points": self._points}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._grey, self._points = state["grey"], state["points"]

    def warp(self, image: Grey, boxes: Floats) -> Floats | None:
        """From the last image to this one; `boxes` are what was detected in this one."""
        if self.method not in ("sparseOptFlow", "ecc"):
            return None
        grey, scale = self._reduced(image)
        before = self._grey
        if before is not None and before.shape != grey.shape:
            before = None
        if self.method == "ecc":
            if before is None or not self._faithful:
                self._grey = grey
            return None if before is None else _aligned(before, grey, 1.0 if self._faithful else scale)
        points, self._grey = self._points, grey
        mask = None if self._faithful else _without(boxes / scale, grey.shape)
        self._points = cv2.goodFeaturesToTrack(grey, mask=mask, **_CORNERS)  # type: ignore[call-overload]
        return None if before is None or points is None else _followed(before, grey, points, scale)

    def _reduced(self, image: Grey) -> tuple[Grey, float]:
        height, width = image.shape[:2]
        scale = _SCALE if self._faithful else max(max(height, width) / _LONG_SIDE, 1.0)
        grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY) if image.ndim == 3 else image
        if scale != 1:
            grey = cv2.resize(grey, (max(int(width / scale), 1), max(int(height / scale), 1)))
        return np.asarray(grey, dtype=np.uint8), scale


def _without(boxes: Floats, shape: tuple[int, ...]) -> Grey:
    """What was detected moves by itself; if nothing else is to be seen, it has to do."""
    mask = np.full(shape[:2], 255, np.uint8)
    for x1, y1, x2, y2 in boxes.clip(0).astype(int):
        mask[y1 : y2 + 1, x1 : x2 + 1] = 0
    return mask if mask.any() else np.full_like(mask, 255)


def _followed(before: Grey, grey: Grey, points: NDArray[np.float32], scale: float) -> Floats | None:
    moved, is_found, _ = cv2.calcOpticalFlowPyrLK(before, grey, points, None)  # type: ignore[call-overload]
    if moved is None:
        return None
    found = is_found.reshape(-1) == 1
    if found.sum() < _LEAST_POINTS:
        return None
    matrix, _ = cv2.estimateAffinePartial2D(points[found], moved[found], method=cv2.RANSAC)
    return _scaled(matrix, scale)


def _aligned(before: Grey, grey: Grey, scale: float) -> Floats | None:
    start = np.eye(2, 3, dtype=np.float32)
    try:
        _, matrix = cv2.findTransformECC(before, grey, start, cv2.MOTION_EUCLIDEAN, _ECC_STEPS)
    except cv2.error:  # nothing in common, or nothing to be seen
        return None
    return _scaled(matrix, scale)


def _scaled(matrix: Any, scale: float) -> Floats | None:
    if matrix is None or not np.isfinite(matrix).all():
        return None
    found = np.array(matrix, dtype=np.float64)
    found[:, 2] *= scale
    return found
