"""The camera's own motion between two frames: a 2×3 warp, or None where it cannot be estimated.

`sparseOptFlow` follows corners and fits their motion. `orb` finds the same corners again by what they look like, also
after a jump, and takes longer. `ecc` aligns whole images, slower and less exactly. The published code crashes when no
corners are found, when the frame size changes or when no fit is found. Here the camera is then believed to have stood
still.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from yolofast.errors import UserError, nearest
from yolofast.track.trackers.checks import check_image
from yolofast.track.trackers.state import array_of
from yolofast.track.trackers.tracks import Floats

ESTIMATED = ("sparseOptFlow", "orb", "ecc")
METHODS = ("none", *ESTIMATED, "given", "file")
"""With `given` and `file` warps come with the frames, and images are not looked at."""
_SCALE = 2.0
"""By which the published code reduces frames."""
_LONG_SIDE = 960
"""To which larger frames are reduced otherwise: more pixels do not make it better."""
_LEAST_SIDE = {"sparseOptFlow": 416, "orb": 960, "ecc": 416}
"""The long side from which a frame that the detector has reduced is looked at: then corners of a frame of 1920 are 0.2
pixels off, seldom 0.5 (benchmarks.bench_camera). Corners that `orb` finds are whole pixels, so it needs more of them.
"""
_CORNERS = {"maxCorners": 1000, "qualityLevel": 0.01, "minDistance": 1, "blockSize": 3}
_LEAST_POINTS = 5
_ECC_STEPS = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 100, 1e-5)
_FAST_THRESHOLD, _MOST_KEYPOINTS = 20, 1000
_BORDER, _RATIO, _FARTHEST, _DEVIATIONS = 0.02, 0.9, 0.25, 2.5

Grey = NDArray[np.uint8]
Points = NDArray[np.float32]
_NOWHERE: Points = np.zeros((0, 2), np.float32)


@dataclass
class View:
    """What is remembered of a frame."""

    size: tuple[int, ...]
    """Height and width of the frame itself."""
    grey: Grey
    points: Points | None = None
    looks: Grey | None = None


class Cameras:
    """One for each video."""

    def __init__(self, method: str, *, faithful: bool = False, several: bool = True) -> None:
        """`several` videos come in turn; otherwise one is over when the next begins."""
        self._method, self._faithful, self._several = method, faithful, several
        self._of: dict[str, CameraMotion] = {}

    @property
    def how(self) -> str | None:
        """In words, for what is stored; None where nothing is estimated."""
        return how_found(self._method, faithful=self._faithful)

    def warp(self, video: str, image: Grey, boxes: Floats, resized: Grey | None) -> Floats | None:
        if video not in self._of:
            if not self._several:
                self._of.clear()
            self._of[video] = CameraMotion(self._method, faithful=self._faithful)
        return self._of[video].warp(image, boxes, resized)


def how_found(method: str, *, faithful: bool) -> str | None:
    if method not in ESTIMATED:
        return None
    return f"{method}, as published" if faithful else method


class CameraMotion:
    def __init__(self, method: str, *, faithful: bool = False) -> None:
        """`faithful`: at half size; corners on moving objects count for optical flow; `orb` looks at all corners, and
        drops matches that move farther than most but not those that move less; `ecc` compares with the first frame for
        ever, and does not scale its shift back."""
        if method not in METHODS:
            what = f"cmc_method is {method!r}{nearest(method, METHODS)}"
            raise UserError(what, fix=f"use one of {', '.join(METHODS)}")
        self.method, self._faithful = method, faithful
        self.reset()

    def reset(self) -> None:
        self._last: View | None = None

    def state_dict(self) -> dict[str, Any]:
        if self._last is None:
            return {}
        values = {**vars(self._last), "size": np.array(self._last.size)}
        return {name: value.copy() for name, value in values.items() if value is not None}

    def view_of(self, state: Mapping[str, Any]) -> View | None:
        """What `state_dict` returned, to be remembered. Raises `KeyError`, `TypeError` or `ValueError`."""
        if not state:
            return None
        points, looks = (None if state.get(name) is None else np.asarray(state[name]) for name in ("points", "looks"))
        if points is not None:
            points = array_of(state, "points", (*[None] * (points.ndim - 1), 2), np.float32)
        if looks is not None:
            looks = array_of(state, "looks", (None if points is None else len(points), None), np.uint8)
        size = tuple(array_of(state, "size", (2,), np.int64).tolist())
        return View(size, array_of(state, "grey", (None, None), np.uint8), points, looks)

    def remember(self, view: View | None) -> None:
        self._last = view

    def warp(self, image: Grey, boxes: Floats, resized: Grey | None = None) -> Floats | None:
        """From the last image to this one, in its pixels; `boxes` are what was detected in this one.

        `resized` is the same image as the detector has resized it: large enough, it is looked at instead.
        """
        if self.method not in ESTIMATED:
            return None
        check_image(image)
        now, before = View(image.shape[:2], self._reduced(image, resized)), self._last
        if before is not None and (before.size, before.grey.shape) != (now.size, now.grey.shape):
            before = None
        if before is None or self.method != "ecc" or not self._faithful:
            self._last = now
        # Pixels of the reduced image per pixel of the frame, x and y; they differ where sides are rounded.
        gain = np.full(2, 1 / _SCALE) if self._faithful else np.array(now.grey.shape[::-1]) / now.size[::-1]
        if self.method == "ecc":
            return None if before is None else _scaled(_aligned(before, now), np.ones(2) if self._faithful else gain)
        own = boxes * np.tile(gain, 2)
        if self.method == "orb":
            now.points, now.looks = _described(now.grey, own, every=self._faithful)
        else:
            mask = None if self._faithful else _without(own, now.grey.shape)
            now.points = cv2.goodFeaturesToTrack(now.grey, mask=mask, **_CORNERS)  # type: ignore[call-overload]
        if before is None or before.points is None:
            return None
        pairs = _alike(before, now, one_sided=self._faithful) if self.method == "orb" else _followed(before, now)
        return _scaled(_fitted(*pairs), gain)

    def _reduced(self, image: Grey, resized: Grey | None) -> Grey:
        if self._faithful:
            return _grey(image, _SCALE)
        if resized is not None and _LEAST_SIDE[self.method] <= max(resized.shape[:2]) < max(image.shape[:2]):
            image = resized
        return _grey(image, max(max(image.shape[:2]) / _LONG_SIDE, 1.0))


def _grey(image: Grey, scale: float) -> Grey:
    height, width = image.shape[:2]
    # A grey one is copied, since callers may write the next frame into it.
    grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY) if image.ndim == 3 else image.copy()
    if scale != 1:
        grey = cv2.resize(grey, (max(int(width / scale), 1), max(int(height / scale), 1)))
    return np.asarray(grey, dtype=np.uint8)


def _without(boxes: Floats, shape: tuple[int, ...], border: float = 0.0) -> Grey:
    """What was detected moves by itself; if nothing else is to be seen, it has to do."""
    rows, columns = (int(border * side) for side in shape)
    whole = np.zeros(shape, np.uint8)
    whole[rows : shape[0] - rows, columns : shape[1] - columns] = 255
    mask = whole.copy()
    for x1, y1, x2, y2 in boxes.clip(0).astype(int):
        mask[y1 : y2 + 1, x1 : x2 + 1] = 0
    return mask if mask.any() else whole


def _followed(before: View, now: View) -> tuple[Points, Points]:
    """Corners that were found again nearby, and where."""
    points: Any = before.points
    moved, is_found, _ = cv2.calcOpticalFlowPyrLK(before.grey, now.grey, points, None)  # type: ignore[call-overload]
    found = is_found.reshape(-1) == 1
    return points[found], moved[found]


def _described(grey: Grey, boxes: Floats, *, every: bool) -> tuple[Points | None, Grey | None]:
    """Corners away from the border and from what was detected, the clearest or `every` one; what each looks like."""
    corners = cv2.FastFeatureDetector.create(_FAST_THRESHOLD).detect(grey, _without(boxes, grey.shape, _BORDER))
    if not every:
        corners = sorted(corners, key=lambda one: one.response, reverse=True)[:_MOST_KEYPOINTS]
    described: tuple[Any, Any] = cv2.ORB.create().compute(grey, corners)
    kept, looks = described
    return (None, None) if looks is None else (np.array(cv2.KeyPoint.convert(kept), np.float32), looks)


def _alike(before: View, now: View, *, one_sided: bool) -> tuple[Points, Points]:
    """Corners that look alike, clearly more than any other, and whose motion is not unlike that of the others."""
    points, later = before.points, now.points
    if points is None or before.looks is None or later is None or now.looks is None or len(later) < 2:
        return _NOWHERE, _NOWHERE
    distance, nearest_two = cv2.batchDistance(before.looks, now.looks, cv2.CV_32S, normType=cv2.NORM_HAMMING, K=2)
    clear = distance[:, 0] < _RATIO * distance[:, 1]
    first, second = points[clear], later[nearest_two[clear, 0]]
    near = (np.abs(second - first) < _FARTHEST * np.array(now.grey.shape[::-1])).all(1)
    first, second = first[near], second[near]
    if not len(first):
        return first, second
    # As published, from now to before.
    off = (first - second) - (first - second).mean(0)
    usual = ((off if one_sided else np.abs(off)) <= _DEVIATIONS * off.std(0)).all(1)
    return first[usual], second[usual]


def _fitted(first: Points, second: Points) -> Any:
    if len(first) < _LEAST_POINTS:
        return None
    matrix, _ = cv2.estimateAffinePartial2D(first, second, method=cv2.RANSAC)
    return matrix


def _aligned(before: View, now: View) -> Any:
    start = np.eye(2, 3, dtype=np.float32)
    try:
        _, matrix = cv2.findTransformECC(before.grey, now.grey, start, cv2.MOTION_EUCLIDEAN, _ECC_STEPS)
    except cv2.error:  # nothing in common, or nothing to be seen
        return None
    return matrix


def _scaled(matrix: Any, gain: Floats) -> Floats | None:
    """Of a reduced image, in pixels of the frame."""
    if matrix is None or not np.isfinite(matrix).all():
        return None
    found = np.array(matrix, dtype=np.float64)
    found[:, 2] /= gain
    found[0, 1] *= gain[1] / gain[0]
    found[1, 0] *= gain[0] / gain[1]
    return found
