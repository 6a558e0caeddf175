"""The camera's motion: known warps are found, and what cannot be estimated is no motion, never a crash."""

import cv2
import numpy as np
import pytest

from yolofast import build_tracker
from yolofast.track.trackers.camera_motion import CameraMotion

NOBODY = np.zeros((0, 4))


def scenery(height=480, width=640, seed=0):
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 255, (height // 8, width // 8, 3), dtype=np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


def moved(image, matrix):
    return cv2.warpAffine(image, matrix, image.shape[1::-1], borderMode=cv2.BORDER_REFLECT)


@pytest.mark.parametrize("size", [(480, 640), (1080, 1920)])
@pytest.mark.parametrize("faithful", [False, True])
def test_a_known_motion_is_found(size, faithful):
    motion, image = CameraMotion("sparseOptFlow", faithful=faithful), scenery(*size)
    angle = np.deg2rad(0.5)
    matrix = np.array([[np.cos(angle), -np.sin(angle), 6.0], [np.sin(angle), np.cos(angle), -4.0]])
    assert motion.warp(image, NOBODY) is None, "there is no frame before the first"
    found = motion.warp(moved(image, matrix), NOBODY)
    corners = np.array([[0, 0, 1], [size[1], 0, 1], [0, size[0], 1], [size[1], size[0], 1]])
    assert np.abs(corners @ found.T - corners @ matrix.T).max() < 1.0


def test_ecc_follows_a_camera_that_keeps_moving():
    """As published it compares with the first frame for ever, and its shift is half of what it is."""
    image, steps = scenery(480, 700), (0, 4, 8)
    views = [np.ascontiguousarray(image[:, step : step + 640]) for step in steps]
    found = {}
    for faithful in (False, True):
        motion = CameraMotion("ecc", faithful=faithful)
        found[faithful] = [motion.warp(view, NOBODY) for view in views][1:]
    assert [warp[0, 2] for warp in found[False]] == pytest.approx([-4, -4], abs=0.3)
    assert [warp[0, 2] for warp in found[True]] == pytest.approx([-2, -4], abs=0.3)


def test_what_moves_by_itself_is_left_out():
    image = scenery()
    later, box = image.copy(), np.array([[100.0, 100.0, 400.0, 400.0]])
    later[100:400, 120:420] = image[100:400, 100:400]
    motion = CameraMotion("sparseOptFlow")
    motion.warp(image, box)
    assert np.abs(motion.warp(later, box) - np.eye(2, 3)).max() < 0.5


@pytest.mark.parametrize("method", ["sparseOptFlow", "ecc"])
@pytest.mark.parametrize(
    "images",
    [
        [np.zeros((100, 100, 3), np.uint8)] * 3,  # no corners
        [scenery(), scenery(240, 320), scenery(240, 320)],  # another size
        [scenery(seed=1), np.zeros((480, 640, 3), np.uint8), scenery(seed=2)],
        [np.zeros((1, 1, 3), np.uint8)] * 2,
        [scenery()[..., 0], scenery()[..., 0]],  # grey already
    ],
)
def test_never_a_crash(images, method):
    motion, tracker = CameraMotion(method), build_tracker("botsort", cmc_method=method)
    box = np.array([[-20.0, -10.0, 700.0, 600.0]])
    for image in images:
        motion.warp(image, box)
        tracker.update(box, [0.9], image=image)


def test_a_camera_that_shakes_keeps_identities():
    image, box, found = scenery(480, 700), np.array([[300.0, 200.0, 312.0, 230.0]]), {}
    for method in ("none", "sparseOptFlow"):
        tracker, found[method] = build_tracker("botsort", cmc_method=method), 0
        for number in range(12):
            shift = 20 * (number % 2)
            view = np.ascontiguousarray(image[:, shift : shift + 640])
            found[method] += 1 in tracker.update(box - (shift, 0, shift, 0), [0.9], image=view).ids
    assert found["sparseOptFlow"] == 12 and found["none"] < 8
